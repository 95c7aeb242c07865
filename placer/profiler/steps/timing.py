"""Time steps until the median is known as well as asked for."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from placer.profiler.torch_import import torch
from placer.workload.measurement import Point, Seconds

CONFIDENCE = 0.95
"""Probability with which an interval shall cover the median."""
KNEE_SHARE = 0.95
"""The knee is the smallest batch size with this share of the most samples/s."""
FEW = 6
"""With fewer values, not even the smallest and the largest enclose the median with 95 %."""
FEW_SPREAD = 0.1
"""By this share the range of fewer values is widened on each side. Assumed: steps of one run differ
by 8 to 20 %.
"""
STABLE = 0.1
"""Warm-up ends when two steps in a row differ by less than this share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MedianInterval:
    """A median, an interval between two values, and its probability to cover the true one."""

    value: float
    low: float
    high: float
    confidence: float

    @property
    def half_width(self) -> float:
        """Half the interval as a share of the median."""
        return (self.high - self.low) / 2 / self.value if self.value else math.inf


def ranks(count: int) -> tuple[int, int, float]:
    """Return the ranks of the ordered values that enclose the median, and the confidence. Lowest
    and highest rank, from 1, and the probability 1 - 2 P(B < lowest) for B ~ Binomial(count, 1/2).
    Where even the smallest and the largest value are less sure than asked for, they are returned
    with their probability.

    David and Nagaraja, Order Statistics (2003), section 7.1.

    >>> ranks(6), ranks(20)
    ((1, 6, 0.96875), (6, 15, 0.9586105346679688))
    """
    # In whole numbers: 0.5**count is 0 for more than 1,074 values.
    tail, lowest, below, term, every = 0, 1, 1, 1, 2**count
    for rank in range(1, (count + 1) // 2 + 1):
        tail += term
        if (every - 2 * tail) / every < CONFIDENCE:
            break
        lowest, below = rank, tail
        term = term * (count - rank + 1) // rank
    return lowest, count - lowest + 1, max(0.0, (every - 2 * below) / every)


def median_interval(values: Sequence[float]) -> MedianInterval:
    """Return the median and its interval; fewer than six values have a wider range."""
    ordered = sorted(values)
    low, high, sure = ranks(len(ordered))
    wider = FEW_SPREAD if len(ordered) < FEW else 0.0
    return MedianInterval(
        value=statistics.median(ordered),
        low=ordered[low - 1] * (1 - wider),
        high=ordered[high - 1] * (1 + wider),
        confidence=sure,
    )


def quartiles(values: Sequence[float]) -> Seconds:
    """Return median and quartiles of seconds."""
    if len(values) == 1:
        return Seconds(median=values[0], low=values[0], high=values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Seconds(median=min(max(median, low), high), low=low, high=high)


def knee(samples_per_second: Mapping[int, float]) -> int:
    """Return the smallest batch size within 5 % of the most samples/s.

    >>> knee({1: 10.0, 2: 19.0, 4: 30.0, 8: 35.0, 16: 36.0})
    8
    """
    most = max(samples_per_second.values())
    return min(size for size, rate in samples_per_second.items() if rate >= KNEE_SHARE * most)


def is_flat(samples_per_second: Mapping[int, float]) -> bool:
    """Say whether the two largest batch sizes brought less than 5 % over all smaller ones.

    >>> is_flat({1: 10.0, 2: 19.0, 4: 30.0, 8: 35.0, 16: 36.0})
    False
    >>> is_flat({1: 10.0, 2: 10.2, 4: 10.3})
    True
    """
    sizes = sorted(samples_per_second)
    if len(sizes) < 3:
        return False
    before = max(samples_per_second[size] for size in sizes[:-2])
    return all(samples_per_second[size] * KNEE_SHARE <= before for size in sizes[-2:])


Marks = Sequence[tuple[str, Any]]
"""Marks of a step in their order: the phase that ends there, and the mark; the first is its start.
"""


class Stopwatch:
    """Marks moments of a device's work; marks are read after `wait`.

    backend: ``torch.cuda`` or ``torch.mps``, whose events stand in the device's queue, so that
        measuring does not make it wait after every phase. None: the monotonic clock, which is right
        on a CPU, where every operation is done when it returns.
    """

    def __init__(self, backend: Any = None, event: Any = None) -> None:
        self.backend, self.event = backend, event

    def mark(self) -> Any:
        """Mark the moment at which the work asked for so far is done."""
        if self.backend is None:
            return time.perf_counter()
        event = self.event(enable_timing=True)
        event.record()
        return event

    def wait(self) -> None:
        """Wait for all work of the device."""
        if self.backend is not None:
            self.backend.synchronize()

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks; events have milliseconds."""
        if self.backend is None:
            return float(end - start)
        return float(start.elapsed_time(end)) / 1000


Step = Callable[[Stopwatch], Marks]
"""Something that can be run again and again and marks its phases."""


def stopwatch(device: Any) -> Stopwatch:
    """Choose the clock of a ``torch.device``."""
    if device.type == "cuda":
        return Stopwatch(torch.cuda, torch.cuda.Event)
    return Stopwatch(torch.mps, torch.mps.event.Event) if device.type == "mps" else Stopwatch()


def phases(marks: Marks, watch: Stopwatch) -> dict[str, float]:
    """Sum the seconds of each phase of a step, and of the whole as ``step``."""
    phases: dict[str, float] = {}
    for (_, start), (phase, end) in pairwise(marks):
        phases[phase] = phases.get(phase, 0.0) + watch.seconds(start, end)
    return {**phases, "step": watch.seconds(marks[0][1], marks[-1][1])}


BLOCK_SECONDS = 0.1
"""Length of a block: short steps are measured in blocks, whose means differ less and depend less on
each other than single steps.
"""
BLOCKS_IN_TIME = 20
"""Blocks for which there shall be time, else they are shorter."""
MOST_STEPS_IN_BLOCK = 50
MOST_WARM_UP = 10
"""Warm-up steps after which steps count as stable."""
LEAST_WARM_UP = 2
LEAST_STEPS = 3
"""Steps that are timed whatever they take."""
WARM_UP_SHARE = 0.3
"""Largest share of the time that warm-up may take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How well and how long to measure.

    seconds: Stop after this long, for all batch sizes and precisions together.
    steps: Exactly so many steps for each batch size, if given.
    """

    half_width: float
    seconds: float
    steps: int | None = None


QUICK = Effort(half_width=0.03, seconds=30.0)
USUAL = Effort(half_width=0.01, seconds=120.0)
THOROUGH = Effort(half_width=0.005, seconds=900.0)


@dataclass(kw_only=True)
class Timing:
    """Steps of one batch size, block by block: grows while it is measured. ``blocks`` has the mean
    seconds of a step in each block, ``steps`` the seconds of every single step by phase.
    """

    batch_size: int
    accumulation: int = 1
    blocks: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)
    device_memory_bytes: int | None = None
    host_memory_bytes: int | None = None
    done: bool = False

    @property
    def interval(self) -> MedianInterval:
        """Seconds of a step: median of blocks, or of steps where there are too few blocks."""
        return median_interval(self.blocks if len(self.blocks) >= FEW else self.steps["step"])

    @property
    def samples_per_second(self) -> float:
        """Samples of a step over its median seconds."""
        return self.batch_size * self.accumulation / self.interval.value

    def add(self, block: list[dict[str, float]]) -> None:
        """Add a block of steps, each with its seconds by phase."""
        self.blocks.append(math.fsum(step["step"] for step in block) / len(block))
        for step in block:
            for phase, seconds in step.items():
                self.steps.setdefault(phase, []).append(seconds)

    def point(self, flops_per_sample: float | None, peak_flops: float | None) -> Point:
        """Build what the profile keeps."""
        samples, step = self.batch_size * self.accumulation, self.interval
        flops = self.samples_per_second * (flops_per_sample or 0.0)
        each = {name: quartiles(seconds) for name, seconds in self.steps.items()}
        return Point(
            batch_size=self.batch_size,
            accumulation=self.accumulation,
            step=each["step"],
            **{name: each.get(name) for name in ("forward", "backward", "optimizer")},
            samples_per_second=samples / step.value,
            low=samples / step.high,
            high=samples / step.low,
            confidence=step.confidence,
            steps=len(self.steps["step"]),
            device_memory_bytes=self.device_memory_bytes,
            host_memory_bytes=self.host_memory_bytes,
            fraction_of_peak=flops / peak_flops if flops and peak_flops else None,
            partial=not self.done,
        )


def measure(
    step: Step,
    watch: Stopwatch,
    timing: Timing,
    effort: Effort,
    *,
    clock: Callable[[], float] = time.perf_counter,
    after_block: Callable[[], None] = lambda: None,
) -> None:
    """Warm up, then time steps into ``timing`` until its interval is narrow or the time is over.

    timing: Takes the blocks; if it has some from an earlier visit, more are added.
    effort: ``seconds`` for this batch size alone; three steps are timed whatever they are.
    """
    start = clock()
    seconds = warm_up(step, watch, effort.seconds * WARM_UP_SHARE, clock)
    length = min(BLOCK_SECONDS, effort.seconds / BLOCKS_IN_TIME)
    size = max(1, min(MOST_STEPS_IN_BLOCK, math.ceil(length / max(seconds, 1e-9))))
    size = min(size, effort.steps or size)
    before = len(timing.blocks)
    while True:
        marks = [step(watch) for _ in range(size)]
        watch.wait()
        timing.add([phases(row, watch) for row in marks])
        after_block()
        if _enough(timing, effort, len(timing.blocks) - before, size, clock() - start):
            timing.done = True
            return


def warm_up(
    step: Step, watch: Stopwatch, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Run steps until two in a row take the same time, within 10 %; seconds of the last. Caches,
    memory pools, lazily made optimizer states and chosen kernels are not part of a long training's
    steps.
    """
    start, last = clock(), math.inf
    for done in range(1, MOST_WARM_UP + 1):
        marks = step(watch)
        watch.wait()
        now = phases(marks, watch)["step"]
        spent = clock() - start
        if (done >= LEAST_WARM_UP and abs(now - last) < STABLE * last) or spent + now > seconds:
            return now
        last = now
    return now


def _enough(timing: Timing, effort: Effort, blocks: int, size: int, spent: float) -> bool:
    """Tell whether to stop: steps as asked, a narrow interval, or no time for another block."""
    if effort.steps is not None:
        return blocks * size >= effort.steps
    if blocks * size < LEAST_STEPS:
        return False
    if blocks >= FEW and timing.interval.half_width <= effort.half_width:
        return True
    return spent * (blocks + 1) / blocks > effort.seconds
