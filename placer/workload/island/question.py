"""What is asked of an island, the plans that come into question, and why none is right."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from placer.market.catalog import Gpu
from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import CHECKPOINTING, InnerPlan
from placer.workload.island.divisions import LAYER_S, expert_layers
from placer.workload.island.hardware import (
    DOMAIN_MACHINES,
    Hardware,
    lacks_precision,
    usual_precision,
)
from placer.workload.island.memory import Memory, host_bytes, memory
from placer.workload.island.step import Step, step
from placer.workload.island.transformer_speed import calculation_seconds
from placer.workload.island.transports import TRANSPORTS, Transport, transport
from placer.workload.island.wishes import (
    FREE,
    PlanWishes,
    Split,
    rank_splits,
    shardings,
    splits,
    undivided_width,
)


class Candidate(NamedTuple):
    """A plan with a microbatch of one sequence, and what it needs on each device and host."""

    plan: InnerPlan
    memory: Memory
    total_bytes: float
    host_bytes: float


class Kind(NamedTuple):
    """A model, equal machines whatever joins them, and what is fixed of the plan."""

    architecture: Architecture
    gpu: Gpu
    gpu_count: int
    machines: int
    wishes: PlanWishes
    is_slow: bool

    @property
    def precision(self) -> str:
        """The format that the user asks for, else the usual one of the device."""
        return self.wishes.precision or usual_precision(self.gpu)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Plans that wishes and machines admit, with a microbatch of one, simple ones first; with
        stages where these are tried.
        """
        asked = self.architecture, self.gpu_count, self.machines, self.wishes, self.precision
        machines = 1 if self.is_slow else self.machines
        if not opens_stages(self.architecture, self.gpu_count, machines, self.gpu):
            return candidates(*asked)
        return candidates(*asked) + candidates(*asked, stages=True)


class Question(Struct, frozen=True, kw_only=True):
    """A model, some machines, and their share of a step: whole microbatches of whole sequences for
    each rank; the step lasts as long as the fullest.

    hardware: With machines that NVLink joins as one.
    fewest: Sequences of the emptiest of several islands; each of its ranks has one at least.
    joined: Whether it is one of several, which exchange gradients in each step.
    transport: Of the exchange between islands; inside GPUs use NCCL and CPUs Gloo, whatever it is.
    """

    architecture: Architecture
    hardware: Hardware
    wishes: PlanWishes = FREE
    sequences: int = 1
    fewest: int | None = None
    joined: bool = False
    transport: str = "nccl"

    @property
    def least(self) -> int:
        """Sequences of the emptiest island."""
        return self.sequences if self.fewest is None else self.fewest

    @property
    def via(self) -> Transport:
        """What runs inside the island."""
        return carrier(self.hardware.gpu, self.transport)

    @property
    def kind(self) -> Kind:
        """What decides which plans are tried."""
        has = self.hardware
        return Kind(
            self.architecture, has.gpu, has.gpu_count, has.machines, self.wishes, has.is_slow
        )

    def step(self, plan: InnerPlan, microbatches: int, calculation_s: float, need: Memory) -> Step:
        """Return the seconds of a step by a plan, of which one sequence needs some memory."""
        return step(
            self.architecture,
            self.hardware,
            plan,
            microbatches,
            calculation_s,
            self.via,
            self.wishes.gradient_bytes_per_parameter,
            memory=need,
            joined=self.joined,
        )


def carrier(gpu: Gpu, transport_name: str) -> Transport:
    """Return what joins devices of an island beside an exchange between islands."""
    gloo = gpu.kind != "gpu" or transport(transport_name).name == "gloo"
    return TRANSPORTS["gloo" if gloo else "nccl"]


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
        checkpointing=checkpointing,
        precision=precision,
        software=wishes.software or "",
        **split._asdict(),
    )


