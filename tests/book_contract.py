"""What every price book must keep, shipped or imported, alone or in a stack: a class to inherit
from, one subclass a book.
"""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import pytest

from placer.market.books.book_reader import devices, located_rows, stacked
from placer.market.books.csv_rows import file_columns, key_columns, optional_columns
from placer.market.books.layers import Layer, find_layer
from placer.market.catalog import FREE, Catalog
from placer.market.checks.agreement import Located
from placer.market.checks.coverage import trail
from placer.market.checks.doubts import DEARER, audit
from placer.market.network.graph import Network
from placer.market.network.link_model import FIBRE_KM_PER_RTT_S, great_circle_km

TODAY = date(2026, 11, 21)  # Day of the newest row of the shipped books; raise it with them
OLDEST = date(2017, 1, 1)  # No figure of a device or price that anybody trains with today is older
FACTOR = 10
"""How far the price of a GPU may be from its median in the default book; 7.6 is the most, a T4 in a
machine of 64 vCPUs.
"""
SPREAD = {"on_demand": 2.5, "spot": 5.0, "community": 2.5}
"""How far the price of one machine in a region may be from its median over all; 1.73 (Azure in
Brazil) and 1 / 0.27 (an H100 on spot in Finland) are the most in the default book.
"""
BOXES = Path(__file__).parent / "fixtures" / "countries.csv"
COUNTRIES = {
    country: [float(degrees) for degrees in box]
    for country, *box in list(csv.reader(BOXES.read_text(encoding="utf-8").splitlines()))[1:]
}
"""South, north, west and east of each country with machines, whole degrees outwards; Spain ends at
Greenwich, where its cloud regions are west of, and the United States have neither Alaska nor
Hawaii.
"""
CONTINENTS = {
    "AF": (-35, 37, -18, 52),
    "AS": (-11, 54, 34, 146),
    "EU": (35, 72, -25, 41),
    "NA": (14, 84, -141, -52),
    "OC": (-48, -10, 112, 179),
    "SA": (-56, 13, -82, -34),
}
"""The same of the continents, by which egress is priced."""
SLIPS = {
    "aws/sa-east-1": (-23.5, -46.6),
    "gcp/us-south1": (32.8, -96.8),
    "gcp/us-east5": (40.0, -83.0),
    "gcp/us-west4": (36.2, -115.1),
    "azure/spaincentral": (40.4, -3.4),
    "aws/ap-southeast-6": (-36.8, 174.8),
    "gcp/southamerica-east1": (-23.5, -46.8),
}
"""Places that public tables get wrong: Sao Paulo, Dallas in Texas, Columbus in Ohio, Las Vegas in
Nevada, Spain west of Greenwich.
"""

WITHOUT_URL = ("measurement", "estimate", "definition")
"""Kinds of sources that need not stand anywhere in public."""


