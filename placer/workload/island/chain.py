"""Stages of several devices: machines of some offers that hold one copy of a model one after the
other, each with some of its layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import product
from typing import NamedTuple

from msgspec import Struct

from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.divisions import stage_shape
from placer.workload.island.hardware import Hardware, powers_of_two, usual_precision
from placer.workload.island.memory import ELEMENT_BYTES, MANY_GROUPS_BYTES, Memory
from placer.workload.island.plans import rate_interval
from placer.workload.island.question import Refusal, candidates
from placer.workload.island.step import Step, step
from placer.workload.island.transformer_speed import calculation_seconds
from placer.workload.island.transports import TRANSPORTS
from placer.workload.island.wishes import PIPELINES, PlanWishes

MOST_PARTS = 3
"""Parts of a chain; more are refused."""
MOST_STAGES = 32
"""Stages of all parts that are tried."""
VIA = TRANSPORTS["nccl"]


class Way(NamedTuple):
    """The way from one part to the next and back: bytes/s of a pair of machines, the seconds until
    the first byte arrives, and the bytes/s of all pairs where they share a line.
    """

    pair_bytes_per_s: float
    latency_s: float
    line_bytes_per_s: float = math.inf

    def hop_seconds(self, sent_bytes: float, pairs: float) -> float:
        """Return the seconds in which some pairs of machines send bytes one way."""
        return sent_bytes / min(pairs * self.pair_bytes_per_s, self.line_bytes_per_s) + (
            self.latency_s
        )


class Line(Struct, frozen=True, kw_only=True, dict=True):
    """What is asked of a chain: machines in the order of their stages and how many send side by
    side, what is fixed of the plan of each and of the layers, the ways between them, and a step of
    some sequences.
    """

    architecture: Architecture
    hardware: tuple[Hardware, ...]
    machines: tuple[int, ...]
    wishes: tuple[PlanWishes, ...]
    layers: tuple[int, ...] | None
    ways: tuple[Way, ...]
    sequences: int

    @cached_property
    def precision(self) -> str:
        """The format that all devices have, unless one is asked for."""
        usual = {usual_precision(hardware.gpu) for hardware in self.hardware}
        return self.wishes[0].precision or (usual.pop() if len(usual) == 1 else "fp16")


class Piece(NamedTuple):
    """A part with its plan: the seconds of a step in which all stages were like its own, and of one
    with all hops to other parts hidden.
    """

    seconds: float
    hidden_s: float
    plan: InnerPlan
    memory: Memory
    step: Step


class Chain(Struct, frozen=True, kw_only=True):
    """Parts that train one copy of a model.

    samples_per_second, low, high: Sequences a second; ``high`` with all hops between parts hidden.
    basis, source: How sure the rate is, and where it comes from.
    plans: What each part works by, with its layers.
    memory: Bytes on each device of each part.
    step: Seconds of a step of the slowest part, for which the others wait.
    """

    samples_per_second: float
    low: float
    high: float
    basis: str
    source: str
    plans: tuple[InnerPlan, ...]
    memory: tuple[Memory, ...]
    step: Step


def chain(line: Line) -> Chain | Refusal:
    """Divide the layers of a model among some machines, and choose the plan of each part. All
    stages count as the slowest of them, and no hop is hidden: never too fast by these. With 1F1B a
    step of M microbatches and P stages then takes ``(M + P - 1) x slowest`` and what follows the
    last microbatch, as for equal stages. Tried are 1, 2, 4, 8 and 16 stages in each part, powers of
    two as sequences of a microbatch, and whole layers; for these the division is the best, as more
    layers never take less time.
    """
    best: tuple[Piece, ...] | None = None
    for stages, once in sorted(_trials(line), key=lambda trial: _waits(line, *trial)):
        waits = _waits(line, stages, once)
        if best is not None and _slowest(best).seconds <= (1 + waits) * _fastest_s(line):
            break
        if line.layers is None:
            pieces = _divided(line, stages, once)
        else:
            pieces = _pieces(line, stages, once, line.layers)
        if pieces and (best is None or _slowest(pieces).seconds < _slowest(best).seconds):
            best = pieces
    if best is None:
        names = " and ".join(hardware.title for hardware in line.hardware)
        return Refusal(
            code="memory", reason=f"no division of the layers fits the memory of {names}"
        )
    slowest = _slowest(best)
    at = best.index(slowest)
    doubt, basis = rate_interval(
        line.architecture,
        line.hardware[at],
        replace(slowest.plan, pipeline=max(2, slowest.plan.pipeline)),
        slowest.step,
        VIA,
    )
    rate = line.sequences / slowest.seconds
    return Chain(
        samples_per_second=rate,
        low=rate * doubt.low,
        high=line.sequences / max(piece.hidden_s for piece in best) * doubt.high,
        basis=basis,
        source=f"the slowest of {len(best)} parts, of {line.hardware[at].title}; {doubt.reason}",
        plans=tuple(piece.plan for piece in best),
        memory=tuple(piece.memory for piece in best),
        step=slowest.step,
    )


def _slowest(pieces: tuple[Piece, ...]) -> Piece:
    return max(pieces, key=lambda piece: piece.seconds)


def _trials(line: Line) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the numbers of stages, and the sequences that pass together."""
    for stages in product(*map(_stage_counts, line.hardware, line.wishes)):
        if sum(stages) <= min(MOST_STAGES, line.architecture.layers):
            yield from ((stages, once) for once in _together(line, stages))


