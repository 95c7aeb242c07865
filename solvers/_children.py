"""Which region may be placed next, with how many workers: the bounds of a node's children."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placer.units import SECONDS_PER_HOUR

from ._market import Array, Indices
from ._meeting import Partners
from ._relaxation import margin

if TYPE_CHECKING:
    from ._largest_first import LargestFirst, Placed

ROUNDS = 3
"""How often regions are left out and the bounds of the others worked out again."""
MANY = 0.8
"""With a larger share of the regions left, another round is not worth it."""


class Children:
    """Regions and counts that may come next at a node, with their margins over an improvement.

    Parameters
    ----------
    tree, node
        What is searched, and what is placed already.
    """

    def __init__(self, tree: LargestFirst, node: Placed) -> None:
        self.tree, self.node, self.meeting, self.used = tree, node, tree.meeting, len(node.regions) + 1
        self.open = node.open
        self._drop_regions()

    def _drop_regions(self) -> None:
        """Leave out regions that no improvement uses, whatever their count, until nothing changes much."""
        for _ in range(ROUNDS):
            before = int(self.open.sum())
            if before == 0:
                return
            self._prepare()
            keep = np.zeros_like(self.open)
            keep[self.places] = (self._margins(np.full(len(self.counts), self.node.most)) >= 0).any(axis=1)
            self.open = keep
            if keep.sum() > MANY * before:
                return

    def _prepare(self) -> None:
        """What the bound needs of the regions that are open."""
        tree, node, market = self.tree, self.node, self.tree.market
        self.places = np.flatnonzero(self.open)
        self.counts = np.arange(1, min(node.left, node.most) + 1)
        self.toward = node.toward[self.places]
        self.partners = Partners(market.both_ways[np.ix_(self.places, self.places)] / 2)
        rounds_per_hour = SECONDS_PER_HOUR * tree.mode.multiplier / tree.mode.samples * tree.target.min_speed
        self.usd_per_hour = rounds_per_hour * self.meeting.pair_bytes
        self.units = tree.steps[:, self.places, : len(self.counts)]
        apart = np.maximum(tree.relaxation.wan_matrix[np.ix_(self.places, self.places)], node.far[self.places])
        np.fill_diagonal(apart, np.inf)
        self.apart = np.sort(apart, axis=1)

    def _margins(self, together: Indices) -> Array:
        """Margins of all open regions and counts; ``together`` is how many of the rest one region may hold; shape (places, counts)."""
        tree, node, meeting = self.tree, self.node, self.meeting
        left, together = node.left - self.counts, np.maximum(together, 1)
        heads, heads_left = meeting.heads(self.counts), meeting.heads_left(left, self.used)
        heads_together = meeting.heads_together(together)
        rest, rest_usd = self._rests(left, together, heads_left, heads_together)
        across = [self.partners.usd(int(m), int(most)) for m, most in zip(heads_left, heads_together, strict=True)]
        pairs = np.outer(self.toward, heads) + 2.0 * heads * np.stack(across, axis=1) + rest_usd
        egress = meeting.pair_bytes * (node.pairs_usd + pairs) + meeting.home_usd
        further = np.minimum(meeting.regions_left(left, together, self.used), len(self.places) - 1)
        last = np.where(further > 0, self.apart[:, np.maximum(further, 1) - 1], 0.0)
        wan = np.maximum(np.maximum(node.wan, node.far[self.places][:, None]), last)
        seconds = np.maximum(node.own_s, meeting.own_s[self.places][:, self.counts]) + wan * meeting.pair_bytes
        reached = node.base[:, None, None] + tree.sums[:, self.places][:, :, self.counts] + rest[:, None]
        needed = tree.needed(tree.weights, seconds.ravel(), egress.ravel())
        return margin(reached.reshape(len(reached), -1), needed).reshape(egress.shape)

    def _rests(self, left: Indices, together: Indices, heads_left: Indices, heads_together: Indices) -> tuple[Array, Array]:
        """Best sums of the workers that are left and least price of their pairs, for each count; shapes (rows, counts) and (counts,).

        Notes
        -----
        One partial sort for all counts that allow about as many workers in one region.
        """
        rest, usd = np.empty((len(self.tree.weights), len(left))), np.empty(len(left))
        caps = 2 ** np.ceil(np.log2(together)).astype(np.intp)
        for cap in np.unique(caps):
            at = caps == cap
            elsewhere = max(0, int((heads_left - heads_together)[at].min()))
            pairs = self.toward + self.partners.usd(elsewhere, int(heads_together[at].max()))
            able = np.isfinite(pairs)
            most = int(left[at].max())
            sums = self._sums(pairs, able, int(cap), most)
            rest[:, at], usd[at] = sums[:, left[at]], heads_left[at] * (float(pairs[able].min()) if able.any() else 0.0)
        return rest, usd

    def _sums(self, pairs: Array, able: Array, together: int, most: int) -> Array:
        """Best sums of up to ``most`` workers in the able regions, ``together`` in each at most, with what pairs cost above the least."""
        built = np.full((len(self.units), most + 1), -np.inf)
        built[:, 0] = 0.0
        if able.any():
            heads = 1 / together if self.meeting.by_region else 1.0  # a region's leader is paid for by its workers
            surcharge = self.usd_per_hour * heads * (pairs[able] - pairs[able].min())
            units = (self.units[:, able, :together] - (self.tree.weights[:, 1:2] * surcharge)[:, :, None]).reshape(len(built), -1)
            taken = min(most, units.shape[1])
            top = -np.partition(-units, taken - 1, axis=1)[:, :taken] if 0 < taken < units.shape[1] else units[:, :taken]
            built[:, 1 : taken + 1] = np.cumsum(-np.sort(-top, axis=1), axis=1)
        return built

    def promising(self) -> list[tuple[int, int]]:
        """Regions and counts that may improve, best first."""
        if not self.open.any():
            return []
        self._prepare()
        node, fewest, most = self.node, self.meeting.fewest, self.meeting.most
        left = node.left - self.counts
        self.found = self._margins(np.minimum(self.counts, left))
        fits = (left <= self.counts * (most - self.used)) & (left >= fewest - self.used)
        allowed = np.tile(fits & ((left > 0) | (self.used >= fewest)), (len(self.places), 1))
        allowed[self.places <= node.after] &= self.counts < node.most
        at = np.argwhere(allowed & (self.found >= 0))
        order = np.argsort(-self.found[at[:, 0], at[:, 1]], kind="stable")
        self.limits = self._limits()
        return [(int(self.places[i]), int(self.counts[j])) for i, j in at[order]]

    def _limits(self) -> tuple[float, ...]:
        target = self.tree.target
        return target.min_speed, target.max_usd_per_hour, target.max_usd_per_sample

    def still(self, place: int, count: int) -> bool:
        """Whether a child is still open after the incumbent has improved."""
        if self._limits() != self.limits:
            self.limits = self._limits()
            self._prepare()
            self.found = self._margins(np.minimum(self.counts, self.node.left - self.counts))
        return bool(self.found[np.searchsorted(self.places, place), count - 1] >= 0)

    def glimpse(self, place: int, count: int) -> bool:
        """Whether a child's own bound, with its pairs and links known, still allows an improvement: one sum, no table."""
        tree, node, meeting = self.tree, self.node, self.meeting
        left = node.left - count
        if left == 0:
            return True
        heads, together = int(meeting.heads(np.array(count))), int(meeting.heads_together(np.array(count)))
        heads_left = int(meeting.heads_left(np.array(left), self.used))
        toward = self.toward + heads * tree.market.both_ways[place, self.places]
        pairs = toward + self.partners.usd(max(0, heads_left - together), together)
        able = (self.places != place) & np.isfinite(pairs)
        further = int(meeting.regions_left(np.array(left), np.array(count), self.used))
        if able.sum() < further:
            return False
        far = np.maximum(node.far[self.places], tree.relaxation.wan_matrix[place, self.places])[able]
        wan = max(node.wan, float(node.far[place]), float(np.partition(far, further - 1)[further - 1]))
        rest = self._sums(pairs, able, count, left)[:, left]
        own = int(np.searchsorted(self.places, place))
        usd = node.pairs_usd + heads * float(self.toward[own]) + heads_left * float(pairs[able].min())
        seconds = max(node.own_s, float(meeting.own_s[place, count])) + wan * meeting.pair_bytes
        needed = tree.needed(tree.weights, np.full(1, seconds), np.full(1, meeting.pair_bytes * usd + meeting.home_usd))
        return bool(margin((node.base + tree.sums[:, place, count] + rest)[:, None], needed)[0] >= 0)
