"""The contract of price books: each shipped book, imported ones, a stack with a contract."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import ClassVar

import pytest
from book_contract import BookContract

from conftest import ROOT
from placer.market.books.layers import Layer, catalog_names, find_layer
from placer.market.catalog import Catalog
from placer.market.network.graph import Network
from placer.market.sources.harvest import Harvest
from placer.market.sources.links import import_links
from placer.market.sources.prices.skypilot.catalogs import read_skypilot
from placer.market.sources.reading.fetch import Document, read_document
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.save import save

FIXTURES = ROOT / "tests" / "fixtures"


def over_default(harvest: Harvest, home: Path) -> list[Layer]:
    """Write a harvest as a book of the user and lay it over the default one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLACER_HOME", str(home))
        return [find_layer("default"), find_layer(str(save(harvest, "imported")))]


class TestDefaultBook(BookContract):
    """The book that `recommend` uses without flags."""

    words: ClassVar = ("default",)

    def test_zones_have_prices_everywhere(self, book: Catalog) -> None:
        """Also where only buckets are: machines may come with a layer."""
        network = Network(book)
        assert (
            min(
                network.egress_price(place, place, same_zone=False).usd_per_gib
                for place in book.regions
            )
            >= 0
        )


class TestErbenBook(BookContract):
    """April 2023, with measured links and owned machines."""

    words: ClassVar = ("erben-2023",)


class TestPhalakBook(BookContract):
    """Three clouds in four cities."""

    words: ClassVar = ("phalak-2023",)


class TestIntellectBook(BookContract):
    """Nodes of eight H100 over three continents."""

    words: ClassVar = ("intellect-1",)


class TestSkyPilotOverDefault(BookContract):
    """SkyPilot's catalogs: its machines replace and add to those of the default book."""

    @pytest.fixture(scope="class")
    @classmethod
    def layers(cls, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Layer]:
        """Written to the shelf by the import, read as any book."""
        harvest = read_skypilot([str(FIXTURES / "skypilot")], as_of=date(2026, 11, 1))
        return over_default(harvest, tmp_path_factory.mktemp("home"))

    def test_imported_machines_are_there(self, book: Catalog) -> None:
        """The T4 of N. Virginia costs 0.5 USD/h as in the fixture, not 0.526."""
        prices = {
            o.usd_per_hour
            for o in book.offers_at("aws/us-east-1")
            if (o.instance_type, o.market) == ("g4dn.xlarge", "on_demand")
        }
        assert prices == {0.5}


class TestLinksOverDefault(BookContract):
    """Links that Skyplane's grids have: three measured ones, the model for all others."""

    @pytest.fixture(scope="class")
    @classmethod
    def layers(cls, default: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Layer]:
        """Throughput and round-trip times, written to the shelf by the import."""
        documents: list[tuple[Document, dict[str, str]]] = [
            (read_document(str(FIXTURES / "links" / name)), {})
            for name in ("throughput.csv", "latency.csv")
        ]
        mapping = shipped_mapping("skyplane")
        harvest = import_links(documents, mapping, default.regions, date="2022-04-16")
        return over_default(harvest, tmp_path_factory.mktemp("home"))

    def test_imported_links_are_used(self, book: Catalog) -> None:
        """66.5 ms from N. Virginia to Oregon and 4 Gb/s over many streams, as in the fixture."""
        link = Network(book).link("aws/us-east-1", "gcp/us-west1")
        assert link.rtt_s == pytest.approx(0.0665)
        assert link.cap == 4e9 / 8


OFFERS = (
    "provider,region,instance_type,gpu,gpu_count,vcpus,memory_gib,market,"
    "usd_per_hour,price_basis,available,source,as_of\n"
)
STACK = {
    "site/regions.csv": (
        "provider,region,display_name,city,country,continent,egress_zone,"
        "latitude_deg,longitude_deg,source,as_of\n"
        "onprem,hall-2,Hall 2,Munich,DE,EU,onprem,48.14,11.58,our own,2026-11-01\n"
    ),
    "site/offers.csv": (
        f"{OFFERS}onprem,hall-2,dgx,V100,8,96,512,on_demand,0,owned,1,our own,2026-11-01\n"
    ),
    "site/egress.csv": "provider,src,dst,usd_per_gib,source,as_of\nonprem,*,intra_zone,0,our "
    "own,2026-11-01\n"
    "onprem,*,inter_zone,0,our own,2026-11-01\nonprem,*,internet,0,our own,2026-11-01\n",
    "quote/offers.csv": f"{OFFERS}aws,us-east-1,g4dn.xlarge,T4,1,4,16,spot,0.6,negotiated,,quote "
    f"4711; spot above on-demand,2026-11-01\n"
    "gcp,us-west1,t4+reserved,T4,1,8,30,on_demand,0,reserved,2,quote 4711,2026-11-01\n",
    "contract/discounts.csv": "provider,region,instance_type,gpu,market,multiplier,source,as_of\n"
    "gcp,*,*,*,*,0.8,contract 47,2026-11-01\ngcp,us-west1,*,T4,*,0.5,contract 47,2026-11-01\n",
}
"""An owned site, a quote with a dear spot price, a reservation, a contract over all of it."""


class TestStackWithAContract(BookContract):
    """Four layers: the default book, a site, a quote, a contract."""

    own_sources: ClassVar = ("our own", "quote 4711", "contract 47")

    @pytest.fixture(scope="class")
    @classmethod
    def layers(cls, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Layer]:
        """Folders as a user has them."""
        folder = tmp_path_factory.mktemp("stack")
        for name, text in STACK.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return [
            find_layer("default"),
            *(find_layer(str(folder / name)) for name in ("site", "quote", "contract")),
        ]

    def test_the_contract_took_off_what_it_says(self, book: Catalog, default: Catalog) -> None:
        """Half for the T4 of Oregon, a fifth elsewhere at Google, nothing at others."""
        before = {(o.place, o.instance_type, o.market): o.usd_per_hour for o in default.offers}
        for offer in (
            o
            for o in book.offers
            if (o.place, o.instance_type, o.market) in before and not o.source.startswith("quote")
        ):
            oregon = offer.place == "gcp/us-west1" and offer.gpu == "T4"
            share = 0.5 if oregon else 0.8 if offer.provider == "gcp" else 1.0
            assert offer.usd_per_hour == pytest.approx(
                share * before[offer.place, offer.instance_type, offer.market]
            )
        assert [o.usd_per_hour for o in book.offers if o.instance_type == "t4+reserved"] == [0]


def test_every_shipped_book_has_its_class() -> None:
    """A new book in catalogs/ needs a subclass above."""
    tested = {word for kind in BookContract.__subclasses__() for word in kind.words}
    assert tested == set(catalog_names())