def _waits(line: Line, stages: tuple[int, ...], once: int) -> float:
    """Return the time in which stages wait for the first and last microbatch, over their work."""
    return (sum(stages) - 1) / -(-line.sequences // once)


def _fastest_s(line: Line) -> float:
    """Return the seconds in which all devices calculate a step without a hop or a wait: a bound
    from below, as no plan repeats less, and none divides the layers better than by speed.
    """
    plan = InnerPlan(precision=line.precision, software=line.wishes[0].software or "")
    speeds = (
        hardware.gpus / calculation_seconds(line.architecture, hardware.gpu, plan, 1)
        for hardware in line.hardware
    )
    return line.sequences / sum(speeds)


def _together(line: Line, stages: tuple[int, ...]) -> list[int]:
    """List how many sequences may pass together: as the part with the fewest takes."""
    asked = [
        hardware.gpus
        // ((wish.tensor_parallel or 1) * (wish.context_parallel or 1) * count)
        * wish.microbatch
        for hardware, wish, count in zip(line.hardware, line.wishes, stages, strict=True)
        if wish.microbatch is not None
    ]
    return [max(1, min(*asked, line.sequences))] if asked else powers_of_two(line.sequences)


def _stage_counts(hardware: Hardware, wish: PlanWishes) -> list[int]:
    tried = (1, *PIPELINES) if wish.pipeline is None else (wish.pipeline,)
    return [p for p in tried if stage_shape(hardware.gpu_count, hardware.machines, p)]


def _divided(line: Line, stages: tuple[int, ...], once: int) -> tuple[Piece, ...] | None:
    """Return the parts with the layers by which the slowest is fastest; None if nothing fits. A
    layer moves from one part to another while that makes the slowest faster. The time of a part
    never falls with its layers, so that where no move helps none of several does.
    """
    layers, left = list(stages), line.architecture.layers - sum(stages)
    more = max(1, line.architecture.layers // 16)
    while left:  # a rough start: each sixteenth to the part that is then fastest
        more = min(left, more)
        tries = [(*layers[:i], layers[i] + more, *layers[i + 1 :]) for i in range(len(layers))]
        each = [_piece(line, i, stages, once, t) for i, t in enumerate(tries)]
        fitting = [(piece.seconds, i) for i, piece in enumerate(each) if piece is not None]
        if not fitting:
            if more == 1:
                return None
            more = 1
            continue
        layers = list(tries[min(fitting)[1]])
        left -= more
    best = _pieces(line, stages, once, tuple(layers))
    moved = best is not None
    while best is not None and moved:
        moved = False
        at = best.index(_slowest(best))
        for to in (i for i in range(len(layers)) if i != at and layers[at] > stages[at]):
            tried = [n - (i == at) + (i == to) for i, n in enumerate(layers)]
            pieces = _pieces(line, stages, once, tuple(tried))
            if pieces is not None and _slowest(pieces).seconds < _slowest(best).seconds:
                best, layers, moved = pieces, tried, True
                break
    return best


def _pieces(
    line: Line, stages: tuple[int, ...], once: int, layers: tuple[int, ...]
) -> tuple[Piece, ...] | None:
    """Return the fastest plan of each part; None if one has none."""
    pieces = tuple(_piece(line, at, stages, once, layers) for at in range(len(layers)))
    return None if None in pieces else pieces  # type: ignore[return-value]


def _piece(
    line: Line, at: int, stages: tuple[int, ...], once: int, layers: tuple[int, ...]
) -> Piece | None:
    """Return the fastest plan of a part while ``once`` sequences pass through all parts."""
    tokens = once * line.architecture.sequence_length
    sent = ELEMENT_BYTES[line.precision] * tokens * line.architecture.width
    ends = [k / count for k, count in zip(line.machines, stages, strict=True)]
    hops = [
        line.ways[way].hop_seconds(sent, min(ends[way : way + 2]))
        for way in (at - 1, at)
        if 0 <= way < len(line.ways)
    ]
    return _planned(
        part_of(line.architecture, at, layers[at], sum(layers[:at]), len(layers)),
        line.hardware[at],
        replace(line.wishes[at], pipeline=stages[at], virtual_stages=1),
        line.precision,
        2 * max(hops),
        (sum(stages[:at]), sum(stages)),
        (once, -(-line.sequences // once)),
    )


@lru_cache(maxsize=2**15)
def _planned(
    part: Architecture,
    hardware: Hardware,
    wishes: PlanWishes,
    precision: str,
    hops_s: float,
    place: tuple[int, int],
    batch: tuple[int, int],
) -> Piece | None:
    """Return the fastest plan of one part, as of a smaller model on machines of its own.

    hops_s: Seconds of the slowest hop of the part with others and back, for one microbatch.
    place: Stages before the part, and in all: so many microbatches are in flight.
    batch: Sequences that pass together, and how often in a step.
    """
    (before, stages), (once, microbatches) = place, batch
    room, host, best = hardware.gpu.memory_gib * GIB, hardware.host_gib * GIB, None
    own = wishes.pipeline or 1
    for found in candidates(part, hardware.gpu_count, hardware.machines, wishes, precision):
        ranks = hardware.gpus // found.plan.rank_gpus
        count = -(-once // ranks)
        one, free = found.memory, wishes.headroom if count > 1 else 0.0
        kept = one.activations * min(microbatches, stages - before) / own
        total = one.states + one.gathered + one.embedding + count * (kept + one.logits)
        if total + MANY_GROUPS_BYTES > (1 - free) * room or found.host_bytes > host:
            continue
        calculated = calculation_seconds(part, hardware.gpu, found.plan, microbatches * count)
        if best is not None and best.seconds <= calculated * (1 + (stages - 1) / microbatches):
            continue
        need = replace(one, activations=kept, fixed=MANY_GROUPS_BYTES).of_microbatch(count)
        plan = replace(found.plan, microbatch=count, layers=part.layers)
        alone = step(
            part,
            hardware,
            plan,
            microbatches,
            calculated,
            VIA,
            wishes.gradient_bytes_per_parameter,
            memory=need,
        )
        hidden = replace(alone, bubble=(stages - 1) / microbatches)
        whole = replace(hidden, tensor_s=alone.tensor_s + microbatches * hops_s)
        if best is None or whole.seconds < best.seconds:
            best = Piece(whole.seconds, hidden.seconds, plan, need, whole)
    return best


@lru_cache(maxsize=4096)
def part_of(
    architecture: Architecture, at: int, layers: int, before: int, parts: int
) -> Architecture:
    """Return the part of a model that has some layers, as a smaller model. Layers count alike but
    for their experts. A model without an output layer has a vocabulary of 1.

    at, parts: Its number from 0, of how many: the first has the embedding, the last the output
        layer.
    before: Layers of the parts before it.

    Parts have all parameters together; a tied embedding is in the first and in the last.

    >>> from placer.workload.models.model_words import read_model
    >>> whole = read_model("llama-3.1-70b").architecture
    >>> parts = part_of(whole, 0, 41, 0, 2), part_of(whole, 1, 39, 41, 2)
    >>> sum(part.parameters for part in parts) - whole.parameters
    0
    """
    table = architecture.vocabulary * architecture.width
    tables = table * (1 if architecture.tied else 2)
    dense = min(max(0, architecture.dense_layers - before), layers)
    experts = 0
    if architecture.experts > 1:
        sparse = max(1, architecture.layers - architecture.dense_layers)  # all may be dense
        experts = architecture.expert_parameters // sparse * (layers - dense)
    share, is_last = layers / architecture.layers, at == parts - 1
    own = table * ((at == 0) + is_last)
    shared = architecture.parameters - tables - architecture.expert_parameters
    vocabulary = architecture.vocabulary if is_last else 1
    count = round(shared * share) + experts + own
    trained = count
    if architecture.has_adapters:
        trained = max(1, round(architecture.trainable_parameters * share))
    computed = (architecture.computed_parameters - table) * share
    return replace(
        architecture,
        layers=layers,
        vocabulary=vocabulary,
        tied=False,
        dense_layers=dense,
        parameters=count,
        trainable_parameters=trained,
        active_parameters=min(
            count, round((architecture.active_parameters - tables) * share) + own
        ),
        computed_parameters=min(count, round(computed) + vocabulary * architecture.width),
    )
