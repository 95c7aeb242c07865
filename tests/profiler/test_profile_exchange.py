"""Host constants from this machine's arithmetic: fits of known costs, real measurements, and the
calibration they become.
"""

import json
import math
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from placer.cli.measure import calibration
from placer.errors import PlacerError
from placer.profiler.host import averaging
from placer.profiler.host.averaging import HostMeasurement, HostPoint, SumPoint
from placer.profiler.host.overlay import (
    ALIKE,
    REFERENCE_S_PER_GB,
    REFERENCE_S_PER_TENSOR,
    fit,
    host_report,
)
from placer.records import replace
from placer.workload.constants import PUBLISHED

TODAY = "2026-11-21"
GRID = [(size, count) for size in (2e6, 8e6, 32e6) for count in (8, 64, 512)]
COSTS = st.floats(min_value=1e-3, max_value=100)


def synthetic(
    s_per_gb: float, s_per_tensor: float, fp32: float = 0.5, *, partial: bool = False
) -> HostMeasurement:
    """Points of a host of known costs: half is deserialising."""
    points = []
    for kind, per_gb in (("fp16", s_per_gb), ("none", fp32)):
        for size, count in GRID:
            total = per_gb * size / 1e9 + s_per_tensor * count
            points.append(
                HostPoint(
                    compression=kind,
                    bytes=int(size),
                    tensors=count,
                    serialise_s=total / 4,
                    average_s=total / 4,
                    deserialise_s=total / 2,
                    rounds=3,
                )
            )
    return HostMeasurement(
        points=tuple(points),
        partial=partial,
        processor="Some CPU",
        logical_cpus=2,
        torch_version="2.13.0",
    )


@given(s_per_gb=COSTS, us_per_tensor=st.floats(min_value=1.0, max_value=1e4))
def test_exact_points_give_their_costs(s_per_gb: float, us_per_tensor: float) -> None:
    """Two costs and nine points without noise: both are recovered, and the interval is the least
    one, 2 % each side.
    """
    found = fit(
        [
            (size, count, s_per_gb * size / 1e9 + us_per_tensor * 1e-6 * count)
            for size, count in GRID
        ]
    )
    assert found.s_per_gb.value == pytest.approx(s_per_gb, rel=1e-4)
    assert found.s_per_tensor.value == pytest.approx(us_per_tensor * 1e-6, rel=1e-4)
    assert found.s_per_gb.high == pytest.approx(s_per_gb * 1.02, rel=1e-3)
    assert found.relative_residual < 1e-6


def test_intervals_hold_the_costs_in_nine_of_ten_measurements() -> None:
    """Nine points with 5 % of noise each, drawn 400 times: 360 intervals hold 3 s/GB, and as many
    50 us a tensor; one more or less in 40 is chance. The mean of normal residuals is 0.8 of their
    deviation, of which two costs take up a part: 5 % x 0.8 x (7 / 9)^(1/2) = 3.5 %.
    """
    draw, held, residual = random.Random(1), [0, 0], 0.0
    for _ in range(400):
        found = fit([(size, n, (3e-9 * size + 5e-5 * n) * draw.gauss(1, 0.05)) for size, n in GRID])
        costs = found.s_per_gb, found.s_per_tensor
        for which, (cost, true) in enumerate(zip(costs, (3, 5e-5), strict=True)):
            assert 0 <= cost.low <= cost.value <= cost.high
            held[which] += cost.low <= true <= cost.high
        residual += found.relative_residual / 400
    assert held == [pytest.approx(360, abs=10)] * 2
    assert residual == pytest.approx(0.035, abs=0.002)


