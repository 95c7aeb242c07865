"""The user's wishes, in SI units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from placer.elastic import Dataset, needs_place
from placer.errors import PlacerError, unknown
from placer.exchange import STRATEGIES, traits
from placer.placement import WorkerGroup
from placer.profile import COMPRESSION_BYTES

OBJECTIVES = ("throughput", "cost", "cost-per-sample")
LOCAL = tuple(name for name in STRATEGIES if traits(name).local_steps)
"""Strategies that exchange every H steps: `auto` adds them where the user allows local steps."""
SYNCHRONOUS = tuple(name for name in STRATEGIES if name not in ("none", *LOCAL))
"""Strategies that leave the course of the training as it is: `auto` chooses among them."""
EXCHANGES = ("auto", *SYNCHRONOUS, *LOCAL)
MOST_STREAMS = 256
"""More TCP streams between two machines are a slip of the keyboard."""
LEAST_MULTIPLIER = 0.01
MOST_PASSES = 1e6
"""More passes over the data, or fewer than one in so many, are a slip of the keyboard."""
ALL_REGIONS = 1_000
"""More regions than any market has: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """At most ``gpus`` devices wherever place, GPU and market match (wildcards)."""

    place: str
    gpu: str
    market: str
    gpus: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A residency rule: what of a kind is in one of some places must not leave them."""

    kind: str
    area: str
    places: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Used:
    """At least ``count`` machines wherever place, device (``T4`` or ``V100:8``) and market match (wildcards)."""

    place: str
    device: str = "*"
    market: str = "*"
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse rules that ask for nothing."""
        if self.count < 1:
            raise PlacerError(f"{self.count} machines of {self.device} in {self.place} must be used", "at least 1, or leave it out")

    @property
    def spec(self) -> str:
        """The rule as ``--use`` takes it: ``gcp/*=2xT4:spot``, or a place alone."""
        if (self.device, self.market, self.count) == ("*", "*", 1):
            return self.place
        return f"{self.place}={self.count}x{self.device}" + ("" if self.market == "*" else f":{self.market.replace('_', '-')}")

    @property
    def named_place(self) -> str | None:
        """The place, unless it has wildcards."""
        return None if any(sign in self.place for sign in "*?[") else self.place


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirements:
    """The user's wishes, in SI units; None means no limit. ``oldest_price`` is an ISO date: older machine prices are left out."""

    objective: str = "throughput"
    budget_usd_per_hour: float | None = None
    min_samples_per_second: float | None = None
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
    target_batch_size: int | None = None
    data_store: str | None = None
    datasets: tuple[Dataset, ...] = ()
    passes: float = 1.0
    kept: tuple[Kept, ...] = ()
    interruption: float | None = None
    unavailable: float | None = None
    quotas: tuple[Quota, ...] = ()
    used: tuple[Used, ...] = ()
    same_zone: bool = True
    require_measured: bool = False
    oldest_price: str | None = None

    @property
    def aggregator_words(self) -> str | None:
        """The aggregator as the user writes it: a place, or ``function@place``."""
        return self.aggregator if self.function is None else f"{self.function}@{self.aggregator}"

    def __post_init__(self) -> None:
        """Refuse unknown words and limits that are not positive."""
        for kind, value, known in (
            ("objective", self.objective, OBJECTIVES),
            ("exchange", self.exchange, EXCHANGES),
            ("market", self.market, ("any", "spot", "on_demand")),
            ("compression", self.compression or "none", COMPRESSION_BYTES),
        ):
            if value not in known:
                raise unknown(kind, value, known)
        self._check_ranges()
        self._check_data()
        for strategy, factor in self.samples_to_target:
            if strategy not in EXCHANGES[1:]:
                raise unknown("exchange", strategy, EXCHANGES[1:])
            if not LEAST_MULTIPLIER <= factor <= 1 / LEAST_MULTIPLIER:
                raise PlacerError(f"samples to target of {strategy} is {factor}", "1 is as good as synchronous training, 2 needs twice")
        for name in ("budget_usd_per_hour", "min_samples_per_second", "target_batch_size"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise PlacerError(f"{name} is {value}", "give a finite amount above 0")

    @property
    def required_places(self) -> tuple[str, ...]:
        """Places that need a worker: where data must stay, and where machines that must be used are; sorted."""
        named = {rule.named_place for rule in self.used if rule.named_place is not None}
        return tuple(sorted({*needs_place(self.datasets), *named}))

    @property
    def data_moves(self) -> bool:
        """Whether some dataset may move."""
        return any(data.may_move for data in self.datasets)

    def with_data_staying(self) -> Requirements:
        """The same wishes with all data left where it is: nothing moves, so there are no passes to spread a move over."""
        return replace(self, datasets=tuple(replace(data, may_move=False) for data in self.datasets), passes=1.0)

    def _check_data(self) -> None:
        """Refuse shares that are none, passes out of any range, and two kinds of data at once."""
        for name in ("interruption", "unavailable"):
            share = getattr(self, name)
            if share is not None and not 0 <= share < 1:
                raise PlacerError(f"{name} is {share}", "give a share from 0 to below 1, such as 20%")
        if not 1 / MOST_PASSES <= self.passes <= MOST_PASSES:
            raise PlacerError(f"passes is {self.passes:g}", f"give how often the data is read, {1 / MOST_PASSES:g} to {MOST_PASSES:,g}")
        if self.datasets and self.data_store is not None:
            raise PlacerError(f"data in {self.data_store} beside datasets with a place", "give a store, or datasets")

    def _check_ranges(self) -> None:
        """Refuse ranges whose lower end is below one or above the upper end."""
        for what, low, high in (
            ("workers", self.min_workers, self.max_workers),
            ("regions", self.min_regions, self.max_regions),
            ("local steps", self.min_local_steps or 1, self.max_local_steps or self.min_local_steps or 1),
        ):
            if not 1 <= low <= high:
                raise PlacerError(f"{what} {low}..{high}", "at least 1, and the lower end first")
        if not 1 <= self.streams <= MOST_STREAMS:
            raise PlacerError(f"streams is {self.streams}", f"give 1 to {MOST_STREAMS} TCP streams for each pair")


def uses(rule: Used, place: str, device: str, market: str) -> bool:
    """Whether machines of a place, device and market are what a rule asks for.

    Examples
    --------
    >>> uses(Used(place="gcp/*", device="T4"), "gcp/us-west1", "T4", "spot")
    True
    >>> uses(Used(place="gcp/*", device="V100:8"), "gcp/us-west1", "V100", "spot")
    False
    """
    return fnmatchcase(place, rule.place) and fnmatchcase(device, rule.device) and fnmatchcase(market, rule.market)


def missing(rule: Used, groups: Iterable[WorkerGroup]) -> int:
    """Machines that some groups lack of what a rule asks for."""
    return max(0, rule.count - sum(g.count for g in groups if uses(rule, g.place, g.device, g.market)))
