"""The relaxation of a node: best weighted sums of its machines, least seconds and least egress."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.cost_model.limits import TOLERANCE
from placer.cost_model.timing.transfers import averaging_seconds
from placer.market.words.own_places import SITES
from placer.problem.exchange import pair_bytes
from placer.problem.kept_answers import Recent
from placer.records import replace
from placer.solving import allowance
from placer.units import SECONDS_PER_HOUR
from placer.workload.constants import HIVEMIND

from ..._market.arrays import Array, Indices, Mask
from ..._market.market import Market
from ..._market.required_machines import with_required_places
from ..._mode import Mode
from ..._target import Target
from .exchange_pattern import Partners

SLACK = 1e-9
"""Relative slack of a bound against rounding."""
AT_ONCE = 1_000_000
"""Sums of single places that are compared at once."""
MOST_FAMILIES = 5
"""More classes of hosts are searched as so many families down to the leaves: each family has bounds
of the whole market, which take longer than looser bounds cost.
"""

KEPT_ROOTS = 32
"""Bounds of whole modes that are kept, of some ten kB each."""

KEPT_RANKED = 2
"""Sets of places whose partners are kept in order, some MB each at most."""

BELOW, ABOVE = 0.3, 2.5
"""Prices of a dollar that are looked at, over the samples/s that an improvement has for each."""


class Node(Struct, frozen=True, dict=True):
    """Regions in use, regions that may join, the fewest in all, open worker counts."""

    used: tuple[int, ...]
    joining: tuple[int, ...]
    workers: Indices
    wan_s_per_pair_byte: float
    least_regions: int = 1

    @property
    def regions(self) -> int:
        """Regions that every placement of the node uses at least."""
        return max(len(self.used), self.least_regions)


class Family(Struct, frozen=True, dict=True):
    """Placements whose slowest host is of one class, or of one of some neighbouring classes.

    ``averaging_s`` is the least averaging time of any of them by N, ``slowest_averaging_s`` the
    most; they differ where two classes of hosts change places as N grows, and where several classes
    are searched as one down to the leaves, each of which has a class of ``parts``.
    ``averaging_by_host`` holds the times of each class that its placements may use: a region may
    have none of the slowest. ``least_period_s`` passes between two averages of all of its workers
    at least.
    """

    hosts: frozenset[str]
    averaging_s: Array
    slowest_averaging_s: Array
    averaging_by_host: Mapping[str, Array]
    own: str = ""
    parts: tuple[Family, ...] = ()
    least_period_s: float = 0.0


class Bound(Struct, frozen=True, kw_only=True, dict=True):
    """What a node's placements reach and pay at best, per open worker count."""

    target: Target
    mode: Mode
    weights: Array
    sums: Array
    averaging_s: Array
    pair_bytes: Array
    egress_usd: Array
    data_usd: float
    slowest: Array
    least_wan_s_per_pair_byte: float | Array = 0.0

    def margins(self, wan_s_per_pair_byte: float) -> Array:
        """Return the smallest margin of an improvement; shape (workers,)."""
        communication_s = (
            self.averaging_s
            + np.maximum(wan_s_per_pair_byte, self.least_wan_s_per_pair_byte) * self.pair_bytes
        )
        return margin(self.sums, self.thresholds(communication_s))

    def thresholds(self, communication_s: Array) -> Array:
        """Return the thresholds of an improvement; shape (rows, workers)."""
        return self.target.thresholds(
            self.mode, self.weights, communication_s, self.egress_usd, self.data_usd, self.slowest
        )


