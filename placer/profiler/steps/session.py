"""The search over batch sizes: doubled up to the knee, halved where memory runs out."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from placer.errors import PlacerError
from placer.profiler.steps import memory
from placer.profiler.steps.timing import Effort, Timing, is_flat, knee, measure, stopwatch
from placer.profiler.steps.training_step import (
    FunctionStep,
    TrainingStep,
    check_precision,
    products,
)
from placer.profiler.torch_import import OutOfMemory, torch, translate_failures
from placer.profiler.workload import StepFunction, Workload
from placer.records import replace
from placer.units import format_bytes

EXPECTED_SIZES = 12
"""Batch sizes among which the time is shared out at first."""
LEAST_SHARES = 4
MOST_HALVINGS = 3
"""Sizes tried between the largest that fits and the smallest that does not: the gap shrinks to an
eighth.
"""
LARGEST_BATCH = 2**20
LEAST_STEPS = 5
"""Steps for which there must be time before a larger batch size is tried."""

Probe = Callable[[int, float], None]
"""Measures one batch size for so many seconds into the findings; raises `OutOfMemory`."""


@dataclass(kw_only=True)
class Findings:
    """What was measured in one precision so far."""

    precision: str
    timings: dict[int, Timing] = field(default_factory=dict)
    accumulated: Timing | None = None
    failed: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    chosen: int | None = None

    @property
    def rates(self) -> dict[int, float]:
        """Samples/s by batch size."""
        return {
            size: timing.samples_per_second
            for size, timing in sorted(self.timings.items())
            if timing.blocks
        }

    @property
    def knee(self) -> int:
        """Smallest batch size within 5 % of the most samples/s; once chosen it stays."""
        return knee(self.rates) if self.chosen is None else self.chosen


def search(
    probe: Probe,
    findings: Findings,
    seconds: float,
    sizes: Iterable[int] | None = None,
    most: int = LARGEST_BATCH,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Measure batch sizes, smallest first. Raises `PlacerError` if not even the smallest batch size
    fits.

    sizes: Exactly these; None: 1, 2, 4 ... until two in a row bring less than 5 %, memory runs out
        or the time is over.
    most: Largest batch size that is tried without ``sizes``.
    """
    start = clock()

    def fits(size: int, of: int) -> bool:
        left = max(0.0, seconds - (clock() - start))
        try:
            probe(size, left / of)
        except OutOfMemory as error:
            findings.failed[size] = str(error)
            findings.timings.pop(size, None)
            return False
        return True

    asked = None if sizes is None else sorted(set(sizes))
    doubled = (1 << power for power in range(most.bit_length()))
    for number, size in enumerate(doubled if asked is None else asked):
        shares = len(asked or ()) - number
        of = max(LEAST_SHARES, EXPECTED_SIZES - number) if asked is None else shares
        if not fits(size, of + 1):
            break
        if asked is None and _at_end(findings, size, most, seconds - (clock() - start)):
            break
    if findings.failed:
        _narrow(fits, findings)


def _at_end(findings: Findings, size: int, most: int, left: float) -> bool:
    """Say whether larger batches bring nothing, or take longer than there is time for."""
    if is_flat(findings.rates):
        return True
    if 2 * size <= most and 2 * findings.timings[size].interval.value * LEAST_STEPS > left:
        findings.notes.append(
            f"{findings.precision}: batches above {size:,} were not tried for lack of time"
        )
        return True
    return False


def _narrow(fits: Callable[[int, int], bool], findings: Findings) -> None:
    """Halve the gap between the largest batch size that fits and the smallest that does not."""
    failed = min(findings.failed)
    while not findings.rates:
        if failed == 1:
            raise PlacerError(
                f"a batch of one sample does not fit: {findings.failed[1]}",
                "take a smaller model or a larger device",
            )
        failed //= 2
        fits(failed, 1 + MOST_HALVINGS)
    for number in range(MOST_HALVINGS):
        fit, failed = max(findings.rates), min(findings.failed)
        middle = (fit + failed) // 2
        if middle in (fit, failed):
            return
        fits(middle, 1 + MOST_HALVINGS - number)


