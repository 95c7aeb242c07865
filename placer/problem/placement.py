"""The answer as a decision only: which machines where, and how they exchange gradients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from placer.errors import PlacerError
from placer.market.catalog import VmOffer, device_name, worker_name
from placer.records import replace
from placer.workload.engines import Engine, averages_in_ring, engines_of
from placer.workload.inner_plan import InnerPlan, written_parts

NO_EXCHANGE = "none"
WRITE = "write place=COUNTxGPU, such as gcp/us-central1=4xT4:spot"
MOST_WORKERS = 10_000
"""Largest group that is priced at all."""
LARGEST_ISLAND = 4_096
"""More machines in one island are a slip of the keyboard."""


class WorkerGroup(Struct, frozen=True, kw_only=True):
    """Equal workers in one region and market. A worker is one machine, whatever GPUs it has, or an
    island: ``machines`` of one offer in one zone that hold one copy of the model by the plan
    ``inner``; machines ``behind`` them, one group for each offer, may hold the later layers of the
    copy.
    """

    place: str
    instance_type: str
    gpu: str
    gpu_count: int
    market: str
    count: int
    machines: int = 1
    inner: InnerPlan | None = None
    behind: tuple[WorkerGroup, ...] = ()

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
    def parts(self) -> tuple[WorkerGroup, ...]:
        """Machines of each offer of the workers: the group, unless others are behind it."""
        if not self.behind:
            return (self,)
        return replace(self, behind=()), *(replace(part, count=self.count) for part in self.behind)

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
        return self.count * sum(part.machines for part in (self, *self.behind))

    @property
    def gpus(self) -> int:
        """GPUs of all workers."""
        return self.count * sum(part.machines * part.gpu_count for part in (self, *self.behind))

    @property
    def worker_name(self) -> str:
        """One worker as users write it: ``T4``, ``V100:8``, ``4xH100:8``, ``4xH100:8~8xA10:4``."""
        each = (worker_name(p.gpu, p.gpu_count, p.machines) for p in (self, *self.behind))
        return "~".join(each)

    @property
    def spec(self) -> str:
        """The group as it is written on the command line."""
        behind = "".join(
            f"~{'' if part.place == self.place else f'{part.place}='}{part._machines_spec}"
            for part in self.behind
        )
        return f"{self.place}={self.count}x{self._machines_spec}{behind}"

    @property
    def _machines_spec(self) -> str:
        inner = "" if self.inner is None else self.inner.spec
        name = worker_name(self.gpu, self.gpu_count, self.machines)
        return f"{name}:{self.market.replace('_', '-')}{inner}"


class Exchange(Struct, frozen=True, kw_only=True):
    """How workers keep their models alike. ``strategy`` is a name of
    `placer.problem.exchange.STRATEGIES`. ``local_steps`` optimizer steps pass from exchange to
    exchange (H); ``streams`` TCP streams run side by side on each pair; ``overlap``: the exchange
    runs beside the calculation of the next step. ``aggregator`` is the place of the function,
    server or hub that the strategy needs, with the function's memory in GiB or the server machine;
    ``storage`` the place of its store. ``transport`` is the software that averages inside a zone:
    nccl (gloo on machines without a GPU), gloo or hivemind.
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

    @property
    def in_ring(self) -> bool:
        """Whether workers in several regions average in a ring, as the engine of the plan does."""
        return averages_in_ring(self, self.transport)


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
    def parts(self) -> tuple[WorkerGroup, ...]:
        """Machines of each offer by themselves: the groups, but for workers of several offers."""
        return tuple(part for group in self.groups for part in group.parts)

    @property
    def places(self) -> tuple[str, ...]:
        """Places with machines of workers, sorted."""
        return tuple(sorted({part.place for part in self.parts}))

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
        return replace(self, groups=tuple(sorted(groups, key=_order)))


def _order(group: WorkerGroup) -> tuple[str, str, int, str, str, int, str, str]:
    offer = group.place, group.gpu, group.gpu_count, group.market, group.instance_type
    inner = "" if group.inner is None else group.inner.spec
    return *offer, group.machines, inner, group.spec if group.behind else ""


