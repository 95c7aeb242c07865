"""A placement under construction, the hubs it may have, and the judge that ranks it: limits before
the objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf

from msgspec import Struct

from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.estimate import evaluate, exchange_phases
from placer.cost_model.limits import TOLERANCE, leaks
from placer.market.catalog import VmOffer
from placer.problem.admitted_exchanges import exchange_for, needs_quota, server_at
from placer.problem.datasets import needs_place
from placer.problem.exchange import traits
from placer.problem.placement import NO_EXCHANGE, Exchange, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.records import replace

from .._market.market import Market
from .._mode import Mode
from .._target import Target

Hub = tuple[str | None, str | None]
"""Places of the aggregator and the store; None where the strategy has none."""
NEAREST = 2
"""Pairs of function and store that are tried for each region with workers."""


class HubPlaces:
    """Hubs by strategy and regions, near the regions that it serves."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._near: dict[str, list[Hub]] = {}
        self._found: dict[tuple[str, tuple[str, ...]], list[Hub]] = {}

    def of(self, strategy: str, places: tuple[str, ...]) -> list[Hub]:
        """List the hubs of a strategy for workers in some places; empty if it cannot be had."""
        key = strategy, places
        if key not in self._found:
            self._found[key] = self._list(strategy, places)
        return self._found[key]

    def _list(self, strategy: str, places: tuple[str, ...]) -> list[Hub]:
        chosen, wanted = traits(strategy), self.problem.requirements.aggregator
        if chosen.hub == "function":
            if chosen.transport == "regional-stores" and not all(
                p in self.problem.serverless_places for p in places
            ):
                return []
            return list(dict.fromkeys(hub for place in places for hub in self._nearest(place)))
        if chosen.hub == "server":
            return [(place, None) for place in (places if wanted is None else (wanted,))]
        if chosen.hub == "region":
            return [(place, None) for place in places if wanted in (None, place)]
        return [(None, None)]

    def _nearest(self, place: str) -> list[Hub]:
        if place not in self._near:
            stores = list(self._by_store)
            away = self.problem.network.rtts_s([place, *stores])[0, 1:].tolist()
            nearest = [store for _, store in sorted(zip(away, stores, strict=True))]
            self._near[place] = [
                pair for store in nearest[:NEAREST] for pair in self._by_store[store][:NEAREST]
            ]
        return self._near[place]

    @cached_property
    def _by_store(self) -> dict[str, list[Hub]]:
        hubs: dict[str, list[Hub]] = {}
        for function, store in sorted(
            self.problem.aggregator_places, key=lambda pair: (pair[0] != pair[1], pair)
        ):
            hubs.setdefault(store, []).append((function, store))
        return hubs


Rank = tuple[float, float, float]
"""What is lacking, relative to the limits and wishes, then the objective and its tie-break; lowest
is best.
"""
NEVER: Rank = (inf, inf, inf)
"""Rank of what may not be."""


class Draft(Struct, frozen=True):
    """Machines by position of their pool, sorted; strategy, local steps and hub."""

    counts: tuple[tuple[int, int], ...]
    mode: tuple[str, int]
    hub: Hub = (None, None)

    @staticmethod
    def of(counts: Mapping[int, int], mode: tuple[str, int], hub: Hub = (None, None)) -> Draft:
        """Build a draft; pools without machines are left out."""
        return Draft(tuple(sorted((i, n) for i, n in counts.items() if n > 0)), mode, hub)

    def changed(self, changes: Mapping[int, int]) -> Draft:
        """Return the same draft with more or fewer machines of some pools."""
        counts = dict(self.counts)
        for i, change in changes.items():
            counts[i] = max(0, counts.get(i, 0) + change)
        return Draft.of(counts, self.mode, self.hub)


