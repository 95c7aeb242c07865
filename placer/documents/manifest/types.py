"""Types of a manifest, and the question that it answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from placer.cost_model.convergence import Multiplier
from placer.documents.result_parts import EXCHANGE
from placer.documents.schemas.parts import Digest, LinkUse, Part, Range, Some, StepSeconds, Strategy
from placer.errors import PlacerError
from placer.market.checks.agreement import check_figures
from placer.problem.datasets import Move
from placer.problem.exchange import traits
from placer.problem.placement import LARGEST_ISLAND, Exchange, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.requirements import MOST_STREAMS, OUTER
from placer.records import Amount, Count, Natural, Positive, Share, replace
from placer.workload.engines import ENGINES
from placer.workload.inner_plan import InnerPlan
from placer.workload.profile import FEEDBACK_COMPRESSIONS

ISLANDS_SCHEMA = "placer.manifest/v2"
"""What is written of islands: ranks, world size and rendezvous count machines."""
Market = Literal["on_demand", "spot", "community"]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$(?!\n)", max_length=63)]
"""A valid name of a job, host and bucket."""
Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)")]
LONGEST_WAIT_S = 1e9
"""30 years; sockets count nanoseconds in 64 bits, and a few times more hangs them."""
Wait = Annotated[float, Meta(gt=0, le=LONGEST_WAIT_S)]


class Model(Part, frozen=True):
    """What is trained; gradients in bytes after compression."""

    name: str
    parameters: Natural
    gradient_bytes: Positive


class Offer(Part, frozen=True):
    """The machine that each worker of a group rents."""

    instance_type: str
    gpu: str
    gpu_count: Natural
    market: Market
    usd_per_hour: Amount
    as_of: str


class GroupData(Part, frozen=True):
    """Where a group reads its samples.

    place_share: Share of all samples that the group's place computes, where data have places.
    """

    store: str | None
    place_share: Share | None


class MachineGroup(Part, frozen=True, kw_only=True):
    """Equal workers in one place.

    count: Workers; islands count once.
    samples_per_second: What one worker calculates as the plan expects.
    """

    name: Name
    place: str
    provider: str
    region: str
    offer: Offer
    count: Natural
    rank_offset: Count
    data: GroupData
    samples_per_second: Positive | None


class Group(MachineGroup, frozen=True, kw_only=True):
    """Equal workers in one place. A worker is one machine, or an island: machines of one zone that
    hold one copy of the model by the plan inner.

    machines: Of one worker. Ranks count machines, those of one island in a row.
    """

    machines: Annotated[int, Meta(ge=1, le=LARGEST_ISLAND)]
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
        """Return whether its machines calculate without a GPU: these are named by their cores."""
        return self.offer.gpu.startswith("CPU")


def groups_by_worker(groups: Sequence[Group]) -> tuple[Group, ...]:
    """List the group of each worker, in the order of the workers' numbers."""
    return tuple(group for group in groups for _ in range(group.count))


class Timeouts(Part, frozen=True):
    """Seconds after which something is wrong, and the interval of polls of a store."""

    matchmaking_s: Wait
    averaging_s: Wait
    step_s: Wait
    round_s: Wait
    poll_s: Wait | None


class ExchangeSettings(Part, frozen=True):
    """How the workers keep their models alike. An exchange goes on grace_s seconds after quorum
    workers have answered; null: it waits for all.
    """

    strategy: Strategy
    target_batch_size: Natural
    microbatch: Natural
    compression: str
    streams: Annotated[int, Meta(ge=1, le=MOST_STREAMS)]
    overlap: bool
    local_steps: Natural
    timeouts: Timeouts
    quorum: Natural | None = None
    grace_s: Wait | None = None


class Server(Part, frozen=True):
    """The machine of a parameter server."""

    instance_type: str
    market: Market


class Aggregator(Part, frozen=True):
    """Where gradients or models meet: a cloud function, a server machine, or the first worker of a
    region.
    """

    kind: Literal["function", "server", "region"]
    place: str
    function: str | None = None
    memory_gib: Positive | None = None
    max_seconds: Positive | None = None
    server: Server | None = None


class Storage(Part, frozen=True):
    """The store that a serverless exchange was priced with."""

    place: str
    store: str
    bucket: Name


class Bucket(Part, frozen=True):
    """A bucket to make before the run: of the whole exchange, or of the workers of one region."""

    role: Literal["exchange", "workers"]
    place: str
    store: str
    name: Name


class Rendezvous(Part, frozen=True):
    """How the machines find each other. machines: workers and, if it has a machine of its own, the
    parameter server. The address of rank 0 (of group) comes in the environment variable
    address_variable.
    """

    method: Literal["none", "address", "buckets"]
    machines: Natural
    group: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    address_variable: Variable
    join_s: Wait


class DataPlan(Part, frozen=True):
    """Where the samples are, and what store they are copied from before the run."""

    store: str | None
    assumption: str | None
    copied_from: str | None = None
    shares: dict[str, Share] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)


