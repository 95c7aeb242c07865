"""How much faster one of two things is than the other, from runs that took turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from placer.errors import PlacerError
from placer.profiler.steps.statistics import ranks

CONFIDENCE = 0.9
"""Share of such intervals that hold the true median."""
LEAST_PAIRS = 5
"""Fewest pairs for which the whole range is an interval of `CONFIDENCE`: 1 - 2 / 2^5 = 94 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """Median of the ratios of pairs, and an interval for it."""

    value: float
    low: float
    high: float
    pairs: int


def ratio_of_pairs(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Return the median of ``above[i] / below[i]`` with a distribution-free interval.

    Parameters
    ----------
    above, below
        Seconds of runs that were made side by side; at least `LEAST_PAIRS` each.

    Returns
    -------
    Ratio
        The interval is that of the sign test: order statistics of the ratios, at least `CONFIDENCE`
        whatever their distribution. A pair that something else on the machine disturbed moves it by
        one place at most.

    Raises
    ------
    PlacerError
        If there are too few pairs or a time is not positive.

    Examples
    --------
    >>> # seven pairs: the interval leaves out nothing
    >>> ratio_of_pairs([1.0, 1.1, 0.9, 1.2, 0.8, 1.0, 30.0], [2.0] * 7)
    Ratio(value=0.5, low=0.4, high=15.0, pairs=7)
    """
    ratios = sorted(a / b for a, b in zip(above, below, strict=True) if a > 0 and b > 0)
    if len(ratios) < max(LEAST_PAIRS, len(above)):
        raise PlacerError(
            f"{len(ratios)} pairs of times above 0 are too few", f"measure at least {LEAST_PAIRS}"
        )
    lowest, highest, _ = ranks(len(ratios), CONFIDENCE)
    return Ratio(
        value=median(ratios), low=ratios[lowest - 1], high=ratios[highest - 1], pairs=len(ratios)
    )
