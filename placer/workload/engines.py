"""The software that runs plans: what each engine exchanges, compresses, divides and overlaps.

An engine is packaged where an export or ``placer run`` starts it. Targets refuse what their engine
lacks, and a plan that every engine lacks something of is no answer that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, Protocol

from msgspec import Struct

from placer.workload.inner_plan import COUNTS, PRECISIONS, SHARDINGS, InnerPlan

ALONE = "none"
"""Exchange of a single worker, which compresses and overlaps nothing."""
DIVISIONS = tuple(key for key in COUNTS if key not in ("mb", "layers"))
"""Degrees of an inner plan beyond data parallelism, by the key of its text."""
MODELS = ("local-sgd", "diloco", "streaming-diloco")
"""Exchanges of models after many steps."""
SCALED = ("fp16", "fp8")
"""Precisions that need scaling of losses or of matrices."""
UNSCALED = tuple(name for name in PRECISIONS if name not in SCALED)


class Sent(Protocol):
    """What an engine is asked of an exchange, of a placement or of a manifest."""

    @property
    def strategy(self) -> str:
        """Return its name."""

    @property
    def compression(self) -> str:
        """Return how messages are compressed."""

    @property
    def overlap(self) -> bool:
        """Return whether it runs beside the next step."""

    @property
    def streams(self) -> int:
        """Return the TCP streams of a pair."""


class Divided(Protocol):
    """What an engine is asked of workers, of a placement or of a manifest."""

    @property
    def machines(self) -> int:
        """Return the machines of each."""

    @property
    def inner(self) -> InnerPlan | None:
        """Return the plan inside each."""


class Lack(NamedTuple):
    """A part of a plan that an engine does not do, and how to plan without it."""

    part: str
    remedy: str


class Engine(Struct, frozen=True, kw_only=True):
    """What one engine executes.

    exchanges: Names of `placer.problem.exchange.STRATEGIES`.
    compressions: Of messages; the first is what it does by default.
    late: Exchanges that it runs beside the next step.
    rings: Whether it averages in a ring, not in a butterfly.
    many_streams: Whether a pair may have several TCP streams.
    islands: Whether a worker may be several machines.
    shardings, divisions, precisions: Of the plan inside a worker; divisions are keys of its text.
    staged: Shardings of plans with stages, where they are others.
    """

    title: str
    exchanges: tuple[str, ...]
    compressions: tuple[str, ...]
    late: tuple[str, ...] = ()
    rings: bool = False
    many_streams: bool = False
    islands: bool = True
    shardings: tuple[str, ...] = SHARDINGS
    staged: tuple[str, ...] = ()
    divisions: tuple[str, ...] = DIVISIONS
    precisions: tuple[str, ...] = PRECISIONS

    @property
    def undivided(self) -> dict[str, int]:
        """Return the degrees, by fields of `InnerPlan`, that are one in every plan of it."""
        return {COUNTS[key]: 1 for key in DIVISIONS if key not in self.divisions}

    def lack(self, exchange: Sent, workers: Iterable[Divided] = ()) -> Lack | None:
        """Return the first part of a plan that the engine does not do; None if it does all."""
        inside = chain.from_iterable(self._of(worker, exchange) for worker in workers)
        return next(chain(self._of_exchange(exchange), inside), None)

    def _of_exchange(self, exchange: Sent) -> Iterator[Lack]:
        name = exchange.strategy
        if name not in self.exchanges:
            yield Lack(f"the exchange {name}", _with("exchange", self.exchanges[1:]))
        if name == ALONE:
            return
        if exchange.compression not in self.compressions:
            part = f"the compression {exchange.compression}"
            yield Lack(part, _with("compression", self.compressions))
        if exchange.overlap and name not in self.late:
            yield Lack(f"{name} beside the next step", "plan it without --overlap")
        if exchange.streams > 1 and not self.many_streams:
            yield Lack(f"{exchange.streams} TCP streams of a pair", _with("streams", ["1"]))

    def lack_inside(self, inner: InnerPlan) -> Lack | None:
        """Return the first part of the plan inside a worker that the engine does not do."""
        return next(self._of_plan(inner), None)

    def _of(self, worker: Divided, exchange: Sent) -> Iterator[Lack]:
        if worker.machines > 1 and not self.islands:
            yield Lack("workers of several machines", _with("machines-per-island", ["1"]))
        if worker.inner is not None:
            yield from self._of_plan(worker.inner)
            if worker.inner.sharding == "hybrid" and exchange.strategy in MODELS:
                part = f"{exchange.strategy} between copies of hybrid sharding, each sent by itself"
                yield Lack(part, "plan it with --sharding zero-3")

    def _of_plan(self, inner: InnerPlan) -> Iterator[Lack]:
        shardings = self.staged if self.staged and inner.pipeline > 1 else self.shardings
        if inner.sharding not in shardings:
            stages = " with stages" if inner.pipeline > 1 else ""
            yield Lack(f"the sharding {inner.sharding}{stages}", _with("sharding", shardings))
        for key in DIVISIONS:
            degree = getattr(inner, COUNTS[key])
            if degree > 1 and key not in self.divisions:
                by_hand = "export it to torchtitan or megatron"
                yield Lack(f"{key}={degree}", _with(key, ["1"]) if key == "tp" else by_hand)
        if inner.precision not in self.precisions:
            yield Lack(f"the precision {inner.precision}", _with("precision", self.precisions))


def _with(word: str, values: Sequence[str]) -> str:
    *first, last = values
    return f"plan it with --{word} {', '.join(first)}{' or ' if first else ''}{last}"


ENGINES = {
    "pytorch": Engine(
        title="PyTorch", exchanges=(ALONE, "all-reduce"), compressions=("none", "fp16"), rings=True
    ),
    "torchft": Engine(
        title="torchft",
        exchanges=(ALONE, *MODELS),
        compressions=("none",),
        late=MODELS[2:],
        rings=True,
    ),
    "torchtitan": Engine(
        title="torchtitan",
        exchanges=(ALONE, "all-reduce", *MODELS),
        compressions=("none",),
        late=MODELS[2:],
        rings=True,
        shardings=("none", "zero-2", "zero-3", "hybrid"),
        staged=("zero-1", "none"),
        precisions=UNSCALED,
    ),
    "megatron": Engine(
        title="Megatron",
        exchanges=(ALONE, "all-reduce"),
        compressions=("none",),
        rings=True,
        shardings=("zero-1", "none"),
        precisions=("bf16", *SCALED),
    ),
    "hivemind": Engine(
        title="hivemind",
        exchanges=(ALONE, "all-reduce", "local-sgd"),
        compressions=("none", "fp16", "int8"),
        late=("all-reduce", "local-sgd"),
        islands=False,
        shardings=("none",),
        divisions=(),
    ),
    "placer": Engine(
        title="placer run",
        exchanges=(
            *(ALONE, "all-reduce", "hierarchical-all-reduce", "central", "hierarchical"),
            *("parameter-server", *MODELS, "model-averaging", "asgd-ga"),
        ),
        compressions=("none", "fp16", "int8", "int4", "sparse"),
        late=("all-reduce", "hierarchical-all-reduce", "streaming-diloco"),
        many_streams=True,
        divisions=(),
        precisions=UNSCALED,
    ),
}
"""By name.

