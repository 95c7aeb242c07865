"""The pools as arrays, and the Lagrangian bound that every prune of `exact` uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placer.cost_model.convergence import batch_factor
from placer.cost_model.dollars import worker_sample_usd
from placer.market.carbon import offer_carbon
from placer.market.table import grouped
from placer.market.words.own_places import SITES
from placer.problem.datasets import needs_place
from placer.problem.kept_answers import Recent
from placer.problem.placement import MOST_WORKERS
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.problem.workers.pool import Pool
from placer.problem.workers.pools import Pools
from placer.records import replace
from placer.solving import allowance
from placer.units import SECONDS_PER_HOUR
from placer.workload.constants import HIVEMIND, NEAR_SITE_RTT_S

from .arrays import Array, Indices, Mask
from .best_sums import AT_ONCE, BestSums, bound_rows, place_sums
from .increments import Buckets
from .required_machines import RequiredMachines
from .shared_tables import network_property, shared_property, shared_tables

CHARGES = 4
"""Times that the largest speed is worked out with the price of data that the one before left."""
FINE_MULTIPLIERS = 8
"""Prices of a dollar near what the best machine makes of it, where the largest speed lies."""
TIGHTER = 0.98
"""Share of the largest speed below which another time is worth it."""
SHARES = 64
"""Times that the least share of calculation is worked out with what the one before charges."""
ROUNDING = 1e-9
"""A share of the time is taken to be less by this, for sums in floating point."""
KEPT_EXCHANGES = 512
"""Exchanges in one place that a market keeps, of some hundred bytes each."""
KEPT_ROUNDS = 8
"""Sets of places whose rounds a network keeps, of some 100 kB each."""
OF_WEIGHTS = ("weights", "values", "best_sums", "grids")
"""Tables that depend on the prices of a dollar at which the bound is evaluated."""


@dataclass(frozen=True)
class Market:
    """Admitted pools without dominated ones.

    A pool is dominated by a cheaper one with the same place, device, number of devices and market,
    unless either is limited in number: then both may be needed. ``moving_usd`` is what data adds to
    the price of one machine of each pool at least, in USD/h. ``multipliers`` are prices of a dollar
    in samples/s at which the bound is evaluated besides the usual ones.
    """

    problem: Problem
    pools: Pools
    moving_usd: tuple[float, ...] = ()
    multipliers: tuple[float, ...] = ()
    tables: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(problem: Problem) -> Market:
        """Build the market of a problem; questions alike but for limits share its tables."""
        tables = shared_tables(problem)
        if "pools" not in tables:
            tables["pools"] = Market.admitted(problem)
        return Market(problem, tables["pools"], tables=tables)

    @staticmethod
    def admitted(problem: Problem) -> Pools:
        """Keep the cheapest offer of each kind; the first of the book where prices tie. Data that
        stays keeps workers to its places.
        """
        wish, pools = problem.requirements, problem.pools
        place, names = pools.places
        if wish.datasets and not wish.data_moves:
            stays = {data.place for data in wish.datasets}
            there = np.array([name in stays for name in names], dtype=bool)[place]
            pools, place = pools.at(there), place[there]
        rows = [row for row in wish.quotas if row.of_machines]
        kind, count = pools.by_kind(lambda pool: _kind(pool, rows))
        limited = np.array([each.offer.available is not None for each in pools.kinds], dtype=bool)
        alone = limited[pools.kind_of].nonzero()[0]
        kind[alone] = count + np.arange(len(alone))  # each a kind of its own
        alike, first = grouped(kind * len(names) + place, (count + len(alone)) * len(names))
        if not wish.counts_carbon and not any(row.vcpus is not None for row in rows):
            return pools.at(pools.cheapest(alike, len(first)))
        # More vCPUs emit more, and take more of a quota of vCPUs.
        sizes = pools.offers.column("vcpus")
        of, count = (
            alike * len(sizes.values) + sizes.array[pools.rows],
            len(first) * len(sizes.values),
        )
        kept = {at: pools[at] for at in pools.cheapest(of, count).tolist()}
        least: dict[int, float] = {}
        for at in sorted(kept, key=pools.usd.__getitem__):
            size, smallest = kept[at].offer.vcpus, least.get(alike[at], np.inf)
            if size >= smallest:
                del kept[at]  # dearer, and emits or takes more
            least[alike[at]] = min(size, smallest)
        return pools.at(np.array([*kept], dtype=np.intp))

    @property
    def fewest_regions(self) -> int:
        """Regions that must be used at least: those wished for, and those that need a worker."""
        wish = self.problem.requirements
        return max(wish.min_regions, len(wish.required_places))

    @shared_property
    def speed(self) -> Array:
        """Samples/s of one machine in a group; shape (pools,)."""
        return self.pools.figures(lambda pool: pool.shared.value)

    @shared_property
    def alone(self) -> Array:
        """Samples/s that count of one machine that exchanges nothing; shape (pools,)."""
        return self.pools.figures(lambda pool: pool.alone.value) / batch_factor(self.problem)

    @shared_property
    def usd(self) -> Array:
        """Least USD/h of one machine, with the data that moves to it; shape (pools,)."""
        offers = self.pools.usd
        return offers + np.array(self.moving_usd) if self.moving_usd else offers

    @shared_property
    def carbon(self) -> Array:
        """Emissions of one machine in g CO2e/h, 0 if not counted; shape (pools,)."""
        if not self.problem.requirements.counts_carbon:
            return np.zeros(len(self.pools))
        emissions = [
            (pool.machines, offer_carbon(pool.offer, self.problem.catalog)) for pool in self.pools
        ]
        return np.array([np.inf if each is None else n * each.value for n, each in emissions])

    @shared_property
    def joint(self) -> Array:
        """Devices or machines that one worker takes of each joint limit; shape (limits, pools)."""
        rows = self.problem.joint_limits
        taken = [[row.taken(pool) for pool in self.pools] for row in rows]
        return np.array(taken, dtype=np.float64).reshape(len(rows), len(self.pools))

    @shared_property
    def limited(self) -> Array:
        """Return what one worker takes of each limited sum, emissions and joint limits; less than
        nothing of the machines that must be used; shape (sums, pools).
        """
        carbon = [self.carbon] if self.problem.requirements.counts_carbon else []
        machines = self.pools.figures(lambda pool: pool.machines)
        required = [rule.owns * -machines for rule in self.required_machines.rules]
        return np.vstack([*carbon, self.joint, *required])

    @shared_property
    def cap(self) -> Array:
        """Most machines of each pool; shape (pools,)."""
        most = self.problem.requirements.max_workers
        return self.pools.figures(lambda pool: min(pool.max_count, most))

    @shared_property
    def places(self) -> tuple[str, ...]:
        """Places that have a pool, sorted."""
        return tuple(sorted(self.pools.places[1]))

    @shared_property
    def place_of(self) -> Indices:
        """Index into `places` of each pool; shape (pools,)."""
        of, names = self.pools.places
        index = {place: i for i, place in enumerate(self.places)}
        return np.array([index[name] for name in names], dtype=np.intp)[of]

    @shared_property
    def host_of(self) -> tuple[str, ...]:
        """Averaging class of each pool's host."""
        hosts = [kind.host for kind in self.pools.kinds]
        return tuple(map(hosts.__getitem__, self.pools.kind_of.tolist()))

    @shared_property
    def hosts(self) -> frozenset[str]:
        """Averaging classes of all hosts."""
        return frozenset(kind.host for kind in self.pools.kinds)

    @shared_property
    def hosts_at(self) -> tuple[frozenset[str], ...]:
        """Averaging classes of the hosts of each place, in the order of `places`."""
        hosts_of: list[set[str]] = [set() for _ in self.places]
        names = [*self._classes]
        for place, number in {*zip(self.place_of.tolist(), self.class_of.tolist(), strict=True)}:
            hosts_of[place].add(names[number])
        return tuple(frozenset(hosts) for hosts in hosts_of)

    @network_property
    def data_usd(self) -> tuple[float, ...]:
        """Least price of reading one sample at each place, unless it moves."""
        least = np.full(len(self.places), np.inf)
        np.minimum.at(least, self.place_of, self.data_usd_of)
        return tuple(least.tolist())

    @network_property
    def data_usd_of(self) -> Array:
        """Price of the way of one sample to a worker of each pool; shape (pools,). Where the prices
        of machines hold what a way costs above the cheapest, that is left out here.
        """
        ways = self._ways_usd
        paid = self.moving_usd and np.any(self._dearer_ways_usd)
        return np.full(len(ways), ways.min(initial=np.inf)) if paid else ways

    def way_usd(self, places: Sequence[int]) -> float | None:
        """Return the price of the way of one sample if all workers of some places pay the same and
        none of them waits for what the others read; else None.
        """
        problem = self.problem
        if problem.data_store is None:
            return 0.0
        ways = self._ways_usd[np.isin(self.place_of, places)]
        shared = problem.most_loaded_samples_per_s < np.inf or any(
            problem.line_samples_per_s(self.places[place]) < np.inf for place in places
        )
        return None if shared or np.ptp(ways) > 0 else float(ways[0])

    @network_property
    def _ways_usd(self) -> Array:
        """Price of the way of one sample to a worker of each pool; shape (pools,)."""
        if self.problem.data_store is None:
            return np.zeros(len(self.pools))
        return np.array([worker_sample_usd(pool, self.problem) for pool in self.pools])

    @property
    def charges_data(self) -> bool:
        """Whether `with_data` puts anything into the prices of machines."""
        return bool(np.any(self._moved_usd) or np.any(self._dearer_ways_usd))

    def with_data(
        self, samples_per_second: float, usd_per_hour: float, usd_per_sample: float = np.inf
    ) -> Market:
        """Put the price of data that must move, or that comes a dearer way than other data, into
        the prices of the machines that it goes to.

        ``samples_per_second``, ``usd_per_hour``, ``usd_per_sample``: what passes through the
        workers at least, what all machines cost at most, and what one sample that passes through
        them costs at most. A machine does the share v / V of all samples, and V is at most the
        largest speed that the limit pays for: the smallest over the multipliers of (best sum of v -
        lambda c) + lambda USD/h. With these prices the limit pays for less, so the step is done
        again.
        """
        dear = self._least_share(usd_per_sample)
        if not self.charges_data or max(samples_per_second, dear) <= 0:
            return self
        paid, most = self, np.inf
        for _ in range(CHARGES):
            reached = paid._most_speed(usd_per_hour)
            if reached > min(TIGHTER * most, self.problem.most_loaded_samples_per_s):
                break
            most = reached
            # The largest speed that the limit pays for errs high, so the share of a machine, and
            # with it the price of its data, errs low.
            moving = max(samples_per_second / most, dear) * self._full_data_usd
            paid = replace(self, moving_usd=tuple(moving.tolist()), tables={})
            dearest = float((paid.speed / np.maximum(paid.usd, 1e-6)).max())
            paid = paid.with_multipliers(dearest * np.geomspace(0.5, 1.02, FINE_MULTIPLIERS))
        return paid

    @property
    def _full_data_usd(self) -> Array:
        """USD/h of each machine's data above the cheapest way; shape (pools,)."""
        each = self._moved_usd[self.place_of] + self._dearer_ways_usd
        return SECONDS_PER_HOUR * self.speed * each

    def _least_share(self, usd_per_sample: float) -> float:
        """Return the least share of their time in which workers calculate, so that a sample costs
        no more than a limit.

        With a share k of the time, machines for C USD/h of V samples/s pay C + k E an hour for
        themselves and their data, and pass k V samples/s: k is at least (C + k E) / V over what a
        sample may cost beside the cheapest way, and the best machine has the least such ratio. The
        share on the right errs low, so each time gives a larger one.
        """
        worth = SECONDS_PER_HOUR * (usd_per_sample - self._ways_usd.min(initial=np.inf))
        if not 0 < worth < np.inf:
            return 0.0
        usd, full, share = self.usd, self._full_data_usd, 0.0
        for _ in range(SHARES):
            least = float(((usd + share * full) / (self.speed * worth)).min(initial=1.0))
            if least <= share / TIGHTER**0.1:
                break
            share = least
        return share * (1 - ROUNDING)

    def without_ways(self) -> Market:
        """Return the market for strategies whose workers get equal parts of a step: there a fast
        worker does less than its share of the speed, so ways of data are charged by the cheapest.
        """
        if not self.moving_usd or not np.any(self._dearer_ways_usd):
            return self
        return replace(self, moving_usd=(), tables={})

    def _most_speed(self, usd_per_hour: float) -> float:
        """Return the largest speed that a price per hour pays for, erring high."""
        everywhere = self.best_sums.of(
            np.arange(len(self.places)), self.hosts, int(min(self.cap.sum(), MOST_WORKERS))
        )
        rows = (self.weights[:, 0] > 0) & ~np.any(self.weights[:, 2:] > 0, axis=1)
        price, reached = self.weights[rows, 1], everywhere[rows].max(axis=1)
        limits = (
            np.where(price > 0, reached + price * usd_per_hour, reached)
            if usd_per_hour < np.inf
            else reached[price == 0]
        )
        return float(limits.min())

    def with_multipliers(self, multipliers: Iterable[float]) -> Market:
        """Evaluate the bound at some prices of a dollar too."""
        own = tuple(sorted({*self.multipliers, *multipliers}))
        if own == self.multipliers:
            return self
        same = {name: table for name, table in self.tables.items() if name not in OF_WEIGHTS}
        return replace(self, multipliers=own, tables=same)

    @network_property
    def _moved_usd(self) -> Array:
        """Least price of a sample that moves to each place; shape (places,)."""
        wish, network = self.problem.requirements, self.problem.network
        if not wish.datasets or needs_place(wish.datasets):
            return np.zeros(len(self.places))
        homes = {data.place for data in wish.datasets}
        size = self.problem.profile.bytes_per_sample or 0
        return np.array(
            [
                0.0
                if p in homes
                # From the cheapest home: where the samples really lie may only be dearer.
                else min(network.usd_per_byte(h, p) for h in homes) * size / wish.passes
                for p in self.places
            ]
        )

    @network_property
    def _dearer_ways_usd(self) -> Array:
        """Price of the way of one sample to each pool above that of the cheapest way; shape
        (pools,). Zero at sites whose line the workers share: there a machine may do less than its
        share of the speed.
        """
        problem = self.problem
        if problem.data_store is None:
            return np.zeros(len(self.pools))
        ways = self._ways_usd
        alone = [problem.line_samples_per_s(place) == np.inf for place in self.places]
        return np.where(np.array(alone)[self.place_of], ways - ways.min(initial=np.inf), 0.0)

    @network_property
    def least_rounds(self) -> dict[object, tuple[float, float]]:
        """Least seconds and egress of rounds between regions, by all that they depend on; kept with
        the network, whatever machines cost, where these do not decide how many send side by side.
        """
        problem = self.problem
        if problem.lanes > 1:
            return {}
        key = (
            *(self.places, problem.requirements.same_zone),
            *(problem.transport, id(problem.calibration)),
        )
        held: Recent[tuple[dict[object, tuple[float, float]], object]]
        held = problem.network.memo.setdefault("least rounds", Recent(KEPT_ROUNDS))
        # While the calibration is held, its id is its own.
        return held.get(key, lambda: ({}, problem.calibration))[0]

    @network_property
    def exchanges(self) -> Recent[Any]:
        """Exchanges of equal machines in one place, by all that they depend on."""
        return Recent(KEPT_EXCHANGES)

    @shared_property
    def kept(self) -> dict[object, Any]:
        """Answers that searches work out of the machines alone, by all that they depend on."""
        return {}

    @shared_property
    def stay_share(self) -> Array:
        """Share of every step that the data at each place makes its workers do; shape (places,)."""
        datasets = self.problem.requirements.datasets
        total = sum(data.samples for data in datasets)
        stay = [
            sum(data.samples for data in datasets if data.place == place and not data.may_move)
            for place in self.places
        ]
        return np.array(stay) / max(1, total)

    @shared_property
    def room(self) -> Array:
        """Machines that the caps of each place allow; shape (places,)."""
        return np.bincount(self.place_of, weights=self.cap, minlength=len(self.places))

    @shared_property
    def weights(self) -> Array:
        """Rows (alpha, beta, gamma) of the bound, see `bound_rows`; the last is (0, 1, 0)."""
        return bound_rows(self.speed, self.usd, self.limited, self.multipliers)

    @shared_property
    def values(self) -> Array:
        """Alpha v - beta c - gamma g of each row and pool; shape (rows, pools)."""
        return self.values_at(self.weights)

    def values_at(self, weights: Array, pools: Indices | None = None) -> Array:
        """Return alpha v - beta c - gamma g of other rows; shape (rows, pools)."""
        every = slice(None) if pools is None else pools
        allowance.reserve(3 * 8 * len(weights) * len(self.speed[every]))
        return (
            weights[:, :1] * self.speed[every]
            - weights[:, 1:2] * self.usd[every]
            - weights[:, 2:] @ self.limited[:, every]
        )

    @shared_property
    def _buckets(self) -> Buckets:
        return Buckets(self.pools, self.cap, self.class_of, self.problem.requirements.max_workers)

    @shared_property
    def step_owners(self) -> Indices:
        """First pool of each step's bucket; shape (steps,)."""
        return self._buckets.owners

    @shared_property
    def step_machines(self) -> Indices:
        """Machines that each step of `increments_at` stands for; shape (steps,)."""
        return self._buckets.machines

    def increments_at(self, weights: Array) -> Array:
        """Return the increments of every bucket for some rows; shape (rows, steps)."""
        return self._buckets.increments(self.values_at(weights))

    def place_sums(self, weights: Array, hosts: frozenset[str], most: int) -> Array:
        """Return the largest sums of n machines of each place with some hosts, for some rows; shape
        (rows, places, most + 1); minus infinity where quotas do not allow n.
        """
        inside, places = self.of_hosts(hosts), len(self.places)
        machines, place = self.step_machines[inside], self.place_of[self.step_owners[inside]]
        allowance.reserve(2 * 8 * len(weights) * places * (most + 1))
        built = np.empty((len(weights), places, most + 1))
        step = max(1, AT_ONCE // (places * (most + 1)))
        for some in (slice(first, first + step) for first in range(0, len(weights), step)):
            values = self.increments_at(weights[some])[:, inside]
            built[some] = place_sums(values, machines, place, places, most)
        return built

    @network_property
    def prices(self) -> Array:
        """Egress price in USD per byte between the places; shape (places, places)."""
        return self.problem.network.prices(
            self.places, same_zone=self.problem.requirements.same_zone
        )

    @network_property
    def both_ways(self) -> Array:
        """Egress price of a byte each way, 0 at home; shape (places, places)."""
        built: Array = self.prices + self.prices.T
        np.fill_diagonal(built, 0.0)
        return built

    def line_factors(self, peers: int = 2) -> Array:
        """Return `Calibration.line_factor` of every link; shape (places, places)."""
        fitted, software = self.problem.calibration, self.problem.transport
        own = np.array([place.startswith(SITES) for place in self.places])
        if software != HIVEMIND or not own.any():
            return np.full((len(own), len(own)), fitted.line_factor(software, "", "", rtt_s=0.0))
        plain, near, far = (
            fitted.line_factor(software, kind, kind, rtt_s=rtt_s, peers=peers)
            for kind, rtt_s in (("", 0.0), (SITES, 0.0), (SITES, np.inf))
        )
        away = self.problem.network.rtts_s(self.places) > NEAR_SITE_RTT_S
        return np.where(own[:, None] | own, np.where(away, far, near), plain)

    def pools_of_hosts(self, hosts: frozenset[str]) -> Mask:
        """Return which pools have hosts of some classes; shape (pools,)."""
        return self.of_classes(dict.fromkeys(hosts, 1)) > 0

    def of_classes(self, figures: Mapping[str, int]) -> Indices:
        """Return the figure of each pool's class of hosts, else 0; shape (pools,)."""
        table = np.zeros(len(self._classes), dtype=np.intp)
        table[[self._classes[host] for host in figures]] = [*figures.values()]
        built: Indices = table[self.class_of]
        return built

    @shared_property
    def _classes(self) -> dict[str, int]:
        """Give each class of averaging time a number."""
        return {host: number for number, host in enumerate(sorted(self.hosts))}

    @shared_property
    def class_of(self) -> Indices:
        """Return the number of each pool's class; shape (pools,)."""
        return self.pools.figures(lambda pool: self._classes[pool.host]).astype(np.intp)

    def family_places(self, hosts: frozenset[str]) -> tuple[int, ...]:
        """List the places with a pool whose host is of some classes, sorted."""
        if hosts not in self._family_places:
            there = np.bincount(self.place_of[self.pools_of_hosts(hosts)])
            self._family_places[hosts] = tuple(np.flatnonzero(there).tolist())
        return self._family_places[hosts]

    @shared_property
    def _family_places(self) -> dict[frozenset[str], tuple[int, ...]]:
        return {}

    @shared_property
    def required_machines(self) -> RequiredMachines:
        """Machines that must be used."""
        return RequiredMachines.of(self.problem.requirements.used, self.pools)

    @shared_property
    def best_sums(self) -> BestSums:
        """Largest sums of machines at some places, in each row of `weights`."""
        owner = self.step_owners
        return BestSums(
            self.increments_at(self.weights),
            self.step_machines,
            owner,
            self.place_of[owner],
            self.of_hosts,
            len(self.places),
        )

    def of_hosts(self, hosts: frozenset[str]) -> Mask:
        """Return which steps are of pools with hosts of some classes; shape (steps,)."""
        mask = self._host_masks.get(hosts)
        if mask is None:
            mask = self._host_masks[hosts] = self.pools_of_hosts(hosts)[self.step_owners]
        return mask

    @shared_property
    def _host_masks(self) -> dict[frozenset[str], Mask]:
        return {}


def _kind(pool: Pool, rows: Iterable[Quota]) -> tuple[object, ...]:
    """Return all but place and price that tells a worker from others, with the quotas of machines
    that count it.
    """
    offer = pool.offer
    # How it reads its first pass decides what a store gives to all of them.
    reads = pool.loader and (
        pool.streamed,
        pool.first(pool.alone.value),
        pool.first(pool.shared.value),
    )
    return (
        offer.gpu,
        offer.gpu_count,
        offer.market,
        pool.machines,
        pool.inner,
        pool.host,
        # The network between the machines of an island decides its speed.
        pool.alone.value,
        pool.shared.value,
        reads,
        tuple([row.counts(offer) for row in rows]),
    )
