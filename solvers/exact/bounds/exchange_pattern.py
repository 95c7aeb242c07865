"""The exchange between regions as a tree sees it: leaders, bytes of a pair, the cheapest partners
of a leader, and the ways to a hub.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from ..._market.arrays import Array, Indices, Mask


class ExchangePattern(Struct, frozen=True, kw_only=True, dict=True):
    """An exchange among so many workers, in so many regions if that is fixed.

    What passes between regions goes between *leaders*: all workers (all-reduce), or one leader of
    each region (``by_region``). Each pair of leaders in different regions carries ``pair_bytes``
    each way. ``own_s`` is the least time of the averages where some region has so many workers;
    shape (places, workers + 1). ``waits`` says whether a round lasts until the slowest pair is
    done. ``home_usd`` is what stays inside regions. Leaders meet at a ``hub``, or in pairs.
    """

    workers: int
    fewest: int
    most: int
    by_region: bool
    pair_bytes: float
    own_s: Array
    waits: bool = True
    home_usd: float = 0.0
    hub: HubWays | None = None

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


class HubWays:
    """Ways of regions to a hub that is one of them, and back.

    ``usd``: both ways of what a region sends; ``seconds``: there, and back; from place to place, 0
    at home; shapes (places, places) and (2, places, places). ``places`` may be used, ``hubs`` may
    be the hub.
    """

    def __init__(self, usd: Array, seconds: Array, places: Indices, hubs: Mask) -> None:
        self.usd, self.seconds, self.hubs = usd, seconds, hubs
        self.apart = np.stack([usd, *seconds])
        self.apart[:, np.arange(len(usd)), np.arange(len(usd))] = np.inf
        # By number of further regions and by hub: the egress of the cheapest, the ways of the
        # nearest, which are others for each.
        self.rest = np.zeros((3, len(places) + 1, len(usd)))
        self.rest[:, 1:] = np.sort(self.apart[:, places], axis=1)
        np.cumsum(self.rest[0], axis=0, out=self.rest[0])

    def least(
        self, joining: Indices, placed: Indices, usd: Array, seconds: Array, left: int
    ) -> tuple[Array, Array]:
        """Return the least egress and seconds of a round if one more region is placed, the best hub
        for each; shapes (joining,).

        ``usd``, ``seconds``: of the placed regions, by hub; ``left``: regions to come after it.
        """
        own, hubs = self.rest[:, left], np.concatenate([placed, joining])
        # A hub that is not placed yet is one of the regions to come, unless it is placed now.
        others = self.rest[:, left - 1] if left else np.full(own.shape, np.inf)
        known = np.arange(len(hubs)) < len(placed)
        rest = np.where(known, own[:, hubs], others[:, hubs])[:, self.hubs[hubs]]
        hubs = hubs[self.hubs[hubs]]
        paid, there, back = self.apart[:, joining[:, None], hubs]
        paid += usd[hubs] + rest[0]
        there = np.maximum(there, np.maximum(seconds[0, hubs], rest[1]))
        there += np.maximum(back, np.maximum(seconds[1, hubs], rest[2]))
        itself = np.where(self.hubs[joining], usd[joining] + own[0, joining], np.inf)
        home_s = np.maximum(seconds, own[1:])[:, joining].sum(axis=0)
        home_s[~self.hubs[joining]] = np.inf
        return (
            np.minimum(itself, paid.min(axis=1, initial=np.inf)),
            np.minimum(home_s, there.min(axis=1, initial=np.inf)),
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
