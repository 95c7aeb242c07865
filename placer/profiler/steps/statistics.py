"""Medians with distribution-free intervals, which a few slow steps do not move."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placer.workload.measurement import Seconds

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


def ranks(count: int, confidence: float = CONFIDENCE) -> tuple[int, int, float]:
    """Return the ranks of the ordered values that enclose the median, and the confidence. Lowest
    and highest rank, from 1, and the probability 1 - 2 P(B < lowest) for B ~ Binomial(count, 1/2).
    Where even the smallest and the largest value are less sure than asked for, they are returned
    with their probability.

    David and Nagaraja, Order Statistics (2003), section 7.1.

    >>> ranks(6), ranks(20)
    ((1, 6, 0.96875), (6, 15, 0.9586105346679688))

    count: Number of independent values.
    confidence: Least probability that the interval covers the median.
    """
    tail, lowest = 0.0, 1
    below = 0.5**count
    term = below
    for rank in range(1, (count + 1) // 2 + 1):
        tail += term
        if 1 - 2 * tail < confidence:
            break
        lowest, below = rank, tail
        term *= (count - rank + 1) / rank
    return lowest, count - lowest + 1, max(0.0, 1 - 2 * below)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> MedianInterval:
    """Return the median and its interval; fewer than six values have a wider range."""
    ordered = sorted(values)
    low, high, sure = ranks(len(ordered), confidence)
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


def knee(samples_per_second: Mapping[int, float], share: float = KNEE_SHARE) -> int:
    """Return the smallest batch size within 5 % of the most samples/s.

    >>> knee({1: 10.0, 2: 19.0, 4: 30.0, 8: 35.0, 16: 36.0})
    8
    """
    most = max(samples_per_second.values())
    return min(size for size, rate in samples_per_second.items() if rate >= share * most)


def is_flat(samples_per_second: Mapping[int, float], share: float = KNEE_SHARE) -> bool:
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
    return all(samples_per_second[size] * share <= before for size in sizes[-2:])
