"""Parts that several documents share: the request, placements, estimates, the price book."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from placer.cost_model import estimate
from placer.cost_model.convergence import Multiplier
from placer.cost_model.estimate import DataPasses
from placer.cost_model.outlook.outlook import MonthOutlook, SpotOutlook
from placer.cost_model.outlook.risk import Risk
from placer.market.catalog import MARKETS
from placer.problem.datasets import Dataset, Move
from placer.problem.exchange import STRATEGIES
from placer.problem.requirements import OBJECTIVES, TRANSPORTS, Quota
from placer.records import Amount, Count, Natural, Positive, one_of
from placer.units import Interval
from placer.workload.data_loading import CACHES
from placer.workload.inner_plan import (
    CHECKPOINTING,
    PRECISIONS,
    SHARDINGS,
    TENSOR_DEGREES,
    InnerPlan,
)
from placer.workload.profile import BASES, COMPRESSION_BYTES
from placer.workload.software import SOFTWARE

T = TypeVar("T")
Maybe: TypeAlias = T | UnsetType  # a key that may be missing, with UNSET as its default
Some = Annotated[list[T], Meta(min_length=1)]


def every_key(kind: type[Any]) -> Meta:
    """Say that a type is written with all its fields, also those that have a default."""
    names = getattr(kind, "__struct_encode_fields__", None) or kind.__dataclass_fields__
    return Meta(extra_json_schema={"required": list(names)})


NOT_NULL = Meta(extra_json_schema={"not": {"type": "null"}})  # missing, where there is none
Day = Annotated[str, Meta(extra_json_schema={"format": "date"})]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Basis = Annotated[str, one_of(*BASES)]
Market = Annotated[str, one_of(*MARKETS)]
Strategy = Annotated[str, one_of(*STRATEGIES)]
Compression = Annotated[str, one_of(*COMPRESSION_BYTES)]
Transport = Annotated[str, one_of(*TRANSPORTS)]
StepSeconds = Annotated[
    dict[str, Amount],
    Meta(
        description="Seconds of one step: `calculation`, `communication`, of which `hidden` pass "
        "while machines calculate, and `total`; other keys are phases of the exchange, by name.",
        extra_json_schema={"required": ["calculation", "communication", "total"]},
    ),
]


class Part(Struct, frozen=True):
    """An object of a document; readers ignore keys that they do not know."""


class Closed(Part, frozen=True, forbid_unknown_fields=True):
    """An object without other keys."""


class Named(Part, frozen=True):
    """What another file says, by its name and digest."""

    name: str
    digest: str


class Range(Part, frozen=True):
    """A figure with its interval."""

    value: Amount
    low: Amount
    high: Amount


class Message(Part, frozen=True):
    """A sentence for people.

    code: Short name of its kind, for programs.
    """

    code: str
    message: str


class KeepRule(Part, frozen=True):
    """What of a kind is in an area must not leave it."""

    kind: str
    area: str


class Wishes(Part, frozen=True):
    """The wishes as they were read, in SI units; null: no limit.

    sample: What one sample of the model is, such as `16 tokens`; null if its profile does not state
        it. Files of November 2026 and before lack it.
    batch_assumed: Whether the batch is the default of adapters, which nobody asked for.
    trainable_parameters: Parameters that the optimizer changes, of language models: few with
        adapters.
    quota_gpus: Most GPUs of each place, type and market where no row of quotas matches; null: no
        limit; absent: 8.
    data_bytes: Size of the data in the store; null where nobody said it.
    data_cache: Where later passes over the data of a store read from; null: auto.
    """

    model: str
    budget_usd_per_hour: float | None
    min_samples_per_second: float | None
    target_batch_size: Natural
    compression: str
    gradient_bytes: Amount
    gpus: list[str]
    places_in: list[str]
    places_not_in: list[str]
    market: Annotated[str, one_of("any", *MARKETS)]
    min_workers: Natural
    max_workers: Natural
    exchange: str
    aggregator: str | None
    storage: str | None
    data_store: str | None
    quotas: list[Quota]
    same_zone: bool
    require_measured: bool
    local_steps: list[int] | None
    streams: int
    overlap: bool
    samples_to_target: dict[str, float]
    datasets: list[Dataset]
    passes: float
    keep: list[KeepRule]
    calibration: str
    interruption: float | None
    unavailable: float | None
    use: list[str]
    samples: Natural | None
    deadline_seconds: float | None
    budget_usd: float | None
    batch_range: tuple[Natural, Natural] | None
    critical_batch: Natural | None
    max_carbon_g_per_hour: float | None
    min_regions: Natural
    max_regions: Natural
    sample: Maybe[str | None] = UNSET
    batch_assumed: Maybe[bool] = UNSET
    trainable_parameters: Maybe[int | None] = UNSET
    quota_gpus: Maybe[int | None] = UNSET
    uniform: Maybe[bool] = UNSET
    supply: Maybe[int | None] = UNSET
    startup_seconds: Maybe[Amount] = UNSET
    quorum: Maybe[Natural | None] = UNSET
    grace_seconds: Maybe[Positive | None] = UNSET
    data_bytes: Maybe[float | None] = UNSET
    data_cache: Maybe[Annotated[str, one_of(*CACHES)] | None] = UNSET
    data_source: Maybe[str] = UNSET
    copy_seconds: Maybe[Amount] = UNSET
    budget_rate: Maybe[str | None] = UNSET
    oldest_price: Maybe[Day | None] = UNSET
    tokens: Maybe[Natural | None] = UNSET
    sequence_length: Maybe[Natural | None] = UNSET
    lora: Maybe[Natural | None] = UNSET
    qlora: Maybe[Natural | None] = UNSET
    transport: Maybe[Transport] = UNSET
    max_machines: Maybe[Natural | None] = UNSET
    machines_per_island: Maybe[tuple[Natural, Natural] | None] = UNSET
    sharding: Maybe[Annotated[str, one_of(*SHARDINGS)] | None] = UNSET
    tensor_parallel: Maybe[Annotated[int, one_of(*TENSOR_DEGREES)] | None] = UNSET
    checkpointing: Maybe[Annotated[str, one_of(*CHECKPOINTING)] | None] = UNSET
    microbatch: Maybe[Natural | None] = UNSET
    precision: Maybe[Annotated[str, one_of(*PRECISIONS)] | None] = UNSET
    software: Maybe[Annotated[str, one_of(*SOFTWARE)] | None] = UNSET
    confidence: Maybe[float | None] = UNSET
    on_demand_floor: Maybe[float | None] = UNSET
    max_share: Maybe[list[str]] = UNSET
    expected: Maybe[bool] = UNSET


class Request(Wishes, frozen=True, kw_only=True):
    """The wishes, and what is best by."""

    objective: Annotated[str, one_of(*OBJECTIVES)]


class BookData(Part, frozen=True):
    """The price book, and the dates of its prices.

    changes: What a question about another world changed in the book; the digest is that of the
        changed book.
    """

    catalog: str
    digest: str
    as_of: Day
    oldest: Day
    egress_as_of: Maybe[Day] = UNSET
    egress_oldest: Maybe[Day] = UNSET
    changes: Maybe[list[str]] = UNSET


class Objective(Part, frozen=True):
    """What is best by, how good the answer is, and what is proved."""

    name: str
    value: float | None
    bound: float | None
    gap: float | None


class Machines(Part, frozen=True):
    """Equal machines in one place."""

    offer: str
    place: str
    gpu: str
    gpu_count: Natural
    market: Market
    count: Natural
    usd_per_hour: Amount


class Workers(Machines, frozen=True):
    """Equal workers in one place.

    machines: Machines of one worker, an island; missing: 1.
    inner: Missing: none is known.
    behind: Machines of other offers with the later layers of the same copies of the model, for one
        worker; missing: none.
    """

    machines: Maybe[Natural] = UNSET
    inner: Maybe[InnerPlan] = UNSET
    behind: Maybe[list[Workers]] = UNSET


class AggregatorPlace(Part, frozen=True):
    """Where gradients meet; memory of a function."""

    place: str
    memory_gib: float | None


class StoragePlace(Part, frozen=True):
    """Where an exchange by a store has it."""

    place: str


class Placement(Part, frozen=True):
    """Which machines where, and how they exchange gradients.

    transport: Software that averages inside a zone; missing: hivemind.
    """

    workers: Some[Workers]
    worker_count: Natural
    exchange: Strategy
    compression: Compression
    aggregator: AggregatorPlace | None
    storage: StoragePlace | None
    local_steps: Natural
    streams: Natural
    overlap: bool
    server: Machines | None
    transport: Maybe[Transport] = UNSET


class UsdPerHour(Part, frozen=True):
    """What an hour costs, by component."""

    compute: Amount
    egress: Amount
    storage: Amount
    functions: Amount
    data: Amount
    total: Amount


class LinkUse(estimate.LinkUse, frozen=True, kw_only=True):
    """What one directed pair of places carries in a round; streams came later."""

    basis: Basis
    streams: Maybe[Count] = UNSET  # type: ignore[assignment]


class Estimate(Part, frozen=True):
    """What a placement does and costs. ``samples_per_second`` pass through the workers; effective
    ones count towards the target, and ``usd_per_million_samples`` is per million of these.
    ``step_seconds`` and the bytes of links are those of one round: from exchange to exchange,
    ``local_steps`` optimizer steps.

    carbon_g_per_hour: Emissions of the machines in g CO2e per hour by the grid of their places;
        null where not known.
    """

    samples_per_second: Range
    effective_samples_per_second: Range
    samples_to_target: Multiplier
    local_steps: Natural
    step_seconds: StepSeconds
    granularity: Amount | None
    usd_per_hour: UsdPerHour
    usd_per_hour_interval: Interval
    usd_per_million_samples: Amount
    shares: dict[str, Amount]
    moves: list[Move]
    links: list[LinkUse]
    provenance: list[str]
    carbon_g_per_hour: Maybe[Interval | None] = UNSET
    tokens_per_second: Maybe[Range] = UNSET
    usd_per_billion_tokens: Maybe[Amount] = UNSET
    data_passes: Maybe[DataPasses] = UNSET


class Option(Part, frozen=True):
    """A placement that was considered, and what is said about it."""

    label: str
    note: str
    placement: Placement
    estimate: Estimate


class Spot(SpotOutlook, frozen=True, kw_only=True):
    """What spot machines do to a run; risk came later."""

    risk: Annotated[Risk | None, NOT_NULL] = None


class Outlook(Part, frozen=True):
    """What a run has to expect beyond its rate: interruptions, and the egress of a month.

    spot: Null without spot machines.
    """

    spot: Spot | None
    month: MonthOutlook


Anything: TypeAlias = dict[str, Any]
