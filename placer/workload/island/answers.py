"""What is said of an island: its rate and plan, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from placer.workload.inner_plan import InnerPlan
from placer.workload.island.memory import Memory
from placer.workload.island.transformer_speed import Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Island:
    """Some machines that train one copy of a model by a plan.

    Parameters
    ----------
    samples_per_second, low, high
        Sequences a second while a batch is calculated and reduced inside the island.
    basis, source
        How sure the rate is, and where it comes from.
    plan
        Sharding, tensor parallel degree, checkpointing, microbatch and precision.
    memory
        Bytes on each device.
    host_bytes
        Bytes on each machine's host.
    step
        Seconds of a step.
    """

    samples_per_second: float
    low: float
    high: float
    basis: str
    source: str
    plan: InnerPlan
    memory: Memory
    host_bytes: float
    step: Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """The reason why some machines cannot train a model.

    Parameters
    ----------
    code
        ``memory``, ``batch``, ``network``, ``precision`` or ``tensor-parallel``.
    reason
        One sentence.
    plan
        The plan that came nearest; None where no plan was tried.
    """

    code: str
    reason: str
    plan: InnerPlan | None = None