PyTorch (2.13) averages gradients in 4 bytes, or in 2 by DDP's ``fp16_compress_hook`` and
``reduce_dtype`` of FSDP2; it has meshes, stages (``torch.distributed.pipelining``), experts and
sequences that are divided, as torchtitan uses them. torchft (0.2) averages parameters as they are
between such meshes; its quantization is of FP8, which placer does not price. torchtitan (0.3)
reduces in FP32; with stages its FSDP2 gathers weights once a step and reduces gradients after the
last microbatch, where weights stay after forward: zero-1. hivemind (1.1) has the classes of
`placer.launch.export.targets.hivemind`. Megatron stands for Megatron-Bridge (0.3).
"""


_BASIC = ("pytorch", "torchft", "placer")
"""torchtitan and Megatron do nothing that PyTorch and torchft do not."""


def engines_of(software: str) -> list[Engine]:
    """Return the engines that run what was priced with some software: hivemind only its own."""
    names = (software, *_BASIC) if software in ENGINES else _BASIC
    return [ENGINES[name] for name in names]


def averages_in_ring(exchange: Sent, software: str) -> bool:
    """Return whether the first engine that executes an exchange averages in a ring; what is priced
    with hivemind is as hivemind does it.
    """
    if software == "hivemind":
        return False
    able = (engine for engine in engines_of(software) if not engine.lack(exchange))
    return any(engine.rings for engine in islice(able, 1))
