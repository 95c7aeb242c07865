"""The validated question: a model, a market, a network and the user's wishes. Saves to one JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from placer.catalog import Catalog, StoreOffer, VmOffer
from placer.errors import PlacerError, unknown
from placer.link_model import great_circle_km
from placer.network import Network
from placer.profile import COMPRESSION_BYTES, ModelProfile, Rate
from placer.units import GIB

SCHEMA = "placer.problem/v1"
OBJECTIVES = ("throughput", "cost", "cost-per-sample")
EXCHANGES = ("auto", "all-reduce", "central")
ALL_REGIONS = 1_000
"""More regions than any market has: no limit."""
DEFAULT_QUOTA_GPUS = 8
"""GPUs per region, type and market when no quota file says otherwise: a small account's usual limit."""
KM_PER_DEGREE = 111.0
"""Kilometres of one degree of latitude, rounded down."""
SAME_CITY_KM = 100.0
"""An aggregator and its store are chosen in one city unless the user names their places."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """At most ``gpus`` devices wherever place, GPU and market match (wildcards)."""

    place: str
    gpu: str
    market: str
    gpus: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirements:
    """The user's wishes, in SI units; None means no limit."""

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
    storage: str | None = None
    compression: str | None = None
    target_batch_size: int | None = None
    data_store: str | None = None
    quotas: tuple[Quota, ...] = ()
    same_zone: bool = True
    require_measured: bool = False

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
        if not 1 <= self.min_workers <= self.max_workers:
            raise PlacerError(f"workers {self.min_workers}..{self.max_workers}", "at least 1, and the lower end first")
        if not 1 <= self.min_regions <= self.max_regions:
            raise PlacerError(f"regions {self.min_regions}..{self.max_regions}", "at least 1, and the lower end first")
        for name in ("budget_usd_per_hour", "min_samples_per_second", "target_batch_size"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise PlacerError(f"{name} is {value}", "give a finite amount above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """An offer that the request admits, with the speed of one machine alone and in a group."""

    offer: VmOffer
    alone: Rate
    shared: Rate
    gpu_quota: int

    @property
    def bucket(self) -> tuple[str, str, str]:
        """What the quota counts together: place, GPU, market."""
        return self.offer.place, self.offer.gpu, self.offer.market

    @property
    def max_count(self) -> int:
        """Machines that quota and availability allow."""
        by_quota = self.gpu_quota // self.offer.gpu_count
        return by_quota if self.offer.available is None else min(by_quota, self.offer.available)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One question, ready to solve: profile, catalog, requirements and the network of the catalog."""

    profile: ModelProfile
    catalog: Catalog
    requirements: Requirements

    @cached_property
    def network(self) -> Network:
        """Links and egress prices of the catalog."""
        return Network(self.catalog)

    @property
    def batch(self) -> int:
        """Target batch size: samples of one step over all workers, B in the formulas."""
        return self.requirements.target_batch_size or self.profile.target_batch_size

    @property
    def compression(self) -> str:
        """Compression of gradients on the wire."""
        return self.requirements.compression or self.profile.compression

    @property
    def gradient_bytes(self) -> float:
        """Bytes of one gradient on the wire, S in the formulas."""
        return self.profile.gradient_bytes(self.compression)

    @cached_property
    def data_store(self) -> StoreOffer | None:
        """Store of the dataset; None: the data is with the workers."""
        name = self.requirements.data_store
        return None if name is None else self.catalog.store(name)

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """Offers that the request admits, in the order of the book."""
        found = []
        for offer in self.catalog.offers:
            if self._place_admitted(offer) and not self.offer_problems(offer):
                pool = self.pool(offer)
                if pool is not None and pool.max_count >= 1:
                    found.append(pool)
        return tuple(found)

    @cached_property
    def aggregator_places(self) -> tuple[tuple[str, str], ...]:
        """Pairs (function place, store place) that a central exchange may use, sorted."""
        functions = [f.place for f in self.catalog.functions]
        stores = [s.place for s in self.catalog.stores]
        wanted_f, wanted_s = self.requirements.aggregator, self.requirements.storage
        regions = self.catalog.regions
        pairs = []
        for function in functions if wanted_f is None else [wanted_f]:
            for store in stores if wanted_s is None else [wanted_s]:
                chosen = wanted_f is not None and wanted_s is not None
                if chosen or self._same_city(regions[function].place, regions[store].place):
                    pairs.append((function, store))
        return tuple(sorted(pairs))

    def quota(self, place: str, gpu: str, market: str) -> int:
        """GPUs allowed for a place, type and market; the last matching row of the quota file wins."""
        for row in reversed(self.requirements.quotas):
            if fnmatchcase(place, row.place) and fnmatchcase(gpu, row.gpu) and fnmatchcase(market, row.market):
                return row.gpus
        return DEFAULT_QUOTA_GPUS

    def pool(self, offer: VmOffer) -> Pool | None:
        """Rates and quota of an offer; None if nobody can say how fast it is."""
        rates = self._rates.get(offer.device)
        if rates is None:
            gpu = self.catalog.gpu(offer.gpu)
            found = (self.profile.rate(gpu, offer.gpu_count, f, self.catalog) for f in ("none", "hivemind"))
            rates = self._rates[offer.device] = tuple(found)
        alone, shared = rates
        if alone is None or shared is None:
            return None
        return Pool(offer=offer, alone=alone, shared=shared, gpu_quota=self.quota(offer.place, offer.gpu, offer.market))

    @cached_property
    def _rates(self) -> dict[str, tuple[Rate | None, ...]]:
        return {}

    def offer_problems(self, offer: VmOffer) -> list[tuple[str, str]]:
        """Why an offer may not be used, as (code, message); empty if it may."""
        wish, found = self.requirements, []
        if wish.gpus and offer.gpu not in wish.gpus:
            found.append(("gpu", f"{offer.gpu} is not among --gpu {','.join(wish.gpus)}"))
        if wish.market not in ("any", offer.market):
            found.append(("market", f"{offer.instance_type} in {offer.place} is {offer.market}, not {wish.market}"))
        device_gib = self.catalog.gpu(offer.gpu).memory_gib
        if self.profile.device_memory_bytes > device_gib * GIB:
            need = self.profile.device_memory_bytes / GIB
            found.append(("device-memory", f"{self.profile.name} needs {need:.1f} GiB on each device; {offer.gpu} has {device_gib:g} GiB"))
        if self.profile.host_memory_bytes > offer.memory_gib * GIB:
            need = self.profile.host_memory_bytes / GIB
            found.append(
                (
                    "host-memory",
                    f"{self.profile.name} needs {need:.1f} GiB of host memory; {offer.instance_type} has {offer.memory_gib:g} GiB",
                )
            )
        if wish.require_measured and not self._measured(offer):
            found.append(("estimated", f"nobody measured {self.profile.name} on {offer.device}"))
        return found

    def place_problem(self, place: str) -> str:
        """Why workers may not be in a place; empty if they may."""
        wish = self.requirements
        if wish.places_in and not any(fnmatchcase(place, p) for p in wish.places_in):
            return f"{place} is not in --in {','.join(wish.places_in)}"
        if any(fnmatchcase(place, p) for p in wish.places_not_in):
            return f"{place} is excluded by --not-in {','.join(wish.places_not_in)}"
        return ""

    def _place_admitted(self, offer: VmOffer) -> bool:
        """Owned machines are used only where the user names their site."""
        if self.place_problem(offer.place):
            return False
        return offer.price_basis != "owned" or any(
            fnmatchcase(offer.place, p) and not p.startswith("*") for p in self.requirements.places_in
        )

    def _measured(self, offer: VmOffer) -> bool:
        pool = self.pool(offer)
        return pool is not None and pool.alone.basis in ("measured", "published")

    def _same_city(self, a: str, b: str) -> bool:
        here, there = self.catalog.region(a), self.catalog.region(b)
        if abs(here.latitude_deg - there.latitude_deg) > SAME_CITY_KM / KM_PER_DEGREE:
            return False
        return a == b or great_circle_km(here, there) <= SAME_CITY_KM

    def to_dict(self) -> dict[str, Any]:
        """Everything that the answer depends on, ready for JSON: only admitted offers are kept."""
        import msgspec

        built = msgspec.to_builtins({"profile": self.profile, "requirements": self.requirements, "catalog": self.catalog})
        assert isinstance(built, dict)
        built["catalog"]["offers"] = [msgspec.to_builtins(pool.offer) for pool in self.pools]
        return {"schema": SCHEMA, **built}

    @staticmethod
    def from_dict(raw: Mapping[str, Any]) -> Problem:
        """Read what `to_dict` wrote.

        Raises
        ------
        PlacerError
            If the text is not a problem of this version.
        """
        import msgspec

        if raw.get("schema") != SCHEMA:
            raise PlacerError(f"not a {SCHEMA} file", f'its "schema" must be "{SCHEMA}"')
        try:
            return msgspec.convert({k: raw[k] for k in ("profile", "requirements", "catalog")}, Problem)
        except (msgspec.ValidationError, KeyError) as error:
            raise PlacerError(f"problem file: {error}", "write it with Problem.to_dict") from None
