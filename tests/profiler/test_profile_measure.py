"""Measuring real models on the CPU: phases, precisions, memory, repeated runs, a plain loop, a
dataset.
"""

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from placer.profiler.steps import memory
from placer.profiler.steps.session import (
    Findings,
    Plan,
    Session,
    loading_seconds_per_sample,
    samples_in,
)
from placer.profiler.steps.timing import Effort, Stopwatch, Timing, measure, phases, stopwatch
from placer.profiler.steps.training_step import TrainingStep, check_precision, products
from placer.profiler.torch_import import OutOfMemory, translate_failures
from placer.profiler.workload import Workload
from placer.records import replace
from placer.workload.measurement import Point

torch = pytest.importorskip("torch")
CPU = torch.device("cpu")
SHORT = Effort(half_width=0.03, seconds=0.7)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Tests share few cores."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


def workload(
    module: Any, shape: tuple[int, ...], forward: Callable[[Any, Any], Any] = lambda m, x: m(x)
) -> Workload:
    """A module on normal samples, its loss the mean square of what comes out."""
    return Workload(
        name="test",
        title="test",
        family="other",
        module=module,
        batch=lambda count, device: torch.randn(count, *shape, device=device),
        loss=lambda module, batch: forward(module, batch).square().mean(),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
    )


def convolutions() -> Workload:
    """A small CNN on 16 x 16 pictures."""
    layers = [
        torch.nn.Conv2d(3, 16, 3),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3),
        torch.nn.Flatten(),
        torch.nn.Linear(2304, 10),
    ]
    return workload(torch.nn.Sequential(*layers), (3, 16, 16))


def transformer() -> Workload:
    """One encoder layer on 16 tokens of width 32."""
    return workload(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (16, 32))


def recurrent() -> Workload:
    """An LSTM over 12 steps of width 16."""
    return workload(torch.nn.LSTM(16, 24, batch_first=True), (12, 16), lambda m, x: m(x)[0])


def timed(
    given: Workload, batch_size: int = 8, precision: str = "fp32", accumulation: int = 1
) -> Timing:
    """Measure one batch size."""
    found = Timing(batch_size=batch_size, accumulation=accumulation)
    with products(precision):
        measure(
            TrainingStep(given, CPU, precision, batch_size, accumulation),
            stopwatch(CPU),
            found,
            SHORT,
        )
    return found


@pytest.mark.parametrize("build", [transformer, recurrent])
def test_repeated_runs_and_a_plain_loop_agree(build: Callable[[], Workload]) -> None:
    """Two runs agree within their intervals, and with a loop written by hand, in one of five
    rounds: tests share a busy machine.

    """
    given = build()
    rounds = ((timed(given).interval, timed(given).interval, plain_step_s(given)) for _ in range(5))
    assert any(
        one.low / 2 <= other.high
        and other.low / 2 <= one.high
        and one.low / 3 <= plain <= one.high * 3
        for one, other, plain in rounds
    ), "in none of five rounds"


def plain_step_s(given: Workload) -> float:
    """Median seconds of a step of a loop written by hand."""
    optimizer, batch = given.optimizer(given.module.parameters()), given.batch(8, CPU)
    ends = [time.perf_counter()]
    while ends[-1] - ends[0] < 0.4:
        optimizer.zero_grad()
        given.loss(given.module, batch).backward()
        optimizer.step()
        ends.append(time.perf_counter())
    return statistics.median(end - start for start, end in pairwise(ends))


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_phases_add_up_to_the_step(precision: str) -> None:
    """Marks follow each other without a gap: the three phases are the step, exactly."""
    given = recurrent() if precision == "fp32" else convolutions()
    check_precision(precision, CPU)
    marks = TrainingStep(given, CPU, precision, 4)(stopwatch(CPU))
    found = phases(marks, stopwatch(CPU))
    assert found["forward"] + found["backward"] + found["optimizer"] == pytest.approx(found["step"])


def test_accumulation_repeats_forward_and_backward_alone() -> None:
    """Three batches of a step: three forward and backward marks, one optimizer mark; gradients are
    those of one large batch.
    """
    given = convolutions()
    step = TrainingStep(given, CPU, "fp32", 4, accumulation=3)
    assert [phase for phase, _ in step(stopwatch(CPU))] == [
        "start",
        *["forward", "backward"] * 3,
        "optimizer",
    ]