def test_a_cost_that_would_be_negative_is_zero() -> None:
    """More tensors took less time: seconds a tensor are 0, and 3 s/GB lie between what the points
    say, 3.1 and 2.9. So are seconds a GB where larger gradients took less.
    """
    found = fit([(1e9, 10, 3.1), (1e9, 1000, 2.9), (2e9, 10, 6.2), (2e9, 1000, 5.8)])
    assert found.s_per_tensor.value == 0.0
    assert found.s_per_gb.value == pytest.approx(3.0, abs=0.02)
    found = fit([(1e6, 100, 3.1), (1e9, 100, 2.9), (1e6, 200, 6.2), (1e9, 200, 5.8)])
    assert found.s_per_gb.value == 0.0
    assert found.s_per_tensor.value == pytest.approx(0.03, abs=2e-4)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([(1e9, 1, 1.0), (2e9, 1, 2.0)], "2 points are too few for two costs"),
        ([(1e9, 1, 1.0), (2e9, 1, 0.0), (1e9, 9, 2.0)], "a measured point is not above 0"),
        ([(1e9, 1, 1.0), (2e9, 1, math.inf), (1e9, 9, 2.0)], "a measured point is not above 0"),
        ([(1e9, 1, 1.0), (2e9, 2, 2.0), (3e9, 3, 3.1)], "cannot separate the cost of a GB"),
    ],
)
def test_points_that_tell_no_costs_are_refused(
    points: list[tuple[float, float, float]], says: str
) -> None:
    """Too few, without time or end, or all of one size of tensors."""
    with pytest.raises(PlacerError, match=says):
        fit(points)


def test_a_host_like_the_reference_has_the_published_constants() -> None:
    """Scaled by 1; l0 and l2 are assumed and equal those of A10 hosts in any case."""
    report = host_report(synthetic(REFERENCE_S_PER_GB, REFERENCE_S_PER_TENSOR), "a10", TODAY)
    here, shipped = report.overlay.calibration.hosts["a10"], PUBLISHED.hosts["a10"]
    for name in ("base_s", "s_per_gb_sent", "s_per_peer", "s_per_tensor"):
        assert getattr(here, name) == pytest.approx(getattr(shipped, name), rel=1e-4)
    assert [one.key[1] for one in report.scaled] == ["s_per_gb_sent", "s_per_tensor"]
    assert [one.key[1] for one in report.kept] == ["base_s", "s_per_peer"]
    assert report.overlay.calibration.hosts["t4"] == PUBLISHED.hosts["t4"]


@given(factor=st.floats(0.1, 10))
def test_constants_scale_with_the_arithmetic(factor: float) -> None:
    """A host that is twice as slow takes twice as long per GB. Its spread in logarithms is that of
    the published ones, of the fit (2 %) and of hosts that are alike, as of independent ones.
    """
    report = host_report(
        synthetic(REFERENCE_S_PER_GB * factor, REFERENCE_S_PER_TENSOR), "t4", TODAY
    )
    here = report.overlay.calibration.hosts["t4"]
    assert here.s_per_gb_sent == pytest.approx(
        PUBLISHED.hosts["a10"].s_per_gb_sent * factor, rel=1e-3
    )
    _, slow, fast = report.overlay.calibration.spreads["t4"]
    _, most, least = PUBLISHED.averaging_spread
    half = math.hypot(math.log(most / least) / 2, 0.02, math.log(ALIKE))
    assert (slow, fast) == pytest.approx((math.exp(half), math.exp(-half)))


def test_the_sum_on_the_most_threads_is_the_servers() -> None:
    """4 gradients of 1,000 values, 16,000 bytes in 2 ms on two threads: 4 MB/s each; 2 MB/s in the
    slowest round of 4 ms, 8 MB/s in the quickest. One thread does less, and FP32 does not count.
    """
    seconds: dict[str, Any] = {"seconds": 2e-3, "least_s": 1e-3, "most_s": 4e-3, "rounds": 5}
    sums = [
        SumPoint(compression=kind, threads=threads, values=1000, gradients=4, **seconds)
        for kind, threads in (("fp16", 1), ("fp16", 2), ("none", 4))
    ]
    measured = replace(synthetic(3.0, 5e-5, partial=True), sums=tuple(sums))
    report = host_report(measured, "t4", TODAY)
    assert report.overlay.calibration.services.server_sum_bytes_per_s == pytest.approx(4e6)
    told = report.to_dict()["report"]
    row = told["fitted"][-1]
    assert [row[name] for name in ("value", "low", "high", "runs")] == pytest.approx(
        [4e6, 2e6, 8e6, 5]
    )
    assert told["warnings"][1:] == ["stopped by Ctrl-C: fewer rounds than asked for"]