class WorkerSpec(Struct, frozen=True, kw_only=True):
    """A group as a user wrote it, before an offer of the catalog was found for it.

    inner: The plan that is written; what it does not say is off.
    written: Its parts that are written. Of a plan without a microbatch the rest is chosen.
    """

    place: str
    count: int
    gpu: str
    gpu_count: int
    market: str | None
    machines: int = 1
    inner: InnerPlan | None = None
    written: Mapping[str, Any] = field(default_factory=dict)
    behind: tuple[WorkerSpec, ...] = ()


_DEVICE = (
    r"(?:(?P<machines>[0-9]{1,6})x)?"
    r"(?P<gpu>[A-Za-z0-9-]*[A-Za-z-][A-Za-z0-9-]*)(?::(?P<gpus>[0-9]{1,6}))?"
)
_PLAN = r"(?::(?P<market>spot|on-demand|community))?(?P<inner>(?:\+[a-z0-9=-]+)*)"
_SPEC = re.compile(r"(?P<place>[^=\s]+)=(?P<count>-?[0-9]{1,9})x" + _DEVICE + _PLAN)
_BEHIND = re.compile(r"(?:(?P<place>[^=\s+]+)=)?" + _DEVICE + _PLAN)
_BRACKETS = re.compile(r"x\(([^()]*)\)")
"""``2x(4xH100:8)`` is the same as ``2x4xH100:8``, which a shell takes without quotes."""


def parse_workers(text: str) -> tuple[WorkerSpec, ...]:
    """Read ``place=COUNTx[MACHINESx]GPU[:GPUS][:MARKET][+INNER]``, groups separated by commas.
    COUNT is workers; with MACHINES each is an island of so many machines, and INNER its plan:
    ``+zero-3+tp=2+ckpt=full+mb=4``. After a ``~`` follow the machines of later stages.

    >>> parse_workers("gcp/us-central1=1xV100:8:spot")[0].gpu_count
    8
    >>> parse_workers("aws/us-east-1=1x8xH100:8~4xA100-80:8")[0].behind[0].machines
    4
    """
    if not isinstance(text, str):
        raise PlacerError(f"workers {text!r} is not text", WRITE)
    specs = tuple(_spec(part) for part in filter(None, (p.strip() for p in text.split(","))))
    if not specs:
        raise PlacerError(f"workers '{text}' has no group", WRITE)
    return specs


def _spec(text: str) -> WorkerSpec:
    """Read one group: its machines, and those behind them after each ``~``."""
    head, *others = _BRACKETS.sub(r"x\1", text).split("~")
    match = _SPEC.fullmatch(head)
    if match is None:
        raise PlacerError(
            f"workers '{text}' is not a group",
            "write place=COUNTxGPU[:GPUS][:MARKET], such as gcp/us-central1=4xT4:spot",
        )
    behind = [_BEHIND.fullmatch(other) for other in others]
    if None in behind:
        raise PlacerError(
            f"workers '{text}': what follows a ~ is not machines",
            "write ~[place=][MACHINESx]GPU[:GPUS][:MARKET], such as ~4xA100-80:8:spot",
        )
    first = _of_match(match, text, match["place"], int(match["count"]))
    if not behind and first.inner is not None and first.inner.layers:
        raise PlacerError(
            f"workers '{text}': layers= without other machines",
            "write a ~ and the machines that have the other layers, or leave it out",
        )
    parts = (_of_match(m, text, m["place"] or first.place, 1) for m in behind if m is not None)
    return replace(first, behind=tuple(parts))


def _of_match(match: re.Match[str], text: str, place: str, count: int) -> WorkerSpec:
    gpus, machines = int(match["gpus"] or 1), int(match["machines"] or 1)
    parts = written_parts(match["inner"])
    if count < 1 or gpus < 1 or machines < 1:
        raise PlacerError(
            f"workers '{text}': at least 1 is needed",
            "a group has at least one worker with one GPU",
        )
    return WorkerSpec(
        place=place,
        count=count,
        gpu=match["gpu"],
        gpu_count=gpus,
        market=match["market"].replace("-", "_") if match["market"] else None,
        machines=machines,
        inner=InnerPlan(**parts) if parts else None,
        written=parts,
    )
