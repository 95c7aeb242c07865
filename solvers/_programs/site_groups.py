"""The common part of every program: counts of machines, regions in unary, calculation, quotas,
limits and goal.

A program covers one frame (an exchange with its places) and a part of its numbers of workers and of
its round times. Coefficients that depend on the number of workers are exact where it is one number,
and on the optimistic side else; so is 3600 / T at the end of the part. What a program says is
therefore a bound on every placement of its part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from math import inf

from placer.cost_model.dollars import worker_sample_usd
from placer.cost_model.limits import TOLERANCE
from placer.cost_model.timing.site_groups import worker_rate
from placer.cost_model.timing.transfers import Links, lanes
from placer.market.carbon import offer_carbon
from placer.market.catalog import VmOffer
from placer.problem.admitted_exchanges import needs_quota, server_at
from placer.problem.datasets import needs_place
from placer.problem.exchange import traits
from placer.problem.requirements import uses
from placer.problem.workers.pool import Pool
from placer.problem.workers.resources import NO_QUOTA_GPUS

from .frame import Part
from .linear import CONSTANT, Model, Terms, plus, times

TANGENTS = 10
"""Tangents of B / V that a program starts with; more come where a solution needs them."""


class SiteGroup:
    """Variables for the machines of a part; a coarse one knows no regions."""

    def __init__(self, part: Part, *, coarse: bool = False) -> None:
        self.part, self.frame, self.problem = part, part.frame, part.frame.problem
        self.model = Model()
        self.coarse = coarse
        self.places = () if coarse else self.frame.places
        self.pools: list[Pool] = [
            pool for pool in self.problem.pools if coarse or pool.place in self.places
        ]
        self.counts = [
            self.model.variable(0, min(pool.max_count, part.high), whole=True)
            for pool in self.pools
        ]
        self.rates = [
            worker_rate(pool, traits(self.frame.strategy).framework).value for pool in self.pools
        ]
        self.total: dict[int, float] = dict.fromkeys(self.counts, 1.0)
        self.steps = {place: self._unary(place) for place in self.places}
        self.hubs_usd = 0.0
        self.hubs_carbon_g = 0.0
        # Seconds of one step of which all workers do their share by speed, where there are such.
        self.shared_s: int | None = None
        self.round_s: Terms = {}
        self._quotas()
        self._ranges()
        for counts in part.tried:
            self.forbid(counts)

    @cached_property
    def network(self) -> Links:
        """Links as the largest workers use them, which bounds the seconds of all from below."""
        problem = self.problem
        return lanes(problem.network, dict.fromkeys(self.places, problem.lanes))

    @property
    def fixed_workers(self) -> bool:
        """Whether the part has one number of workers."""
        return self.part.low == self.part.high

    def used(self, place: str) -> int:
        """Return the flag of a place with workers."""
        return self.steps[place][0]

    def workers_at(self, place: str) -> dict[int, float]:
        """Return the number of workers of a place."""
        return {
            n: 1.0 for n, pool in zip(self.counts, self.pools, strict=True) if pool.place == place
        }

    def speed(self, place: str | None = None) -> dict[int, float]:
        """Return the samples/s of all workers, or of those of a place."""
        rows = zip(self.counts, self.pools, self.rates, strict=True)
        return {n: rate for n, pool, rate in rows if place in (None, pool.place)}

    def by_count(self, place: str, value: Callable[[int], float]) -> dict[int, float]:
        """Write any function of a place's workers, 0 for none, as an exact expression."""
        values = [0.0, *(value(k) for k in range(1, len(self.steps[place]) + 1))]
        return {
            z: after - before
            for z, (before, after) in zip(self.steps[place], pairwise(values), strict=True)
        }

    def by_counts(self, value: Callable[[str, int], float]) -> list[dict[int, float]]:
        """Write such a function of every place as an exact expression."""
        return [self.by_count(place, partial(value, place)) for place in self.places]

    def flag(self, counts: Sequence[int]) -> int:
        """Add a flag that says whether any of some counts is above 0."""
        this = self.model.variable(0, 1, whole=True)
        for n in counts:
            self.model.at_most({n: 1.0, this: -self.model.high[n]})
        self.model.at_least(plus(dict.fromkeys(counts, 1.0), {this: -1.0}))
        return this

    @cached_property
    def host_flags(self) -> dict[str, int]:
        """Flag of each class of hosts."""
        return {host: self.flag(counts) for host, counts in self._hosts(self.places).items()}

    @cached_property
    def hosts_at(self) -> dict[tuple[str, str], int]:
        """Flag of each class of hosts in each place."""
        return {
            (p, host): self.flag(counts)
            for p in self.places
            for host, counts in self._hosts((p,)).items()
        }

    @cached_property
    def pool_flags(self) -> list[int]:
        """Flag of each pool."""
        return [self.flag([n]) for n in self.counts]

    def _hosts(self, places: Sequence[str]) -> dict[str, list[int]]:
        counts_of: dict[str, list[int]] = {}
        for n, pool in zip(self.counts, self.pools, strict=True):
            if pool.place in places:
                counts_of.setdefault(pool.host, []).append(n)
        return counts_of

    def _unary(self, place: str) -> list[int]:
        terms = self.workers_at(place)
        most = min(self.part.high, int(sum(self.model.high[n] for n in terms)))
        steps = [self.model.variable(0, 1, whole=True) for _ in range(most)]
        for before, after in pairwise(steps):
            self.model.at_most({after: 1.0, before: -1.0})
        self.model.equal(plus(terms, dict.fromkeys(steps, -1.0)))
        return steps

    def _quotas(self) -> None:
        buckets: dict[tuple[str, ...], dict[int, float]] = {}
        for n, pool in zip(self.counts, self.pools, strict=True):
            buckets.setdefault(pool.bucket, {})[n] = float(pool.gpus)
        taken, quotas = self._server(), {pool.bucket: pool.gpu_quota for pool in self.pools}
        for bucket, terms in buckets.items():
            if quotas[bucket] < NO_QUOTA_GPUS:
                self.model.at_most(terms, quotas[bucket] - taken.get(bucket, 0))
        for row in self.problem.joint_limits:
            counted = zip(self.counts, self.pools, strict=True)
            self.model.at_most({n: float(row.taken(pool)) for n, pool in counted}, row.most)

    @cached_property
    def servers(self) -> list[VmOffer]:
        """Machines that are the parameter server for some number of workers of the part."""
        hubs = [str(single.aggregator) for single in self.frame.singles]
        workers = range(self.part.low, self.part.high + 1)
        offers = (server_at(hub, n, self.problem) for hub in hubs for n in workers)
        return [offer for offer in offers if offer is not None]

    def _server(self) -> dict[tuple[str, ...], int]:
        """Price of the parameter server, and the quota that it takes for certain."""
        if self.coarse or self.frame.transport != "server":
            return {}
        there = self.servers
        if not there:
            self.model.at_least({}, 1.0)
            return {}
        self.hubs_usd = min(offer.usd_per_hour for offer in there)
        if self.problem.requirements.counts_carbon:
            self.hubs_carbon_g = min(self._carbon_g(offer) for offer in there)
        first = there[0]
        if self.frame.hubs or not self.fixed_workers or not needs_quota(first, self.problem):
            return {}
        return {(first.place, first.gpu, first.market): first.gpu_count}

    def _ranges(self) -> None:
        wish, chosen = self.problem.requirements, traits(self.frame.strategy)
        self.model.at_least(self.total, self.part.low)
        self.model.at_most(self.total, self.part.high)
        for rule in wish.used:
            named = (
                uses(rule, pool.place, pool.offer.device, pool.offer.market) for pool in self.pools
            )
            self.model.at_least(
                {n: 1.0 for n, is_named in zip(self.counts, named, strict=True) if is_named},
                rule.count,
            )
        if self.coarse:
            return
        flags = {self.used(place): 1.0 for place in self.places}
        least, most = max(wish.min_regions, chosen.least_regions), wish.max_regions
        if self.frame.regions is not None:
            least, most = max(least, self.frame.regions), min(most, self.frame.regions)
        self.model.at_least(flags, least)
        self.model.at_most(flags, most)
        hub_at = self.frame.transport == "region-hub" or (
            self.frame.transport == "server" and wish.aggregator is None
        )
        for place in needs_place(wish.datasets):
            self.model.at_least({self.used(place): 1.0} if place in self.places else {}, 1.0)
        if hub_at:
            hubs = {str(single.aggregator) for single in self.frame.singles} & {*self.places}
            self.model.at_least({self.used(hub): 1.0 for hub in hubs}, 1.0)
        for i, a in enumerate(self.places):
            for b in self.places[i + 1 :]:
                if wish.kept and self.frame.leaks((a, b)):
                    self.model.at_most({self.used(a): 1.0, self.used(b): 1.0}, 1.0)

    def forbid(self, counts: Sequence[int]) -> None:
        """Leave out one vector of counts."""
        away: dict[int, float] = {}
        for n, value in zip(self.counts, counts, strict=True):
            high = self.model.high[n]
            if value < high:
                above = self.model.variable(0, 1, whole=True)
                self.model.at_least({n: 1.0, above: -(value + 1.0)})
                away[above] = 1.0
            if value > 0:
                below = self.model.variable(0, 1, whole=True)
                self.model.at_most({n: 1.0, below: high - value + 1.0}, high)
                away[below] = 1.0
        self.model.at_least(away, 1.0)

    def machines_usd(self) -> dict[int, float]:
        """Return the USD/h of the machines."""
        return {
            **{n: pool.usd_per_hour for n, pool in zip(self.counts, self.pools, strict=True)},
            CONSTANT: self.hubs_usd,
        }

    def machines_carbon_g(self) -> dict[int, float]:
        """Return the emissions of the machines in g CO2e/h, of an unknown machine as 0."""
        rows = zip(self.counts, self.pools, strict=True)
        return {
            **{n: pool.machines * self._carbon_g(pool.offer) for n, pool in rows},
            CONSTANT: self.hubs_carbon_g,
        }

    def _carbon_g(self, offer: VmOffer) -> float:
        each = offer_carbon(offer, self.problem.catalog)
        return 0.0 if each is None else each.value

    @cached_property
    def most_speed(self) -> float:
        """Samples/s of all workers at most, by their number and by the budget."""
        most: float = self.part.high * max(self.rates, default=0.0)
        budget = self.problem.requirements.budget_usd_per_hour
        prices = [pool.usd_per_hour for pool in self.pools]
        if budget is None or min(prices, default=0.0) <= 0:
            return most
        best = max(rate / usd for rate, usd in zip(self.rates, prices, strict=True))
        return min(most, best * budget * (1 + 2 * TOLERANCE))

    def hyperbola(self, key: str, amount: float, speed: Terms) -> int:
        """Add a variable of at least amount / speed, by tangents at the points of ``key``."""
        least = min((v for n, v in speed.items() if n != CONSTANT and v > 0), default=0.0)
        most = self.model.reach(speed)[1]
        longest = min(self.part.most_s, amount / least if least else 0.0)
        this = self.model.variable(0.0, longest)
        if not most or not least:
            return this
        points = [least * (most / least) ** (i / TANGENTS) for i in range(TANGENTS + 1)]
        points += [point for name, point in self.part.touched if name == key]
        for at in points:  # amount / V >= amount (2 / at - V / at^2)
            self.model.at_least(plus({this: 1.0}, times(amount / at**2, speed)), 2 * amount / at)
        return this

    def data_usd(self) -> dict[int, float]:
        """Return the USD of the data of one round, from below."""
        if self.problem.data_store is None:
            return {}
        prices = [
            worker_sample_usd(pool, self.problem) if pool.place in self.places else 0.0
            for pool in self.pools
        ]
        least = min(prices, default=0.0)
        usd: dict[int, float] = {CONSTANT: least * self.frame.samples}
        rows = zip(self.counts, prices, self.rates, self.pools, strict=True)
        above = [(n, price - least, rate, pool) for n, price, rate, pool in rows if price > least]
        if above and traits(self.frame.strategy).division == "equal":
            share = self.frame.samples / self.part.high
            usd = plus(usd, {n: price * share for n, price, _, _ in above})
        elif above:
            fastest = self.model.reach(self.speed())[1]
            # Where a store or a line holds workers back, others keep more of their speed.
            problem = self.problem
            lines = problem.least_loaded_samples_per_s < problem.most_loaded_samples_per_s
            held = problem.most_loaded_samples_per_s < inf
            uneven = lines or (held and len({pool.streamed for pool in self.pools}) > 1)
            share = 0.0 if uneven else self.frame.samples / fastest
            usd = plus(usd, {n: price * share * rate for n, price, rate, _ in above})
        return usd
