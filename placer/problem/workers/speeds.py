"""Workers of an offer: the plan of their machines, how fast they are, and how they average."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from placer.market.catalog import OLD_TRANSPORT, VmOffer
from placer.market.words.own_places import SITES
from placer.problem.kept_answers import Recent
from placer.problem.question import KEPT_POOLS
from placer.problem.workers.islands import IslandQuestion, StepPart
from placer.problem.workers.pool import ChainPart, Pool
from placer.problem.workers.resources import WithReading
from placer.records import replace
from placer.workload.constants import ASSUMED_GBPS, Peer
from placer.workload.data_loading import LOADER_STREAMS
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import TRANSPORTS, Bounds, Island, Refusal
from placer.workload.island.chain import MOST_PARTS, Chain, Way
from placer.workload.island.divisions import HOP_LATENCY_S
from placer.workload.island.hardware import DOMAIN_MACHINES, MOST_ISLAND_MACHINES
from placer.workload.island.transports import attained_bytes_per_s
from placer.workload.profile import NODE_EFFICIENCY, ModelProfile, Rate


class KnownIslands(NamedTuple):
    """A profile, and what was worked out of its islands: fewest machines, plans, bounds."""

    profile: ModelProfile
    least: dict[object, int]
    built: dict[object, Island | Refusal]
    bounds: dict[object, Bounds]


ISLAND_FIELDS = (
    "gpu",
    "gpu_count",
    "network_gbps",
    "fabric",
    "max_island_machines",
    "memory_gib",
    "nvlink_gb_per_s",
)
"""All of an offer that its islands depend on."""
island_kind: Callable[[VmOffer], tuple[Any, ...]] = attrgetter(*ISLAND_FIELDS)


def _at_most(rate: Rate, most: float) -> Rate:
    return rate if rate.value <= most else replace(rate, value=most, low=min(rate.low, most))


class WithSpeeds(WithReading, frozen=True, kw_only=True, dict=True):
    """A question, with the workers that machines of an offer make."""

    @cached_property
    def island_question(self) -> IslandQuestion | None:
        """What the plans inside workers depend on; None for a model without an architecture."""
        if self.profile.architecture is None:
            return None
        return IslandQuestion(
            profile=self.profile,
            architecture=self.profile.architecture,
            catalog=self.catalog,
            transport=self.transport,
            compression=self.compression,
            wish=self.requirements,
        )

    @cached_property
    def _island_limits(self) -> tuple[object, ...]:
        if self.island_question is None:
            return ()
        wish = self.requirements
        fields = (wish.min_island_machines, wish.max_island_machines, wish.same_zone)
        plan = self.island_question.plan_wishes()
        return (*fields, plan, wish.max_machines, self.batch)

    @cached_property
    def _known_islands(self) -> KnownIslands:
        """Islands that were worked out, shared by questions of the same plans."""
        kept: Recent[KnownIslands] = self.catalog.memo.setdefault("islands", Recent(KEPT_POOLS))
        # While the profile is held, nothing else has its id.
        key = id(self.profile), self._island_limits, self.transport, self.compression
        return kept.get(key, lambda: KnownIslands(self.profile, {}, {}, {}))

    def island(
        self,
        offer: VmOffer,
        machines: int = 1,
        inner: InnerPlan | None = None,
        workers: int | None = None,
    ) -> Island | Refusal | None:
        """Return the plan and rate of some machines of an offer as one of some workers, or why
        there is none; None for a model without an architecture. Where the request leaves their
        number open and none is given, it does the whole step.
        """
        question = self.island_question
        if question is None:
            return None
        count = self.sharing(workers) or 1
        part = StepPart(self.batch, count)
        kind = island_kind(offer), machines, inner, part
        known = self._known_islands.built
        if kind not in known:
            built = known[kind] = question.island(offer, machines, part, inner)
            if inner is None and isinstance(built, Island):
                for each in (built, *built.rivals):  # somebody may ask for their plans
                    known.setdefault((*kind[:2], each.plan, part), each)
        return known[kind]

    def completed(
        self, offer: VmOffer, machines: int, written: Mapping[str, Any], workers: int
    ) -> Island | Refusal | None:
        """Return the fastest plan of some machines of which parts are written, as `island` does."""
        question = self.island_question
        if question is None:
            return None
        return question.completed(offer, machines, StepPart(self.batch, workers), written)

    def may_reach(self, offer: VmOffer, machines: int, workers: int, longest_s: float) -> bool:
        """Tell whether machines may do their part of a step in some seconds, by bounds."""
        question, part = self.island_question, StepPart(self.batch, workers)
        if question is None or longest_s == math.inf:
            return True
        sequences, joined = part.fullest, workers > 1
        several = machines > 1 and question.architecture.experts > 1
        if several and offer.gpu not in DOMAIN_MACHINES:
            rounded = 2 ** (machines - 1).bit_length()
            whole = self._bounds(question, offer, rounded, joined=joined)
            if not whole.reach_with(machines, sequences, part.emptiest, longest_s):
                return False
        own = self._bounds(question, offer, machines, joined=joined)
        return own.reach(sequences, part.emptiest, longest_s)

    def _bounds(
        self, question: IslandQuestion, offer: VmOffer, machines: int, *, joined: bool
    ) -> Bounds:
        kind, known = (island_kind(offer), machines, joined), self._known_islands.bounds
        if kind not in known:
            known[kind] = question.bounds(offer, machines, joined=joined)
        return known[kind]

    def chain(self, parts: tuple[ChainPart, ...]) -> Chain | Refusal:
        """Return how machines of several offers do a step as stages, or why they cannot."""
        question = self.island_question
        if question is None or len(parts) > MOST_PARTS:
            reason = f"{self.profile.name} has no architecture that gives its layers"
            if question is not None:
                reason = f"{len(parts)} parts, and up to {MOST_PARTS} are timed"
            return Refusal(code="layers", reason=reason)
        return self._once("chains", parts, lambda: self._chain(question, parts))

    def _chain(self, question: IslandQuestion, parts: tuple[ChainPart, ...]) -> Chain | Refusal:
        ways = tuple(self._way(a.offer, b.offer) for a, b in pairwise(parts))
        return question.chain(parts, ways, self.batch)

    def _way(self, one: VmOffer, other: VmOffer) -> Way:
        """Return the way between a machine of each of two parts: over the slower network of both,
        and between places over the slower direction of the link.
        """
        gbps = min(one.network_gbps or 0.0, other.network_gbps or 0.0)
        inside = attained_bytes_per_s(gbps, TRANSPORTS["nccl"])
        if one.place == other.place:
            return Way(inside, HOP_LATENCY_S)
        ends = (one.place, other.place), (other.place, one.place)
        links = [self.network.link(*pair) for pair in ends]
        pair = min(inside, *(link.speed(LOADER_STREAMS) for link in links))
        shares_line = any(end.startswith(SITES) for end in ends[0])
        return Way(pair, max(link.rtt_s for link in links) / 2, pair if shares_line else math.inf)

    def nearest_island(
        self, offer: VmOffer, machines: int = MOST_ISLAND_MACHINES
    ) -> tuple[int, Island | Refusal] | None:
        """Return the smallest island of at most so many machines of an offer that can train the
        model, else the refused one that lacks least; None for a model without an architecture.
        """
        question = self.island_question
        if question is None:
            return None
        return question.nearest(offer, StepPart(self.batch, 1), machines)

    def pools_of(self, offer: VmOffer) -> tuple[Pool, ...]:
        """Return the workers that stand for an offer: the smallest that can train the model."""
        if self.island_question is None:
            pool = self.pool(offer)
            return () if pool is None else (pool,)
        kind = island_kind(offer)
        known = self._known_islands.least
        if kind not in known:
            least, built = self.nearest_island(offer) or (1, None)
            known[kind] = least if isinstance(built, Island) else 0
        pool = self.pool(offer, known[kind]) if known[kind] else None
        return () if pool is None else (pool,)

    def pool(
        self,
        offer: VmOffer,
        machines: int = 1,
        inner: InnerPlan | None = None,
        workers: int | None = None,
        behind: tuple[ChainPart, ...] = (),
    ) -> Pool | None:
        """Return the rates and quota of an offer as workers of some machines; None if nobody can
        say how fast it is, or the model fits no plan. ``inner``: the plan inside a worker; None:
        the fastest, for a model with an architecture. ``workers``: how many workers share a step in
        equal parts; None: as many as the request asks for. Where it leaves that open a worker has
        no plan, and a speed that none exceeds. ``behind``: machines with the later layers; such a
        worker does all of a step.
        """
        if self.island_question is None and (machines > 1 or inner is not None):
            return None
        workers = 1 if behind else self.sharing(workers)
        built = (
            self.chain((ChainPart(offer, machines, inner), *behind))
            if behind
            else self.island(offer, machines, inner, workers)
        )
        if isinstance(built, Refusal):
            return None
        alone, shared = self._once(
            "rates",
            (id(built) if built is not None else None, offer.gpu, offer.gpu_count, workers),
            lambda: (
                self._machine_rates(offer)
                if built is None
                else self._rates_of(built, offer, machines, workers)
            ),
        )
        if alone is None or shared is None:
            return None
        loader = self.loader(offer, machines)
        if loader is not None:
            alone, shared = loader.loaded(alone), loader.loaded(shared)
        asked = self.requirements.narrowed
        if asked is not None and workers is not None and asked.least_s > 0:
            most = self.batch / workers / asked.least_s
            alone, shared = (_at_most(rate, most) for rate in (alone, shared))
        supply = self.supply(offer)
        gpus = self._gpus_together(offer, supply)
        planned = built is not None and (workers is not None or inner is not None)
        plans = built.plans if isinstance(built, Chain) else () if built is None else (built.plan,)
        return Pool(
            offer=offer,
            alone=alone,
            shared=shared,
            gpu_quota=gpus,
            machines_there=self._machines_of(offer, gpus),
            host=self.averaging_class(offer, machines),
            machines=machines,
            inner=plans[0] if planned else None,
            behind=tuple(p._replace(inner=plan) for p, plan in zip(behind, plans[1:], strict=True)),
            loader=loader,
            speed_cap=self._speed_cap(offer),
            supplied=supply is not None,
            free_share=1.0 if built is None or workers is None else built.step.free_share,
        )

    def _machine_rates(self, offer: VmOffer) -> tuple[Rate | None, ...]:
        gpu, node = self.catalog.gpu(offer.gpu), NODE_EFFICIENCY[self.transport]
        return tuple(
            self.profile.rate(gpu, offer.gpu_count, framework, self.catalog, node)
            for framework in ("none", self.transport)
        )

    def _rates_of(
        self, built: Island | Chain, offer: VmOffer, machines: int, workers: int | None
    ) -> tuple[Rate | None, ...]:
        question = self.island_question
        assert question is not None
        rates = question.rates(built, offer, self.batch / (workers or 1))
        if workers is not None:
            return rates
        rank_s = question.sequence_seconds(offer, question.limits(offer)[1])
        most = machines * offer.gpu_count / min(s * degree for degree, s in rank_s)
        return tuple(replace(rate, value=most, high=max(most, rate.high)) for rate in rates)

    def averaging_class(self, offer: VmOffer, machines: int = 1) -> str:
        """Name the class of averaging time of a worker of some machines: its usual host under
        hivemind, else the software and the network of all its machines.
        """
        kind = offer.gpu, offer.network_gbps, machines
        return self._once("averaging", kind, lambda: self._averaging_class(*kind))

    def _averaging_class(self, device: str, network_gbps: float | None, machines: int) -> str:
        gpu, transport = self.catalog.gpu(device), self.transport
        if transport == OLD_TRANSPORT:
            return gpu.host
        if transport == "nccl" and gpu.kind == "cpu":
            transport = "gloo"
        gbps = machines * (network_gbps or ASSUMED_GBPS)
        return Peer(transport=transport, gbps=gbps).name
