"""Parts that several documents share: placements, estimates, where figures come from."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from placer.cost_model.convergence import Multiplier
from placer.cost_model.estimate import DataPasses
from placer.cost_model.outlook.outlook import MonthOutlook, SpotOutlook
from placer.cost_model.outlook.risk import Risk
from placer.market.catalog import MARKETS
from placer.problem.exchange import STRATEGIES
from placer.problem.requirements import TRANSPORTS
from placer.records import Amount, Count, Natural, one_of
from placer.units import Interval
from placer.workload.inner_plan import InnerPlan
from placer.workload.profile import BASES, COMPRESSION_BYTES

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


class LinkUse(Part, frozen=True):
    """What one directed pair of places carries in a round."""

    from_: str = field(name="from")
    to: str
    bytes_per_step: Amount
    usd_per_hour: Amount
    basis: Basis
    streams: Maybe[Count] = UNSET


class Move(Part, frozen=True):
    """Samples that leave one place for another before the run."""

    from_: str = field(name="from")
    to: str
    samples: Amount
    bytes: Amount
    usd: Amount
    seconds: Amount


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
