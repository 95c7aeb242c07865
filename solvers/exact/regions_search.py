"""Search of placements whose regions synchronise inside and meet through one machine each: regions,
then machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from msgspec import Struct

from placer.problem.admitted_exchanges import exchanges_of
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE, Exchange, Placement, WorkerGroup
from placer.units import SECONDS_PER_HOUR

from .._market.arrays import Array, Indices
from .._market.grid import grid_of
from .._market.market import Market
from .._market.required_machines import with_required_places
from .._mode import Mode
from .._target import Target
from .bounds.exchange_pattern import ExchangePattern
from .bounds.hierarchical_rounds import RegionRounds
from .bounds.relaxation import Family, Node, Relaxation, margin, near_rows
from .leaves.interleaving import Tree, interleave
from .leaves.leaf import Leaf
from .leaves.region_leaf_bound import RegionLeafBound
from .search import Ranges
from .tree.region_tree import RegionTree


class LeastRounds(Struct, frozen=True, dict=True):
    """Least seconds and egress of a round for each number of regions and of workers; shapes
    (rounds,), and where the next number of regions begins.
    """

    regions: list[int]
    workers: Indices
    seconds: Array
    usd: Array
    ends: Indices


class RegionSearch:
    """Branch and bound over sets of R regions, for each R.

    Parameters
    ----------
    market
        Pools that may be used.
    target
        Incumbent and limits; improved in place.
    mode
        Hierarchical all-reduce, or servers of regions that exchange every H steps.
    """

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        self.market, self.target, self.mode, self.problem = market, target, mode, market.problem
        self.transport = traits(mode.strategy).transport
        self.ranges = Ranges.of(market, mode)
        self.first, self.most = self.ranges.fewest_workers, self.ranges.most_workers
        self.relaxation = Relaxation(market, target, mode, self.first, self.most)
        self.rounds = RegionRounds(self.relaxation)
        self._limits: tuple[float, ...] = ()
        self._least: dict[frozenset[str], LeastRounds | None] = {}
        self._roots: dict[tuple[int, frozenset[str]], Array] = {}
        self._rough_margins: dict[tuple[int, frozenset[str]], Array] = {}

    def aim(self, target: Target) -> None:
        """Search for another target in the same market."""
        self.target = self.relaxation.target = target

    def turns(self) -> Iterator[None]:
        """Search all numbers of regions; raises StoppedError if it is stopped."""
        if self.ranges.empty:
            return
        families = self.relaxation.families
        self._fill_rough_margins(families)
        open_ = [
            family
            for family in families
            if any(len(self._open(r, family)) for r in self.ranges.regions)
        ]
        if self.transport != "region-hub":
            yield from self._by_workers(open_)
            return
        for family in open_:
            for regions in self.ranges.regions:
                alive = self._open(regions, family)
                if len(alive):
                    places = self.relaxation.places(family)
                    yield from self._grow((), places, alive, regions, family)

    def _by_workers(self, families: list[Family]) -> Iterator[None]:
        """Search one tree for each family of hosts, number of regions and number of workers."""
        frames = []
        for family in families:
            for regions in self.ranges.regions:
                margins = self._root_margins(regions, family)
                frames += [
                    (-float(margins[at]), self._fewest(regions) + at, regions, family)
                    for at in np.flatnonzero(margins >= 0).tolist()
                ]
        yield from interleave(
            [
                partial(self._tree, n, regions, family)
                for _, n, regions, family in sorted(frames, key=lambda frame: frame[:3])
            ],
            self._offer,
        )

    def _tree(self, workers: int, regions: int, family: Family) -> Tree:
        """Search the placements of one number of workers over so many regions; none if they have
        been ruled out meanwhile.
        """
        self.target.tick()
        if workers not in self._open(regions, family):
            return iter(())
        grid = grid_of(self.market, family.hosts, self.most)
        return RegionTree(
            self.relaxation,
            grid,
            self._exchange_pattern(workers, regions, family),
            partial(self._leaf, family),
        ).improvements()

    def _leaf(self, family: Family, node: Node) -> Leaf:
        return Leaf(RegionLeafBound(self.rounds, node, family))

    def _exchange_pattern(self, workers: int, regions: int, family: Family) -> ExchangePattern:
        """Describe how leaders average with each other after the workers of each region have, and
        before these get the result.
        """
        counts = np.arange(workers + 1)
        own = np.full((len(self.market.places), workers + 1), np.inf)
        for place in self.relaxation.places(family):
            own[place] = self.rounds.inside_s(
                counts, self.rounds.fastest_averaging((place,), family)[counts], regions, family
            )
        return ExchangePattern(
            workers=workers,
            fewest=regions,
            most=regions,
            by_region=True,
            pair_bytes=self.rounds.leader_pairs.pair_bytes(regions),
            waits=self.transport == "leaders",
            own_s=own,
            home_usd=float(
                self.rounds.home_usd(np.array(self.relaxation.places(family)), workers - regions)
            ),
        )

    def may_improve(self) -> bool:
        """Return whether the bound of all placements together still allows an improvement."""
        return self._may_improve(1)

    def may_spread(self) -> bool:
        """Return whether that bound allows an improvement over several regions."""
        return self._may_improve(2)

    def _may_improve(self, fewest: int) -> bool:
        if self.ranges.empty:
            return False
        self._fill_rough_margins(self.relaxation.families)
        if self.target.rough and self._rough_margins:
            rough = self._rough_margins.items()
            return any(np.any(margins >= 0) for (r, _), margins in rough if r >= fewest)
        return any(
            len(self._open(r, family)) > 0
            for family in self.relaxation.families
            for r in self.ranges.regions
            if r >= fewest
        )

    def _fill_rough_margins(self, families: list[Family]) -> None:
        """Work out `_margins` of all placements for all numbers of regions at once: what the root
        asks for one by one.
        """
        self._forget_old_margins()
        if self.problem.requirements.required_places or self._roots or self._rough_margins:
            return
        built: dict[tuple[int, frozenset[str]], Array] = {}
        for family in families:
            self.target.check_time()
            least = self._least_rounds(family)
            if least is None:
                continue
            places = self.relaxation.places(family)
            data, weights = min(self.market.data_usd[p] for p in places), self.market.weights
            rows = near_rows(weights, self.mode, self.target)
            needed = self.target.thresholds(
                self.mode,
                weights[rows],
                least.seconds,
                least.usd,
                data,
                np.zeros(len(least.workers)),
            )
            needed = np.where(np.isinf(least.seconds), np.inf, needed)
            at = np.array(places, dtype=np.intp)
            sums = self.market.total_sums(at, family.hosts, self.most)[rows][:, least.workers]
            parts = np.split(margin(sums, needed), least.ends)
            built |= {(r, family.hosts): part for r, part in zip(least.regions, parts, strict=True)}
        self._rough_margins = built  # of all families, or of none where the clock ends this

    def _least_rounds(self, family: Family) -> LeastRounds | None:
        """Return the least rounds of all placements of a family of hosts, which depend on no
        target; None if it has too few places.
        """
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
                between.append(self.rounds.leader_pairs.least((), places, r))
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
            self._limits, self._roots, self._rough_margins = limits, {}, {}

    def _fewest(self, regions: int) -> int:
        """Return the fewest workers over so many regions."""
        return max(self.first, regions)

    def _open(self, regions: int, family: Family) -> Indices:
        """List the worker counts at which some placement over so many regions may be an
        improvement.
        """
        return np.flatnonzero(self._root_margins(regions, family) >= 0) + self._fewest(regions)

    def _root_margins(self, regions: int, family: Family) -> Array:
        """Return the margins over an improvement of all placements over so many regions, for each
        number of workers from the fewest on; empty where there are none.
        """
        self._forget_old_margins()
        key = regions, family.hosts
        if key not in self._roots:
            self._roots[key] = self._compute_root_margins(regions, family)
        return self._roots[key]

    def _compute_root_margins(self, regions: int, family: Family) -> Array:
        places = self.relaxation.places(family)
        if len(places) < regions or self._fewest(regions) > self.most:
            return np.zeros(0)
        margins = self._rough_margins.get((regions, family.hosts))
        workers = np.arange(self._fewest(regions), self.most + 1)
        if margins is None:
            margins = self._margins((), places, workers, regions, family)
        open_ = margins >= 0
        if not np.any(open_):
            return margins
        if self.transport != "region-hub":
            return np.where(open_, self._fixed_margins(places, workers, regions, family), margins)
        return margins

    def _fixed_margins(
        self, places: tuple[int, ...], workers: Indices, regions: int, family: Family
    ) -> Array:
        """Return the margins of all placements over exactly so many regions, where each pays for
        its leader's pairs; shape (workers,).
        """
        grid, at = grid_of(self.market, family.hosts, self.most), np.array(places, dtype=np.intp)
        pair = self.rounds.leader_pairs.pair_bytes(regions)
        slowest, pairs = self.rounds.leader_pairs.nearest(places, regions)
        rounds_per_hour = (
            SECONDS_PER_HOUR * self.mode.multiplier / self.mode.samples * self.target.min_speed
        )
        # What the pairs of a region's leader cost above the cheapest region's, at the least number
        # of rounds per hour; the common part is in `egress` below.
        charge = grid.weights[:, 1:2] * rounds_per_hour * pair * (pairs - pairs.min())
        rows = np.arange(len(grid.weights))
        must = np.flatnonzero(np.isin(at, list(grid.least)))
        reached = grid.conjugates.best(
            rows, at, regions, self.most - regions + 1, workers, charge, must
        )
        averaging = self.rounds.fastest_averaging(places, family)[-(-workers // regions)]
        waiting = slowest * pair if self.transport == "leaders" else 0.0
        seconds = self.rounds.inside_s(-(-workers // regions), averaging, regions, family) + waiting
        egress = regions * float(pairs.min()) * pair + self.rounds.home_usd(at, workers - regions)
        data, zero = min(self.market.data_usd[p] for p in places), np.zeros(len(workers))
        return margin(
            reached, self.target.thresholds(self.mode, grid.weights, seconds, egress, data, zero)
        )

    def _grow(
        self,
        used: tuple[int, ...],
        joining: tuple[int, ...],
        workers: Indices,
        regions: int,
        family: Family,
    ) -> Iterator[None]:
        """Add regions one by one; a set whose superset bound cannot improve is cut."""
        for at, place in enumerate(joining):
            self.target.tick()
            self.target.check_time()
            now = (*used, place)
            rest = joining[at + 1 :] if len(now) < regions else ()
            if len(now) + len(rest) < regions:
                return
            alive = workers[self._margins(now, rest, workers, regions, family) >= 0]
            yield
            if len(alive) == 0:
                continue
            if len(now) < regions:
                yield from self._grow(now, rest, alive, regions, family)
                continue
            for n in alive:
                node = Node(now, (), np.array([n]), 0.0)
                for groups in self._leaf(family, node).improvements():
                    if groups:
                        self._offer(groups)
                    else:
                        yield

    def _margins(
        self,
        used: tuple[int, ...],
        joining: tuple[int, ...],
        workers: Indices,
        regions: int,
        family: Family,
    ) -> Array:
        """Return the margins over an improvement for each worker count; negative is cut."""
        settled = with_required_places(
            self.problem.requirements.required_places, self.market.places, used, joining
        )
        if settled is None or len(settled[0]) > regions:
            return np.full(len(workers), -np.inf)
        used, joining = settled
        places = np.array((*used, *joining), dtype=np.intp)
        # No more machines than are asked for: each set of places is new, so nothing is kept.
        most = int(workers.max(initial=0))
        sums = self.market.total_sums(places, family.hosts, most)[:, workers]
        largest = -(-workers // regions)
        # Averages grow with the workers, so the least largest region bounds the longest average.
        averaging = self.rounds.fastest_averaging(tuple(sorted((*used, *joining))), family)[largest]
        return margin(
            sums,
            self.rounds.thresholds(used, joining, workers, largest, averaging, regions, family),
        )

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