class Refusal(Struct, frozen=True, kw_only=True):
    """The reason why some machines cannot train a model.

    code: ``memory``, ``host-memory``, ``batch``, ``network``, ``precision`` or ``tensor-parallel``.
    reason: One sentence.
    plan: The plan that came nearest; None where no plan was tried.
    shortage: Memory that the plan needs over what there is; infinite for reasons that no memory
        cures.
    """

    code: str
    reason: str
    plan: InnerPlan | None = None
    shortage: float = math.inf


def early_refusal(question: Question) -> Refusal | None:
    """Refuse machines for which no plan is tried: several whose network nobody wrote down, a wished
    number format that the device does not have, a wished tensor parallel degree that a machine or
    the model cannot apply, and wished degrees that the machines cannot apply together.
    """
    hardware, wishes, gpu = question.hardware, question.wishes, question.hardware.gpu
    degree, machine = wishes.tensor_parallel or 1, f"{hardware.gpu_count} x {gpu.gpu}"
    code = "tensor-parallel"
    if not hardware.is_connected:
        code, missing = "network", "fabric" if hardware.network_gbps else "bandwidth"
        reason = (
            f"{hardware.machines} machines of {machine} cannot form an island: the book does not "
            f"say the {missing} of their network"
        )
    elif wishes.precision is not None and lacks_precision(gpu, wishes.precision):
        code, usual = "precision", usual_precision(gpu)
        reason = f"{gpu.gpu} has no matrix products in {wishes.precision}; it trains in {usual}"
    elif hardware.gpu_count % degree:
        reason = (
            f"tensor parallel degree {degree} does not fit machines of {machine}: a group never "
            "leaves a machine"
        )
    elif width := undivided_width(question.architecture, degree):
        reason = f"tensor parallel degree {degree} does not divide {width}"
    elif not question.kind.candidates:
        named = (
            ("stages", wishes.pipeline),
            ("GPUs for the experts", wishes.expert_parallel),
            ("GPUs for a sequence", wishes.context_parallel),
            ("GPUs for a matrix", wishes.tensor_parallel),
        )
        words = ", ".join(f"{count} {name}" for name, count in named if count not in (None, 1))
        layers = question.architecture.layers
        reason = (
            f"{layers} layers and {hardware.machines} machines of {machine} do not divide into "
            f"{words}"
        )
    else:
        return None
    return Refusal(code=code, reason=reason)


def no_plan_refusal(question: Question) -> Refusal:
    """Name the plan that needs least, and what it lacks: bytes of device or host, or sequences."""
    hardware, count = question.hardware, question.wishes.microbatch or 1
    free = question.wishes.headroom if count > 1 else 0.0  # one sequence may fill all
    room = (1 - free) * hardware.gpu.memory_gib * GIB
    needs = [(c.memory.of_microbatch(count).total, c) for c in question.kind.candidates]
    fitting = [c for need, c in needs if need <= room]
    if not fitting:
        need, nearest = min(needs, key=lambda pair: pair[0])
        plan = replace(nearest.plan, microbatch=count)
        kept = f", {free:.0%} of them kept free" if free > 0 else ""
        return Refusal(
            code="memory",
            reason=(
                f"{plan.spec[1:]} needs {need / GIB:.1f} GiB on each of {hardware.title}, which "
                f"have {hardware.gpu.memory_gib:g} GiB{kept}"
            ),
            plan=plan,
            shortage=need / room,
        )
    least = min(fitting, key=lambda candidate: candidate.host_bytes)
    if least.host_bytes > hardware.host_gib * GIB:
        return Refusal(
            code="host-memory",
            reason=(
                f"{least.plan.spec[1:]} needs {least.host_bytes / GIB:.0f} GiB of host memory on "
                f"each of {hardware.machines} machines, which have {hardware.host_gib:g} GiB"
            ),
            plan=least.plan,
            shortage=least.host_bytes / (hardware.host_gib * GIB),
        )
    return Refusal(
        code="batch",
        reason=(
            f"{question.least:,} sequences of a step leave data-parallel ranks of "
            f"{hardware.title} without one, in every plan that fits their memory"
        ),
    )
