"""Host constants from this machine's arithmetic: fits of known costs, real measurements, and the
calibration they become.
"""

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.cli.measure import calibration
from placer.errors import PlacerError
from placer.profiler.host import averaging
from placer.profiler.host.averaging import HostMeasurement, HostPoint
from placer.profiler.host.overlay import (
    ALIKE,
    REFERENCE_S_PER_GB,
    REFERENCE_S_PER_TENSOR,
    fit,
    host_report,
)
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


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), s_per_gb=st.floats(1, 10), us_per_tensor=st.floats(10, 100))
def test_noisy_points_give_costs_within_their_noise(
    seed: int, s_per_gb: float, us_per_tensor: float
) -> None:
    """Up to 10 % of noise on each point cannot move a nonnegative fit of well separated costs by
    more than 50 %; order is kept.
    """
    draw = random.Random(seed)
    found = fit(
        [
            (
                size,
                count,
                (s_per_gb * size / 1e9 + us_per_tensor * 1e-6 * count) * draw.uniform(0.9, 1.1),
            )
            for size, count in GRID
        ]
    )
    assert found.s_per_gb.value == pytest.approx(s_per_gb, rel=0.5)
    assert 0 <= found.s_per_gb.low <= found.s_per_gb.value <= found.s_per_gb.high
    assert 0 <= found.s_per_tensor.low <= found.s_per_tensor.value <= found.s_per_tensor.high
    assert found.relative_residual < 0.2


def test_a_cost_that_would_be_negative_is_zero() -> None:
    """More tensors took less time: seconds a tensor are 0, and 3 s/GB lie between what the points
    say, 3.1 and 2.9.
    """
    found = fit([(1e9, 10, 3.1), (1e9, 1000, 2.9), (2e9, 10, 6.2), (2e9, 1000, 5.8)])
    assert found.s_per_tensor.value == 0.0
    assert found.s_per_gb.value == pytest.approx(3.0, abs=0.02)


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
    """A host that is twice as slow takes twice as long per GB; its spread is at least `ALIKE`."""
    report = host_report(
        synthetic(REFERENCE_S_PER_GB * factor, REFERENCE_S_PER_TENSOR), "t4", TODAY
    )
    here = report.overlay.calibration.hosts["t4"]
    assert here.s_per_gb_sent == pytest.approx(
        PUBLISHED.hosts["a10"].s_per_gb_sent * factor, rel=1e-3
    )
    _, slow, fast = report.overlay.calibration.spreads["t4"]
    assert slow >= ALIKE
    assert slow * fast == pytest.approx(1.0)


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
    """Here of small gradients: the document has both, the sums for each compression."""
    pytest.importorskip("torch")
    monkeypatch.setitem(averaging.SIZES, "quick", (2e5, 4e5))
    monkeypatch.setitem(averaging.SECONDS, "quick", 0.0)
    monkeypatch.setattr(averaging, "VALUES", 10_000)
    done: Any = CliRunner().invoke(calibration.exchange_command, ["--quick", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["server_sum_bytes_per_s"] > 0
    assert {row["compression"] for row in document["report"]["exchange"]["sums"]} == {
        "fp16",
        "none",
    }
