"""What is asked of an island."""

from __future__ import annotations

from dataclasses import dataclass

from placer.workload.architecture import Architecture
from placer.workload.island.hardware import Hardware
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