class Expected(Part, frozen=True):
    """What the estimate says; step_seconds and links are those of one round."""

    samples_per_second: Range
    effective_samples_per_second: Range
    samples_to_target: Multiplier
    step_seconds: StepSeconds
    usd_per_hour: dict[str, Amount]
    usd_per_hour_interval: Range
    usd_per_million_samples: Amount
    links: list[LinkUse]
    status: str
    gap: float | None

    def __post_init__(self) -> None:
        """Refuse a step without its total."""
        if "total" not in self.step_seconds:
            raise ValueError("step_seconds has no total")


class Drift(Part, frozen=True):
    """Thresholds that should raise an alarm."""

    min_samples_per_second: Amount
    max_usd_per_hour: Amount
    max_round_seconds: Amount


class Inputs(Part, frozen=True):
    """What the plan was made from."""

    catalog: str
    digest: str
    profile_digest: str
    as_of: str | None = None
    oldest: str | None = None
    egress_as_of: str | None = None
    egress_oldest: str | None = None
    changes: list[str] | None = None


class AnyManifest(Part, frozen=True, kw_only=True):
    """What manifests of all versions have."""

    name: Name
    model: Model
    world_size: Natural
    exchange: ExchangeSettings
    aggregator: Aggregator | None
    storage: Storage | None
    data: DataPlan
    expected: Expected
    drift: Drift
    inputs: Inputs
    digest: Digest
    rendezvous: Rendezvous
    buckets: list[Bucket]


class Manifest(AnyManifest, frozen=True, kw_only=True, tag_field="schema", tag=ISLANDS_SCHEMA):
    """A launch manifest of any version, raised to the present one and checked.

    ``world_size`` counts the machines of all workers. ``question`` is the problem that the plan
    answers, cut down to what it uses, as it is in the file.
    """

    groups: Some[Group]
    question: dict[str, Any] | None

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


def question_of(manifest: Manifest, where: str) -> tuple[Problem, Placement]:
    """Rebuild the problem and the placement of a manifest.

    Raise `PlacerError` if the manifest has no question, or the question lacks what the plan uses.
    """
    if manifest.question is None:
        raise PlacerError(
            f"{where}: a manifest without links and prices",
            "write it again with placer recommend --manifest FILE",
        )
    try:
        problem = Problem.from_dict(manifest.question)
        check_figures(problem.catalog)
        exchange = exchange_of(manifest, _server(manifest, problem))
    except PlacerError as error:
        raise PlacerError(
            f"{where}: {error.message}", error.hint, exit_code=error.exit_code
        ) from None
    placement = Placement(
        groups=tuple(_workers(group) for group in manifest.groups), exchange=exchange
    )
    if placement.workers > 1:  # the manifest's question says which software averages
        placement = replace(placement, exchange=replace(exchange, transport=problem.transport))
    return problem, placement


def _workers(group: Group) -> WorkerGroup:
    offer = group.offer
    return WorkerGroup(
        place=group.place,
        instance_type=offer.instance_type,
        gpu=offer.gpu,
        gpu_count=offer.gpu_count,
        market=offer.market,
        count=group.count,
        machines=group.machines,
        inner=group.inner,
    )


def exchange_of(manifest: Manifest, server: WorkerGroup | None = None) -> Exchange:
    """Rebuild the exchange of a manifest, which lacks the whole machine of a server."""
    settings, hub, storage = manifest.exchange, manifest.aggregator, manifest.storage
    return Exchange(
        strategy=settings.strategy,
        **{name: getattr(settings, name) for name in EXCHANGE},
        aggregator=None if hub is None else hub.place,
        aggregator_memory_gib=None if hub is None else hub.memory_gib,
        server=server,
        storage=None if storage is None else storage.place,
    )


def _server(manifest: Manifest, problem: Problem) -> WorkerGroup | None:
    """Rebuild the machine of a parameter server, with its offer from the question's book."""
    hub = manifest.aggregator
    if hub is None or hub.server is None:
        return None
    for offer in problem.catalog.offers_at(hub.place):
        if (offer.instance_type, offer.market) == (hub.server.instance_type, hub.server.market):
            return WorkerGroup.of(offer, 1)
    raise PlacerError(
        f"the question has no {hub.server.instance_type} in {hub.place}", "write the manifest again"
    )


def check_executable(manifest: Manifest, where: str) -> None:
    """Refuse plans that ``placer run`` does not run.

    Raise `PlacerError` if the runtime lacks a part of it, or exchange, compression, overlap and
    local steps do not go together.
    """
    exchange, can = manifest.exchange, traits(manifest.exchange.strategy)
    lack = ENGINES["placer"].lack(exchange, manifest.groups)
    if lack is not None:
        raise PlacerError(f"{where}: placer run does not do {lack.part}", lack.remedy)
    if exchange.compression in FEEDBACK_COMPRESSIONS and not (can.outer or can.transport == "none"):
        raise PlacerError(
            f"{where}: {exchange.compression} is too coarse for the exchange {exchange.strategy}",
            f"plan it with {' or '.join(OUTER)}, or with int8",
        )
    if can.always_overlaps and not exchange.overlap:
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} always overlaps the calculation",
            "plan it again",
        )
    if exchange.local_steps > 1 and not can.local_steps:
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} comes after each step, not after "
            f"{exchange.local_steps}",
            "plan it again",
        )