SEARCH_SHARE = 0.7
"""Share of the time for the search over batch sizes; the rest goes to the knee once more, and to
accumulation.
"""
LOADING_SHARE = 0.05
MEMORY_SHARE = 0.9
"""Share of the host's free memory that a batch may be expected to take."""
LEAST_ACCUMULATED_STEPS = 3
SEED = 0
MOST_BATCHES = 50
"""Batches of a dataset after which the median is known well enough."""

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to measure: device, precisions, batch sizes (None: found automatically), target batch
    size, effort, and threads of PyTorch on a CPU (None: its own choice).
    """

    device: Any
    precisions: tuple[str, ...]
    effort: Effort
    batch_sizes: tuple[int, ...] | None = None
    target_batch_size: int | None = None
    threads: int | None = None


@dataclass(kw_only=True)
class Session:
    """Measures a plan; what it has so far stands in ``findings`` whenever it is stopped.

    bytes_per_sample: Memory of a sample that was worked out, if it could be: says which batches not
        to try until two have been measured.
    """

    subject: Workload | StepFunction
    plan: Plan
    progress: Progress = lambda words: None
    findings: list[Findings] = field(default_factory=list)
    loading_seconds_per_sample: float | None = None
    bytes_per_sample: float | None = None
    notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Measure everything; a `PlacerError` names the batch size that failed."""
        self.check()
        _prepare(self.plan.device)
        start = time.perf_counter()
        if isinstance(self.subject, Workload):
            self.subject.module.to(self.plan.device)
            if self.subject.samples is not None:
                with translate_failures("while its dataset is read"):
                    self.loading_seconds_per_sample = loading_seconds_per_sample(
                        self.subject.samples, self.plan.effort.seconds * LOADING_SHARE
                    )
        for number, precision in enumerate(self.plan.precisions):
            left = max(0.0, self.plan.effort.seconds - (time.perf_counter() - start))
            findings = Findings(precision=precision)
            self.findings.append(findings)
            with products(precision):
                self._precision(findings, left / (len(self.plan.precisions) - number))

    def check(self) -> None:
        """Refuse what cannot be measured before anything is."""
        if isinstance(self.subject, StepFunction):
            if len(self.plan.precisions) > 1:
                raise PlacerError(
                    "a step function sets its own precision", "give one --precision, which names it"
                )
            return
        if any(parameter.is_meta for parameter in self.subject.module.parameters()):
            raise PlacerError(
                f"{self.subject.source or self.subject.name} is on the meta device and has no "
                f"weights",
                "create it on the CPU, or use --estimate",
            )
        for precision in self.plan.precisions:
            check_precision(precision, self.plan.device)

    def _precision(self, findings: Findings, seconds: float) -> None:
        start, effort = time.perf_counter(), self.plan.effort
        most = self.plan.target_batch_size or LARGEST_BATCH

        def probe(size: int, share: float) -> None:
            memory.release(self.plan.device)
            self._expect_memory(findings, size)
            timing = findings.timings[size] = Timing(batch_size=size)
            self._visit(findings.precision, timing, replace(effort, seconds=share))

        search(probe, findings, seconds * SEARCH_SHARE, self.plan.batch_sizes, most)
        findings.chosen = findings.knee
        accumulation = self._accumulation(findings, seconds * (1 - SEARCH_SHARE) / 2)
        left = max(0.0, seconds - (time.perf_counter() - start))
        knee = findings.timings[findings.knee]
        if effort.steps is None:
            # The device may be slower by now: the interval must include that.
            again = replace(effort, seconds=left / (2 if accumulation > 1 else 1))
            self._visit(findings.precision, knee, again)
        if accumulation > 1:
            findings.accumulated = Timing(batch_size=knee.batch_size, accumulation=accumulation)
            self._visit(findings.precision, findings.accumulated, replace(effort, seconds=left / 2))

    def _visit(self, precision: str, timing: Timing, effort: Effort) -> None:
        """Measure one batch size for some time."""
        device, size = self.plan.device, timing.batch_size
        timing.done = False
        with translate_failures(f"at batch size {size:,}"):
            step: TrainingStep | FunctionStep = (
                FunctionStep(self.subject, size)
                if isinstance(self.subject, StepFunction)
                else TrainingStep(self.subject, device, precision, size, timing.accumulation)
            )
            note = f"{precision}: {odd}" if (odd := step.check()) else ""
            if note and note not in self.notes:
                self.notes.append(note)
            measure(
                step,
                stopwatch(device),
                timing,
                effort,
                after_block=lambda: self.progress(_words(precision, timing)),
            )
        used, host = memory.device_peak_bytes(device), memory.host_peak_bytes()
        if used is not None:
            timing.device_memory_bytes = max(used, timing.device_memory_bytes or 0)
        # A larger batch does not give all its memory back: the visit that used less is right.
        if host is not None:
            timing.host_memory_bytes = min(host, timing.host_memory_bytes or host)

    def _accumulation(self, findings: Findings, seconds: float) -> int:
        """Choose the batches of a step: up to the target, as the seconds allow."""
        if self.plan.target_batch_size is None or isinstance(self.subject, StepFunction):
            return 1
        knee = findings.timings[findings.knee]
        asked = math.ceil(self.plan.target_batch_size / knee.batch_size)
        possible = max(1, int(seconds / LEAST_ACCUMULATED_STEPS / knee.interval.value))
        if asked > possible:
            findings.notes.append(
                f"{findings.precision}: accumulation was measured over {possible:,} batches, not "
                f"{asked:,}, for lack of time"
            )
        return min(asked, possible)

    def _expect_memory(self, findings: Findings, size: int) -> None:
        """Stop before the host's memory ends, and with it this process, without a word."""
        if self.plan.device.type != "cpu":
            return
        smaller = [(s, t) for s, t in sorted(findings.timings.items()) if s < size]
        peaks = [(s, t.host_memory_bytes) for s, t in smaller if t.host_memory_bytes is not None]
        now, free = memory.host_peak_bytes(), memory.host_available_bytes()
        if now is None or free is None:
            return
        expected = (self.bytes_per_sample or 0.0) * size
        if len(peaks) >= 2:
            (small, low), (large, high) = peaks[-2:]
            expected = high + (high - low) / (large - small) * (size - large) - now
        if expected > free * MEMORY_SHARE:
            raise OutOfMemory(
                f"not tried: about {format_bytes(expected)} more would be needed, "
                f"{format_bytes(free)} are free"
            )


