"""Workers of a model with an architecture: machines of one offer, their plan and its rate."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from placer.market.catalog import Catalog, Gpu, VmOffer
from placer.problem.placement import LARGEST_ISLAND
from placer.problem.requirements import Requirements
from placer.problem.workers.pool import ChainPart
from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.engines import ENGINES, MODELS
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import (
    Bounds,
    Island,
    PlanWishes,
    Question,
    Refusal,
    bounds,
    island,
    least_sequence_seconds,
)
from placer.workload.island.chain import Chain, Line, Way, chain
from placer.workload.island.hardware import (
    MOST_ISLAND_MACHINES,
    Hardware,
    lacks_precision,
    powers_of_two,
    usual_precision,
)
from placer.workload.island.memory import least_bytes
from placer.workload.island.plans import plans_within
from placer.workload.profile import COMPRESSION_BYTES, ModelProfile, Rate
from placer.workload.software import software


class StepPart(NamedTuple):
    """Equal parts of a step of some sequences, in whole ones, for some workers."""

    batch: int
    workers: int

    @property
    def fullest(self) -> int:
        """Sequences of the worker that has the most."""
        return -(-self.batch // self.workers)

    @property
    def emptiest(self) -> int:
        """Sequences of the worker that has the fewest."""
        return self.batch // self.workers


class IslandQuestion(Struct, frozen=True, kw_only=True):
    """What the plan of an island depends on, beside its machines and its share of a step."""

    profile: ModelProfile
    architecture: Architecture
    catalog: Catalog
    transport: str
    compression: str
    wish: Requirements

    def _gpu(self, offer: VmOffer) -> Gpu:
        return self.catalog.gpu(offer.gpu)

    def _hardware(self, offer: VmOffer, machines: int) -> Hardware:
        gpu, own = self._gpu(offer), offer.nvlink_gb_per_s
        return Hardware(
            gpu=gpu if own is None else replace(gpu, nvlink_gb_per_s=own),
            gpu_count=offer.gpu_count,
            network_gbps=offer.network_gbps,
            fabric=offer.fabric,
            machines=machines,
            host_gib=offer.memory_gib,
        ).joined

    def plan_wishes(self, inner: InnerPlan | None = None) -> PlanWishes:
        """Return the parts of the plan that are fixed: all of a known one, else those asked for."""
        each, wish = COMPRESSION_BYTES[self.compression], self.wish
        if inner is not None:
            plan = {**asdict(inner), "software": inner.software or None}
            return PlanWishes(
                **{name: plan[name] for name in PlanWishes.__struct_fields__ if name in plan},
                loss=software(inner.software).loss,
                gradient_bytes_per_parameter=each,
                headroom=0.0,
            )
        degrees = ENGINES[wish.engine].undivided if wish.engine else {}
        if wish.tensor_parallel is not None:
            degrees = {**degrees, "tensor_parallel": wish.tensor_parallel}
        local = wish.exchange in MODELS or wish.max_local_steps is not None
        return PlanWishes(
            **degrees,
            hybrid=not (wish.engine and local),
            sharding=wish.sharding,
            checkpointing=wish.checkpointing,
            microbatch=wish.microbatch,
            precision=wish.precision,
            software=wish.software,
            loss=software(wish.software).loss,
            gradient_bytes_per_parameter=each,
        )

    def island(
        self, offer: VmOffer, machines: int, part: StepPart, inner: InnerPlan | None = None
    ) -> Island | Refusal:
        """Return the plan by which machines do a part of a step, or why there is none."""
        if self._gpu(offer).kind != "gpu":
            return Refusal(
                code="device",
                reason=f"nobody knows how fast {self.profile.name} trains on {offer.gpu}",
            )
        built = self.built(offer, machines, part, self.plan_wishes(inner))
        if inner is not None and isinstance(built, Refusal) and built.code == "memory":
            # Somebody runs this plan, perhaps with software whose loss needs less.
            fused = replace(self.plan_wishes(inner), loss="fused")
            built = self.built(offer, machines, part, fused)
        return built

    def completed(
        self, offer: VmOffer, machines: int, part: StepPart, written: Mapping[str, Any]
    ) -> Island | Refusal:
        """Return the fastest plan that has some written parts, or why there is none."""
        wishes = replace(self.plan_wishes(), **written)
        losses = dict.fromkeys((software(wishes.software).loss, "fused"))
        for loss in losses:  # as of a whole plan: somebody's software may need less
            built = self.built(offer, machines, part, replace(wishes, loss=loss))
            if isinstance(built, Island) or built.code != "memory":
                break
        return built

    def built(
        self, offer: VmOffer, machines: int, part: StepPart, wishes: PlanWishes
    ) -> Island | Refusal:
        """Return the plan that some wishes leave for machines of an offer, or why there is none."""
        return island(self._asked(offer, machines, part, wishes))

    def plans_within(
        self, offer: VmOffer, machines: int, part: StepPart, longest_s: float
    ) -> Collection[InnerPlan]:
        """Return plans within some seconds: one for each time that a plan takes."""
        asked = self._asked(offer, machines, part, self.plan_wishes())
        return plans_within(longest_s, asked)

    def _asked(self, offer: VmOffer, machines: int, part: StepPart, wishes: PlanWishes) -> Question:
        return Question(
            architecture=self.architecture,
            hardware=self._hardware(offer, machines),
            wishes=wishes,
            sequences=part.fullest,
            fewest=part.emptiest,
            joined=part.workers > 1,
            transport=self.transport,
        )

    def chain(
        self, parts: Sequence[ChainPart], ways: tuple[Way, ...], sequences: int
    ) -> Chain | Refusal:
        """Return how machines of several offers, each with some layers, do a step of some
        sequences: by the plans of the parts, where each has one, else by the fastest.
        """
        unknown = next((p.offer for p in parts if not p.offer.network_gbps), None)
        if unknown is not None or any(self._gpu(p.offer).kind != "gpu" for p in parts):
            reason = "stages of several devices need GPUs and a network that the book knows"
            return Refusal(code="network", reason=reason)
        plans = [part.inner for part in parts]
        layers = tuple(plan.layers for plan in plans if plan is not None)
        if layers and (len(layers) < len(parts) or sum(layers) != self.architecture.layers):
            reason = f"layers= of all parts has to be {self.architecture.layers} together"
            return Refusal(code="layers", reason=reason)
        if any(plan is not None and plan.virtual_stages > 1 for plan in plans):
            reason = "stages of several devices are not cut into pieces: leave vp= out"
            return Refusal(code="layers", reason=reason)
        free = self.plan_wishes()
        free = replace(free, sharding=free.sharding or "zero-1")
        return chain(
            Line(
                architecture=self.architecture,
                hardware=tuple(self._hardware(p.offer, p.machines) for p in parts),
                machines=tuple(part.machines for part in parts),
                wishes=tuple(free if p is None else self.plan_wishes(p) for p in plans),
                layers=layers or None,
                ways=ways,
                sequences=sequences,
            )
        )

    def bounds(self, offer: VmOffer, machines: int, *, joined: bool) -> Bounds:
        """Return the plans that fit some machines of an offer, with bounds on their seconds."""
        hardware, wishes = self._hardware(offer, machines), self.plan_wishes()
        return bounds(self.architecture, hardware, wishes, self.transport, joined=joined)

    def sequence_seconds(self, offer: VmOffer, machines: int) -> tuple[tuple[int, float], ...]:
        """Return the seconds in which a rank of some machines of an offer, or of fewer, calculates
        a sequence at least, by tensor parallel degree; empty where nobody knows.
        """
        wishes, gpu = self.plan_wishes(), self._gpu(offer)
        if gpu.kind != "gpu" or (wishes.precision and lacks_precision(gpu, wishes.precision)):
            return ()
        return least_sequence_seconds(self.architecture, gpu, offer.gpu_count, machines, wishes)

    def limits(self, offer: VmOffer) -> tuple[int, int]:
        """Return the fewest and most machines that one worker of an offer may have."""
        wish = self.wish
        limit = offer.max_island_machines or MOST_ISLAND_MACHINES
        if not wish.same_zone:
            limit = 1  # an island is in one zone
        most = min(limit, LARGEST_ISLAND, wish.max_island_machines or limit)
        return wish.min_island_machines or 1, most

    def nearest(
        self, offer: VmOffer, part: StepPart, machines: int = MOST_ISLAND_MACHINES
    ) -> tuple[int, Island | Refusal]:
        """Return the smallest island of up to some machines of an offer that can train the model;
        else the one that lacks the least share of its memory.
        """
        least, limit = self.limits(offer)
        if least > limit:
            reason = (
                f"{least} machines of {offer.device} cannot form an island: at most {limit} can"
            )
            return least, Refusal(code="network", reason=reason)
        most = min(limit, machines)
        doubled = {k for k in (least, *powers_of_two(most), most) if least <= k <= most}
        tried = sorted(doubled) or [least]
        low = tried[0]
        for count in tried:
            built = self._fitting(offer, part, count)
            if built is not None:
                break
            low = count
        else:
            refused = [(count, self.island(offer, count, part)) for count in tried]
            return min(refused, key=lambda row: getattr(row[1], "shortage", 0.0))
        while count - low > 1:  # more machines never need more memory each
            middle = (low + count) // 2
            smaller = self._fitting(offer, part, middle)
            if smaller is None:
                low = middle
            else:
                count, built = middle, smaller
        return count, built

    def _fitting(self, offer: VmOffer, part: StepPart, machines: int) -> Island | None:
        wishes, gpu = self.plan_wishes(), self._gpu(offer)
        precision, gpus = wishes.precision or usual_precision(gpu), machines * offer.gpu_count
        needed = least_bytes(self.architecture, precision, wishes.software or "", gpus)
        if needed > gpu.memory_gib * GIB:
            return None
        known = self.bounds(offer, machines, joined=part.workers > 1)
        if not known.reach(part.fullest, part.emptiest, math.inf):
            return None
        built = self.island(offer, machines, part)
        return built if isinstance(built, Island) else None

    def rates(self, built: Island | Chain, offer: VmOffer, sequences: float) -> tuple[Rate, Rate]:
        """Return the speed of an island alone, and of one that exchanges with others, while each of
        its steps has some sequences: the share of a step, whole or not, whose fullest rank was
        timed.
        """
        value = sequences / built.step.seconds
        alone = Rate(
            gpu=offer.gpu,
            gpu_count=offer.gpu_count,
            framework="none",
            value=value,
            low=value * built.low / built.samples_per_second,
            high=value * built.high / built.samples_per_second,
            basis=built.basis,
            source=built.source,
        )
        # Islands of one zone are as fast as one of all their machines; only the doubt is wider.
        slowed = self.profile.slowed(alone, self.transport)
        shared = replace(slowed, basis=built.basis, value=value, high=max(value, slowed.high))
        return alone, shared
