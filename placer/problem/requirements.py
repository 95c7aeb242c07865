"""The user's wishes, in SI units."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import force_setattr

from placer.errors import PlacerError, unknown
from placer.market.catalog import MARKETS, OLD_TRANSPORT, VmOffer
from placer.market.words.selection import is_named
from placer.problem.datasets import Dataset, needs_place
from placer.problem.exchange import STRATEGIES, traits
from placer.problem.placement import WorkerGroup
from placer.problem.shares import ShareLimit, SpeedCap
from placer.records import Amount, Count, Natural, Positive, one_of, replace
from placer.units import format_duration, format_usd
from placer.workload.constants import RINGS
from placer.workload.data_loading import CACHES
from placer.workload.engines import ENGINES
from placer.workload.inner_plan import CHECKPOINTING, PRECISIONS, SHARDINGS, TENSOR_DEGREES
from placer.workload.profile import COMPRESSION_BYTES
from placer.workload.software import SOFTWARE, UNNAMED

OBJECTIVES = ("throughput", "cost", "cost-per-sample", "time", "carbon", "total")
LOCAL = tuple(name for name in STRATEGIES if traits(name).local_steps)
"""Strategies that exchange every H steps: `auto` adds them where the user allows local steps."""
SYNCHRONOUS = tuple(name for name in STRATEGIES if name not in ("none", *LOCAL))
"""Strategies that leave the course of the training as it is: `auto` chooses among them."""
EXCHANGES = ("auto", *SYNCHRONOUS, *LOCAL)
OUTER = tuple(name for name in LOCAL if traits(name).outer)
"""Local steps with an outer optimizer: published for language models."""
MOST_STREAMS = 256
"""More TCP streams between two machines are a slip of the keyboard."""
LEAST_MULTIPLIER = 0.01
MOST_PASSES = 1e6
"""More passes over the data, or fewer than one in so many, are a slip of the keyboard."""
NO_COPY = "none"
"""Source of data that is read where it lies."""
LEAST_WORK_S = 1e-6
"""Seconds of work that are left of a deadline by which machines have not started."""
TRANSPORTS = (*RINGS, OLD_TRANSPORT)
"""Software that averages gradients inside a zone."""
MOST_LAUNCHED = 16
"""Spot machines of one type that a place launches together at most, where nothing else is known;
assumed. No public data show more: SkyNomad's probes of 13 zones (H100:8, GCP 2025) and the traces
of SkyPilot (V100, AWS 2023) asked for 16 and got them now and then.
"""
ALL_REGIONS = 1_000
"""More regions than any market has: no limit."""


@lru_cache(maxsize=65_536)
def matches(name: str, patterns: str) -> bool:
    """Tell whether a name is one of some patterns with ``|`` between them.

    >>> [matches(name, "g[0-9]*|gr[0-9]*") for name in ("g6.xlarge", "gr6.4xlarge", "p5.48xlarge")]
    [True, True, False]
    """
    return is_named(name, patterns.split("|"))


def doublings(low: int, high: int) -> tuple[int, ...]:
    """Return both ends of a range and the powers of two between, sorted.

    >>> doublings(3, 20), doublings(4, 4)
    ((3, 4, 8, 16, 20), (4,))
    """
    return tuple(sorted({low, high, *(2**k for k in range(low.bit_length(), high.bit_length()))}))


class Quota(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At most ``gpus`` devices, or ``vcpus`` of machines, wherever place, GPU, market and machine
    type match (wildcards, several with ``|`` between): ``each`` place, GPU and market apart, or all
    ``together``. Rows of vCPUs and of machine types hold together.
    """

    place: str
    gpu: str
    market: str
    gpus: Count | None = None
    scope: Annotated[str, one_of("each", "together")] = field(
        default_factory=lambda: "each"
    )  # so written even where it is the default
    machine: str = "*"
    vcpus: Count | None = None

    def __post_init__(self) -> None:
        """Refuse rows of no amount or two, and of machines that are not counted together."""
        if (self.gpus is None) == (self.vcpus is None):
            both = "GPUs and vCPUs" if self.vcpus is not None else "neither GPUs nor vCPUs"
            raise PlacerError(f"a quota for {self.place} states {both}", "give gpus or vcpus")
        if self.of_machines and self.scope != "together":
            raise PlacerError(
                f"a quota of {self.words} with scope '{self.scope}'",
                "vCPUs and machine types hold together: write scope together",
            )

    @property
    def most(self) -> int:
        """How many GPUs or vCPUs are allowed."""
        return (self.gpus or 0) if self.vcpus is None else self.vcpus

    @property
    def unit(self) -> str:
        """Return what is counted."""
        return "GPUs" if self.vcpus is None else "vCPUs"

    @property
    def words(self) -> str:
        """Return what is counted and where: ``spot vCPUs of g[0-9]* in aws/us-east-2``."""
        named = [name for name in (self.machine, self.gpu) if name != "*"]
        market = "" if self.market == "*" else f"{self.market.replace('_', '-')} "
        place = "all places" if self.place == "*" else self.place
        return f"{market}{self.unit}{' of ' if named else ''}{' '.join(named)} in {place}"

    @property
    def of_machines(self) -> bool:
        """Tell whether machines of one place, GPU and market differ in what they take."""
        return self.vcpus is not None or self.machine != "*"

    def covers(self, place: str, gpu: str, market: str) -> bool:
        """Tell whether devices of a place and market count, of some machine type at least."""
        return (
            matches(place, self.place) and matches(gpu, self.gpu) and matches(market, self.market)
        )

    def counts(self, offer: VmOffer) -> bool:
        """Tell whether the machines of an offer count."""
        return matches(offer.instance_type, self.machine) and self.covers(
            offer.place, offer.gpu, offer.market
        )

    def lacks_vcpus(self, offer: VmOffer) -> bool:
        """Tell whether it counts vCPUs of machines of which nobody states them."""
        return self.vcpus is not None and offer.stated_vcpus is None and self.counts(offer)

    def taken(self, offer: VmOffer, machines: int = 1) -> int:
        """Return the GPUs or vCPUs of some machines; too many where nobody states their vCPUs."""
        if not self.counts(offer):
            return 0
        if self.vcpus is None:
            return machines * offer.gpu_count
        each = offer.stated_vcpus
        return machines * (self.vcpus + 1 if each is None else each)