def _prepare(device: Any) -> None:
    """Do what PyTorch does once, in some seconds: its first optimizer step loads its compiler."""
    if device.type == "cuda":
        torch.cuda.set_device(device)  # events and synchronisation are those of the current device
    torch.manual_seed(SEED)
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.SGD([parameter], lr=0.0).step()


def _words(precision: str, timing: Timing) -> str:
    interval = timing.interval
    several = f" x {timing.accumulation:,}" if timing.accumulation > 1 else ""
    return (
        f"{precision}, batch {timing.batch_size:,}{several}: {timing.samples_per_second:,.4g} "
        f"samples/s ± {interval.half_width:.1%}"
    )


def loading_seconds_per_sample(samples: Iterable[Any], seconds: float) -> float | None:
    """Measure the median seconds for a batch of a dataset over its samples; the first batch, which
    starts workers and opens files, does not count. None if there are fewer than two batches, or no
    tensor in them that tells how many samples they have.
    """
    times: list[float] = []
    start = last = time.perf_counter()
    for number, batch in enumerate(samples):
        now = time.perf_counter()
        count = samples_in(batch)
        if count and number:
            times.append((now - last) / count)
        if number >= MOST_BATCHES or now - start > seconds:
            break
        last = time.perf_counter()
    return statistics.median(times) if times else None


def samples_in(batch: Any) -> int | None:
    """Count the samples of a batch: the first dimension of its first tensor."""
    if isinstance(batch, torch.Tensor):
        return int(batch.shape[0]) if batch.dim() else None
    values = batch.values() if isinstance(batch, Mapping) else batch
    parts = values if isinstance(batch, (Mapping, list, tuple)) else ()
    return next((samples for samples in map(samples_in, parts) if samples), None)
