"""Framework efficiency: ratios of pairs, published figures, and real accumulation under DDP and,
where it is installed, hivemind.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import PROCESS_TIMEOUT_S, ROOT
from placer.errors import PlacerError
from placer.profiler.framework import efficiency_of, measured_efficiency, published_efficiency
from placer.profiler.steps.comparison import CONFIDENCE, LEAST_PAIRS, Ratio, ratio_of_pairs
from placer.profiler.steps.statistics import ranks
from placer.profiler.target.workload import Workload
from placer.workload.profile import load_profile

if TYPE_CHECKING:
    import torch

TIMES = st.lists(
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=LEAST_PAIRS, max_size=60
)


@given(TIMES)
def test_the_median_lies_in_its_interval(times: list[tuple[float, float]]) -> None:
    """Whatever the times, and the other way round gives the reciprocal interval."""
    above, below = zip(*times, strict=True)
    there, back = ratio_of_pairs(above, below), ratio_of_pairs(below, above)
    assert there.low <= there.value <= there.high
    assert back.high == pytest.approx(1 / there.low)
    assert back.low == pytest.approx(1 / there.high)


@given(st.integers(LEAST_PAIRS, 200))
def test_intervals_of_the_sign_test_hold_the_median_as_often_as_they_say(count: int) -> None:
    """Worked out by plain enumeration of the binomial distribution; one value less on each side
    would be too few.
    """

    def held(out: int) -> float:
        return 1 - 2 * sum(math.comb(count, k) for k in range(out + 1)) / float(2**count)

    out = ranks(count, CONFIDENCE)[0] - 1
    assert held(out) >= CONFIDENCE
    assert held(out + 1) < CONFIDENCE


def test_one_disturbed_pair_hardly_moves_the_ratio() -> None:
    """Twenty pairs of 0.5, of which two took a hundred times as long: still 0.5 to 0.5."""
    assert ratio_of_pairs([1.0] * 20, [2.0] * 18 + [200.0, 0.02]) == Ratio(
        value=0.5, low=0.5, high=0.5, pairs=20
    )


@pytest.mark.parametrize(
    ("above", "below"), [([1.0] * 4, [1.0] * 4), ([1.0] * 6, [1.0] * 5 + [0.0])]
)
def test_too_few_pairs_are_refused(above: list[float], below: list[float]) -> None:
    """Four pairs give 87 % at most; a time of 0 is a broken clock."""
    with pytest.raises(PlacerError, match="too few"):
        ratio_of_pairs(above, below)


def test_ratios_above_one_are_cut_and_say_so() -> None:
    """A framework cannot be faster than none: noise, cut at 1 with the measured figure kept in the
    source.
    """
    cut = efficiency_of(
        "ddp", Ratio(value=1.01, low=0.98, high=1.04, pairs=9), "4 x 8 samples on cpu"
    )
    assert (cut.value, cut.low, cut.high) == (1.0, 0.98, 1.0)
    assert "measured 1.010 (0.980 to 1.040), cut to 1" in cut.source
    disturbed = efficiency_of(
        "ddp", Ratio(value=1.16, low=1.125, high=1.25, pairs=26), "4 x 8 samples on cpu"
    )
    assert (disturbed.value, disturbed.low, disturbed.high) == (
        1.0,
        0.8,
        1.0,
    )  # 1 / 1.25: no certainty that nobody measured
    assert disturbed.source.endswith("the machine was disturbed, measure again")
    whole = efficiency_of(
        "ddp", Ratio(value=0.9, low=0.88, high=0.93, pairs=9), "4 x 8 samples on cpu"
    )
    assert "cut" not in whole.source
    assert whole.basis == "measured"


def test_published_efficiency_of_a_shipped_model() -> None:
    """resnet50 lost 32 % on A10: its own figure, published."""
    found = published_efficiency("resnet50", "cnn", "hivemind")
    assert (found.value, found.basis) == (0.68, "published")
    assert "Erben" in found.source


def test_published_efficiency_of_a_family() -> None:
    """Transformers: mean of .61, .54 and .546 = .565, over the lowest low and the highest high of
    them; assumed for another model.
    """
    found = published_efficiency(
        "my-bert", "transformer", "hivemind", "hivemind is not installed; "
    )
    rows = [
        load_profile(name).efficiency[0]
        for name in ("roberta-base", "roberta-large", "roberta-xlm")
    ]
    assert found.value == pytest.approx((0.61 + 0.54 + 0.546) / 3, abs=1e-3)
    assert (found.low, found.high) == (min(r.low for r in rows), max(r.high for r in rows))
    assert found.basis == "assumed"
    assert found.source.startswith("hivemind is not installed; mean of 3 transformer models")


def test_published_efficiency_where_nobody_measured() -> None:
    """An LSTM gets the mean of all eight models; DDP is taken as 1, from 0.8."""
    lstm = published_efficiency("mine", "rnn", "hivemind")
    assert lstm.source.startswith("mean of all 8 models")
    assert lstm.value == pytest.approx(
        (0.70 + 0.68 + 0.78 + 0.50 + 0.46 + 0.61 + 0.54 + 0.546) / 8, abs=1e-3
    )
    alone = published_efficiency("mine", "cnn", "ddp")
    assert (alone.value, alone.low, alone.high, alone.basis) == (1.0, 0.8, 1.0, "assumed")


def workload(module: torch.nn.Module, loss: Any = None, **more: Any) -> Workload:
    """A model of 8 features and one output."""
    import torch as t

    def square(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = model(batch).square().mean()
        return found

    def optimizer(parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return t.optim.SGD(parameters, lr=0.1)

    def batch(count: int, device: torch.device) -> torch.Tensor:
        return t.randn(count, 8, device=device)

    return Workload(
        name="tiny",
        title="tiny",
        family="other",
        module=module,
        batch=batch,
        loss=loss or square,
        optimizer=optimizer,
        **more,
    )


@pytest.fixture
def tiny() -> Iterator[Workload]:
    """Two linear layers."""
    t = pytest.importorskip("torch")
    before = t.get_num_threads()
    t.set_num_threads(1)
    yield workload(
        t.nn.Sequential(t.nn.Linear(8, 32), t.nn.ReLU(), t.nn.Linear(32, 1)),
        microbatch=4,
        target_batch_size=12,
    )
    t.set_num_threads(before)


def test_none_is_the_plain_loop(tiny: Workload) -> None:
    """By definition 1."""
    found = measured_efficiency(tiny, "cpu", "none")
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_ddp_is_measured_in_a_gloo_group_of_one(tiny: Workload) -> None:
    """Measured, in (0, 1]; the model keeps its parameters and no gradients, the group is closed,
    the progress ends at 1.
    """
    import torch as t

    before = [p.detach().clone() for p in tiny.module.parameters()]
    seen: list[float] = []
    found = measured_efficiency(tiny, "cpu", "ddp", seconds=0.0, progress=seen.append)
    assert found.basis == "measured"
    assert 0 < found.low <= found.value <= found.high <= 1
    assert (
        "5 pairs of cycles of 2 x 4 samples on cpu" in found.source
    )  # no time: the shortest cycles
    assert all(t.equal(a, b) for a, b in zip(before, tiny.module.parameters(), strict=True))
    assert all(p.grad is None for p in tiny.module.parameters())
    assert not t.distributed.is_initialized()
    assert seen[-1] == 1.0
    longer = measured_efficiency(tiny, "cpu", "ddp", seconds=60.0)
    assert (
        "cycles of 3 x 4 samples on cpu" in longer.source
    )  # three microbatches take milliseconds; it ends after 40 pairs


def test_ddp_takes_models_with_unused_frozen_tied_and_sparse_parameters() -> None:
    """What DDP refuses by default it is told of: a layer that the loss does not reach, beside tied,
    frozen and sparse ones.
    """
    t = pytest.importorskip("torch")

    class Odd(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = t.nn.Embedding(10, 8, sparse=True)
            self.first = t.nn.Linear(8, 8, bias=False)
            self.second = t.nn.Linear(8, 8, bias=False)
            self.second.weight = self.first.weight
            self.frozen = t.nn.Linear(8, 8).requires_grad_(False)
            self.unused = t.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            index = (x[:, 0] > 0).long()
            out: torch.Tensor = self.second(self.first(self.frozen(x))) + self.words(index)
            return out

    found = measured_efficiency(workload(Odd()), "cpu", "ddp", seconds=0.0, microbatch=4)
    assert found.basis == "measured", found.source


def test_a_model_that_ddp_does_not_take_gets_the_table_with_the_reason(tiny: Workload) -> None:
    """A loss that reaches into the module, which DDP wraps: the plain loop runs, DDP does not, and
    the source says why.
    """

    def indexed(model: Any, batch: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = model[0](batch).square().mean()
        return found

    found = measured_efficiency(workload(tiny.module, indexed), "cpu", "ddp", seconds=0.0)
    assert found.basis == "assumed"
    assert found.source.startswith("ddp failed with this model (TypeError")
    import torch as t

    assert not t.distributed.is_initialized()


def test_failures_of_the_model_itself_are_its_own(tiny: Workload) -> None:
    """They are not blamed on the framework."""

    def broken(model: Any, batch: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measured_efficiency(workload(tiny.module, broken), "cpu", "ddp")


def test_a_process_group_of_the_user_is_left_alone(tiny: Workload) -> None:
    """It is an error, and the group stays open."""
    distributed: Any = pytest.importorskip("torch").distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(PlacerError, match="process group is open"):
            measured_efficiency(tiny, "cpu", "ddp", seconds=0.0)
        assert distributed.is_initialized()
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("framework", "more", "says"),
    [
        ("horovod", {}, "unknown framework 'horovod'"),
        ("ddp", {"microbatch": 0}, "microbatch is 0"),
        ("ddp", {"target_batch_size": -1}, "target batch size is -1"),
    ],
)
def test_wrong_words_are_refused(
    tiny: Workload, framework: str, more: dict[str, Any], says: str
) -> None:
    """By name and value."""
    with pytest.raises(PlacerError, match=says):
        measured_efficiency(tiny, "cpu", framework, **more)


@pytest.mark.skipif(
    importlib.util.find_spec("hivemind") is not None, reason="hivemind is installed"
)
def test_hivemind_that_is_not_installed_gives_the_table(tiny: Workload) -> None:
    """With the reason."""
    found = measured_efficiency(tiny, "cpu", "hivemind")
    assert found.basis == "assumed"
    assert found.source.startswith("hivemind is not installed; ")


@pytest.mark.skipif(
    importlib.util.find_spec("hivemind") is None, reason="hivemind is not installed"
)
def test_hivemind_is_measured_without_peers() -> None:
    """Two linear layers of 321 parameters: its bookkeeping takes longer than the model, so it loses
    speed. It says nothing on stderr.

    Ctrl-C, sent to the whole process group as a terminal does, ends the measurement without a word,
    and its handler is as before. In a process of its own, since hivemind forks and leaves sockets
    to the garbage collector.
    """
    code = """
import os
import signal
import torch
signal.signal(signal.SIGINT, signal.default_int_handler)
from test_framework_efficiency import workload
from placer.profiler.framework import measured_efficiency
torch.set_num_threads(1)
module = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
found = measured_efficiency(workload(module, microbatch=4), "cpu", "hivemind", seconds=0.0)
assert found.basis == "measured", found.source
assert 0 < found.low <= found.value < 1, found
assert all(p.grad is None for p in module.parameters())


def interrupt(share):
    os.killpg(0, signal.SIGINT)


try:
    measured_efficiency(workload(module, microbatch=4), "cpu", "hivemind", seconds=60.0, progress=interrupt)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("kept", flush=True)
"""
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_S,
        env=environment,
        check=False,
        start_new_session=True,
    )
    assert done.stdout == "interrupted\nkept\n", (done.returncode, done.stdout, done.stderr)
    assert not done.stderr
