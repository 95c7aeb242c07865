"""The parts of a manifest as types: what exporters and executors read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from placer.workload.inner_plan import InnerPlan

Market = Literal["on_demand", "spot", "community"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """What is trained; gradients in bytes after compression."""

    name: str
    parameters: int
    gradient_bytes: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Offer:
    """The machine that each worker of a group rents."""

    instance_type: str
    gpu: str
    gpu_count: int
    market: Market
    usd_per_hour: float
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupData:
    """Where a group reads its samples; ``place_share``: share of all samples that the group's place
    computes, if data have places.
    """

    store: str | None
    place_share: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Equal workers in one place. A worker is one machine, or an island: ``machines`` of one zone
    that hold one copy of the model by the plan ``inner``.

    Notes
    -----
    Ranks count machines, those of one island in a row: the group has the ranks ``rank_offset`` to
    ``rank_offset + count * machines - 1``. ``samples_per_second`` is what one worker calculates as
    the plan expects; None in early files.
    """

    name: str
    place: str
    provider: str
    region: str
    offer: Offer
    count: int
    rank_offset: int
    data: GroupData
    samples_per_second: float | None
    machines: int
    inner: InnerPlan | None

    @property
    def machine_count(self) -> int:
        """Return the machines of all its workers."""
        return self.count * self.machines

    @property
    def is_island(self) -> bool:
        """Return whether the GPUs of a worker work by an inner plan."""
        return self.machines > 1 or self.inner is not None

    @property
    def on_cpu(self) -> bool:
        """Return whether its machines calculate without a GPU: such devices are named by their
        cores.
        """
        return self.offer.gpu.startswith("CPU")


def groups_by_worker(groups: Sequence[Group]) -> tuple[Group, ...]:
    """List the group of each worker, in the order of the workers' numbers."""
    return tuple(group for group in groups for _ in range(group.count))


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Seconds after which something is wrong, and the interval of polls of a store."""

    matchmaking_s: float
    averaging_s: float
    step_s: float
    round_s: float
    poll_s: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangeSettings:
    """How the workers keep their models alike. An exchange goes on ``grace_s`` seconds after
    ``quorum`` workers have answered; None: it waits for all.
    """

    strategy: str
    target_batch_size: int
    microbatch: int
    compression: str
    streams: int
    overlap: bool
    local_steps: int
    timeouts: Timeouts
    quorum: int | None = None
    grace_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """The machine of a parameter server."""

    instance_type: str
    market: Market


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregator:
    """Where gradients or models meet: a cloud function, a server machine, or the first worker of a
    region.
    """

    kind: Literal["function", "server", "region"]
    place: str
    function: str | None = None
    memory_gib: float | None = None
    max_seconds: float | None = None
    server: Server | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Storage:
    """The store that a serverless exchange was priced with."""

    place: str
    store: str
    bucket: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """A bucket to make before the run: of the whole ``exchange``, or of the ``workers`` of one
    region.
    """

    role: Literal["exchange", "workers"]
    place: str
    store: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendezvous:
    """How the machines find each other; see `placer.documents.manifest.rendezvous`."""

    method: Literal["none", "address", "buckets"]
    machines: int
    group: str
    port: int
    address_variable: str
    join_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """Thresholds that should raise an alarm."""

    min_samples_per_second: float
    max_usd_per_hour: float
    max_round_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """A figure with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What the estimate says; ``step_seconds`` and ``links`` are those of one round of
    ``local_steps`` steps.
    """

    samples_per_second: Range
    effective_samples_per_second: Range
    samples_to_target: dict[str, Any]
    step_seconds: dict[str, float]
    usd_per_hour: dict[str, float]
    usd_per_hour_interval: Range
    usd_per_million_samples: float
    links: list[dict[str, Any]]
    status: str
    gap: float | None

    def __post_init__(self) -> None:
        """Refuse a step without its total."""
        if "total" not in self.step_seconds:
            raise ValueError("expected.step_seconds has no total")


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What the plan was made from."""

    catalog: str
    digest: str
    profile_digest: str
    as_of: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A launch manifest, checked.

    Notes
    -----
    ``world_size`` counts the machines of all workers; up to version 1 each worker is one.
    ``data`` and ``question`` are kept as they are in the file. ``question`` is the problem that the
    plan answers, cut down to what it uses, so that the plan can be priced and timed again; None in
    early files.
    """

    schema: str
    name: str
    model: Model
    world_size: int
    groups: tuple[Group, ...]
    exchange: ExchangeSettings
    aggregator: Aggregator | None
    storage: Storage | None
    data: dict[str, Any]
    expected: Expected
    drift: Drift
    inputs: Inputs
    rendezvous: Rendezvous
    buckets: tuple[Bucket, ...]
    question: dict[str, Any] | None
    digest: str

    @property
    def workers(self) -> int:
        """Return the number of workers, N in the formulas: islands count once."""
        return sum(group.count for group in self.groups)

    @property
    def has_islands(self) -> bool:
        """Return whether a worker has an inner plan or several machines."""
        return any(group.is_island for group in self.groups)

    @property
    def server(self) -> Server | None:
        """Return the machine of the parameter server, if there is one."""
        return None if self.aggregator is None else self.aggregator.server
