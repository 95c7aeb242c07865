"""Search of placements around a hub: hub and number of workers, then machines, each pruned by its
bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from placer.problem.admitted_exchanges import exchanges_of
from placer.problem.placement import Placement
from placer.problem.workers.pool import groups_of

from .._market.arrays import Array, Indices, Mask
from .._market.market import Market
from .._mode import Mode
from .._target import Target
from .hubs.bounds import AdmittedMachines, HubBounds, HubScreen, could_improve
from .hubs.hub import Hub, Ways
from .hubs.machines import HubMachineTree
from .hubs.workers import HubRows, HubTable, HubWorkers
from .search import Ranges

FIRST_ROWS = 16
"""Rows that are searched together at first, twice as many each time until one improves."""


class HubSearch:
    """Branch and bound over placements whose workers send equal parts to a hub."""

    def __init__(self, market: Market, target: Target, mode: Mode) -> None:
        self.market, self.target, self.mode, self.problem = market, target, mode, market.problem
        self.ranges = Ranges.of(market, mode)
        self.most = self.ranges.most_workers
        self.counts = np.arange(self.ranges.fewest_workers, self.most + 1)
        self.workers = HubWorkers(market, mode, self.most)
        self.bounds, self.screen = HubBounds(self.workers), HubScreen(self.workers)
        self.places = self._places()

    @cached_property
    def hubs(self) -> list[Hub]:
        """Hubs at those places; most questions are answered without them."""
        meetings: dict[str | None, Ways] = {}
        return [Hub(self.market, self.mode, hub, meetings) for hub in self.places]

    @cached_property
    def table(self) -> HubTable:
        """Rows of all hubs."""
        return HubTable(self.hubs, self.most)

    def _places(self) -> list[tuple[str, str | None]]:
        """List where the hub may be: places of function and store, or of the server."""
        wanted = self.problem.requirements.aggregator
        if self.workers.ideal.transport == "server":
            return [
                (place, None) for place in (self.market.places if wanted is None else (wanted,))
            ]
        return list(self.problem.aggregator_places)

    def aim(self, target: Target) -> None:
        """Search for another target in the same market."""
        self.target = target

    def turns(self) -> Iterator[None]:
        """Search all hubs and numbers of workers; raises StoppedError if it is stopped."""
        if self.ranges.empty or not self.places:
            return
        counts = self.counts[self._open(HubRows.of(self.workers.ideal, self.counts))[0]]
        if not len(counts):
            return
        rows = self.table.each(counts[self._promising(self.table.best(counts))])
        opened, least = self._open(rows)
        order = np.lexsort((rows.hubs, rows.workers, least))
        rows, step = rows.at(order[opened[order]]), FIRST_ROWS
        while len(rows):
            self.target.check_time()
            some = rows.at(slice(min(step, self.workers.at_once)))
            done = self._search(some)
            yield
            # Rows are in best-bound order, so that an incumbent comes early and ends the rest.
            rows = rows.at(slice(done, None))
            step *= 2
            if done < len(some):  # a better incumbent rules out some of the rows that are left
                rows, step = rows.at(self._open(rows)[0]), FIRST_ROWS

    def may_improve(self) -> bool:
        """Return whether the bound of all placements together still allows an improvement."""
        self.target.check_time()
        if self.ranges.empty or not self.places:
            return False
        return bool(np.any(self._open(HubRows.of(self.workers.ideal, self.counts))[0]))

    def _open(self, rows: HubRows) -> tuple[Mask, Array]:
        """Return which rows could be an improvement, and their least rounds."""
        opened, least = self.bounds.open(self.target, rows)
        return opened & (
            self.workers.cleanest[rows.workers] <= self.target.max_carbon_g_per_hour
        ), least

    def _promising(self, rows: HubRows) -> Mask:
        """Return which rows could be an improvement with ideal links."""
        open_ = self._open(rows)[0]
        for some in np.array_split(
            np.flatnonzero(open_), np.arange(self.workers.at_once, len(rows), self.workers.at_once)
        ):
            open_[some] = self.screen.ideal_worth(self.target, rows.at(some))[0]
        return open_

    def _search(self, rows: HubRows) -> int:
        """Search rows until the incumbent improves; return how many are done."""
        limits = self.target.limits
        for done, admitted in self._worth(rows):
            self.target.check_time()
            self._machines(
                self.hubs[int(rows.hubs[done])],
                int(rows.workers[done]),
                float(rows.usd[done]),
                admitted,
            )
            if self.target.limits != limits:
                return done + 1
        return len(rows)

    def _worth(self, rows: HubRows) -> Iterator[tuple[int, AdmittedMachines]]:
        """Yield rows that may improve with their links, and the machines they may have."""
        kept, places = self.screen.ideal_worth(self.target, rows)
        left = np.flatnonzero(kept)
        if len(left):
            up, down = self._ways(rows.at(left), np.flatnonzero(places))
            pairs = zip(rows.hubs[left].tolist(), rows.workers[left].tolist(), strict=True)
            fixed = np.array([self.hubs[k].fixed_usd(n) for k, n in pairs])
            kept, admitted = self.screen.worth(self.target, rows.at(left), up, down, fixed)
            yield from ((int(left[at]), admitted.at(at)) for at in np.flatnonzero(kept).tolist())

    def _ways(self, rows: HubRows, places: Indices) -> tuple[Array, Array]:
        """Return the seconds to and from each row's hub; shapes (rows, places)."""
        hubs = [self.hubs[k] for k in rows.hubs.tolist()]
        up, down = (
            np.array(each) for each in zip(*(hub.ways(places) for hub in hubs), strict=True)
        )
        return np.where(np.array([hub.open_places for hub in hubs]), up, np.inf), down

    def _machines(self, hub: Hub, n: int, server_usd: float, admitted: AdmittedMachines) -> None:
        """Enumerate the machines of one hub and one n that may improve."""
        market, inside = self.market, np.flatnonzero(admitted.allowed)
        chosen, seconds = self.screen.by_price[inside], admitted.seconds[inside]
        chosen = chosen[np.lexsort((seconds, market.usd[chosen]))]
        worker_usd, region_usd = self._egress(hub, n, chosen)
        if not could_improve(
            self.target,
            self.mode,
            float(admitted.shortest),
            float(admitted.usd),
            n * float(worker_usd.min()) + hub.fixed_usd(n),
        ):
            return
        pools = [market.pools[i] for i in chosen]
        tree = HubMachineTree(
            self.workers,
            self.target,
            n=n,
            hub=hub,
            ranges=self.ranges,
            chosen=chosen,
            server_usd=server_usd,
            egress=(worker_usd, region_usd),
        )
        for counts in tree.run():
            groups = groups_of(pools, counts)
            at = {group.place: 0 for group in groups}
            for group in groups:
                at[group.place] += group.count
            if len(at) in self.ranges.regions:
                hubs = [(hub.aggregator, hub.storage)]
                for exchange in exchanges_of(self.mode.strategy, 1, self.problem, at, hubs):
                    self.target.offer(Placement(groups=groups, exchange=exchange))

    def _egress(self, hub: Hub, n: int, chosen: Indices) -> tuple[Array, Array]:
        """Return a worker's USD a round, data included, and its region's; shape (chosen,)."""
        places, at = np.unique(self.market.place_of[chosen], return_inverse=True)
        worker, region = hub.egress(places)
        data = self.problem.batch / n * self.market.data_usd_of[chosen]
        return worker[at] + data, region[at]