class Relaxation:
    """Bounds of nodes over one market, for ``first`` to ``most`` workers."""

    def __init__(self, market: Market, target: Target, mode: Mode, first: int, most: int) -> None:
        self.market, self.target, self.mode, self.problem = market, target, mode, market.problem
        self.first, self.most = first, most
        self._rooms: dict[frozenset[str], Indices] = {}
        self._roots: Recent[Bound] = Recent(KEPT_ROOTS)
        self.ranked: Recent[tuple[Partners, Array]] = Recent(KEPT_RANKED)

    @cached_property
    def families(self) -> list[Family]:
        """List the families, fastest hosts first."""
        # The same for every number of local steps.
        problem = self.problem
        key = "families", self.first, self.most, problem.gradient_bytes, id(problem.calibration)
        if key not in self.market.kept:  # while the calibration is held, its id is its own
            self.market.kept[key] = problem.calibration, self._few_families()
        return self.market.kept[key][1]

    def _few_families(self) -> list[Family]:
        fine = self._fine_families()
        if len(fine) <= MOST_FAMILIES or any(
            not np.array_equal(f.averaging_s, f.slowest_averaging_s) for f in fine
        ):
            return fine
        # Networks differ by factors: equal steps of the logarithm of the time.
        logs = np.log([float(family.averaging_s[-1]) for family in fine])
        step = (logs[-1] - logs[0]) / MOST_FAMILIES or 1.0
        bins = np.minimum(((logs - logs[0]) / step).astype(int), MOST_FAMILIES - 1)
        groups = [[fine[i] for i in np.flatnonzero(bins == k)] for k in range(MOST_FAMILIES)]
        return [_merged(group) for group in groups if group]

    def parts_at(self, family: Family, node: Node) -> list[Family]:
        """List the families of one class each that a leaf of a family may have: classes that some
        machine of its regions has, where each of them has a machine of a class that is no slower.
        """
        if not family.parts:
            return [family]
        hosts = [self.market.hosts_at[place] for place in node.used]
        there = frozenset().union(*hosts)
        return [
            part
            for part in family.parts
            if part.own in there and all(own & part.hosts for own in hosts)
        ]

    def _fine_families(self) -> list[Family]:
        """List a family for each class: its hosts are no slower, at any N."""
        n = np.arange(self.most + 1)
        hosts = self.market.host_of
        size = self.problem.gradient_bytes
        tensors = self.problem.profile.tensors
        fitted = self.problem.calibration
        seconds: dict[str, Array] = {}
        for h in sorted(set(hosts)):
            allowance.check()
            averages = [averaging_seconds([h], size, int(k), tensors, fitted) for k in n]
            seconds[h] = np.array(averages)
        built = []
        for name, own in seconds.items():
            below = {h: (other <= own)[self.first :] for h, other in seconds.items()}
            within = {h for h, smaller in below.items() if np.all(smaller)}
            crossing = any(np.any(smaller) and not np.all(smaller) for smaller in below.values())
            chosen = frozenset(seconds) if crossing else frozenset(within)
            every = list(seconds.values())
            # Where classes cross as N grows, no one of them is the slowest for all N: the least
            # time bounds the round, the most time bounds the egress that is paid for certain.
            least, most = (
                (np.minimum.reduce(every), np.maximum.reduce(every)) if crossing else (own, own)
            )
            times = {h: seconds[h] for h in sorted(chosen)}
            periods = [
                fitted.hosts[h].least_period_s if h in fitted.hosts else 0.0 for h in seconds
            ]
            period = min(periods) if crossing else dict(zip(seconds, periods, strict=True))[name]
            built.append(Family(chosen, least, most, times, own=name, least_period_s=period))
        return sorted(built, key=lambda f: (len(f.hosts), sorted(f.hosts)))

    def host_steps(self, family: Family, workers: int) -> list[frozenset[str]]:
        """List sets of hosts whose slowest decides; several where classes cross."""
        if np.array_equal(family.averaging_s, family.slowest_averaging_s):
            return [family.hosts]
        by_time = sorted(
            family.hosts, key=lambda host: float(family.averaging_by_host[host][workers])
        )
        return [frozenset(by_time[:k]) for k in range(1, len(by_time) + 1)]

    def places(self, family: Family) -> tuple[int, ...]:
        """List the places with a pool of the family, sorted."""
        return self.market.family_places(family.hosts)

    def alive(self, node: Node, family: Family) -> Indices:
        """List the worker counts at which some improvement may exist."""
        within = self.bound(node, family).margins(node.wan_s_per_pair_byte) >= 0
        return node.workers[within & self.awaited(node.workers, family)]

    def awaited(self, workers: Indices, family: Family) -> Mask:
        """Return which numbers of workers may wait for a group; shape (workers,)."""
        least_s = min(family.least_period_s, self.mode.least_period_s)
        if not least_s:
            return np.ones(len(workers), dtype=bool)
        longest_s = self.mode.seconds_at(self.target.min_speed) * (1 + TOLERANCE)
        return family.averaging_s[workers] + least_s <= longest_s

    def bound(self, node: Node, family: Family) -> Bound:
        """Gather the bound of a node; that of a whole mode is kept for other targets."""
        if node.used:
            return self._bound(node, family)
        key = node.joining, node.workers.tobytes(), node.wan_s_per_pair_byte, node.least_regions
        built = self._roots.get((*key, family.hosts), lambda: self._bound(node, family))
        return replace(built, target=self.target)

    def _bound(self, node: Node, family: Family) -> Bound:
        n, places = node.workers, np.array((*node.used, *node.joining), dtype=np.intp)
        settled = self._settled(node)
        sums = self.market.best_sums.of(places, family.hosts, self.most)[:, n]
        if settled is None:
            sums = np.full_like(sums, -np.inf)
        node = settled or node
        shard = np.array([self.pair_bytes(int(k)) for k in n])
        return Bound(
            target=self.target,
            mode=self.mode,
            weights=self.market.weights,
            sums=sums,
            averaging_s=family.averaging_s[n],
            pair_bytes=shard,
            # Cheapest data of any open place, fewest and cheapest crossing pairs: both err low.
            egress_usd=shard * self.least_pair_usd(node, family),
            data_usd=min(self.market.data_usd[p] for p in places),
            slowest=self.slowest(
                node,
                n,
                family.slowest_averaging_s[n]
                + self._slowest_wan(node) * shard * self.most_growth(n)
                + self.most_load_s,
            ),
            least_wan_s_per_pair_byte=np.maximum(
                node.wan_s_per_pair_byte if self.problem.requirements.required_places else 0.0,
                self.load_wan(places, n, node.regions),
            ),
        )

    def pair_bytes(self, workers: int) -> float:
        """Return the bytes that a pair of workers in different regions carries in a round."""
        return pair_bytes(self.problem.gradient_bytes, workers)

    def margins_alone(self, places: tuple[int, ...], workers: Indices, family: Family) -> Array:
        """Return the margins of `bound` of each place alone; shape (places, workers)."""
        if self.problem.requirements.required_places:
            return np.array(
                [self.bound(Node((p,), (), workers, 0.0), family).margins(0.0) for p in places]
            )
        market, at = self.market, np.array(places, dtype=np.intp)
        lowest = np.full((len(places), len(workers)), np.inf)
        # Any rows give a valid bound, and those far from what an improvement has for a dollar are
        # hardly ever the tightest.
        rows = near_rows(market.weights, self.mode, self.target)
        step = max(1, AT_ONCE // max(1, len(places) * self.most))
        for some in (rows[first : first + step] for first in range(0, len(rows), step)):
            needed = self.thresholds_alone(at, workers, family, market.weights[some])
            sums = market.best_sums.of_each(at, family.hosts, self.most, some)[:, :, workers]
            np.minimum(lowest, margin(sums, needed), out=lowest)
        return lowest

    def thresholds_alone(
        self, places: Indices, workers: Indices, family: Family, weights: Array
    ) -> Array:
        """Return thresholds of each place alone; shape (rows, places, workers)."""
        market = self.market
        shard = np.array([pair_bytes(self.problem.gradient_bytes, int(k)) for k in workers])
        seconds, slowest_s = family.averaging_s[workers], family.slowest_averaging_s[workers]
        pairs = shard * (workers * (workers - 1))
        data = np.array(market.data_usd)[places]
        shape = len(weights), len(places), len(workers)
        allowance.reserve(4 * 8 * math.prod(shape))
        # Every place with every number of workers, one after the other.
        needed = self.target.thresholds(
            self.mode,
            weights,
            np.tile(seconds, len(places)),
            (market.prices[places, places][:, None] * pairs).ravel(),
            np.repeat(data, len(workers)),
            self._slowest_of(
                np.repeat(self.slowest_machine[places], len(workers)),
                np.tile(workers, len(places)),
                np.tile(slowest_s + self.most_load_s, len(places)),
            ),
        )
        return needed.reshape(shape)

    def _settled(self, node: Node) -> Node | None:
        """Return the node with required places in use; None if it lacks one."""
        places = with_required_places(
            self.problem.requirements.required_places, self.market.places, node.used, node.joining
        )
        if places is None or places == (node.used, node.joining):
            return None if places is None else node
        used, joining = places
        wan = max(
            [node.wan_s_per_pair_byte, *(self.pair_wan(a, b) for a in used for b in used if a < b)]
        )
        return replace(node, used=used, joining=joining, wan_s_per_pair_byte=wan)

    def _slowest_wan(self, node: Node) -> float:
        """Return the seconds per pair byte of the slowest pair that the node may come to use."""
        if not node.joining:
            return node.wan_s_per_pair_byte
        return self._slowest_pair if node.used else np.inf

    def slowest(self, node: Node, workers: Indices, communication_s: Array) -> Array:
        """Return the samples/s of the slowest machines and exchange; 0 if unknown."""
        places = (*node.used, *node.joining)
        speed = min(self.slowest_machine[p] for p in places)
        return self._slowest_of(speed, workers, communication_s)

    def _slowest_of(self, speed: Array | float, workers: Indices, communication_s: Array) -> Array:
        """Return `slowest` where the slowest machine is known; shape (workers,)."""
        if self.problem.lanes > 1:  # the links below are those of the largest workers
            return np.zeros(len(workers))
        # Placed data may leave one machine to decide alone, so only its own speed is certain.
        together = 1 if self.problem.requirements.datasets else workers
        loaded = np.minimum(together * speed, self.problem.least_loaded_samples_per_s)
        calculation_s = np.maximum(self.mode.samples / loaded, self.mode.least_period_s)
        return self.mode.samples / (calculation_s + communication_s) / self.mode.multiplier

    @cached_property
    def most_load_s(self) -> float:
        """Most seconds that a machine's own network can add: it sends 2 S at most."""
        # The slowest network of all places: this enters speeds that are paid for at least, so it
        # must err high in seconds.
        slowest = min(
            self.problem.network.machine_bytes_per_s(place) for place in self.market.places
        )
        return 2 * self.problem.gradient_bytes / slowest

    @cached_property
    def slowest_machine(self) -> Array:
        """Least samples/s of one machine at each place; shape (places,)."""
        least = np.full(len(self.market.places), np.inf)
        np.minimum.at(least, self.market.place_of, self.market.speed)
        return least

    def least_pair_usd(self, node: Node, family: Family) -> Array:
        """Return the least sum of egress prices over ordered pairs of workers, for each open worker
        count.

        Both directions of a pair of regions carry the same bytes, so the mean of their prices
        counts. Two bounds: every pair that must cross at the cheapest price; every pair of a used
        region at its own cheapest price.
        """
        n, used = node.workers, node.used
        if not used and node.regions < 2:
            return np.zeros(len(n))
        if node.regions == 1 and not node.joining:
            return n * (n - 1) * float(self.market.prices[used[0], used[0]])
        places = np.array((*used, *node.joining), dtype=np.intp)
        if len(places) < 2:
            return np.zeros(len(n))
        # Both directions of a pair carry the same bytes, so their mean is exact for the pair.
        mutual = (
            self.market.prices[np.ix_(places, places)]
            + self.market.prices[np.ix_(places, places)].T
        ) / 2
        np.fill_diagonal(mutual, np.inf)
        room = self.room(family)
        # Fewest pairs times the cheapest price: neither is above that of any split.
        least = np.asarray(
            fewest_crossing_pairs(n, room[places], node.regions) * float(mutual.min()),
            dtype=np.float64,
        )
        if node.regions > 1:
            for at, place in enumerate(used):
                # A used region holds between one and so many workers; k (n - k) is concave in k, so
                # one of the two ends has the fewest crossing pairs.
                most = np.minimum(room[place], n - (node.regions - 1))
                own = 2.0 * np.minimum(n - 1, most * (n - most)) * float(mutual[at].min())
                least = np.maximum(least, own, dtype=np.float64)
        return least

    def needed_speed(self, place: int, waiting_s: Array) -> Array:
        """Return the samples/s that the data which stays in a place needs there, where a round has
        so many seconds beside the calculation at least; shape of ``waiting_s``.
        """
        share, mode = float(self.market.stay_share[place]), self.mode
        if not share:
            return np.zeros(waiting_s.shape)
        left = mode.seconds_at(self.target.min_speed) - waiting_s
        needed = np.full(left.shape, np.inf)
        np.divide((1 - SLACK) * share * mode.samples, left, out=needed, where=left > 0)
        return needed

    def most_speed(self, place: int, family: Family, workers: int) -> Array:
        """Return the most samples/s of 0, 1, ... workers of a place; shape (workers + 1,)."""
        mine = (self.market.place_of == place) & self.market.pools_of_hosts(family.hosts)
        machines = np.minimum(self.market.cap[mine], workers).astype(np.intp)
        speeds = np.sort(np.repeat(self.market.speed[mine], machines))[::-1][:workers]
        built: Array = np.append(0.0, np.cumsum(speeds))[
            np.minimum(np.arange(workers + 1), len(speeds))
        ]
        return built

    def room(self, family: Family) -> Indices:
        """Return how many machines each place can hold; shape (places,)."""
        room = self._rooms.get(family.hosts)
        if room is None:
            market = self.market
            mine = market.of_hosts(family.hosts)
            room = np.zeros(len(market.places), dtype=np.intp)
            np.add.at(room, market.place_of[market.step_owners[mine]], market.step_machines[mine])
            self._rooms[family.hosts] = room
        return room

    def pools(self, node: Node, family: Family) -> Indices:
        """List the pools of the open regions of a node."""
        open_places = np.array((*node.used, *node.joining), dtype=np.intp)
        return np.flatnonzero(
            np.isin(self.market.place_of, open_places) & self.market.pools_of_hosts(family.hosts)
        )

    def pair_wan(self, a: int, b: int) -> float:
        """Return the seconds per byte of a pair of regions, slower direction."""
        return float(self.wan_matrix[a, b])

    @property
    def pair_usd(self) -> Array:
        """USD of a pair byte of two places, both ways, 0 at home; shape (places, places)."""
        return self.market.both_ways

    @cached_property
    def wan_matrix(self) -> Array:
        """`pair_wan` of all pairs of places, 0 from a place to itself; shape (places, places)."""
        return np.maximum(self.one_way, self.one_way.T)

    @cached_property
    def one_way(self) -> Array:
        """Seconds per byte from place to place, 0 to itself; shape (places, places)."""
        one_way = 1.0 / self._pair_speeds()
        np.fill_diagonal(one_way, 0.0)
        # Of two peers, which errs low: `most_growth` is what more of them add at most.
        built: Array = self.market.line_factors() * one_way
        return built

    def most_growth(self, workers: Indices) -> Array:
        """Return how much longer a pair takes among many, at most; shape (workers,)."""
        fitted = self.problem.calibration
        if self.problem.transport != HIVEMIND or not any(
            place.startswith(SITES) for place in self.market.places
        ):
            return np.ones(len(workers))
        return np.maximum(workers - 1.0, 1.0) ** fitted.stream_power

    def _pair_speeds(self) -> Array:
        """Return the most bytes/s of a pair of workers; shape (places, places)."""
        network, places = self.problem.network, self.market.places
        streams = self.problem.requirements.streams
        if self.mode.lanes == 1:
            return network.speeds(places, streams)
        lanes = np.minimum(self._lanes[:, None], self._lanes)
        built = np.zeros(lanes.shape)
        for own in np.unique(lanes).tolist():
            np.copyto(built, network.speeds(places, streams, own), where=lanes == own)
        return built

    @cached_property
    def _lanes(self) -> Indices:
        """Machines of the largest worker of each place that send side by side; shape (places,)."""
        most = np.ones(len(self.market.places), dtype=np.intp)
        machines = self.market.pools.figures(lambda pool: pool.machines).astype(np.intp)
        np.maximum.at(most, self.market.place_of, machines)
        return np.minimum(most, self.problem.lanes)

    @cached_property
    def machine_wan(self) -> Array:
        """Seconds in which a worker of each place sends a byte, at least."""
        rows = zip(self.market.places, self._lanes.tolist(), strict=True)
        sent = [self.problem.network.machine_bytes_per_s(*row) for row in rows]
        return 1.0 / np.array(sent)

    def load_wan(self, places: Indices, workers: Indices, regions: int) -> Array:
        """Return the seconds per pair byte that the busiest worker of a flat all-reduce needs at
        least; shape (workers,).

        ``places``: indices of the places that may be used. ``regions``: regions that are used at
        least. Some region has N / R workers or fewer, and each of these sends to N - N / R others.
        Which region that is is not known: the fastest worker bounds it from below.
        """
        if regions < 2:
            return np.zeros(len(workers))
        others: Array = workers - workers // regions
        return others * float(self.machine_wan[places].min())

    @cached_property
    def fastest_pair(self) -> float:
        """Seconds per pair byte of the fastest pair of regions."""
        return float(np.min(self._pairs, initial=np.inf)) if len(self._pairs) else 0.0

    @cached_property
    def _slowest_pair(self) -> float:
        return float(np.max(self._pairs, initial=0.0))

    @cached_property
    def _pairs(self) -> Array:
        """`pair_wan` of all pairs of different places; shape (pairs,)."""
        return self.wan_matrix[np.triu_indices(len(self.wan_matrix), 1)]


def _merged(group: list[Family]) -> Family:
    """Put families of one class together; the last has the slowest hosts."""
    if len(group) == 1:
        return group[0]
    slowest = group[-1]
    # The least time bounds the rounds of all of them, the most time the egress that is certain.
    return Family(
        slowest.hosts,
        np.minimum.reduce([family.averaging_s for family in group]),
        np.maximum.reduce([family.slowest_averaging_s for family in group]),
        slowest.averaging_by_host,
        parts=tuple(group),
        least_period_s=min(family.least_period_s for family in group),
    )


def fewest_crossing_pairs(workers: Indices, room: Indices, used: int) -> Array:
    """Return the least ordered pairs of workers in different regions: fill the roomiest regions,
    one worker in each other used one.

    >>> # 8 and 2 workers: 100 - 64 - 4
    >>> fewest_crossing_pairs(np.array([10]), np.array([8, 8, 8]), 1)
    array([32.])
    >>> fewest_crossing_pairs(np.array([8]), np.array([8, 8]), 2)  # 7 and 1
    array([14.])
    """
    left, together = workers.copy(), np.zeros(len(workers))
    for opened, places in enumerate(np.sort(room)[::-1], start=1):
        # Fill the roomiest first and leave one worker for each region that must still be used: this
        # maximises the sum of squares, hence minimises the pairs that cross.
        inside = np.where(
            left > 0, np.minimum(places, np.maximum(left - max(used - opened, 0), 1)), 0
        )
        together += inside.astype(float) ** 2
        left -= inside
        if not np.any(left > 0):
            break
    return np.maximum(workers.astype(float) ** 2 - together, 0.0)


def priced_rows(weights: Array, mode: Mode, target: Target) -> Indices:
    """Choose rows without other limits than the price: the ends, and those around the samples/s
    that an improvement has for a dollar; all of them where that is not known.

    An improvement has them by its least speed and largest price, and by what a sample may cost: two
    limits that may be far apart, and either may be the tight one.
    """
    chosen = ~np.any(weights[:, 2:] > 0, axis=1)
    speed, usd = target.min_speed * mode.multiplier, target.max_usd_per_hour
    if speed > 0 and 0 < usd < np.inf:  # machines that are paid for anyway may cost nothing
        price, near = weights[:, 1], (weights[:, 0] == 0) | (weights[:, 1] == 0)
        centres = [speed / usd]
        if 0 < target.max_usd_per_sample < np.inf:
            centres.append(mode.multiplier / (SECONDS_PER_HOUR * target.max_usd_per_sample))
        for centre in centres:
            near |= (price >= BELOW * centre) & (price <= ABOVE * centre)
        chosen &= near
    return np.flatnonzero(chosen)


def priced(weights: Array) -> Mask:
    """Return which rows weigh speed against the price alone."""
    return (weights[:, 0] > 0) & (weights[:, 1] > 0) & ~np.any(weights[:, 2:] > 0, axis=1)


def near_rows(weights: Array, mode: Mode, target: Target) -> Indices:
    """Choose `priced_rows`; all rows where something else than the price is limited too."""
    return priced_rows(weights, mode, target) if weights.shape[1] == 2 else np.arange(len(weights))


def margin(reached: Array, needed: Array) -> Array:
    """Return the smallest relative margin of the rows; negative is cut."""
    with np.errstate(invalid="ignore"):
        margin = reached - needed
    # No n machines, or a threshold that nothing reaches: cut, whatever the other one is.
    margin[(reached == -np.inf) | (needed == np.inf)] = -np.inf
    scale = np.abs(needed)
    scale[np.isinf(scale)] = 1.0
    np.maximum(scale, 1e-9, out=scale)
    margin /= scale
    return np.min(margin, axis=0)
