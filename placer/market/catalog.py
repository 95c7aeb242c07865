"""What can be rented, at what price, as of when."""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, cast

import msgspec

from placer.errors import unknown
from placer.market.accelerators import FIGURES, accelerator_figures
from placer.market.capacity_table import CapacityRow
from placer.market.table import Table, medians, members
from placer.records import Amount

FREE = ("owned", "reserved")
"""Bases of a price that may be 0: the machine is paid for whether it works or not."""
MARKETS = ("on_demand", "spot", "community")
"""How a machine is rented: for good; until the provider takes it away; from a third party through
the provider, whose host may leave.
"""
MARKET_WORDS = tuple(market.replace("_", "-") for market in MARKETS)  # Markets as users write them
FABRICS = ("efa", "infiniband", "roce", "gpudirect-tcpx", "ethernet")
"""Networks between the machines of one zone, as offers.csv and networks.csv name them."""
SHARE_OF_DATA_SHEET = 0.8
"""Matrix products of a device that nobody measured, over the dense peak of its data sheet: the
median of seven NVIDIA devices whose BF16 rate is published (0.73 to 0.87; Stas Bekman, Machine
Learning Engineering, compute/accelerator).
"""


def device_name(gpu: str, gpu_count: int) -> str:
    """Return the devices of one machine as users write them: ``T4`` or ``V100:8``."""
    return gpu if gpu_count == 1 else f"{gpu}:{gpu_count}"


_LATER = ("fabric", "max_island_machines", "local_disk_gb", "nvlink_gb_per_s", "read_gbps")
"""Fields of offers, of machines and stores, that the first documents lack."""


def offer_document(offer: VmOffer | StoreOffer) -> dict[str, Any]:
    """Return an offer ready for JSON, without later fields that say nothing: a document from before
    them is written again as it was.
    """
    built: dict[str, Any] = msgspec.to_builtins(offer)
    return {k: v for k, v in built.items() if k not in _LATER or v not in ("", None)}


def gpu_document(gpu: Gpu) -> dict[str, Any]:
    """Return a device ready for JSON, without figures that accelerators.csv adds to it."""
    built: dict[str, Any] = msgspec.to_builtins(gpu)
    known = accelerator_figures(gpu.gpu)
    return {k: v for k, v in built.items() if k not in FIGURES or v != known.get(k)}


def worker_name(gpu: str, gpu_count: int, machines: int) -> str:
    """Return one worker as users write it: ``T4``, ``V100:8`` or, of several machines,
    ``4xH100:8``.
    """
    device = device_name(gpu, gpu_count)
    return device if machines == 1 else f"{machines}x{device}"


class Placed:
    """Something in a region of a provider."""

    __slots__ = ()
    provider: str
    region: str

    @property
    def place(self) -> str:
        """The name that users write: ``provider/region``."""
        return f"{self.provider}/{self.region}"


class Region(Placed, msgspec.Struct, frozen=True, kw_only=True):
    """A place where a provider rents machines; latitude and longitude in degrees."""

    provider: str
    region: str
    display_name: str
    city: str
    country: str
    continent: str
    egress_zone: str
    latitude_deg: float
    longitude_deg: float
    source: str
    as_of: str
    grid_carbon_g_per_kwh: float | None = None
    carbon_year: int | None = None
    carbon_source: str = ""


class VmOffer(Placed, msgspec.Struct, frozen=True):
    """One machine that a provider rents in one region and market.

    ``gpu`` names a row of gpus.csv; machines without a GPU name a CPU kind there. ``price_basis``
    is list, published, negotiated, estimated, reserved or owned; ``available`` caps how many exist
    (None: no cap known). ``fabric`` is one of `FABRICS` (empty: unknown) and
    ``max_island_machines`` the most machines that the provider places close to each other (None:
    it names no limit). ``local_disk_gb`` are the disks inside the machine that come with it (None:
    none is known). ``nvlink_gb_per_s`` joins the devices of this machine each way (None: as their
    data sheet says, 0: PCIe alone). Fields have an order, because the
    tens of thousands of offers of a book are made by position.
    """

    provider: str
    region: str
    instance_type: str
    gpu: str
    gpu_count: int
    vcpus: float
    memory_gib: float
    market: str
    usd_per_hour: float
    price_basis: str
    available: int | None
    source: str
    as_of: str
    usd_per_hour_low: float | None = None
    usd_per_hour_high: float | None = None
    network_gbps: float | None = None
    interruption_low: float | None = None
    interruption_high: float | None = None
    fabric: str = ""
    max_island_machines: int | None = None
    local_disk_gb: float | None = None
    nvlink_gb_per_s: Amount | None = None

    @property
    def usd_per_gpu_hour(self) -> float:
        """Price of each device of the machine."""
        return self.usd_per_hour / self.gpu_count

    @property
    def stated_vcpus(self) -> int | None:
        """Count the vCPUs as quotas do, a part as a whole one; None where they are assumed."""
        known = self.price_basis != "owned" and 0 < self.vcpus < math.inf
        return math.ceil(self.vcpus) if known else None

    @property
    def moves(self) -> bool:
        """Whether the machine can be taken away and its price can change by itself."""
        return self.market != "on_demand"

    @property
    def device(self) -> str:
        """GPU and number of one machine, such as ``T4`` or ``V100:8``."""
        return device_name(self.gpu, self.gpu_count)


