"""Workers of a model whose speed follows from its architecture: machines of one offer, their plan
for a share of a step, and its rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

from placer.market.catalog import Gpu, VmOffer
from placer.problem.placement import LARGEST_ISLAND
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import (
    Bounds,
    Island,
    PlanWishes,
    Refusal,
    bounds,
    island,
    least_sequence_seconds,
)
from placer.workload.island.hardware import MOST_ISLAND_MACHINES, Hardware, powers_of_two
from placer.workload.island.precision import lacks_precision
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


def _as_linked(gpu: Gpu, offer: VmOffer) -> Gpu:
    """Return a device with the bandwidth that it has in the machines of an offer."""
    own = offer.nvlink_gb_per_s
    return gpu if own is None else replace(gpu, nvlink_gb_per_s=own)


class IslandQuestion(Struct, frozen=True, kw_only=True):
    """What the plan of an island depends on, beside its machines and its share of a step."""

    profile: ModelProfile
    architecture: Architecture
    transport: str
    compression: str
    wish: Requirements

    def plan_wishes(self, inner: InnerPlan | None = None) -> PlanWishes:
        """Return the parts of the plan that are fixed: all of a known one, else those asked for."""
        each = COMPRESSION_BYTES[self.compression]
        if inner is not None:
            return PlanWishes(
                sharding=inner.sharding,
                tensor_parallel=inner.tensor_parallel,
                checkpointing=inner.checkpointing,
                microbatch=inner.microbatch,
                precision=inner.precision,
                software=inner.software or None,
                pipeline=inner.pipeline,
                virtual_stages=inner.virtual_stages,
                expert_parallel=inner.expert_parallel,
                context_parallel=inner.context_parallel,
                loss=software(inner.software).loss,
                gradient_bytes_per_parameter=each,
                headroom=0.0,
            )
        wish = self.wish
        return PlanWishes(
            sharding=wish.sharding,
            tensor_parallel=wish.tensor_parallel,
            checkpointing=wish.checkpointing,
            microbatch=wish.microbatch,
            precision=wish.precision,
            software=wish.software,
            loss=software(wish.software).loss,
            gradient_bytes_per_parameter=each,
        )

    def island(
        self,
        offer: VmOffer,
        gpu: Gpu,
        machines: int,
        part: StepPart,
        inner: InnerPlan | None = None,
    ) -> Island | Refusal:
        """Return the plan by which some machines of an offer do a share of a step, or why there is
        none.

        Parameters
        ----------
        part
            Its part of a step, or that of the fullest of several islands.
        """
        if gpu.kind != "gpu":
            return Refusal(
                code="device",
                reason=f"nobody knows how fast {self.profile.name} trains on {gpu.gpu}",
            )
        built = self.built(offer, gpu, machines, part, self.plan_wishes(inner))
        if inner is not None and isinstance(built, Refusal) and built.code == "memory":
            # Somebody runs this plan, perhaps with software whose loss needs less.
            fused = replace(self.plan_wishes(inner), loss="fused")
            built = self.built(offer, gpu, machines, part, fused)
        return built

    def built(
        self, offer: VmOffer, gpu: Gpu, machines: int, part: StepPart, wishes: PlanWishes
    ) -> Island | Refusal:
        """Return the plan that some wishes leave for machines of an offer, or why there is none."""
        return island(
            self.architecture,
            _as_linked(gpu, offer),
            offer.gpu_count,
            offer.network_gbps,
            offer.fabric,
            machines,
            wishes,
            part.fullest,
            self.transport,
            offer.memory_gib,
            part.emptiest,
            part.workers > 1,
        )

    def bounds(self, offer: VmOffer, gpu: Gpu, machines: int, *, joined: bool) -> Bounds:
        """Return the plans that fit some machines of an offer, with bounds on their seconds."""
        hardware = Hardware(
            gpu=_as_linked(gpu, offer),
            gpu_count=offer.gpu_count,
            network_gbps=offer.network_gbps,
            fabric=offer.fabric,
            machines=machines,
            host_gib=offer.memory_gib,
        )
        return bounds(
            self.architecture, hardware, self.plan_wishes(), self.transport, joined=joined
        )

    def sequence_seconds(
        self, offer: VmOffer, gpu: Gpu, machines: int
    ) -> tuple[tuple[int, float], ...]:
        """Return the seconds in which a rank of some machines of an offer, or of fewer, calculates
        a sequence at least, by tensor parallel degree; empty where nobody knows.
        """
        wishes = self.plan_wishes()
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
        self, offer: VmOffer, gpu: Gpu, part: StepPart, machines: int = MOST_ISLAND_MACHINES
    ) -> tuple[int, Island | Refusal]:
        """Return the smallest island of an offer that can train the model, with its machines; if
        there is none, the one that lacks the least share of its memory.

        Parameters
        ----------
        machines
            Most machines that may be tried.
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
            built = self._fitting(offer, gpu, part, count)
            if built is not None:
                break
            low = count
        else:
            refused = [(count, self.island(offer, gpu, count, part)) for count in tried]
            return min(refused, key=lambda row: getattr(row[1], "shortage", 0.0))
        while count - low > 1:  # more machines never need more memory each
            middle = (low + count) // 2
            smaller = self._fitting(offer, gpu, part, middle)
            if smaller is None:
                low = middle
            else:
                count, built = middle, smaller
        return count, built

    def _fitting(self, offer: VmOffer, gpu: Gpu, part: StepPart, machines: int) -> Island | None:
        """Return the island of some machines; None if no plan fits them."""
        known = self.bounds(offer, gpu, machines, joined=part.workers > 1)
        if not known.reach(part.fullest, part.emptiest, math.inf):
            return None
        built = self.island(offer, gpu, machines, part)
        return built if isinstance(built, Island) else None

    def rates(self, built: Island, offer: VmOffer, sequences: float) -> tuple[Rate, Rate]:
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
