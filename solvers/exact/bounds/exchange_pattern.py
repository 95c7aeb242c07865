"""The exchange between regions as a tree sees it: leaders, bytes of a pair, and the cheapest
partners of a leader.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from ..._market.arrays import Array, Indices


class ExchangePattern(Struct, frozen=True, kw_only=True, dict=True):
    """An exchange among so many workers, in so many regions if that is fixed.

    What passes between regions goes between *leaders*: all workers (all-reduce), or one leader of
    each region (``by_region``). Each pair of leaders in different regions carries ``pair_bytes``
    each way. ``own_s`` is the least time of the averages where some region has so many workers;
    shape (places, workers + 1). ``waits`` says whether a round lasts until the slowest pair is
    done. ``home_usd`` is what stays inside regions.
    """

    workers: int
    fewest: int
    most: int
    by_region: bool
    pair_bytes: float
    own_s: Array
    waits: bool = True
    home_usd: float = 0.0

    def wan_s(self, per_byte: Any) -> Any:
        """Return the seconds that the slowest pair adds to a round, of so many per pair byte."""
        return per_byte * self.pair_bytes if self.waits else 0.0 * per_byte

    def leaders(self, workers: Indices) -> Indices:
        """Return how many leaders one region with so many workers has, or with so many at most."""
        return np.ones_like(workers) if self.by_region else workers

    def leaders_left(self, workers: Indices, regions: int) -> Indices:
        """Return how many leaders are still to come after so many regions."""
        return np.full_like(workers, self.most - regions) if self.by_region else workers

    def regions_left(self, left: Indices, together: Indices, regions: int) -> Indices:
        """Return how many regions are still to come at least."""
        return (
            np.full_like(left, self.most - regions)
            if self.by_region
            else -(-left // np.maximum(together, 1))
        )


class Partners:
    """Least figures of each place with so many others: seconds, dollars; no place is its own.

    ``figures``: of each place with each other, infinite where they cannot meet; shape (places,
    places).
    """

    def __init__(self, figures: Array) -> None:
        apart = figures.copy()
        np.fill_diagonal(apart, np.inf)
        self.ranked = np.sort(apart, axis=1)
        self.total = np.concatenate(
            [np.zeros((len(figures), 1)), np.cumsum(self.ranked, axis=1)], axis=1
        )

    def means(self, partners: Indices) -> Array:
        """Return the mean of the least figures of each place; shape (cases, places)."""
        return self.total[:, partners].T / partners[:, None]

    def means_above(self, places: Indices, least: Array, scale: Array, partners: Indices) -> Array:
        """Return the mean of each place's least max(least, scale x figure); shape (cases, places).

        ``places`` may repeat; ``least`` has the shape of the answer, ``scale`` and ``partners`` are
        those of each case.
        """
        with np.errstate(divide="ignore"):
            enough = (least / scale[:, None])[..., None]
        below = np.minimum((self.ranked[places] < enough).sum(axis=2), partners[:, None])
        sums = self.total[places]
        with np.errstate(invalid="ignore"):
            above = scale[:, None] * (
                sums[:, partners].T - np.take_along_axis(sums.T, below, axis=0)
            )
        above = np.where(below == partners[:, None], 0.0, above)
        return (below * least + above) / partners[:, None]

    def usd(self, leaders: int, together: int) -> Array:
        """Return the USD per pair byte of one leader of each region with so many others, at most
        ``together`` of them in one region; shape (places,).

        >>> # two at the nearest, one at the next
        >>> Partners(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 4.0], [2.0, 4.0, 0.0]])).usd(3, 2)
        array([4., 6., 8.])
        """
        full, some = divmod(leaders, together)
        # There are not enough other regions for so many partners.
        if full + (some > 0) >= self.ranked.shape[1] and leaders:
            return np.full(len(self.ranked), np.inf)
        # As many partners as one region may hold at the nearest, then at the next: the cheapest way
        # to meet them, whatever the real split is.
        return together * self.total[:, full] + (some * self.ranked[:, full] if some else 0.0)
