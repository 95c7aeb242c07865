"""What is asked of an island, and the plans that come into question."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from placer.market.catalog import Gpu
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import CHECKPOINTING, InnerPlan
from placer.workload.island.hardware import DOMAIN_MACHINES, Hardware
from placer.workload.island.memory import Memory, host_bytes, memory
from placer.workload.island.parallel.experts import LAYER_S, expert_layers
from placer.workload.island.parallel.splits import Split, rank_splits, shardings, splits
from placer.workload.island.precision import usual_precision
from placer.workload.island.transformer_speed import calculation_seconds
from placer.workload.island.transports import Transport
from placer.workload.island.wishes import FREE, PlanWishes


class Candidate(NamedTuple):
    """A plan with a microbatch of one sequence, and what it needs on each device and host."""

    plan: InnerPlan
    memory: Memory
    total_bytes: float
    host_bytes: float


class Question(Struct, frozen=True, kw_only=True):
    """A model, some machines, wishes, the sequences of a step that fall to these machines (to the
    fullest and the emptiest of several islands), whether an exchange between islands follows, and
    what runs inside.
    """

    architecture: Architecture
    hardware: Hardware
    wishes: PlanWishes
    sequences: int
    fewest: int
    joined: bool
    via: Transport

    @property
    def precision(self) -> str:
        """The format that the user asks for, else the usual one of the device."""
        return self.wishes.precision or usual_precision(self.hardware.gpu)

    def room_bytes(self, microbatch: int) -> float:
        """Return the bytes of a device that a microbatch may fill: of one sequence all."""
        free = self.wishes.headroom if microbatch > 1 else 0.0
        return (1 - free) * self.hardware.gpu.memory_gib * GIB

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Plans that wishes and machines admit, with a microbatch of one; simple ones first."""
        hardware = self.hardware
        kind = self.architecture, hardware.gpu, hardware.gpu_count, hardware.machines
        return all_candidates(*kind, self.wishes, self.precision, is_slow=hardware.is_slow)


def all_candidates(
    architecture: Architecture,
    gpu: Gpu,
    gpu_count: int,
    machines: int,
    wishes: PlanWishes,
    precision: str,
    *,
    is_slow: bool,
) -> tuple[Candidate, ...]:
    """List the plans that wishes and machines admit, with stages where these are tried."""
    kind = architecture, gpu_count, machines
    plain = candidates(*kind, wishes, precision)
    if not opens_stages(architecture, gpu_count, 1 if is_slow else machines, gpu):
        return plain
    return plain + candidates(*kind, wishes, precision, stages=True)


def opens_stages(architecture: Architecture, gpu_count: int, machines: int, gpu: Gpu) -> bool:
    """Tell whether plans with stages are tried: of models with experts, and where no other plan
    fits so many machines; over a slow network, where none fits one. No wish opens them, so that
    none makes an answer better.
    """
    if architecture.experts > 1:
        return True
    plain = candidates(architecture, gpu_count, machines, FREE, usual_precision(gpu))
    return not any(c.total_bytes <= gpu.memory_gib * GIB for c in plain)


@lru_cache(maxsize=2048)
def candidates(
    architecture: Architecture,
    gpu_count: int,
    machines: int,
    wishes: PlanWishes,
    precision: str,
    *,
    stages: bool = False,
) -> tuple[Candidate, ...]:
    """List the plans that wishes admit on machines of ``gpu_count`` devices, simple ones first:
    with several stages, which nobody asked for, or the others.
    """
    plans = [
        _plan(split, wishes, precision, checkpointing, sharding)
        for split in splits(architecture, gpu_count, machines, wishes, stages=stages)
        for sharding in shardings(split, gpu_count, machines, wishes)
        for checkpointing in ([wishes.checkpointing] if wishes.checkpointing else CHECKPOINTING)
    ]
    hosts: dict[tuple[str, bool], float] = {}
    found = []
    for plan in plans:
        need = memory(architecture, plan, gpu_count, machines, wishes.loss)
        key = plan.sharding, plan.pipeline > 1 or plan.expert_parallel > 1
        if key not in hosts:
            hosts[key] = host_bytes(architecture, plan, gpu_count, machines)
        found.append(Candidate(plan, need, need.total, hosts[key]))
    return tuple(found)


@lru_cache(maxsize=2048)
def least_sequence_seconds(
    architecture: Architecture, gpu: Gpu, gpu_count: int, machines: int, wishes: PlanWishes
) -> tuple[tuple[int, float], ...]:
    """Return the seconds in which a rank calculates a sequence at least, by its GPUs: by any plan
    that fits the memory of some machines. A bound from below for so many machines and fewer, which
    hold no less each. It leaves out exchanges and launches. Stages and experts of fewer machines
    need not divide these, so that where they are open all plans count whose activations alone fit;
    the fixed time of experts is spread over the most sequences that a microbatch may then have.
    """
    room = gpu.memory_gib * GIB
    precision = wishes.precision or usual_precision(gpu)
    domain = DOMAIN_MACHINES.get(gpu.gpu, 1)
    if domain > 1 or opens_stages(architecture, gpu_count, 1, gpu):
        gpu_count *= domain  # machines that NVLink joins divide a matrix among all of them
        plans = [
            _plan(split, wishes, precision, kept)
            for split in rank_splits(architecture, gpu_count, machines, wishes)
            for kept in ([wishes.checkpointing] if wishes.checkpointing else CHECKPOINTING)
        ]
        needs = [memory(architecture, plan, gpu_count, machines, wishes.loss) for plan in plans]
        most = [int(room / (need.activations + need.logits)) for need in needs]
    else:
        plain = candidates(architecture, gpu_count, machines, wishes, precision)
        plans = [c.plan for c in plain if c.total_bytes <= room]
        most = [1] * len(plans)
    least: dict[int, float] = {}
    for plan, count in zip(plans, most, strict=True):
        if count:
            seconds = calculation_seconds(architecture, gpu, plan, 1)
            seconds += expert_layers(architecture) / plan.pipeline * LAYER_S / count
            least[plan.rank_gpus] = min(seconds, least.get(plan.rank_gpus, math.inf))
    return tuple(least.items())


def _plan(
    split: Split, wishes: PlanWishes, precision: str, checkpointing: str, sharding: str = "none"
) -> InnerPlan:
    return InnerPlan(
        sharding=sharding,
        tensor_parallel=split.tensor_parallel,
        checkpointing=checkpointing,
        precision=precision,
        software=wishes.software or "",
        pipeline=split.pipeline,
        virtual_stages=split.virtual_stages,
        expert_parallel=split.expert_parallel,
        context_parallel=split.context_parallel,
    )
