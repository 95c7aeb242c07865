"""What is asked of an island."""

from __future__ import annotations

from dataclasses import dataclass

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.candidates import candidate_plans
from placer.workload.island.hardware import Hardware
from placer.workload.island.precision import usual_precision
from placer.workload.island.transports import Transport
from placer.workload.island.wishes import PlanWishes


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A model, some machines, wishes, sequences of one step, and what runs inside the island."""

    architecture: Architecture
    hardware: Hardware
    wishes: PlanWishes
    batch: int
    via: Transport

    @property
    def precision(self) -> str:
        """The format that the user asks for, else the usual one of the device."""
        return self.wishes.precision or usual_precision(self.hardware.gpu)

    @property
    def plans(self) -> tuple[InnerPlan, ...]:
        """Plans that wishes and machines admit, with a microbatch of one; simple ones first."""
        hardware = self.hardware
        return candidate_plans(
            self.architecture,
            hardware.gpu_count,
            hardware.machines == 1,
            self.wishes,
            self.precision,
        )