def test_messages_hold_the_gradient() -> None:
    """FP16 keeps 11 bits, clamps at 65,504; FP32 keeps all; a message is 48 bytes longer than its
    buffer.
    """
    torch = pytest.importorskip("torch")
    from placer.profiler.host.averaging import HEADER, deserialise, mean_of, serialise

    values = torch.tensor([0.1, -3.0, 1e9, -1e9])
    half = deserialise(serialise(values, "fp16"), "fp16")
    assert half.tolist() == pytest.approx([0.1, -3.0, 65504.0, -65504.0], rel=2**-11)
    assert values[2] == 1e9  # the gradient itself stays as it is
    assert deserialise(serialise(values, "none"), "none").tolist() == values.tolist()
    assert len(serialise(values, "fp16")) == len(HEADER) + 2 * 4
    assert mean_of(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0])).tolist() == [2.0, 4.0]


def test_a_real_measurement_of_tiny_gradients() -> None:
    """Three rounds over eight points: times above 0, a fit, as many threads as before, and progress
    that ends at 1.
    """
    torch = pytest.importorskip("torch")
    from placer.profiler.host.averaging import measure_host

    seen: list[float] = []
    before = torch.get_num_threads()
    measured = measure_host((2e5, 8e5), (2, 64), seconds=0.0, progress=seen.append)
    assert torch.get_num_threads() == before
    assert len(measured.points) == 8
    assert {p.rounds for p in measured.points} == {3}
    assert not measured.partial
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    report = host_report(measured, "a10", TODAY)
    assert math.isfinite(report.overlay.calibration.hosts["a10"].s_per_gb_sent)


def test_ctrl_c_keeps_whole_rounds() -> None:
    """In the first round there is nothing to keep; later, what is measured is marked partial."""
    pytest.importorskip("torch")
    from placer.profiler.host.averaging import measure_host

    def interrupt_at(call: int) -> Callable[[float], None]:
        calls: list[float] = []

        def progress(share: float) -> None:
            calls.append(share)
            if len(calls) == call:
                raise KeyboardInterrupt

        return progress

    with pytest.raises(KeyboardInterrupt):
        measure_host((2e5, 4e5), (1, 8), 0.0, progress=interrupt_at(3))
    measured = measure_host((2e5, 4e5), (1, 8), 0.0, progress=interrupt_at(11))
    assert measured.partial
    assert sorted({p.rounds for p in measured.points}) == [1, 2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--quick", "--thorough"], "contradict"),
        (["-o", "x.json"], "--host is missing"),
        (["--host", "abacus"], "unknown host class"),
        (["--model", "roberta-xml"], "unknown model"),
        (["--host", "t4", "-o", "no/such/folder.json"], "cannot write"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_measured(words: list[str], says: str) -> None:
    """Each as a PlacerError with its name; PyTorch is not needed for that."""
    done: Any = CliRunner().invoke(calibration.exchange_command, words)
    assert isinstance(done.exception, PlacerError)
    assert says in done.exception.message


def test_the_command_measures_averages_and_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here of small gradients: the document has both, the sums for each compression on one thread
    and on all, of four gradients of 10,000 values.
    """
    pytest.importorskip("torch")
    monkeypatch.setitem(averaging.SIZES, "quick", (2e5, 4e5))
    monkeypatch.setitem(averaging.SECONDS, "quick", 0.0)
    monkeypatch.setattr(averaging, "VALUES", 10_000)
    done: Any = CliRunner().invoke(calibration.exchange_command, ["--quick", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["server_sum_bytes_per_s"] > 0
    sums = document["report"]["exchange"]["sums"]
    threads = {1, min(os.cpu_count() or 1, averaging.MOST_THREADS)}
    assert {(row["compression"], row["threads"]) for row in sums} == {
        (kind, count) for kind in ("fp16", "none") for count in threads
    }
    assert all(row["least_s"] <= row["seconds"] <= row["most_s"] for row in sums)
    assert {row["values"] * row["gradients"] for row in sums} == {40_000}
