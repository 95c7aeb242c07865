"""The search over batch sizes: doubled up to the knee, halved where memory runs out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from placer.errors import PlacerError
from placer.profiler.steps.statistics import is_flat, knee
from placer.profiler.steps.timing import Timing
from placer.profiler.torch_import import OutOfMemory

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

    @property
    def smallest_failed(self) -> int | None:
        """Smallest batch size that ran out of memory."""
        return min(self.failed, default=None)


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

    seconds: For all of them.
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
    failed = findings.smallest_failed
    assert failed is not None
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