class Judge:
    """Ranks drafts with the functions that price the final answer, each once, and keeps the best in
    its target.

    ``market``: the pools that drafts count. ``target``: keeps every draft that is within the limits
    and better than the best so far. ``alike`` tells whether all machines of a draft are
    to have the same device.
    """

    def __init__(self, market: Market, target: Target) -> None:
        self.market, self.target, self.problem = market, target, market.problem
        self.wish = market.problem.requirements
        self.hubs = HubPlaces(market.problem)
        self.most = min(self.wish.max_workers, self.problem.batch)
        self.needed = frozenset(needs_place(self.wish.datasets))
        self.best: Draft | None = None
        self.rules = [
            (rule.count, frozenset(rule.owns.nonzero()[0].tolist()))
            for rule in market.required_machines.rules
        ]
        self._joint = market.problem.joint_limits
        self.alike = market.problem.uniform
        self._usd, self._speed = market.usd.tolist(), market.speed.tolist()
        self._carbon = market.carbon.tolist()
        self._multipliers: dict[tuple[str, int], float] = {}
        self._ranks: dict[Draft, Rank] = {}
        self._groups: dict[tuple[int, int], WorkerGroup] = {}
        self._servers: dict[tuple[str, int], VmOffer | None] = {}

    @cached_property
    def device(self) -> list[int]:
        """Number of the device of each pool, and of how many a machine has."""
        of, _ = self.market.pools.by_kind(lambda pool: (pool.offer.gpu, pool.offer.gpu_count))
        numbers: list[int] = of.tolist()
        return numbers

    @property
    def tried(self) -> int:
        """Drafts that were ranked."""
        return len(self._ranks)

    def rank(self, draft: Draft) -> Rank:
        """Rank a draft; the target's clock may end the search here."""
        rank = self._ranks.get(draft)
        if rank is None:
            self.target.check_time()
            rank = self._ranks[draft] = self._ranked(draft)
        return rank

    def bound(self, draft: Draft) -> Rank:
        """Return a rank that the draft does not beat: as if exchanges were free."""
        market, workers = self.market, sum(n for _, n in draft.counts)
        usd = sum(self._usd[i] * n for i, n in draft.counts)
        speed = sum(self._speed[i] * n for i, n in draft.counts)
        speed = (
            float(market.alone[draft.counts[0][0]])
            if workers == 1
            else speed / self._multiplier(draft.mode)
        )
        carbon = sum(self._carbon[i] * n for i, n in draft.counts)
        lacking = self._over(usd, speed, carbon)
        lacking += max(0.0, 1 - workers / self.wish.min_workers) + self._owed(draft)
        objective = self.target.objective
        value = objective.value_at(speed, usd, carbon, usd)
        return lacking, -objective.sign * value, usd if objective.by_speed else -speed

    def may_win(self, draft: Draft) -> bool:
        """Return whether a draft could beat the best so far. Where several regions must be, what
        cannot is still grown from.
        """
        if self.target.best is None or self.market.fewest_regions > 1:
            return True
        return self.bound(draft) < (0.0, *self.target.best_key)

    def _over(
        self, usd_per_hour: float, samples_per_second: float, carbon_g_per_hour: float
    ) -> float:
        """Sum by how much price, speed and emissions miss their limits, as shares of these."""
        target = self.target
        budget = target.budget_usd_per_hour
        floor = target.floor_samples_per_second
        per_sample = target.limit_usd_per_sample
        each = usd_per_million_samples(usd_per_hour, samples_per_second) / 1e6
        lacking = max(0.0, usd_per_hour / budget - 1 - TOLERANCE) + max(
            0.0, each / per_sample - 1 - TOLERANCE
        )
        lacking += max(0.0, carbon_g_per_hour / target.limit_carbon_g_per_hour - 1 - TOLERANCE)
        return lacking + (max(0.0, 1 - TOLERANCE - samples_per_second / floor) if floor else 0.0)

    def _multiplier(self, mode: tuple[str, int]) -> float:
        if mode not in self._multipliers:
            self._multipliers[mode] = Mode(self.problem, *mode).multiplier
        return self._multipliers[mode]

    def by_place(self, draft: Draft) -> dict[str, int]:
        """Count the machines by place."""
        machines: dict[str, int] = {}
        pools = self.market.pools
        for i, n in draft.counts:
            place = pools[i].place
            machines[place] = machines.get(place, 0) + n
        return machines

    def fitted(self, draft: Draft) -> Draft:
        """Return the draft with a hub that its places admit."""
        places = tuple(sorted(self.by_place(draft)))
        hubs = self.hubs.of(draft.mode[0], places)
        return draft if draft.hub in hubs or not hubs else replace(draft, hub=hubs[0])

    def room(self, draft: Draft, pool: int) -> int:
        """Count the machines of a pool that quotas and ranges allow beside a draft."""
        pools = self.market.pools
        own, used, there, workers = pools[pool], 0, 0, 0
        for i, n in draft.counts:
            workers += n
            used += n * pools[i].gpus if pools[i].bucket == own.bucket else 0
            there += n if i == pool else 0
        free = (own.gpu_quota - used) // own.gpus
        for row in self._joint:
            each = row.taken(own)
            if each:
                taken = sum(n * row.taken(pools[i]) for i, n in draft.counts)
                free = min(free, (row.most - taken) // each)
        return max(0, min(free, own.max_count - there, self.most - workers))

    def placement(self, draft: Draft) -> Placement | None:
        """Return the draft as a placement; None if its exchange cannot be had."""
        exchange = self._exchange(draft, self.by_place(draft))
        if exchange is None:
            return None
        return Placement(
            groups=tuple(self._group(i, n) for i, n in draft.counts), exchange=exchange
        )

    def _group(self, pool: int, count: int) -> WorkerGroup:
        group = self._groups.get((pool, count))
        if group is None:
            group = self._groups[pool, count] = self.market.pools[pool].group(count)
        return group

    def _exchange(self, draft: Draft, counts: Mapping[str, int]) -> Exchange | None:
        workers, (name, steps), (place, store) = sum(counts.values()), draft.mode, draft.hub
        if workers == 1:
            return exchange_for(NO_EXCHANGE, 1, self.problem)
        chosen = traits(name)
        if len(counts) < chosen.least_regions or draft.hub not in self.hubs.of(
            name, tuple(sorted(counts))
        ):
            return None
        if chosen.hub == "server":
            offer = self._server(place or "", workers)
            return (
                None
                if offer is None
                else exchange_for(
                    name, workers, self.problem, place, server=WorkerGroup.of(offer, 1)
                )
            )
        regional = chosen.transport == "regional-stores"
        gradients = max(*counts.values(), len(counts)) if regional else workers
        return exchange_for(name, gradients, self.problem, place, store, local_steps=steps)

    def _server(self, place: str, workers: int) -> VmOffer | None:
        if (place, workers) not in self._servers:
            self._servers[place, workers] = server_at(place, workers, self.problem)
        return self._servers[place, workers]

    def _ranked(self, draft: Draft) -> Rank:
        if self.alike and len({self.device[i] for i, _ in draft.counts}) > 1:
            return NEVER
        counts = self.by_place(draft)
        lacking = self._lacking(counts) + self._owed(draft)
        placement = (
            self.placement(draft)
            if lacking < inf and self._within_quotas(draft, sum(counts.values()))
            else None
        )
        if placement is None:
            return NEVER
        if not self.needed <= counts.keys():
            return lacking, 0.0, 0.0
        outcome = evaluate(placement, self.problem)
        lacking += self._over(
            outcome.usd.total, outcome.samples_per_second, outcome.carbon_g_per_hour or 0.0
        )
        if self.wish.kept and any(
            leaks(placement, exchange_phases(placement, self.problem), (), self.problem)
        ):
            lacking += 1  # data that moves is looked at when the draft is offered
        key = self.target.objective.score(outcome)
        if lacking == 0 and key < self.target.best_key:
            self.target.offer(placement)
            if self.target.best is not placement:
                return NEVER
            self.best = draft
        return lacking, *key

    def _lacking(self, counts: Mapping[str, int]) -> float:
        """Sum what is missing of workers, regions and places; infinite if too many."""
        workers, wish = sum(counts.values()), self.wish
        if not 1 <= workers <= self.most or len(counts) > wish.max_regions:
            return inf
        missing = len(self.needed - counts.keys()) / max(1, len(self.needed))
        return (
            max(0.0, 1 - workers / wish.min_workers)
            + max(0.0, 1 - len(counts) / wish.min_regions)
            + missing
        )

    def _owed(self, draft: Draft) -> float:
        """Sum the required machines that are missing, as shares of what each rule asks for."""
        return sum(
            max(0.0, 1 - sum(n for i, n in draft.counts if i in owns) / count)
            for count, owns in self.rules
        )

    def _within_quotas(self, draft: Draft, workers: int) -> bool:
        used: dict[tuple[str, ...], int] = {}
        quotas: dict[tuple[str, ...], int] = {}
        pools = self.market.pools
        for i, n in draft.counts:
            pool = pools[i]
            bucket = pool.bucket
            if n > pool.max_count:
                return False
            used[bucket] = used.get(bucket, 0) + n * pool.gpus
            quotas[bucket] = pool.gpu_quota
        if workers > 1 and traits(draft.mode[0]).hub == "server":
            server = self._server(draft.hub[0] or "", workers)
            bucket = ("", "", "") if server is None else (server.place, server.gpu, server.market)
            if server is not None and bucket in used and needs_quota(server, self.problem):
                used[bucket] += server.gpu_count
        if any(
            sum(n * row.taken(pools[i]) for i, n in draft.counts) > row.most for row in self._joint
        ):
            return False
        return all(gpus <= quotas[bucket] for bucket, gpus in used.items())
