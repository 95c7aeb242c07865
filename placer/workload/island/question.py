"""What is asked of an island."""

from __future__ import annotations

from dataclasses import dataclass

from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.candidates import candidates
from placer.workload.island.hardware import Hardware
from placer.workload.island.memory import Memory
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
    def candidates(self) -> tuple[tuple[InnerPlan, Memory], ...]:
        """Plans that wishes and machines admit, with a microbatch of one; simple ones first."""
        return candidates(
            self.architecture,
            self.hardware.gpu_count,
            self.hardware.machines,
            self.wishes,
            self.precision,
        )
