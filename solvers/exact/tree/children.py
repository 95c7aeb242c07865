"""Children of a node: which region may be placed next with how many workers, by its bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices
from ..bounds.exchange_pattern import HubWays, Partners
from ..bounds.relaxation import margin
from .tree_bound import TreeBound

if TYPE_CHECKING:
    from ..gossip.paces import Paces

ROUNDS = 3
"""How often regions are left out and the bounds of the others worked out again."""
MANY = 0.8
"""With a larger share of the regions left, another round is not worth it."""


class Placed(Struct, frozen=True, kw_only=True, dict=True):
    """Regions whose number of workers is known.

    ``left`` workers have no region yet; no region to come has more than ``most``, and one with as
    many comes after ``after``. ``pairs_usd`` is the price of a byte over all pairs of leaders that
    are placed, ``own_s`` the longest averages inside a region, ``wan`` the slowest pair (seconds
    per pair byte), ``base`` the best sums of the placed regions by row. By place: ``open`` may
    still be used, ``far`` is its slowest pair with a placed region, ``toward`` the price of a byte
    of one leader with all placed ones, ``ways_s`` the longest way of one there, and back.
    """

    regions: tuple[int, ...]
    counts: tuple[int, ...]
    left: int
    most: int
    after: int
    pairs_usd: float
    own_s: float
    wan: float
    base: Array
    open: Array
    far: Array
    ways_s: Array
    toward: Array


class Children:
    """Regions and counts that may come next at a node, with their margins."""

    def __init__(self, bound: TreeBound, node: Placed) -> None:
        self.bound, self.node, self.exchange_pattern = bound, node, bound.exchange_pattern
        self.used, self.open = len(node.regions) + 1, node.open
        self.missing = [place for place in bound.least if place not in node.regions]
        self._kept: tuple[Array, Array, Array] | None = None
        self._drop_regions()

    def _drop_regions(self) -> None:
        """Leave out regions that no improvement uses; all if a required one is."""
        for _ in range(ROUNDS):
            before = int(self.open.sum())
            if not self.open[self.missing].all():
                self.open = np.zeros_like(self.open)
            if not self.open.any():
                return
            self._prepare()
            keep = np.zeros_like(self.open)
            # A region stays if any count in it may improve, with as many of the rest in one region
            # as the node allows: the most generous case of its children.
            keep[self.places] = (self._margins(np.full(len(self.counts), self.node.most)) >= 0).any(
                axis=1
            )
            self.open = keep if keep[self.missing].all() else np.zeros_like(keep)
            if keep.sum() > MANY * before:
                return

    def _prepare(self) -> None:
        """Work out what the bound needs of the regions that are open."""
        bound, node = self.bound, self.node
        self.places = np.flatnonzero(self.open)
        self.counts = np.arange(1, min(node.left, node.most) + 1)
        self.toward = node.toward[self.places]
        rounds_per_hour = (
            SECONDS_PER_HOUR * bound.mode.multiplier / bound.mode.samples * bound.target.min_speed
        )
        # Price of a pair at the least rounds per hour of an improvement.
        self.usd_per_hour = rounds_per_hour * self.exchange_pattern.pair_bytes
        self._sum_machines()
        if self.exchange_pattern.hub is None:
            self._rank_pairs()
        else:
            self.hub_usd, self.hub_s = self._through_hub(self.exchange_pattern.hub)
        self.must = np.searchsorted(self.places, sorted(self.missing)).tolist()

    def _sum_machines(self) -> None:
        """Work out the best sums of each open region, of its further machines one by one, and of
        the placed regions if it comes next.
        """
        bound, places = self.bound, self.places
        if bound.paces is None:
            self.sums = bound.sums[:, places, : len(self.counts) + 1]
            self.units = bound.steps[:, places, : len(self.counts)]
            self.base = np.broadcast_to(self.node.base[:, None], self.sums.shape[:2])
            return
        # With fewer regions left each waits longer: what holds for all holds for these.
        at = np.searchsorted(np.flatnonzero(self.node.open), places)
        self.sums, self.units, self.base = (each[:, at] for each in self._paced(bound.paces))

    def _paced(self, paces: Paces) -> tuple[Array, Array, Array]:
        """Return sums, further machines and placed regions where these wait for their sends."""
        if self._kept is None:
            bound, node, places = self.bound, self.node, np.flatnonzero(self.node.open)
            speed = paces.speed(node.regions, places)
            shares, own_shares = paces.shares(speed, node.regions, places)
            sums = bound.paced(speed, places, shares, np.arange(len(self.counts) + 1))
            with np.errstate(invalid="ignore"):
                units = np.diff(sums, axis=2)
            base = np.zeros(sums.shape[:2])
            for own, count, each in zip(node.regions, node.counts, own_shares, strict=True):
                alike = np.full(len(places), own)
                base += bound.paced(speed, alike, each, np.array([count]))[:, :, 0]
            self._kept = sums, np.where(np.isfinite(units), units, -np.inf), base
        return self._kept

    def _rank_pairs(self) -> None:
        """Order the partners of each open region by price and by distance."""
        relaxation, far = self.bound.relaxation, self.node.far[self.places]
        if self.node.regions:
            self.partners, self.apart = self._ranked(far)
        else:  # many roots have the same places
            key = self.places.tobytes()
            self.partners, self.apart = relaxation.ranked.get(key, lambda: self._ranked(far))
        self.far = np.maximum(far, self._far_missing())

    def _ranked(self, far: Array) -> tuple[Partners, Array]:
        relaxation, here = self.bound.relaxation, np.ix_(self.places, self.places)
        apart = np.maximum(relaxation.wan_matrix[here], far)
        np.fill_diagonal(apart, np.inf)
        return Partners(relaxation.pair_usd[here] / 2), np.sort(apart, axis=1)

    def _through_hub(self, hub: HubWays) -> tuple[Array, Array]:
        """Return the least egress and seconds through a hub with each open region; shapes
        (places,).
        """
        placed, left = list(self.node.regions), self.exchange_pattern.most - self.used
        usd, at = hub.usd[placed].sum(axis=0), np.array(placed, dtype=np.intp)
        return hub.least(self.places, at, usd, self.node.ways_s, left)

    def _far_missing(self) -> Array:
        """Return the slowest pair with the missing regions; shape (places,)."""
        if not self.missing:
            return np.zeros(len(self.places))
        wan, missing = self.bound.relaxation.wan_matrix, np.array(self.missing)
        known = max(float(self.node.far[missing].max()), float(wan[np.ix_(missing, missing)].max()))
        return np.maximum(wan[np.ix_(self.places, missing)].max(axis=1), known)

    def _margins(self, together: Indices) -> Array:
        """Return the margins of open regions and counts; shape (places, counts)."""
        bound, node, exchange_pattern = self.bound, self.node, self.exchange_pattern
        left, together = node.left - self.counts, np.maximum(together, 1)
        leaders_left = exchange_pattern.leaders_left(left, self.used)
        leaders_together = exchange_pattern.leaders(together)
        rest, rest_usd = self._every_rest(left, together, leaders_left, leaders_together)
        if exchange_pattern.hub is None:
            egress = self._pairs_usd(leaders_left, leaders_together, rest_usd)
            between = exchange_pattern.wan_s(self._slowest_wan(left, together))
        else:
            egress, between = self.hub_usd[:, None], self.hub_s[:, None]
        own_s = exchange_pattern.own_s[self.places][:, self.counts]
        seconds = np.maximum(node.own_s, own_s) + between
        egress = np.broadcast_to(egress + exchange_pattern.home_usd, seconds.shape)
        reached = self.base[:, :, None] + self.sums[:, :, 1:] + rest
        needed = bound.needed(bound.weights, seconds.ravel(), egress.ravel())
        return margin(reached.reshape(len(reached), -1), needed).reshape(seconds.shape)

    def _pairs_usd(
        self, leaders_left: Indices, leaders_together: Indices, rest_usd: Array
    ) -> Array:
        """Return the least egress of pairs of leaders; shape (places, counts)."""
        across = [
            self.partners.usd(int(m), int(most))
            for m, most in zip(leaders_left, leaders_together, strict=True)
        ]
        leaders = self.exchange_pattern.leaders(self.counts)
        pairs = self.toward[:, None] * leaders + 2.0 * leaders * np.stack(across, axis=1) + rest_usd
        # Known pairs exactly, pairs to placed regions exactly, pairs among the rest at the cheapest
        # partners: errs low.
        built: Array = self.exchange_pattern.pair_bytes * (self.node.pairs_usd + pairs)
        return built

    def _slowest_wan(self, left: Indices, together: Indices) -> Array:
        """Return the slowest link at least, in seconds per pair byte; shape (places, counts)."""
        further = np.minimum(
            self.exchange_pattern.regions_left(left, together, self.used), len(self.places) - 1
        )
        # A region with so many more to come meets that many others, the last of them no nearer than
        # its own nearest that many: this bounds the slowest link.
        last = np.where(further > 0, self.apart[:, np.maximum(further, 1) - 1], 0.0)
        wan = np.maximum(np.maximum(self.node.wan, self.far[:, None]), last)
        return np.maximum(wan, self._load_wan(left))

    def _load_wan(self, left: Indices) -> Array:
        """Return the load of a worker that sends to all others; shape (places, counts)."""
        relaxation, workers = self.bound.relaxation, self.exchange_pattern.workers
        if self.exchange_pattern.by_region:
            return np.zeros((len(self.places), len(self.counts)))
        each = relaxation.machine_wan[self.places]
        # All that are left may be in one region, with the fastest workers.
        rest = np.where(left > 0, (workers - left) * float(each.min()), 0.0)
        own: Array = each[:, None] * (workers - self.counts)
        return np.maximum(own, rest)

    def _every_rest(
        self, left: Indices, together: Indices, leaders_left: Indices, leaders_together: Indices
    ) -> tuple[Array, Array]:
        """Return the best sums of the workers that are left and least price of their pairs; shapes
        (rows, places or 1, counts), (places or 1, counts).

        The same for all regions, but for those that must be used: if one is placed next, only the
        others are still missing.
        """
        rest, usd = self._rests(left, together, leaders_left, leaders_together, self.must)
        if not self.must:
            return rest[:, None], usd[None]
        every = np.repeat(rest[:, None], len(self.places), axis=1)
        prices = np.tile(usd, (len(self.places), 1))
        for own in self.must:
            others = [other for other in self.must if other != own]
            every[:, own], prices[own] = self._rests(
                left, together, leaders_left, leaders_together, others, own
            )
        return every, prices

    def _rests(
        self,
        left: Indices,
        together: Indices,
        leaders_left: Indices,
        leaders_together: Indices,
        must: list[int],
        placed: int | None = None,
    ) -> tuple[Array, Array]:
        """Return the best sums of the workers that are left and least price of their pairs, for
        each count; shapes (rows, counts) and (counts,).

        One partial sort for all counts that allow about as many workers in one region.
        """
        rest, usd = np.empty((len(self.bound.weights), len(left))), np.empty(len(left))
        # Rounded up to a power of two: more machines of one region are allowed than there may be,
        # so the sums err high and fewer sorts are needed.
        caps = 2 ** np.ceil(np.log2(together)).astype(np.intp)
        for cap in sorted({*caps.tolist()}):
            at = caps == cap
            elsewhere = max(0, int((leaders_left - leaders_together)[at].min()))
            pairs = self._toward_all(self.toward, elsewhere, int(leaders_together[at].max()))
            able = np.isfinite(pairs)
            if placed is not None:
                able[placed] = False
            rest[:, at] = self._best(pairs, able, int(cap), left[at], must)
            usd[at] = leaders_left[at] * (float(pairs[able].min()) if able.any() else 0.0)
        return rest, usd

    def _toward_all(self, toward: Array, elsewhere: int, together: int) -> Array:
        """Return the USD per pair byte of a leader of each region with all others, at least; 0
        where leaders meet at a hub; shape (places,).
        """
        if self.exchange_pattern.hub is not None:
            return np.zeros(len(toward))
        return toward + self.partners.usd(elsewhere, together)

    def _best(
        self, pairs: Array, able: Array, together: int, left: Indices, must: list[int]
    ) -> Array:
        """Return the best sums of the workers that are left, less what their leaders' pairs cost
        above the cheapest; shape (rows, counts).

        Regions that must be used are in every sum, with their fewest machines.
        """
        if not able[must].all():
            return np.full((len(self.units), len(left)), -np.inf)
        return self._sums(pairs, able, together, int(left.max()), must)[:, left]

    def _sums(self, pairs: Array, able: Array, together: int, most: int, must: list[int]) -> Array:
        """Return the best sums of the rest, less what pairs cost above the least."""
        built = np.full((len(self.units), most + 1), -np.inf)
        leasts = [self.bound.least[int(self.places[at])] for at in must]
        if max(leasts, default=0) > together or sum(leasts) > most:
            return built
        base, count = np.zeros((len(built), 1)), sum(leasts)
        if able.any():
            # Only what a region's pairs cost above the cheapest is charged here, as the cheapest is
            # in the egress already.
            paid = self.bound.weights[:, 1:2] * (
                self.usd_per_hour * np.where(able, pairs - pairs[able].min(), 0.0)
            )
            free = able.copy()
            free[must] = False
            # Each worker is a leader, or the first one of its region alone.
            every = not self.exchange_pattern.by_region
            own = self.units[:, free, :together].copy()
            own[:, :, slice(None) if every else slice(1)] -= paid[:, free, None]
            blocks = [own.reshape(len(built), -1)]
            for at, least in zip(must, leasts, strict=True):
                leaders = least if every else 1
                known = self.sums[:, at, least] - leaders * paid[:, at]
                base += known[:, None]
                blocks.append(self.units[:, at, least:together] - every * paid[:, at, None])
            units = np.concatenate(blocks, axis=1) if must else blocks[0]
            taken = min(most - count, units.shape[1])
            top = (
                -np.partition(-units, taken - 1, axis=1)[:, :taken]
                if 0 < taken < units.shape[1]
                else units[:, :taken]
            )
            built[:, count + 1 : count + taken + 1] = base + np.cumsum(
                -np.sort(-top, axis=1), axis=1
            )
        built[:, count] = base[:, 0]
        return built

    def promising(self) -> list[tuple[int, int]]:
        """List the regions and counts that may improve, best first."""
        if not self.open.any():
            return []
        self._prepare()
        node, fewest, most = self.node, self.exchange_pattern.fewest, self.exchange_pattern.most
        left = node.left - self.counts
        self.margins = self._margins(np.minimum(self.counts, left))
        fits = (left <= self.counts * (most - self.used)) & (left >= fewest - self.used)
        allowed = np.tile(fits & ((left > 0) | (self.used >= fewest)), (len(self.places), 1))
        allowed[self.places <= node.after] &= self.counts < node.most
        if self.missing:
            allowed &= self._leaves_room(left)
        at = np.argwhere(allowed & (self.margins >= 0))
        order = np.argsort(-self.margins[at[:, 0], at[:, 1]], kind="stable")
        self.limits = self.bound.target.limits
        return [(int(self.places[i]), int(self.counts[j])) for i, j in at[order]]

    def _leaves_room(self, left: Indices) -> Array:
        """Return whether required regions can still follow; shape (places, counts)."""
        others = len(self.missing) - np.isin(self.places, self.missing)
        room: Array = (
            np.minimum(left, self.exchange_pattern.most - self.used)[None, :] >= others[:, None]
        )
        first = np.array(
            [
                min((p for p in self.missing if p != place), default=place + 1)
                for place in self.places.tolist()
            ]
        )
        return room & ((self.counts[None, :] > 1) | (first > self.places)[:, None])

    def still_open(self, place: int, count: int) -> bool:
        """Return whether a child is still open after the incumbent has improved."""
        if self.bound.target.limits != self.limits:
            self.limits = self.bound.target.limits
            self._prepare()
            self.margins = self._margins(np.minimum(self.counts, self.node.left - self.counts))
        return bool(self.margins[np.searchsorted(self.places, place), count - 1] >= 0)

    def own_bound_allows(self, place: int, count: int) -> bool:
        """Return whether a child's own bound, exact in pairs and links, stays open."""
        bound, node, exchange_pattern = self.bound, self.node, self.exchange_pattern
        left = node.left - count
        if left == 0:
            return True
        bound.target.tick()
        leaders = int(exchange_pattern.leaders(np.array(count)))
        leaders_left = int(exchange_pattern.leaders_left(np.array(left), self.used))
        toward = self.toward + leaders * bound.relaxation.pair_usd[place, self.places]
        pairs = self._toward_all(toward, max(0, leaders_left - leaders), leaders)
        # Now the region and its count are known, so its pairs and links are exact for this child.
        able = (self.places != place) & np.isfinite(pairs)
        further = int(exchange_pattern.regions_left(np.array(left), np.array(count), self.used))
        if able.sum() < further:
            return False
        own = int(np.searchsorted(self.places, place))
        rest = self._best(
            pairs, able, count, np.array([left]), [at for at in self.must if at != own]
        )[:, 0]
        if exchange_pattern.hub is None:
            usd = leaders * float(self.toward[own]) + leaders_left * float(pairs[able].min())
            egress = exchange_pattern.pair_bytes * (node.pairs_usd + usd)
            between = exchange_pattern.wan_s(self._child_wan(own, count, able, further))
        else:
            egress, between = float(self.hub_usd[own]), float(self.hub_s[own])
        seconds = max(node.own_s, float(exchange_pattern.own_s[place, count])) + between
        needed = bound.needed(
            bound.weights, np.full(1, seconds), np.full(1, egress + exchange_pattern.home_usd)
        )
        return bool(
            margin((self.base[:, own] + self.sums[:, own, count] + rest)[:, None], needed)[0] >= 0
        )

    def _child_wan(self, own: int, count: int, able: Array, further: int) -> float:
        """Return the slowest link of a child at least, in seconds per pair byte."""
        node, exchange_pattern, place = self.node, self.exchange_pattern, self.places[own]
        relaxation = self.bound.relaxation
        far = np.maximum(node.far[self.places], relaxation.wan_matrix[place, self.places])
        if further > 1:  # each of the rest is near the others too
            far = np.maximum(far, self.apart[:, further - 2])
        far = far[able]
        wan = max(
            node.wan, float(self.far[own]), float(np.partition(far, further - 1)[further - 1])
        )
        if not exchange_pattern.by_region:
            each, workers = relaxation.machine_wan, exchange_pattern.workers
            sent = (workers - node.left + count) * float(each[self.places[able]].min())
            wan = max(wan, sent, (workers - count) * float(each[place]))
        return wan
