"""Documents about price books, networks and capacity."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, field

from placer.documents.schemas.parts import Anything, Day, Maybe, Named, Part, every_key
from placer.market.capacity_table import CapacityRow
from placer.market.catalog import VmOffer
from placer.market.checks.coverage import Age, Change, Cited, Covered, OfferGroup, Unsure
from placer.market.checks.doubts import Finding
from placer.market.sources.capacity.answers import OfferedBlock
from placer.market.sources.capacity.quotas import QuotaRow
from placer.market.sources.harvest import BookOrigin, Origin
from placer.records import Count

LeftOut = Annotated[dict[str, Count], Meta(description="Left out, by reason.")]


class Offer(VmOffer, frozen=True, kw_only=True):
    """A row of the price book.

    carbon_g_per_hour: g CO2e per hour of one machine; null: unknown.
    """

    carbon_g_per_hour: float | None


class Offers(Part, frozen=True, tag_field="schema", tag="placer.offers/v1"):
    """Machines that a price book offers, sorted and cut off as asked.

    total: Offers that fit, before --limit.
    """

    catalog: str
    total: Count
    offers: list[Annotated[Offer, every_key(Offer)]]


class OfferGroups(Part, frozen=True, tag_field="schema", tag="placer.offer-groups/v1"):
    """Prices of groups of offers, in USD per hour and GPU.

    by: What the offers are grouped by.
    total: Groups, before --limit.
    """

    catalog: str
    by: list[str]
    total: Count
    groups: list[OfferGroup]


class EgressTier(Part, frozen=True):
    """A price of bytes, by volume."""

    above_gib_per_month: float
    usd_per_gib: float
    source: str
    as_of: Day


class PricedLink(Part, frozen=True):
    """A directed link; the price is the first paid one of a month."""

    from_: str = field(name="from")
    to: str
    bytes_per_second: float
    rtt_seconds: float
    usd_per_gib: float
    egress_tiers: list[EgressTier]
    basis: str
    source: str


class Links(Part, frozen=True, tag_field="schema", tag="placer.network/v1"):
    """Directed links between places: speed of one stream, round-trip time and price."""

    catalog: str
    links: list[PricedLink]


class Capacity(Part, frozen=True, tag_field="schema", tag="placer.capacity/v1"):
    """Rows of the table of capacity that fit."""

    catalog: str
    rows: list[CapacityRow]


class CapacityCheck(Part, frozen=True, tag_field="schema", tag="placer.capacity-check/v1"):
    """Doubts about the rows of capacity of a book.

    spot_machines: Kinds of spot machines by what is known of their capacity.
    """

    catalog: str
    rows: Count
    own_rows: Count
    valid: bool
    spot_machines: dict[str, Count]
    findings: list[Finding]


class Book(Part, frozen=True):
    """A price book at hand.

    used: Used where no --catalog is given.
    problem: Why the book cannot be read; empty if it can.
    """

    name: str
    digest: str
    shipped: bool
    used: bool
    offers: Count
    places: Count
    links: Count
    providers: list[str]
    gpus: list[str]
    oldest: Day | None
    as_of: Day | None
    problem: str


class Catalogs(Part, frozen=True, tag_field="schema", tag="placer.catalogs/v1"):
    """Price books at hand. folder is where the user's own lie."""

    catalogs: list[Book]
    folder: str


class Layer(Named, frozen=True):
    """A book of a catalog.

    origin: What the command that wrote the book recorded; null of other books.
    """

    origin: BookOrigin | None


class Coverage(Part, frozen=True, tag_field="schema", tag="placer.coverage/v1"):
    """What a catalog holds, how old it is and where it comes from.

    regions: Regions by provider.
    own_sources: Rows that name a source of the user's own.
    """

    catalog: str
    digest: str
    coverage: list[Covered]
    regions: dict[str, Count]
    ages: list[Age]
    unsure: list[Unsure]
    sources: list[Cited]
    own_sources: Count
    layers: list[Layer]


class BookDigest(Part, frozen=True):
    """A compared catalog."""

    catalog: str
    digest: str


class RowCounts(Part, frozen=True):
    """How many rows of a file differ."""

    changed: Count
    new: Count
    gone: Count


class CatalogDiff(Part, frozen=True, tag_field="schema", tag="placer.catalog-diff/v1"):
    """Rows that are new, gone or changed from one catalog to another.

    counts: By file.
    """

    old: BookDigest
    new: BookDigest
    counts: dict[str, RowCounts]
    changes: list[Annotated[Change, every_key(Change)]]


class CatalogValidation(Part, frozen=True, tag_field="schema", tag="placer.catalog-validation/v1"):
    """Doubts about the rows of a catalog; exit code 2 unless valid.

    own_sources: Rows that name a source of the user's own.
    """

    catalog: str
    valid: bool
    own_sources: Count
    findings: list[Finding]


class ExportedFile(Part, frozen=True):
    """A file that was written."""

    path: str
    rows: Count
    sources: str


class CatalogExport(Part, frozen=True, tag_field="schema", tag="placer.catalog-export/v1"):
    """Files that were written for another tool."""

    catalog: str
    files: list[ExportedFile]
    left_out: LeftOut


class Pin(Part, frozen=True, tag_field="schema", tag="placer.pin/v1"):
    """Answer of placer catalog pin, and the file pin.json: the books of requests that name none,
    lowest first.
    """

    catalogs: list[Named]


class Import(Part, frozen=True, tag_field="schema", tag="placer.import/v1"):
    """What an import read, left out and saved, of placer catalog import, network import, network
    probe and capacity import. folder is null after a dry run.

    rows: Rows by file of the book.
    links: Rows of links.csv; only of networks.
    """

    book: str
    folder: str | None
    rows: dict[str, Count]
    documents: list[Origin]
    left_out: LeftOut
    notes: list[str]
    links: Maybe[list[Anything]] = UNSET


class ImportQuotas(Part, frozen=True, tag_field="schema", tag="placer.import-quotas/v1"):
    """Rows of a quota file, each of gpus or of vcpus. file is null where none was written.

    left_out: How often something was left out, by reason.
    """

    file: str | None
    rows: list[Annotated[QuotaRow, every_key(QuotaRow)]]
    left_out: Maybe[dict[str, int]] = UNSET


class ImportBlocks(Part, frozen=True, tag_field="schema", tag="placer.import-blocks/v1"):
    """Capacity that can be bought for a time. file is null where none was written."""

    file: str | None
    blocks: list[OfferedBlock]
