"""The answer as a decision only: which machines where, and how they exchange gradients. No prices
in it.
"""

from __future__ import annotations

import re

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.catalog import VmOffer, device_name, worker_name
from placer.records import replace
from placer.workload.engines import Engine, engines_of
from placer.workload.inner_plan import InnerPlan, parse_inner_plan

NO_EXCHANGE = "none"
MOST_WORKERS = 10_000
"""Largest group that is priced at all."""
LARGEST_ISLAND = 4_096
"""More machines in one island are a slip of the keyboard."""


class WorkerGroup(Struct, frozen=True, kw_only=True):
    """Equal workers in one region and market.

    Notes
    -----
    A worker is one machine, whatever GPUs it has, or an island: ``machines`` of one offer in one
    zone that hold one copy of the model by the plan ``inner``.
    """

    place: str
    instance_type: str
    gpu: str
    gpu_count: int
    market: str
    count: int
    machines: int = 1
    inner: InnerPlan | None = None

    def __post_init__(self) -> None:
        """Refuse groups without workers and absurd ones."""
        if not 1 <= self.count <= MOST_WORKERS or self.gpu_count < 1:
            raise PlacerError(
                f"{self.count} workers with {self.gpu_count} GPUs in {self.place}",
                f"a group has 1 to {MOST_WORKERS:,} workers",
            )
        if not 1 <= self.machines <= LARGEST_ISLAND:
            raise PlacerError(
                f"an island of {self.machines} machines in {self.place}",
                f"an island has 1 to {LARGEST_ISLAND:,} machines",
            )

    @staticmethod
    def of(
        offer: VmOffer, count: int, machines: int = 1, inner: InnerPlan | None = None
    ) -> WorkerGroup:
        """Build the group of some workers of an offer, each of some machines."""
        return WorkerGroup(
            place=offer.place,
            instance_type=offer.instance_type,
            gpu=offer.gpu,
            gpu_count=offer.gpu_count,
            market=offer.market,
            count=count,
            machines=machines,
            inner=inner,
        )

    @property
    def device(self) -> str:
        """GPU and number of one machine, such as ``T4`` or ``V100:8``."""
        return device_name(self.gpu, self.gpu_count)

    @property
    def kind(self) -> tuple[str, int, int, InnerPlan | None]:
        """What workers have in common that do equal parts of a step in equal times."""
        return self.gpu, self.gpu_count, self.machines, self.inner

    @property
    def offer_kind(self) -> tuple[str, str, str, int, str]:
        """What tells the offer behind the group from others."""
        return self.place, self.instance_type, self.gpu, self.gpu_count, self.market

    @property
    def machine_count(self) -> int:
        """Machines of all workers."""
        return self.count * self.machines

    @property
    def gpus(self) -> int:
        """GPUs of all workers."""
        return self.count * self.machines * self.gpu_count

    @property
    def worker_name(self) -> str:
        """One worker as users write it: ``T4``, ``V100:8`` or ``4xH100:8``."""
        return worker_name(self.gpu, self.gpu_count, self.machines)

    @property
    def spec(self) -> str:
        """The group as it is written on the command line."""
        inner = "" if self.inner is None else self.inner.spec
        market = self.market.replace("_", "-")
        return f"{self.place}={self.count}x{self.worker_name}:{market}{inner}"


class Exchange(Struct, frozen=True, kw_only=True):
    """How workers keep their models alike.

    Notes
    -----
    ``strategy`` is a name of `placer.problem.exchange.STRATEGIES`. ``local_steps`` optimizer steps
    pass from exchange to exchange (H); ``streams`` TCP streams run side by side on each pair;
    ``overlap``: the exchange runs beside the calculation of the next step. ``aggregator`` is the
    place of the function, server or hub that the strategy needs, with the function's memory in GiB
    or the server machine; ``storage`` the place of its store. ``transport`` is the software that
    averages inside a zone: nccl (gloo on machines without a GPU), gloo or hivemind.
    """

    strategy: str
    compression: str
    local_steps: int = 1
    streams: int = 1
    overlap: bool = False
    aggregator: str | None = None
    aggregator_memory_gib: float | None = None
    server: WorkerGroup | None = None
    storage: str | None = None
    transport: str = "hivemind"

    def __post_init__(self) -> None:
        """Refuse counts below one."""
        for name in ("local_steps", "streams"):
            if getattr(self, name) < 1:
                raise PlacerError(f"{name} is {getattr(self, name)}", "give a whole number from 1")


