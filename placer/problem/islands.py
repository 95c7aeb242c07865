"""Workers of a model whose speed follows from its architecture: machines of one offer, their plan
and its rate.
"""

from __future__ import annotations

from msgspec import Struct

from placer.market.catalog import Gpu, VmOffer
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import Island, PlanWishes, Refusal, island, machine_counts
from placer.workload.island.machine_counts import MOST_ISLAND_MACHINES, powers_of_two
from placer.workload.profile import COMPRESSION_BYTES, ModelProfile, Rate


class IslandQuestion(Struct, frozen=True, kw_only=True):
    """What the plan of an island depends on, beside its machines."""

    profile: ModelProfile
    architecture: Architecture
    batch: int
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
                gradient_bytes_per_parameter=each,
            )
        wish = self.wish
        return PlanWishes(
            sharding=wish.sharding,
            tensor_parallel=wish.tensor_parallel,
            checkpointing=wish.checkpointing,
            microbatch=wish.microbatch,
            precision=wish.precision,
            gradient_bytes_per_parameter=each,
        )

    def island(
        self, offer: VmOffer, gpu: Gpu, machines: int, inner: InnerPlan | None = None
    ) -> Island | Refusal:
        """Return the plan and rate of some machines of an offer, or why there is none."""
        if gpu.kind != "gpu":
            return Refusal(
                code="device",
                reason=f"nobody knows how fast {self.profile.name} trains on {gpu.gpu}",
            )
        built = island(
            self.architecture,
            gpu,
            offer.gpu_count,
            offer.network_gbps,
            offer.fabric,
            machines,
            self.plan_wishes(inner),
            self.batch,
            self.transport,
        )
        if isinstance(built, Island) and built.host_bytes > offer.memory_gib * GIB:
            return Refusal(
                code="host-memory",
                reason=(
                    f"{self.profile.name} needs {built.host_bytes / GIB:.0f} GiB of host memory on "
                    f"each machine; {offer.instance_type} has {offer.memory_gib:g} GiB"
                ),
                plan=built.plan,
                shortage=built.host_bytes / (offer.memory_gib * GIB),
            )
        return built

    def limits(self, offer: VmOffer) -> tuple[int, int]:
        """Return the fewest and most machines that one worker of an offer may have."""
        wish = self.wish
        limit = offer.max_island_machines or MOST_ISLAND_MACHINES
        if not wish.same_zone:
            limit = 1  # an island is in one zone
        return wish.min_island_machines or 1, min(limit, wish.max_island_machines or limit)

    def nearest(
        self, offer: VmOffer, gpu: Gpu, machines: int = MOST_ISLAND_MACHINES
    ) -> tuple[int, Island | Refusal]:
        """Return the smallest island of an offer that can train the model, with its machines; if
        there is none, the one that lacks the least share of its memory.

        Parameters
        ----------
        machines
            Most machines that may be tried.
        """
        least, limit = self.limits(offer)
        most = min(limit, machines)
        counts = sorted({k for k in (least, *powers_of_two(most), most) if least <= k <= most})
        tried: list[tuple[int, Refusal]] = []
        for count in counts or [least]:
            built = self.island(offer, gpu, count)
            if isinstance(built, Island):
                return count, built
            tried.append((count, built))
        return min(tried, key=lambda pair: pair[1].shortage)

    def counts(self, offer: VmOffer, gpu: Gpu) -> tuple[int, ...]:
        """List the numbers of machines that are worth offering as one worker."""
        if gpu.kind != "gpu":
            return ()
        wish = self.wish
        asked = wish.min_island_machines is not None
        least, limit = self.limits(offer)
        counts = machine_counts(
            self.architecture,
            gpu,
            offer.gpu_count,
            offer.network_gbps,
            offer.fabric,
            self.plan_wishes(),
            self.batch,
            self.transport,
            all_counts=asked or wish.max_local_steps is not None,
            most=limit,
        )
        if not asked:
            return counts
        # The ends of a range may be no powers of two.
        ends = {k for k in (least, limit) if isinstance(self.island(offer, gpu, k), Island)}
        return tuple(sorted({k for k in {*counts, *ends} if least <= k <= limit}))

    def rates(self, built: Island, offer: VmOffer) -> tuple[Rate, Rate]:
        """Return the speed of an island alone, and of one that exchanges with others."""
        alone = Rate(
            gpu=offer.gpu,
            gpu_count=offer.gpu_count,
            framework="none",
            value=built.samples_per_second,
            low=built.low,
            high=built.high,
            basis=built.basis,
            source=built.source,
        )
        shared = self.profile.slowed(alone, self.transport)
        return alone, replace(shared, basis=built.basis)
