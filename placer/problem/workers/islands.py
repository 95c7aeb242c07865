"""Workers of a model whose speed follows from its architecture: machines of one offer, their plan
for a share of a step, and its rate.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from placer.market.catalog import Gpu, VmOffer
from placer.problem.placement import LARGEST_ISLAND
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.engines import ENGINES, MODELS
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import Island, PlanWishes, Refusal, island, least_sequence_seconds
from placer.workload.island.hardware import MOST_ISLAND_MACHINES, powers_of_two
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
        built = self._built(offer, gpu, machines, part, self.plan_wishes(inner))
        if inner is not None and isinstance(built, Refusal) and built.code == "memory":
            # Somebody runs this plan, perhaps with software whose loss needs less.
            fused = replace(self.plan_wishes(inner), loss="fused")
            built = self._built(offer, gpu, machines, part, fused)
        return built

    def _built(
        self, offer: VmOffer, gpu: Gpu, machines: int, part: StepPart, wishes: PlanWishes
    ) -> Island | Refusal:
        if offer.nvlink_gb_per_s is not None:
            gpu = replace(gpu, nvlink_gb_per_s=offer.nvlink_gb_per_s)
        return island(
            self.architecture,
            gpu,
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
        tried: list[tuple[int, Refusal]] = []
        doubled = {k for k in (least, *powers_of_two(most), most) if least <= k <= most}
        for count in sorted(doubled) or [least]:
            built = self.island(offer, gpu, count, part)
            if isinstance(built, Island):
                known = max((k for k, _ in tried), default=count)
                return self._smallest(offer, gpu, part, known, (count, built))
            tried.append((count, built))
        return min(tried, key=lambda pair: pair[1].shortage)

    def _smallest(
        self, offer: VmOffer, gpu: Gpu, part: StepPart, low: int, fits: tuple[int, Island]
    ) -> tuple[int, Island]:
        """Return the smallest island above one that does not fit; the larger one fits."""
        while fits[0] - low > 1:  # more machines never need more memory each
            middle = (low + fits[0]) // 2
            built = self.island(offer, gpu, middle, part)
            if isinstance(built, Island):
                fits = middle, built
            else:
                low = middle
        return fits

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