class Placement(Struct, frozen=True, kw_only=True):
    """Worker groups and their exchange."""

    groups: tuple[WorkerGroup, ...]
    exchange: Exchange

    @property
    def headline(self) -> str:
        """Workers and exchange in words, such as "gcp/us-central1=4xT4:spot, all-reduce"."""
        specs = " + ".join(group.spec for group in self.groups)
        return f"{specs}, {self.exchange.strategy}" if self.workers > 1 else specs

    @property
    def unexecuted(self) -> str:
        """What each engine of the exchange lacks to run the plan; empty if one lacks nothing."""
        lacks = {engine.title: engine.lack(self.exchange, self.groups) for engine in self._engines}
        if not all(lacks.values()):
            return ""
        return ", ".join(f"{name} does not do {lack.part}" for name, lack in lacks.items() if lack)

    @property
    def engine(self) -> Engine | None:
        """The first engine that executes the plan; None if none does."""
        able = (each for each in self._engines if not each.lack(self.exchange, self.groups))
        return next(able, None)

    @property
    def _engines(self) -> list[Engine]:
        """Those that do the exchange."""
        able = engines_of(self.exchange.transport)
        return [engine for engine in able if self.exchange.strategy in engine.exchanges]

    @property
    def workers(self) -> int:
        """Number of workers, N in the formulas."""
        return sum(group.count for group in self.groups)

    @property
    def machines(self) -> int:
        """Number of machines of all workers."""
        return sum(group.machine_count for group in self.groups)

    @property
    def places(self) -> tuple[str, ...]:
        """Places with workers, sorted."""
        return tuple(sorted({group.place for group in self.groups}))

    @property
    def in_words(self) -> str:
        """Its workers as a sentence names them: ``8 x L4:4 spot in aws/ap-south-1``."""
        return " + ".join(
            f"{group.count} x {group.worker_name} {group.market.replace('_', '-')} in {group.place}"
            for group in self.groups
        )

    @property
    def kinds(self) -> set[tuple[str, int, int, InnerPlan | None]]:
        """Kinds of its workers."""
        return {group.kind for group in self.groups}

    @property
    def workers_by_place(self) -> dict[str, int]:
        """Workers of each place."""
        counts: dict[str, int] = {}
        for group in self.groups:
            counts[group.place] = counts.get(group.place, 0) + group.count
        return counts

    def canonical(self) -> Placement:
        """Merge equal groups and sort them, so that equal decisions compare equal."""
        counts: dict[WorkerGroup, int] = {}
        for group in self.groups:
            kind = replace(group, count=1)
            counts[kind] = counts.get(kind, 0) + group.count
        groups = (replace(kind, count=count) for kind, count in counts.items())
        return replace(
            self,
            groups=tuple(
                sorted(
                    groups,
                    key=lambda g: (
                        g.place,
                        g.gpu,
                        g.gpu_count,
                        g.market,
                        g.instance_type,
                        g.machines,
                        "" if g.inner is None else g.inner.spec,
                    ),
                )
            ),
        )


class WorkerSpec(Struct, frozen=True, kw_only=True):
    """A group as a user wrote it, before an offer of the catalog was found for it."""

    place: str
    count: int
    gpu: str
    gpu_count: int
    market: str | None
    machines: int = 1
    inner: InnerPlan | None = None


_DEVICE = (
    r"(?:(?P<machines>[0-9]{1,6})x)?"
    r"(?P<gpu>[A-Za-z0-9-]*[A-Za-z-][A-Za-z0-9-]*)(?::(?P<gpus>[0-9]{1,6}))?"
)
_SPEC = re.compile(
    r"(?P<place>[^=\s]+)=(?P<count>-?[0-9]{1,9})x"
    + _DEVICE
    + r"(?::(?P<market>spot|on-demand|community))?(?P<inner>(?:\+[a-z0-9=-]+)*)"
)
_BRACKETS = re.compile(r"x\(([^()]*)\)")
"""``2x(4xH100:8)`` is the same as ``2x4xH100:8``, which a shell takes without quotes."""


def parse_workers(text: str) -> tuple[WorkerSpec, ...]:
    """Read ``place=COUNTx[MACHINESx]GPU[:GPUS][:MARKET][+INNER]``, groups separated by commas.

    Notes
    -----
    COUNT is workers; with MACHINES each worker is an island of so many machines, and INNER its
    plan: ``+zero-3+tp=2+ckpt=full+mb=4``.

    Examples
    --------
    >>> parse_workers("gcp/us-central1=1xV100:8:spot")[0].gpu_count
    8

    Raises
    ------
    PlacerError
        If a group does not follow the grammar or has no worker.
    """
    if not isinstance(text, str):
        raise PlacerError(
            f"workers {text!r} is not text",
            "write place=COUNTxGPU, such as gcp/us-central1=4xT4:spot",
        )
    specs = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        match = _SPEC.fullmatch(_BRACKETS.sub(r"x\1", part))
        if match is None:
            raise PlacerError(
                f"workers '{part}' is not a group",
                "write place=COUNTxGPU[:GPUS][:MARKET], such as gcp/us-central1=4xT4:spot",
            )
        count, gpus = int(match["count"]), int(match["gpus"] or 1)
        machines = int(match["machines"] or 1)
        if count < 1 or gpus < 1 or machines < 1:
            raise PlacerError(
                f"workers '{part}': at least 1 is needed",
                "a group has at least one worker with one GPU",
            )
        specs.append(
            WorkerSpec(
                place=match["place"],
                count=count,
                gpu=match["gpu"],
                gpu_count=gpus,
                market=match["market"].replace("-", "_") if match["market"] else None,
                machines=machines,
                inner=parse_inner_plan(match["inner"]) if match["inner"] else None,
            )
        )
    if not specs:
        raise PlacerError(
            f"workers '{text}' has no group",
            "write place=COUNTxGPU, such as gcp/us-central1=4xT4:spot",
        )
    return tuple(specs)