class BookContract:
    """Tests of one book; a subclass says in ``words`` or by its own ``layers`` which, and in
    ``own_sources`` what no public source says.
    """

    words: ClassVar[tuple[str, ...]] = ()
    own_sources: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture(scope="class")
    @classmethod
    def layers(cls) -> Sequence[Layer]:
        """Layers of the book, the lowest first."""
        return [find_layer(word) for word in cls.words]

    @pytest.fixture(scope="class")
    @classmethod
    def book(cls, layers: Sequence[Layer]) -> Catalog:
        """What they come to."""
        return stacked(layers)

    @pytest.fixture(scope="class")
    @classmethod
    def rows(cls, layers: Sequence[Layer]) -> dict[str, list[Located]]:
        """Every row by file, with where it stands; the contract's as well."""
        return located_rows([devices(), *layers])

    def test_prices_are_positive_unless_owned_or_reserved(self, book: Catalog) -> None:
        """Only what is paid for anyway costs nothing."""
        assert [o for o in book.offers if o.usd_per_hour <= 0 and o.price_basis not in FREE] == []

    def test_prices_per_gpu_are_within_a_factor_of_the_market(
        self, book: Catalog, default: Catalog
    ) -> None:
        """No slipped decimal point; devices that the default book lacks cost 0.02 to 25 USD/h."""
        prices: dict[tuple[str, str], list[float]] = {}
        for offer in default.offers:
            prices.setdefault((offer.gpu, offer.market), []).append(
                offer.usd_per_hour / offer.gpu_count
            )
        for offer in (o for o in book.offers if o.price_basis not in FREE):
            usual = prices.get((offer.gpu, offer.market))
            low, high = (median(usual) / FACTOR, median(usual) * FACTOR) if usual else (0.02, 25.0)
            assert low <= offer.usd_per_hour / offer.gpu_count <= high, offer

    def test_a_machine_costs_alike_in_all_regions(self, book: Catalog) -> None:
        """A slip by ten upwards shows here where big machines with few GPUs hide it above."""
        prices: dict[tuple[str, str, str, str], list[float]] = {}
        rented = [o for o in book.offers if o.price_basis not in FREE]
        for offer in rented:
            prices.setdefault(
                (offer.provider, offer.instance_type, offer.device, offer.market), []
            ).append(offer.usd_per_hour)
        for offer in rented:
            usual = median(prices[offer.provider, offer.instance_type, offer.device, offer.market])
            assert 1 / SPREAD[offer.market] <= offer.usd_per_hour / usual <= SPREAD[offer.market], (
                offer
            )

    def test_spot_is_not_dearer_than_on_demand_unless_flagged(self, book: Catalog) -> None:
        """It happens for days; then the source says so."""
        on_demand = {
            (o.place, o.instance_type, o.gpu, o.gpu_count): o.usd_per_hour
            for o in book.offers
            if o.market == "on_demand"
        }
        for spot in (o for o in book.offers if o.market == "spot"):
            most = on_demand.get(
                (spot.place, spot.instance_type, spot.gpu, spot.gpu_count), spot.usd_per_hour
            )
            assert spot.usd_per_hour <= most or DEARER in spot.source, spot

    def test_estimates_say_how_they_were_made(self, book: Catalog) -> None:
        """The source of an estimated price begins with the word; `catalog show` counts by it."""
        assert {
            o.source
            for o in book.offers
            if o.price_basis == "estimated" and not o.source.startswith("estimate: ")
        } == set()

    def test_places_and_devices_are_known(self, book: Catalog) -> None:
        """Whatever is sold or linked stands in a region, on a device with a data sheet."""
        places = {row.place for row in (*book.offers, *book.functions, *book.stores)}
        places |= {place for link in book.links for place in (link.src, link.dst)}
        assert places <= set(book.regions)
        assert {o.gpu for o in book.offers} <= set(book.gpus)

    def test_no_key_stands_twice(self, rows: dict[str, list[Located]]) -> None:
        """Of two layers the later one has replaced the row; contracts may repeat themselves."""
        for file, found in rows.items():
            keys = Counter(
                tuple(getattr(row, column) for column in key_columns(file)) for _, row in found
            )
            assert (
                not key_columns(file) or [key for key, count in keys.items() if count > 1] == []
            ), file

    def test_every_pair_of_places_with_machines_has_a_link(self, book: Catalog) -> None:
        """Measured or of the model, in both directions; none is faster than light in fibre."""
        network, places = Network(book), sorted({o.place for o in book.offers})
        for src in places:
            for dst in places:
                link = network.link(src, dst)
                assert 0 < link.low <= link.bytes_per_second <= link.high, (src, dst)
                assert (
                    link.rtt_s
                    >= great_circle_km(book.region(src), book.region(dst)) / FIBRE_KM_PER_RTT_S
                ), (src, dst)

    def test_every_pair_of_places_has_an_egress_price(self, book: Catalog) -> None:
        """From each region to each; between the zones of those that have machines."""
        network = Network(book)
        for src in book.regions:
            for dst in book.regions:
                assert network.egress_price(src, dst).usd_per_gib >= 0
        for place in {o.place for o in book.offers}:
            assert network.egress_price(place, place, same_zone=False).usd_per_gib >= 0

    def test_paid_tiers_fall_with_volume(self, book: Catalog) -> None:
        """Prices fall with volume, so the first paid price is never too low."""
        tiers: dict[tuple[str, str, str], list[float]] = {}
        for price in book.egress:
            if price.usd_per_gib > 0:
                tiers.setdefault((price.provider, price.src, price.dst), []).append(
                    price.usd_per_gib
                )
        assert [
            pair for pair, prices in tiers.items() if prices != sorted(prices, reverse=True)
        ] == []

    def test_every_row_has_a_source_and_a_date_that_has_passed(
        self, rows: dict[str, list[Located]]
    ) -> None:
        """No figure without provenance, none from the future."""
        for found in rows.values():
            for where, row in found:
                assert row.source.strip(), where
                assert OLDEST <= date.fromisoformat(row.as_of) <= TODAY, where

    def test_every_source_stands_somewhere_in_public(self, rows: dict[str, list[Located]]) -> None:
        """Each source and mirror is in sources.csv, most with an address; the rest is what the
        subclass calls the user's own.
        """
        for text in {text for found in rows.values() for _, row in found for text in _texts(row)}:
            if not text.startswith(self.own_sources or ("\0",)):
                found = trail(text)
                assert all(
                    s is not None and (s.url.startswith("https://") or s.kind in WITHOUT_URL)
                    for s in found
                ), text

    def test_columns_are_those_of_the_columns_file(self, layers: Sequence[Layer]) -> None:
        """In its order; only columns that may be missing are."""
        for layer in layers:
            for file, found in layer.files.items():
                header = next(csv.reader(io.StringIO(found.data.decode())))
                assert header == [column for column in file_columns(file) if column in header], (
                    layer.name,
                    file,
                )
                assert set(file_columns(file)) - set(header) <= optional_columns(file), (
                    layer.name,
                    file,
                )

    def test_places_lie_in_their_country_and_continent(self, book: Catalog) -> None:
        """A box around each: a slipped sign, or swapped coordinates, would leave it."""
        for region in book.regions.values():
            for south, north, west, east in (
                COUNTRIES[region.country],
                CONTINENTS[region.continent],
            ):
                assert south <= region.latitude_deg <= north, region
                assert west <= region.longitude_deg <= east, region

    def test_places_that_public_tables_get_wrong(self, book: Catalog) -> None:
        """Within half a degree of the city, where the book has the place."""
        for place, (latitude, longitude) in SLIPS.items():
            if place in book.regions:
                region = book.region(place)
                assert abs(region.latitude_deg - latitude) < 0.5, place
                assert abs(region.longitude_deg - longitude) < 0.5, place

    def test_the_audit_has_no_errors(self, rows: dict[str, list[Located]], book: Catalog) -> None:
        """What `catalog validate` says; warnings may be."""
        assert [finding for finding in audit(rows, book, TODAY) if finding.level == "error"] == []


def _texts(row: Any) -> list[str]:
    """Every text of a row that names a source."""
    return [text for text in (row.source, getattr(row, "carbon_source", "")) if text]