class Kept(Struct, frozen=True, kw_only=True):
    """A residency rule: what of a kind is in one of some places must not leave them."""

    kind: str
    area: str
    places: tuple[str, ...]


class Used(Struct, frozen=True, kw_only=True):
    """At least ``count`` machines wherever place, device (``T4`` or ``V100:8``) and market match
    (wildcards, ``|`` between them); not ``given`` where placer itself asks what an answer with
    them would be.
    """

    place: str
    device: str = "*"
    market: str = "*"
    count: int = 1
    given: bool = True

    def __post_init__(self) -> None:
        """Refuse rules that ask for nothing."""
        if self.count < 1:
            raise PlacerError(
                f"{self.count} machines of {self.device} in {self.place} must be used",
                "at least 1, or leave it out",
            )

    @property
    def spec(self) -> str:
        """Return the rule as ``--use`` takes it: ``gcp/*=2xT4:spot``, or a place alone."""
        if (self.device, self.market, self.count) == ("*", "*", 1):
            return self.place
        return f"{self.place}={self.count}x{self.device}" + (
            "" if self.market == "*" else f":{self.market.replace('_', '-')}"
        )

    @property
    def named_place(self) -> str | None:
        """Return the place, or None if it has wildcards."""
        return None if any(sign in self.place for sign in "*?[|") else self.place


class Narrowed(Struct, frozen=True, kw_only=True):
    """What a search over numbers of workers asks of one number: the most seconds that the slowest
    worker does its part of a step in, and that all wait for at least; the most of these seconds
    times the price of all workers per hour; whether a few numbers of machines are enough.
    """

    most_s: float = float("inf")
    least_s: float = 0.0
    most_usd_s: float = float("inf")
    few_sizes: bool = False