class FakeEvent:
    """An event of a device whose queue has reached the next of some moments, in milliseconds."""

    moments = iter((10.0, 12.5, 17.5))

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Take the next moment."""
        self.at = next(self.moments)

    def elapsed_time(self, end: "FakeEvent") -> float:
        """Milliseconds, as CUDA has them."""
        return end.at - self.at


def test_events_of_a_device_are_read_in_seconds() -> None:
    """Marks at 10, 12.5 and 17.5 ms: 2.5 ms forward, 5 ms backward. No GPU is needed to check the
    arithmetic.
    """
    watch = Stopwatch(torch.cuda, FakeEvent)
    found = phases(
        [("start", watch.mark()), ("forward", watch.mark()), ("backward", watch.mark())], watch
    )
    assert found == pytest.approx({"forward": 0.0025, "backward": 0.005, "step": 0.0075})


def test_a_batch_that_would_fill_the_host_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 samples took 1 GB, 8 took 2 GB: 16 should take 4 GB, 3 GB more than is in use; 90 % of 3.1
    GB is less.
    """
    session = Session(
        subject=convolutions(), plan=Plan(device=CPU, precisions=("fp32",), effort=SHORT)
    )
    found = Findings(precision="fp32")
    for size, peak in ((4, 1e9), (8, 2e9)):
        found.timings[size] = Timing(batch_size=size, host_memory_bytes=int(peak))
    monkeypatch.setattr(memory, "host_peak_bytes", lambda: int(1e9))
    monkeypatch.setattr(memory, "host_available_bytes", lambda: int(3.1e9))
    with pytest.raises(OutOfMemory, match="not tried: about 3 GB more"):
        session._expect_memory(found, 16)
    monkeypatch.setattr(memory, "host_available_bytes", lambda: int(3.5e9))
    session._expect_memory(found, 16)


@pytest.mark.parametrize(
    ("target", "seconds", "batches", "too_many"),
    [(64, 3.0, 8, 0), (57, 3.0, 8, 0), (64, 0.95, 3, 8), (64, 0.1, 1, 8), (None, 3.0, 1, 0)],
)
def test_batches_of_a_step_are_those_that_there_is_time_for(
    target: int | None, seconds: float, batches: int, too_many: int
) -> None:
    """A batch of 8 takes 0.1 s, and three steps are needed at least."""
    timing = Timing(batch_size=8)
    timing.add([{"step": 0.1}])
    plan = Plan(device=CPU, precisions=("fp32",), effort=SHORT, target_batch_size=target)
    found = Findings(precision="fp32", timings={8: timing})
    session = Session(subject=convolutions(), plan=plan)
    assert session._accumulation(found, seconds) == batches
    words = f"accumulation was measured over {batches} batches, not {too_many}, for lack of time"
    assert found.notes == ([f"fp32: {words}"] if too_many else [])


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"
        ),
    ],
)
def test_a_lack_of_memory_is_told_from_other_failures(error: Exception) -> None:
    """Each library says it in its own way."""
    with pytest.raises(OutOfMemory), translate_failures("at batch size 8"):
        raise error


def test_a_dataset_has_its_share_of_a_step() -> None:
    """Batches of 4 that take 8 ms each are 2 ms a sample at least; the first, which starts
    everything, does not count.
    """

    def batches() -> Any:
        for number in range(6):
            time.sleep(0.05 if number == 0 else 0.008)
            yield {"x": torch.zeros(4, 3)}

    found = loading_seconds_per_sample(batches(), 5.0)
    assert found is not None
    assert 0.002 <= found < 0.0125
    assert loading_seconds_per_sample([torch.zeros(4)], 5.0) is None
    assert samples_in([["text"], torch.zeros(7, 2)]) == 7


def test_a_session_measures_all_that_was_asked_for() -> None:
    """Two precisions, two batch sizes and accumulation; what takes part is complete."""
    given = replace(convolutions(), samples=[torch.zeros(4, 3, 16, 16)] * 5)
    plan = Plan(
        device=CPU,
        precisions=("fp32", "bf16"),
        effort=Effort(half_width=0.9, seconds=3600.0),
        batch_sizes=(2, 4),
        target_batch_size=16,
    )
    words: list[str] = []
    session = Session(subject=given, plan=plan, progress=words.append)
    session.run()
    assert [found.precision for found in session.findings] == ["fp32", "bf16"]
    for found in session.findings:
        assert sorted(found.rates) == [2, 4]
        assert found.accumulated is not None
        assert found.accumulated.accumulation * found.knee == 16
        points: list[Point] = [
            timing.point(1e6, 1e12) for timing in (*found.timings.values(), found.accumulated)
        ]
        assert not any(point.partial for point in points)
        assert all(
            p.fraction_of_peak == pytest.approx(p.samples_per_second * 1e6 / 1e12) for p in points
        )
    assert session.loading_seconds_per_sample is not None
    assert any("bf16, batch 4" in line for line in words)