class FunctionOffer(Placed, msgspec.Struct, frozen=True, kw_only=True):
    """A cloud function that can aggregate gradients; prices per GiB-second, per vCPU-second and per
    million requests.

    ``gib_per_vcpu`` is the memory that comes with each vCPU; None where the price of memory has the
    CPU in it.
    """

    provider: str
    region: str
    function: str
    usd_per_gib_second: float
    usd_per_million_requests: float
    max_memory_gib: float
    max_seconds: float
    billing_step_ms: float
    source: str
    as_of: str
    usd_per_vcpu_second: float = 0.0
    gib_per_vcpu: float | None = None
    min_billed_ms: float = 0.0


class StoreOffer(Placed, msgspec.Struct, frozen=True, kw_only=True):
    """An object store; USD per GiB and month, per thousand requests of each kind, and per GiB that
    is read. ``read_gbps`` is what it gives to all readers together (None: no limit known).
    """

    provider: str
    region: str
    store: str
    usd_per_gib_month: float
    usd_per_thousand_writes: float
    usd_per_thousand_reads: float
    usd_per_thousand_lists: float
    source: str
    as_of: str
    usd_per_gib_retrieved: float = 0.0
    read_gbps: float | None = None


class EgressPrice(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider asks for bytes that leave ``src`` for ``dst``; USD per 2**30 bytes.

    ``src`` is ``*``, an egress zone or a region. ``dst`` is the same, or ``intra_zone``,
    ``inter_zone`` (same region) or ``internet`` (another provider). A pair with volume tiers has
    several rows: each holds for the GiB of a calendar month above its ``above_gib_per_month``.
    """

    provider: str
    src: str
    dst: str
    usd_per_gib: float
    source: str
    as_of: str
    above_gib_per_month: float = 0.0


class MeasuredLink(msgspec.Struct, frozen=True, kw_only=True):
    """A measured directed link: one and many TCP streams in Gb/s, round-trip time in ms; None where
    nobody measured.
    """

    src: str
    dst: str
    gbps_one_stream: float | None
    gbps_low: float | None
    gbps_high: float | None
    rtt_ms: float | None
    basis: str
    source: str
    as_of: str
    gbps_many_streams: float | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """A device: memory, the throughput figures of its data sheet, the class of its usual host and
    its board power in W, if known.

    matmul_tflops: Measured rate of large dense matrix products in BF16 (FP16 where the device has
        no BF16); TFLOP/s; None where nobody published one.
    nvlink_gb_per_s: NVLink or its like between the devices of one machine; GB/s each way; None or
        0: PCIe alone.
    pcie_gb_per_s: PCIe of one device; GB/s each way by its data sheet.
    """

    gpu: str
    kind: str
    memory_gib: float
    fp16_tflops: float
    memory_gb_per_s: float
    host: str
    source: str
    as_of: str
    power_w: float | None = None
    # These come from catalogs/accelerators.csv where a book does not give them: facts of the device
    # beside the book, as the power usage of data centres, and in no digest of it.
    matmul_tflops: float | None = None
    nvlink_gb_per_s: float | None = None
    pcie_gb_per_s: float | None = None

    def __post_init__(self) -> None:
        """Fill in the figures of accelerators.csv that the book does not give."""
        for name, value in accelerator_figures(self.gpu).items():
            if getattr(self, name) is None:
                msgspec.structs.force_setattr(self, name, value)

    @property
    def attainable_tflops(self) -> float:
        """Rate of large dense matrix products in half precision, TFLOP/s."""
        if self.matmul_tflops is not None:
            return self.matmul_tflops
        return SHARE_OF_DATA_SHEET * self.fp16_tflops

    @property
    def attainable_basis(self) -> str:
        """``measured``, or ``estimated`` where the rate is a share of the data sheet's peak."""
        return "estimated" if self.matmul_tflops is None else "measured"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A choice that a book makes for its questions, such as the transport of its runs."""

    setting: str
    value: str
    source: str
    as_of: str


TABLES: dict[str, type[msgspec.Struct]] = {
    "gpus": Gpu,
    "regions": Region,
    "offers": VmOffer,
    "functions": FunctionOffer,
    "stores": StoreOffer,
    "egress": EgressPrice,
    "links": MeasuredLink,
    "settings": Setting,
    "capacity": CapacityRow,
}
"""Kinds of rows of a catalog, by its fields and by the files of a book."""
OLD_TRANSPORT = "hivemind"
"""What averages gradients where a book names nothing: as all books before did."""


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """One dated price book, validated; what placer knows of the market.

    ``changes`` are the words of what was changed in it for a question about another world
    (`placer.problem.words.changes`); the digest is then that of the changed book. ``capacity`` is
    empty in a question that was saved before there was such a table.
    """

    name: str
    digest: str
    regions: Mapping[str, Region]
    gpus: Mapping[str, Gpu]
    offers: Sequence[VmOffer]
    functions: tuple[FunctionOffer, ...] = ()
    stores: tuple[StoreOffer, ...] = ()
    egress: tuple[EgressPrice, ...] = ()
    links: tuple[MeasuredLink, ...] = field(default=(), repr=False)
    settings: tuple[Setting, ...] = ()
    changes: tuple[str, ...] = ()
    capacity: tuple[CapacityRow, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Hold the offers as a table, whose columns take a fraction of the time of its rows."""
        object.__setattr__(self, "offers", Table.of(VmOffer, self.offers))

    @classmethod
    def of_tables(cls, name: str, digest: str, tables: Mapping[str, Sequence[Any]]) -> Catalog:
        """Build a catalog of the rows of each of `TABLES`."""
        rows: dict[str, Any] = {t: tables[t] if t == "offers" else tuple(tables[t]) for t in TABLES}
        rows["gpus"] = {gpu.gpu: gpu for gpu in rows["gpus"]}
        rows["regions"] = {region.place: region for region in rows["regions"]}
        return cls(name=name, digest=digest, **rows)

    def rows_of(self, table: str) -> Sequence[Any]:
        """Return the rows of one of `TABLES`, in their order."""
        rows = getattr(self, table)
        return tuple(rows.values()) if isinstance(rows, Mapping) else rows

    def __repr__(self) -> str:
        counts = f"{len(self.offers):,} offers, {len(self.regions)} regions"
        return f"<Catalog {self.name}: {counts}, digest {self.digest}>"

    def __getstate__(self) -> bytes:
        """Pack the rows for pickle: a book of thousands of offers takes 75 KB instead of 0.7 MB,
        and what was worked out of it, several MB, is worked out again.
        """
        return zlib.compress(pickle.dumps({f.name: getattr(self, f.name) for f in fields(self)}))

    def __setstate__(self, packed: bytes) -> None:
        self.__dict__.update(pickle.loads(zlib.decompress(packed)))  # noqa: S301 - inside a pickle

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What was worked out of this catalog and every question wants; no part of its value."""
        return {}

    @cached_property
    def transport(self) -> str:
        """Software that averages gradients inside a zone, unless a question names another."""
        named = {row.setting: row.value for row in self.settings}
        return named.get("transport", OLD_TRANSPORT)

    @property
    def table(self) -> Table[VmOffer]:
        """The offers by column."""
        return cast("Table[VmOffer]", self.offers)

    @cached_property
    def as_of(self) -> tuple[str, str]:
        """Oldest and newest date of the machine prices, ISO."""
        dates = self.table.column("as_of").values
        return min(dates), max(dates)

    @cached_property
    def egress_as_of(self) -> tuple[str, str] | None:
        """Oldest and newest date of the egress prices, ISO; None for a book without any."""
        dates = [price.as_of for price in self.egress]
        return (min(dates), max(dates)) if dates else None

    @cached_property
    def usual_usd_per_gpu_hour(self) -> dict[tuple[str, str], float]:
        """Median price of each device by device and market, without machines paid for anyway."""
        table = self.table
        paid = table.column("price_basis").where(lambda basis: basis not in FREE).nonzero()[0]
        usd, count = (table.column(name).numbers[paid] for name in ("usd_per_hour", "gpu_count"))
        alike, first = table.groups(("gpu", "market"), paid)
        offers = (table[row] for row in paid[first].tolist())
        kinds = [(offer.gpu, offer.market) for offer in offers]
        return dict(zip(kinds, medians(alike, usd / count, len(kinds)).tolist(), strict=True))

    @cached_property
    def rented_gpus(self) -> tuple[str, ...]:
        """Devices that some offer of this book has, sorted."""
        return tuple(sorted(self.table.column("gpu").values))

    @cached_property
    def offer_order(self) -> dict[int, int]:
        """Place of each offer in the book, by the id of the offer."""
        return {id(offer): number for number, offer in enumerate(self.offers)}

    @cached_property
    def rows_by_place(self) -> dict[str, Any]:
        """Positions of the offers of each place that rents any, in the order of the book."""
        if "rows by place" not in self.table.memo:  # catalogs that differ in links share it
            alike, first = self.table.groups(("provider", "region"))
            places = (self.offers[row].place for row in first.tolist())
            rows = dict(zip(places, members(alike, len(first)), strict=True))
            self.table.memo["rows by place"] = rows
        return cast("dict[str, Any]", self.table.memo["rows by place"])

    def offers_at(self, place: str) -> list[VmOffer]:
        """Return the offers of one place, in the order of the book."""
        known: dict[str, list[VmOffer]] = self.table.memo.setdefault("offers by place", {})
        if place not in known and place in self.rows_by_place:
            known[place] = [self.offers[row] for row in self.rows_by_place[place].tolist()]
        return known.get(place, [])

    def row_of(self, offer: VmOffer) -> int:
        """Return the position of a row of this catalog: of itself, not of one that is equal."""
        rows: list[int] = self.rows_by_place[offer.place].tolist()
        return next(row for row in rows if self.offers[row] is offer)

    def offer(
        self, place: str, instance_type: str, gpu: str, gpu_count: int, market: str
    ) -> VmOffer | None:
        """Return the first offer of a kind of machine in the book; None if there is none."""
        known: dict[str, dict[tuple[Any, ...], int]]
        known = self.table.memo.setdefault("rows by kind", {})
        kinds = known.get(place)
        if kinds is None:
            if place not in self.rows_by_place:
                return None
            rows = self.rows_by_place[place][::-1]  # of equal ones the first stays
            columns = map(self.table.column, ("instance_type", "gpu", "gpu_count", "market"))
            cells = [map(each.values.__getitem__, each.array[rows].tolist()) for each in columns]
            kinds = dict(zip(zip(*cells, strict=True), rows.tolist(), strict=True))
            known[place] = kinds
        row = kinds.get((instance_type, gpu, gpu_count, market))
        return None if row is None else self.offers[row]

    def region(self, place: str) -> Region:
        """Find a place; PlacerError names the nearest one."""
        region = self.regions.get(place)
        if region is None:
            raise unknown("place", place, self.regions)
        return region

    def gpu(self, name: str) -> Gpu:
        """Find a device of gpus.csv; PlacerError names the nearest one."""
        gpu = self.gpus.get(name)
        if gpu is None:
            raise unknown("GPU", name, self.rented_gpus)
        return gpu

    @cached_property
    def _functions_by_name(self) -> dict[str, FunctionOffer]:
        """Functions by ``function@place``, and the first of each place by the place."""
        functions: dict[str, FunctionOffer] = {}
        for offer in self.functions:
            functions.setdefault(offer.place, offer)
            functions[f"{offer.function}@{offer.place}"] = offer
        return functions

    def function(self, name: str) -> FunctionOffer:
        """Find a cloud function by ``function@place``, or the first of a place."""
        function = self._functions_by_name.get(name)
        if function is None:
            names = [*self._functions_by_name]
            tip = "" if names else f"catalog {self.name} has no functions"
            raise unknown("aggregator", name, names, tip)
        return function

    @cached_property
    def _stores_by_name(self) -> dict[str, list[StoreOffer]]:
        """Stores by place, by ``store@place`` and by name."""
        named: dict[str, list[StoreOffer]] = {}
        for s in self.stores:
            for name in dict.fromkeys((s.place, f"{s.store}@{s.place}", s.store)):
                named.setdefault(name, []).append(s)
        return named

    def store(self, name: str) -> StoreOffer:
        """Find a store by place, by ``store@place`` or by a store name that occurs once."""
        matches = self._stores_by_name.get(name, [])
        if len(matches) == 1:
            return matches[0]
        names = [s.place for s in self.stores]
        if matches:
            tip = f"'{name}' is in {len(matches)} places; name one, such as {matches[0].place}"
            raise unknown("store", name, names, tip)
        tip = "" if names else f"catalog {self.name} has no stores"
        raise unknown("store", name, [*names, *{s.store for s in self.stores}], tip)