class Requirements(Struct, frozen=True, kw_only=True, dict=True):
    """The user's wishes, in SI units; None means no limit.

    ``samples`` is how many to train on, at equal progress; ``deadline_s`` and ``budget_usd`` are
    for all of them, and ``startup_s`` are paid once before the first. ``oldest_price`` is an ISO
    date: older machine prices are left out. With a ``batch_range`` and no ``target_batch_size`` a
    solver chooses the batch; ``critical_batch`` is the gradient noise scale in samples. ``tokens``,
    ``sequence_length``, ``batch_tokens`` and the ranks of ``lora`` and ``qlora`` are about language
    models, whose samples are sequences: `in_sequences` of the words sets ``samples``
    and ``target_batch_size`` by them. ``quota_gpus`` holds for each place, GPU and market that no
    row of ``quotas`` matches. An exchange goes on when ``quorum`` workers have answered and
    ``grace_s`` seconds have passed; so many workers are needed, and ``min_workers`` is at least as
    many. ``data_bytes`` is the size of the data in ``data_store``, and ``data_cache`` says where
    later passes over it read from. It is copied there once from ``data_source`` ("none": it lies
    there), in ``copy_s``, which the problem works out. ``max_shares`` and ``on_demand_floor`` are
    shares of the speed, ``confidence`` is a share of the scenarios of capacity, and ``expected``
    asks for the mean over them; ``speed_caps`` and ``least_speed`` are what a search over them asks
    of one range of speeds, and ``narrowed`` what a search over numbers of workers asks of one
    number; ``engine`` names the one of `placer.workload.engines` that is to run the plan. They are
    no words of a user. With ``uniform`` all workers are machines of one kind where the software
    divides a step equally. ``supply`` is how many spot machines of one type launch together in a
    place, where neither a quota nor the capacity table says it. ``budget_rate`` names the rate at
    which a budget in another currency was read.
    """

    objective: str = "throughput"
    budget_usd_per_hour: Positive | None = None
    min_samples_per_second: Positive | None = None
    samples: Natural | None = None
    tokens: Natural | None = None
    sequence_length: Natural | None = None
    lora: Natural | None = None
    qlora: Natural | None = None
    deadline_s: Positive | None = None
    budget_usd: Positive | None = None
    startup_s: Amount = 0.0
    most_usd_per_million_samples: Positive | None = None
    max_carbon_g_per_hour: Positive | None = None
    gpus: tuple[str, ...] = ()
    places_in: tuple[str, ...] = ()
    places_not_in: tuple[str, ...] = ()
    market: str = "any"
    min_workers: int = 1
    max_workers: int = 64
    min_regions: int = 1
    max_regions: int = ALL_REGIONS
    exchange: str = "auto"
    aggregator: str | None = None
    function: str | None = None
    storage: str | None = None
    compression: str | None = None
    min_local_steps: int | None = None
    max_local_steps: int | None = None
    streams: int = 1
    overlap: bool = False
    samples_to_target: tuple[tuple[str, float], ...] = ()
    target_batch_size: Natural | None = None
    batch_range: tuple[int, int] | None = None
    batch_tokens: Natural | None = None
    critical_batch: Natural | None = None
    data_store: str | None = None
    datasets: tuple[Dataset, ...] = ()
    passes: float = 1.0
    kept: tuple[Kept, ...] = ()
    interruption: float | None = None
    unavailable: float | None = None
    quotas: tuple[Quota, ...] = ()
    quota_gpus: int | None = None
    used: tuple[Used, ...] = ()
    same_zone: bool = True
    uniform: bool = False
    supply: int | None = None
    require_measured: bool = False
    oldest_price: str | None = None
    transport: str | None = None
    max_machines: int | None = None
    min_island_machines: int | None = None
    max_island_machines: int | None = None
    sharding: str | None = None
    tensor_parallel: int | None = None
    checkpointing: str | None = None
    microbatch: int | None = None
    precision: str | None = None
    software: str | None = None
    quorum: int | None = None
    grace_s: Positive | None = None
    data_bytes: Positive | None = None
    data_cache: str | None = None
    data_source: str | None = None
    copy_s: Amount = 0.0
    max_shares: tuple[ShareLimit, ...] = ()
    on_demand_floor: float | None = None
    confidence: float | None = None
    expected: bool = False
    speed_caps: tuple[SpeedCap, ...] = ()
    least_speed: int | None = None
    narrowed: Narrowed | None = None
    engine: str = ""
    budget_rate: str | None = None

    @property
    def aggregator_words(self) -> str | None:
        """Return the aggregator as the user writes it: a place, or ``function@place``."""
        return self.aggregator if self.function is None else f"{self.function}@{self.aggregator}"

    @cached_property
    def floor_samples_per_second(self) -> float | None:
        """Return the least samples/s that floor and deadline ask for."""
        needed = [
            self.min_samples_per_second,
            None if self.deadline_s is None else (self.samples or 0) / self.work_s,
        ]
        return max((floor for floor in needed if floor is not None), default=None)

    @property
    def work_s(self) -> float:
        """Return the seconds of work until the deadline; next to nothing where none are left."""
        return max(LEAST_WORK_S, (self.deadline_s or 0.0) - self.lead_s)

    @property
    def lead_s(self) -> float:
        """Return the seconds before the first step: data is copied, then machines start."""
        return self.copy_s + self.startup_s

    @property
    def copies_data(self) -> bool:
        """Tell whether data is copied to the store that it is read from."""
        return self.data_source not in (None, NO_COPY)

    @property
    def max_usd_per_million_samples(self) -> float | None:
        """Return the most USD for a million samples that count: the budget in total over the
        samples, or a limit of its own if that is less. Start-up is in the budget in total, so that
        what is left for samples is never too little.
        """
        given = [
            self.most_usd_per_million_samples,
            None if self.budget_usd is None else self.budget_usd / (self.samples or 1) * 1e6,
        ]
        return min((limit for limit in given if limit is not None), default=None)

    @property
    def has_quotas(self) -> bool:
        """Tell whether anything limits the GPUs or vCPUs of an account."""
        return bool(self.quotas) or self.quota_gpus is not None

    @property
    def other_supply(self) -> int | None:
        """Return ``supply`` where a quota of all machines does not count instead."""
        return self.supply if self.quota_gpus is None else None

    @property
    def joint_quotas(self) -> tuple[Quota, ...]:
        """List the quotas that cap a sum over places, devices or markets."""
        return tuple(row for row in self.quotas if row.scope == "together")

    @property
    def has_shares(self) -> bool:
        """Tell whether shares of the speed are limited."""
        return bool(self.max_shares) or self.on_demand_floor is not None

    @property
    def counts_carbon(self) -> bool:
        """Tell whether machines whose emissions nobody knows are left out."""
        return self.max_carbon_g_per_hour is not None or self.objective == "carbon"

    @property
    def open_batches(self) -> tuple[int, ...]:
        """List the batches to choose from: both ends, and powers of two between."""
        if self.batch_range is None or self.target_batch_size is not None:
            return ()
        return doublings(*self.batch_range)

    def __post_init__(self) -> None:
        """Refuse unknown words and limits that are not positive."""
        for kind, value, known in (
            ("objective", self.objective, OBJECTIVES),
            ("exchange", self.exchange, EXCHANGES),
            ("market", self.market, ("any", *MARKETS)),
            ("compression", self.compression or "none", COMPRESSION_BYTES),
            ("engine", self.engine or "placer", ENGINES),
            ("transport", self.transport or OLD_TRANSPORT, TRANSPORTS),
            ("sharding", self.sharding or SHARDINGS[0], SHARDINGS),
            ("checkpointing", self.checkpointing or CHECKPOINTING[0], CHECKPOINTING),
            ("precision", self.precision or PRECISIONS[0], PRECISIONS),
            ("software", self.software or UNNAMED, SOFTWARE),
            ("data cache", self.data_cache or CACHES[0], CACHES),
        ):
            if value not in known:
                raise unknown(kind, value, known)
        self._check_quorum()
        self._check_ranges()
        self._check_data()
        self._check_shares()
        if self.lora is not None and self.qlora is not None:
            raise PlacerError("lora and qlora at once", "give one of them")
        for strategy, factor in self.samples_to_target:
            if strategy not in EXCHANGES[1:]:
                raise unknown("exchange", strategy, EXCHANGES[1:])
            if not LEAST_MULTIPLIER <= factor <= 1 / LEAST_MULTIPLIER:
                raise PlacerError(
                    f"samples to target of {strategy} is {factor}",
                    "1 is as good as synchronous training, 2 needs twice",
                )
        for name in AMOUNTS:
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise PlacerError(f"{name} is {value}", "give a finite amount above 0")
        self._check_totals()

    @property
    def startup_s_per_sample(self) -> float:
        """Return the paid seconds before the first sample, spread over all of them."""
        return self.startup_s / self.samples if self.samples else 0.0

    @cached_property
    def required_places(self) -> tuple[str, ...]:
        """List the places that need a worker, sorted: for data, or machines to be used."""
        named = {rule.named_place for rule in self.used if rule.named_place is not None}
        return tuple(sorted({*needs_place(self.datasets), *named}))

    @property
    def data_moves(self) -> bool:
        """Tell whether some dataset may move."""
        return any(data.may_move for data in self.datasets)

    def with_data_staying(self) -> Requirements:
        """Return the same wishes with all data left where it is, and one pass."""
        staying = tuple(replace(data, may_move=False) for data in self.datasets)
        return replace(self, datasets=staying, passes=1.0)

    def _check_totals(self) -> None:
        """Refuse what is meant for all samples where nobody says how many."""
        totals = (
            (f"deadline {format_duration(self.deadline_s or 0)}", self.deadline_s is not None),
            (f"budget {format_usd(self.budget_usd or 0)} in total", self.budget_usd is not None),
            ("objective 'time'", self.objective == "time"),
            ("objective 'total'", self.objective == "total"),
        )
        for what, wanted in totals:
            if wanted and self.samples is None and self.tokens is None:
                raise PlacerError(
                    f"{what} without a number of samples",
                    "say how many to train on, such as --samples 10M or --tokens 10B",
                )
        if not 0 <= self.startup_s < float("inf"):
            raise PlacerError(f"startup_s is {self.startup_s:g}", "give a finite time, or 0")

    def _check_data(self) -> None:
        """Refuse shares that are none, passes out of any range, and two kinds of data at once."""
        for name in ("interruption", "unavailable"):
            share = getattr(self, name)
            if share is not None and not 0 <= share < 1:
                raise PlacerError(
                    f"{name} is {share}", "give a share from 0 to below 1, such as 20%"
                )
        if not 1 / MOST_PASSES <= self.passes <= MOST_PASSES:
            raise PlacerError(
                f"passes is {self.passes:g}",
                f"give how often the data is read, {1 / MOST_PASSES:g} to {MOST_PASSES:,g}",
            )
        if self.datasets and self.data_store is not None:
            raise PlacerError(
                f"data in {self.data_store} together with datasets that have a place",
                "give a store, or datasets",
            )

    def _check_shares(self) -> None:
        sure = self.confidence
        if sure is not None and not 0 < sure < 1:
            raise PlacerError(f"confidence is {sure:g}", "give a share below 1, such as 95%")
        floor = self.on_demand_floor
        if floor is not None and not 0 < floor <= 1:
            raise PlacerError(
                f"on_demand_floor is {floor:g}", "give a share above 0 and up to 1, such as 25%"
            )
        if floor is not None and self.market not in ("any", "on_demand"):
            raise PlacerError(
                f"{100 * floor:g} % of the speed on demand, of machines that are all {self.market}",
                "leave out --on-demand-floor or --market",
            )
        if not self.same_zone and any(limit.area == "zone" for limit in self.max_shares):
            raise PlacerError(
                "a share for each zone where workers of a region spread over zones: which of them "
                "is in which zone is not decided",
                "write --max-share as 50%/region, or leave out --zones spread",
            )
        areas = [limit.area for limit in self.max_shares]
        if len(areas) > len({*areas}):
            raise PlacerError(
                f"two shares for one {max(areas, key=areas.count)}", "give --max-share once for it"
            )

    def _check_quorum(self) -> None:
        """Refuse a quorum that is none; ask for as many workers."""
        if self.quorum is None:
            if self.grace_s is not None:
                raise PlacerError(
                    f"grace of {format_duration(self.grace_s)} without a quorum",
                    "say how many workers must answer, such as --quorum 3",
                )
            return
        if not 1 <= self.quorum <= self.max_workers:
            raise PlacerError(
                f"quorum {self.quorum} of at most {self.max_workers} workers",
                "give a whole number from 1 to the most workers",
            )
        if self.datasets:
            raise PlacerError(
                f"quorum {self.quorum} together with data that has a place",
                "an exchange without a worker would leave its data out: give one of them",
            )
        force_setattr(self, "min_workers", max(self.min_workers, self.quorum))

    def _check_ranges(self) -> None:
        for what, low, high in (
            ("workers", self.min_workers, self.max_workers),
            ("regions", self.min_regions, self.max_regions),
            ("tbs", *(self.batch_range or (1, 1))),
            (
                "machines per island",
                1 if self.min_island_machines is None else self.min_island_machines,
                (self.min_island_machines or 1)
                if self.max_island_machines is None
                else self.max_island_machines,
            ),
            (
                "local steps",
                self.min_local_steps or 1,
                self.max_local_steps or self.min_local_steps or 1,
            ),
        ):
            if not 1 <= low <= high:
                raise PlacerError(f"{what} {low}..{high}", "at least 1, and the lower end first")
        degree = self.tensor_parallel
        if degree is not None and degree not in TENSOR_DEGREES:
            raise PlacerError(
                f"tp {degree} is not a tensor parallel degree",
                "give 1, 2, 4 or 8 GPUs of a machine",
            )
        for name in ("max_machines", "microbatch", "supply"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlacerError(f"{name} is {value}", "give a whole number from 1")
        if not 1 <= self.streams <= MOST_STREAMS:
            raise PlacerError(
                f"streams is {self.streams}", f"give 1 to {MOST_STREAMS} TCP streams for each pair"
            )


AMOUNTS = tuple(
    name
    for name, kind in Requirements.__annotations__.items()
    if kind in ("Positive | None", "Natural | None")
)
"""Wishes that are amounts above 0."""
_FIELDS = Requirements.__struct_fields__
LATER_FIELDS = (
    *("tokens", "sequence_length", "lora", "qlora", "batch_tokens", "startup_s"),
    *("uniform", "supply", *_FIELDS[_FIELDS.index("transport") :]),
)
"""Fields that documents leave out where nothing is asked: older versions wrote none of them."""


def without_quotas(wish: Requirements) -> Requirements:
    """Return the wishes without quotas; a supply that would count instead goes with them."""
    if not wish.has_quotas:
        return wish
    return replace(wish, quotas=(), quota_gpus=None, supply=None)


def uses(rule: Used, place: str, device: str, market: str) -> bool:
    """Tell whether machines of a place, device and market are what a rule asks for.

    >>> [uses(Used(place=p), "gcp/us-west1", "T4", "spot") for p in ("aws/*", "aws/*|gcp/*")]
    [False, True]
    >>> uses(Used(place="gcp/*", device="V100:8"), "gcp/us-west1", "V100", "spot")
    False
    """
    named = (place, rule.place), (device, rule.device), (market, rule.market)
    return all(matches(name, patterns) for name, patterns in named)


def missing(rule: Used, groups: Iterable[WorkerGroup]) -> int:
    """Count the machines that some groups lack of what a rule asks for."""
    asked = (g for g in groups if uses(rule, g.place, g.device, g.market))
    return max(0, rule.count - sum(group.machine_count for group in asked))
