"""Search of all-reduce placements: number of workers, then regions, then machines, each pruned by
its bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import pair_bytes
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.workers.pool import groups_of
from placer.solving import allowance

from .._market.arrays import Array, Indices, Mask
from .._market.grid import grid_of
from .._market.market import Market
from .._market.required_machines import best_of
from .._mode import Mode
from .._target import Target
from .bounds.exchange_pattern import ExchangePattern
from .bounds.relaxation import Family, Node, Relaxation, margin, near_rows, priced
from .search import Ranges
from .tree.fronts import TIGHT, units_at
from .tree.leaf import Leaf
from .tree.leaf_bound import LeafBound, Tree, interleave
from .tree.region_tree import RegionTree

FINE, ROUNDS = 8, 2
"""Prices of a dollar that are tried between the neighbours of the tightest ones, and how often."""
CENTRES = 6
"""Tightest prices around which a round looks, those of most leaves first."""
Prices = dict[tuple[int, int], Array]
"""Prices of a dollar by place and number of workers."""
FEW = 3
"""As many open leaves are searched as soon as bounded."""
MANY = 24
"""More leaves than these are bounded together for each class of hosts."""


def still_open(
    relaxation: Relaxation, places: Indices, workers: Indices, family: Family, open_: Mask
) -> tuple[Mask, Prices]:
    """Return which of the open places and numbers of workers stay open, and the tightest prices of
    a dollar of each where they were looked for; shape (places, workers).

    All of them at once: other leaves do the same, each by itself (`Fronts`).
    """
    market = relaxation.market
    if relaxation.problem.requirements.required_places:
        return open_, {}
    at, counts = np.flatnonzero(open_.any(axis=1)), np.flatnonzero(open_.any(axis=0))
    if open_.sum() <= FEW:
        return open_, {}
    cells = open_[np.ix_(at, counts)]
    weights = market.weights[near_rows(market.weights, relaxation.mode, relaxation.target)]
    weights = weights[priced(weights)]
    known, spare = np.zeros(0), np.zeros((0, *cells.shape))
    for _ in range(ROUNDS + 1):
        if len(weights) == 0:
            break
        needed = relaxation.thresholds_alone(places[at], workers[counts], family, weights)
        sums = np.stack([_sums(relaxation, int(p), family, weights) for p in places[at]], axis=1)
        sums = sums[:, :, workers[counts]]
        cells &= margin(sums, needed) >= 0
        known = np.concatenate([known, weights[:, 1]])
        spare = np.concatenate([spare, _spare(sums, needed, weights)])
        if cells.sum() <= FEW:
            known = known[:0]  # these few choose their own prices
            break
        left = cells.any(axis=1)  # a place that is closed is asked no more
        at, cells, spare = at[left], cells[left], spare[:, left]
        tightest = spare[:, cells].argmin(axis=0)
        finite = np.isfinite(spare[:, cells].min(axis=0))
        weights = _around(known, tightest[finite], market.weights.shape[1])
    built = np.zeros_like(open_)
    built[np.ix_(at, counts)] = cells
    prices: Prices = {}
    for k, i in np.argwhere(cells).tolist() if len(known) else ():
        order = np.argsort(spare[:, k, i], kind="stable")[:TIGHT]
        tight = known[order[np.isfinite(spare[order, k, i])]]
        if len(tight):
            prices[int(places[at[k]]), int(workers[counts[i]])] = tight
    return built, prices


def _sums(relaxation: Relaxation, place: int, family: Family, weights: Array) -> Array:
    """Return the best weighted sums of n machines of one place; shape (rows, most + 1)."""
    allowance.check()
    units = units_at(relaxation.market, place, family.hosts)
    values = relaxation.market.values_at(weights, units.pools)
    each, machines = units.increments(values, relaxation.most)
    if len(machines) and machines.min() >= relaxation.most:  # the best one each time
        return each.max(axis=1)[:, None] * np.arange(relaxation.most + 1)
    return best_of(each, relaxation.most, machines)


def _spare(sums: Array, needed: Array, weights: Array) -> Array:
    """Return what is to spare in each row in dollars an hour; infinite where a row says nothing."""
    with np.errstate(invalid="ignore"):
        spare = (sums - needed) / weights[:, 1, None, None]
    return np.where(np.isfinite(spare), spare, np.inf)


def _around(prices: Array, centres: Indices, columns: int) -> Array:
    """Return rows with prices of a dollar between the neighbours of some of the known ones."""
    ranked = np.array(sorted(set(prices.tolist())))
    often = np.bincount(np.searchsorted(ranked, prices[centres]), minlength=len(ranked))
    chosen = np.argsort(-often, kind="stable")[: min(CENTRES, int(np.count_nonzero(often)))]
    low = np.where(chosen > 0, ranked[chosen - 1], ranked[chosen] / 2)
    above = np.minimum(chosen + 1, len(ranked) - 1)
    high = np.where(chosen < len(ranked) - 1, ranked[above], 2 * ranked[chosen])
    shares = np.arange(1, FINE + 1) / (FINE + 1)
    fine = np.sort((low[:, None] * (high / low)[:, None] ** shares).ravel())
    built = np.zeros((len(fine), columns))
    built[:, 0], built[:, 1] = 1.0, fine
    return built


def _alone(place: int, workers: int = 1) -> Node:
    """Return the node of one region with so many workers."""
    return Node((place,), (), np.array([workers]), 0.0)


class ButterflySearch:
    """Branch and bound over all-reduce placements, in every step or every H steps."""

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        self.market, self.target, self.mode, self.problem = market, target, mode, market.problem
        self.ranges = Ranges.of(market, mode)
        self.first, self.most = self.ranges.fewest_workers, self.ranges.most_workers
        self.fewest_regions = self.ranges.fewest_regions
        self.relaxation = Relaxation(market, target, mode, self.first, self.most)

    def aim(self, target: Target) -> None:
        """Search for another target in the same market."""
        self.target = self.relaxation.target = target

    def turns(self) -> Iterator[None]:
        """Search all families of hosts; raises StoppedError if it is stopped."""
        if self.ranges.empty:
            return
        families = self.relaxation.families
        for family in families if self.fewest_regions <= 1 else ():
            if len(self._open(family)):
                self._offer_equal(family)
        for family in families:
            everywhere, alive = self.relaxation.places(family), self._open(family)
            if len(alive) and self.fewest_regions <= 1:
                yield from self._single_regions(everywhere, alive, family)
            if self.ranges.most_regions > 1:
                yield from self._several_regions(family)

    def _offer_equal(self, family: Family) -> None:
        """Offer equal machines of the three most promising pools of each row."""
        market = self.market
        node = Node((), self.relaxation.places(family), np.array([]), 0.0)
        pools = self.relaxation.pools(node, family)
        ranked = pools[np.argsort(-market.values[:, pools], axis=1, kind="stable")[:, :3]]
        self.target.check_time()
        for i in dict.fromkeys(ranked.ravel().tolist()):
            most, pool = min(int(market.cap[i]), self.most), market.pools[i]
            speed, usd = float(market.speed[i]) / self.mode.multiplier, pool.usd_per_hour
            for n in sorted({k for k in (2, 3, 4, 6, 8, most) if self.first <= k <= most}):
                if self.target.may_beat_best(n * speed, n * usd):  # as if exchanges were free
                    self._offer(groups_of([pool], [n]))

    def _open(self, family: Family) -> Indices:
        """List the worker counts at which some placement of a family may be an improvement."""
        workers = np.arange(self.first, self.most + 1)
        # Several regions have a pair, and no pair is faster than the fastest.
        wan = self.relaxation.fastest_pair if self.fewest_regions > 1 else 0.0
        return self.relaxation.alive(
            Node((), self.relaxation.places(family), workers, wan, self.fewest_regions), family
        )

    def may_improve(self) -> bool:
        """Return whether the bound of all placements together still allows an improvement."""
        self.target.check_time()
        if self.ranges.empty:
            return False
        opened = (family for family in self.relaxation.families if len(self._open(family)))
        if self.target.rough:
            return any(True for _ in opened)
        return any(self._alone_open(family) or self._promising(family) for family in opened)

    def _alone_open(self, family: Family) -> bool:
        """Return whether a placement within one region may be an improvement."""
        places = self.relaxation.places(family)
        if self.fewest_regions > 1 or not places:
            return False
        workers = np.arange(self.first, self.most + 1)
        return bool(np.any(self.relaxation.margins_alone(places, workers, family) >= 0))

    def _promising(self, family: Family) -> list[int]:
        """List numbers of workers over several regions, the most promising first."""
        margins = self._spread_margins(family) if self.ranges.most_regions > 1 else []
        left = sorted((pair for pair in margins if pair[1] >= 0), key=lambda pair: -pair[1])
        return [n for n, _ in left]

    def may_spread(self) -> bool:
        """Return whether the bound of placements over several regions allows an improvement."""
        return self.ranges.most_regions > 1 and any(
            margin >= 0
            for family in self.relaxation.families
            for _, margin in self._spread_margins(family)
        )

    def _offer(self, groups: tuple[WorkerGroup, ...]) -> None:
        workers = sum(group.count for group in groups)
        exchange = exchange_for(
            self.mode.strategy, workers, self.problem, local_steps=self.mode.local_steps
        )
        placement = Placement(groups=groups, exchange=exchange)
        if len(placement.places) in self.ranges.regions:
            self.target.offer(placement)

    def _single_regions(
        self, places: tuple[int, ...], alive: Indices, family: Family
    ) -> Iterator[None]:
        """Search every place and number of workers, the most promising first."""
        margins = self.relaxation.margins_alone(places, alive, family)
        at = np.array(places, dtype=np.intp)
        open_, prices = still_open(self.relaxation, at, alive, family, margins >= 0)
        scored: list[tuple[float, int, int, int]] = []
        near: list[tuple[Family, Prices]] = []
        there = [self.relaxation.parts_at(family, _alone(place)) for place in places]
        for number, part in enumerate(family.parts or (family,)):
            own, tight = open_ & np.array([part in parts for parts in there])[:, None], prices
            if part is not family and own.sum() > MANY:
                own, tight = still_open(self.relaxation, at, alive, part, own)
            near.append((part, tight))
            scored += [
                (-float(margins[k, i]), places[k], int(alive[i]), number)
                for k, i in np.argwhere(own).tolist()
            ]
        for _, place, n, number in sorted(scored):
            if not self.relaxation.awaited(np.array([n]), family)[0]:
                continue
            part, tight = near[number]
            leaf = self._leaf(part, _alone(place, n))
            leaf.prices = tight.get((place, n))
            self.target.tick()
            self.target.check_time()
            for groups in leaf.improvements([n]):
                if groups:
                    self._offer(groups)
                else:
                    yield
            yield

    def _several_regions(self, family: Family) -> Iterator[None]:
        """Search one tree for each number of workers, the most promising first."""
        workers = self._promising(family)
        # Short searches ask for no more machines than these; others have the grid for all modes.
        most = max(workers, default=self.most) if self.target.short else self.most
        yield from interleave(
            (partial(self._region_tree, n, most, family) for n in workers), self._offer
        )

    def _spread_margins(self, family: Family) -> list[tuple[int, float]]:
        """Return each number of workers with its margin over several regions."""
        fewest = max(2, self.fewest_regions)
        workers = np.arange(max(self.first, fewest), self.most + 1)
        node = Node(
            (), self.relaxation.places(family), workers, self.relaxation.fastest_pair, fewest
        )
        if len(node.joining) < fewest or len(workers) == 0:
            return []
        margins = self.relaxation.bound(node, family).margins(node.wan_s_per_pair_byte)
        margins[~self.relaxation.awaited(workers, family)] = -np.inf
        return list(zip(workers.tolist(), margins.tolist(), strict=True))

    def _region_tree(self, workers: int, most: int, family: Family) -> Tree:
        """Search placements of so many workers region by region."""
        grid = grid_of(self.market, family.hosts, most)
        exchange_pattern = self._exchange_pattern(workers, family)
        leaf = partial(self._leaf, family)
        return RegionTree(self.relaxation, grid, exchange_pattern, leaf).improvements()

    def _exchange_pattern(self, workers: int, family: Family) -> ExchangePattern:
        """Describe how all workers average with all others."""
        return ExchangePattern(
            workers=workers,
            fewest=max(2, self.fewest_regions),
            most=self.ranges.most_regions,
            by_region=False,
            pair_bytes=pair_bytes(self.problem.gradient_bytes, workers),
            own_s=np.full((len(self.market.places), workers + 1), family.averaging_s[workers]),
        )

    def _leaf(self, family: Family, node: Node) -> Leaf:
        return Leaf(LeafBound(self.relaxation, node, family))
