"""Search of placements whose regions synchronise inside and meet through one machine each: regions,
then machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from placer.problem.admitted_exchanges import exchanges_of
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE, Exchange, Placement, WorkerGroup

from .._market.arrays import Array, Indices
from .._market.grid import grid_of
from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .bounds.exchange_pattern import ExchangePattern
from .bounds.region_rounds import RegionRounds
from .bounds.relaxation import Family, Node, Relaxation, margin, near_rows
from .search import Ranges
from .tree.leaf import Leaf
from .tree.leaf_bound import RegionLeafBound, Tree, interleave
from .tree.region_tree import FewerRegions, RegionTree

if TYPE_CHECKING:
    from .gossip.paces import Paces


FEW_ROWS = 8
"""One of so many prices of a dollar is looked at first."""


class LeastRounds(Struct, frozen=True, dict=True):
    """Least seconds and egress by regions and workers; shape (rounds,)."""

    regions: list[int]
    workers: Indices
    seconds: Array
    usd: Array
    ends: Indices


class RegionSearch:
    """Branch and bound over placements whose regions meet through one machine each."""

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        self.market, self.target, self.mode, self.problem = market, target, mode, market.problem
        self.transport = traits(mode.strategy).transport
        self.ranges = Ranges.of(market, mode)
        self.first, self.most = self.ranges.fewest_workers, self.ranges.most_workers
        self.relaxation = Relaxation(market, target, mode, self.first, self.most)
        self.rounds = RegionRounds(self.relaxation)
        self._inside: dict[tuple[frozenset[str], int], Array] = {}
        self._limits: tuple[float, ...] = ()
        self._least: dict[frozenset[str], LeastRounds | None] = {}
        self._kept_margins: dict[tuple[int, frozenset[str]], Array] | None = None

    def aim(self, target: Target) -> None:
        """Search for another target in the same market."""
        self.target = self.relaxation.target = target

    def turns(self) -> Iterator[None]:
        """Search a tree for each family of hosts, number of regions and of workers."""
        if self.ranges.empty:
            return
        families = {family.hosts: family for family in self.relaxation.families}
        trees = [
            (-float(margins[at]), self._fewest(regions) + at, regions, families[hosts])
            for (regions, hosts), margins in self._margins().items()
            for at in np.flatnonzero(margins >= 0).tolist()
        ]
        # Only around a hub does the root of fewer regions bound more of them.
        most = self.ranges.most_regions if self.transport == "region-hub" else 0
        fewer = {
            hosts: FewerRegions(partial(self._region_tree, family), most)
            for hosts, family in families.items()
        }
        yield from interleave(
            [
                partial(self._tree, n, regions, family, fewer[family.hosts])
                for _, n, regions, family in sorted(trees, key=lambda tree: tree[:3])
            ],
            self._offer,
        )

    def _tree(self, workers: int, regions: int, family: Family, fewer: FewerRegions) -> Tree:
        """Search one number of workers over so many regions, unless it is closed."""
        self.target.tick()
        if workers not in self._open(regions, family):
            return iter(())
        return fewer.improvements(workers, regions)

    def _region_tree(self, family: Family, workers: int, regions: int, most: int) -> RegionTree:
        """Return the tree of so many workers over so many regions.

        Around a hub its root bounds up to ``most`` regions too: more of them pay more ways, to
        places that are no nearer, and fewer machines send at home.
        """
        return RegionTree(
            self.relaxation,
            grid_of(self.market, family.hosts, self.most),
            self._exchange_pattern(workers, regions, most, family),
            partial(self._leaf, family),
            self.paces(workers, regions, family),
        )

    def paces(self, workers: int, regions: int, family: Family) -> Paces | None:
        """Return what is known of how long regions wait for their sends; None: nothing."""
        return None

    def _leaf(self, family: Family, node: Node) -> Leaf:
        return Leaf(RegionLeafBound(self.rounds, node, family))

    def _exchange_pattern(
        self, workers: int, regions: int, most: int, family: Family
    ) -> ExchangePattern:
        """Describe how leaders average with each other, or through a hub among them."""
        counts, places = np.arange(workers + 1), self.relaxation.places(family)
        own = self._inside_s(regions, family)[:, : workers + 1]
        pairs, through_hub = self.rounds.leader_pairs, self.transport == "region-hub"
        seconds = pairs.least(places, regions)[0] if through_hub else 0.0
        if any(self.market.stay_share):
            own = own.copy()
            for place in filter(self.market.stay_share.__getitem__, places):
                waiting = self.rounds.waiting_s(place, counts, seconds, family)
                needed = self.relaxation.needed_speed(place, waiting)
                own[place, self.relaxation.most_speed(place, family, workers) < needed] = np.inf
        return ExchangePattern(
            workers=workers,
            fewest=regions,
            most=regions,
            by_region=True,
            pair_bytes=0.0 if through_hub else pairs.pair_bytes(regions),
            waits=self.transport == "leaders",
            own_s=own,
            home_usd=float(self.rounds.home_usd(np.array(places), workers - most)),
            hub=pairs.hub_ways(places) if through_hub else None,
        )

    def _inside_s(self, regions: int, family: Family) -> Array:
        """Return the least seconds inside each region with 0, 1, ... workers; shape (places,
        workers).
        """
        # Hubs have no average of leaders, so that the number of regions decides nothing.
        key = family.hosts, regions if self.transport == "leaders" else 0
        if key not in self._inside:
            built = np.full((len(self.market.places), self.most + 1), np.inf)
            counts = np.arange(self.most + 1)
            for place in self.relaxation.places(family):
                averaging = self.rounds.fastest_averaging((place,), family)[counts]
                built[place] = self.rounds.inside_s(counts, averaging, regions, family)
            self._inside[key] = built
        return self._inside[key]

    def may_improve(self) -> bool:
        """Return whether the bound of all placements together still allows an improvement."""
        if self.ranges.empty:
            return False
        return bool(self._margins())

    def _margins(self) -> dict[tuple[int, frozenset[str]], Array]:
        """Return the margins of all placements, for all numbers of regions at once; those that are
        all negative are left out.
        """
        self._forget_old_margins()
        if self._kept_margins is not None:
            return self._kept_margins
        built: dict[tuple[int, frozenset[str]], Array] = {}
        for family in self.relaxation.families:
            self.target.check_time()
            least = self._least_rounds(family)
            if least is None:
                continue
            margins = self._margins_of(family, least)
            if np.any(margins >= 0):
                parts = zip(least.regions, np.split(margins, least.ends), strict=True)
                built |= {(r, family.hosts): part for r, part in parts if np.any(part >= 0)}
        self._kept_margins = built  # of all families, or of none where the clock ends this
        return built

    def _margins_of(self, family: Family, least: LeastRounds) -> Array:
        """Return the margin of each number of regions and workers; shape (pairs,)."""
        market, places = self.market, self.relaxation.places(family)
        data = min(market.data_usd[p] for p in places)
        rows = near_rows(market.weights, self.mode, self.target)
        sums = market.best_sums.of(np.array(places, dtype=np.intp), family.hosts, self.most)
        margins, left = np.full(len(least.workers), -1.0), np.arange(len(least.workers))
        for some in (rows[::FEW_ROWS], rows):  # a few prices cut most pairs
            seconds, usd = least.seconds[left], least.usd[left]
            needed = self.target.thresholds(
                self.mode, market.weights[some], seconds, usd, data, np.zeros(len(left))
            )
            needed = np.where(np.isinf(seconds), np.inf, needed)
            reached = margin(sums[some][:, least.workers[left]], needed)
            margins[left] = reached
            left = left[reached >= 0]
        return margins

    def _least_rounds(self, family: Family) -> LeastRounds | None:
        """Return the least rounds of a family; None if it has too few places."""
        if family.hosts in self._least:
            return self._least[family.hosts]
        places = self.relaxation.places(family)
        averaging = self.rounds.fastest_averaging(places, family)
        at = np.array(places, dtype=np.intp)
        regions = [
            r for r in self.ranges.regions if r <= len(places) and self._fewest(r) <= self.most
        ]
        built = None
        if regions:
            between = []
            for r in regions:
                self.target.check_time()
                between.append(self.rounds.leader_pairs.least(places, r))
            counts = [np.arange(self._fewest(r), self.most + 1) for r in regions]
            each, workers = [len(count) for count in counts], np.concatenate(counts)
            used = np.repeat(regions, each)
            seconds, usd = np.repeat(np.array(between).T, each, axis=1)
            # Some region has at least the mean number of workers, rounded up.
            largest = -(-workers // used)
            seconds = self.rounds.inside_s(largest, averaging[largest], used, family) + seconds
            usd = usd + self.rounds.home_usd(at, workers - used)
            built = LeastRounds(regions, workers, seconds, usd, np.cumsum(each)[:-1])
        self._least[family.hosts] = built
        return built

    def _forget_old_margins(self) -> None:
        """Forget the margins of another target: they hold while an improvement needs the same."""
        limits = self.target.limits
        if limits != self._limits:
            self._limits, self._kept_margins = limits, None

    def _fewest(self, regions: int) -> int:
        """Return the fewest workers over so many regions."""
        return max(self.first, regions)

    def _open(self, regions: int, family: Family) -> Indices:
        """List the worker counts of possible improvements over so many regions."""
        margins = self._margins().get((regions, family.hosts), np.zeros(0))
        return np.flatnonzero(margins >= 0) + self._fewest(regions)

    def _offer(self, groups: tuple[WorkerGroup, ...]) -> None:
        """Offer groups with every hub that the mode allows."""
        first = Placement(
            groups=groups,
            exchange=Exchange(strategy=NO_EXCHANGE, compression=self.problem.compression),
        )
        counts = first.workers_by_place
        if len(counts) in self.ranges.regions:
            for exchange in exchanges_of(
                self.mode.strategy, self.mode.local_steps, self.problem, counts
            ):
                self.target.offer(Placement(groups=groups, exchange=exchange))
