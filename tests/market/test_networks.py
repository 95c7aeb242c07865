"""What offers say of the network between machines: Gb/s, fabric, most machines of an island."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import FABRICS, Catalog, VmOffer, offer_document
from placer.market.checks.agreement import check_figures

HEADER = (
    "provider,region,instance_type,gpu,gpu_count,vcpus,memory_gib,market,usd_per_hour,"
    "price_basis,available,network_gbps,fabric,max_island_machines,source,as_of\n"
)
ROW = "aws,us-east-1,mine,H100,8,192,2048,on_demand,40,negotiated,,{},{},{},quote 7,2026-11-01\n"


def with_quote(folder: Path, gbps: str, fabric: str, machines: str) -> Catalog:
    """The default book and one offer with a network of its own."""
    path = folder / "quote.csv"
    path.write_text(HEADER + ROW.format(gbps, fabric, machines), encoding="utf-8")
    return load_catalog(["default", str(path)])


def mine(book: Catalog) -> VmOffer:
    """That offer."""
    return next(offer for offer in book.offers if offer.instance_type == "mine")


def test_a_quote_names_its_fabric(tmp_path: Path) -> None:
    """Figures and word arrive, also from the cache and from a document."""
    for _ in range(2):
        offer = mine(with_quote(tmp_path, "3200", "infiniband", "32"))
        assert (offer.network_gbps, offer.fabric, offer.max_island_machines) == (
            3200,
            "infiniband",
            32,
        )
    assert msgspec.convert(json.loads(json.dumps(offer_document(offer))), VmOffer) == offer


def test_a_quote_may_leave_its_fabric_open(tmp_path: Path) -> None:
    """Empty cells are unknown, and documents do not have them."""
    offer = mine(with_quote(tmp_path, "", "", ""))
    assert (offer.network_gbps, offer.fabric, offer.max_island_machines) == (None, "", None)
    assert not {"fabric", "max_island_machines"} & set(offer_document(offer))


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            ("3200", "token-ring", ""),
            "quote.csv:2: fabric 'token-ring' is not one of efa, infiniband, roce, "
            "gpudirect-tcpx, ethernet",
        ),
        (("3200", "EFA", ""), "quote.csv:2: fabric 'EFA' is not one of efa"),
        (("0", "efa", ""), "quote.csv:2: network_gbps '0' is not above 0"),
        (("-1", "efa", ""), "quote.csv:2: network_gbps '-1' is not above 0"),
        (("3200", "efa", "0"), "max_island_machines '0' is not a whole number from 1"),
        (("3200", "efa", "2.5"), "max_island_machines '2.5' is not a whole number from 1"),
    ],
)
def test_what_no_network_is_gets_refused(
    tmp_path: Path, cells: tuple[str, str, str], says: str
) -> None:
    """A fabric nobody knows, no bandwidth, no machines: file, line, column and value."""
    with pytest.raises(PlacerError) as caught:
        with_quote(tmp_path, *cells)
    assert says in caught.value.message


def test_a_fabric_nobody_knows_is_refused_in_a_document(erben: Catalog) -> None:
    """A saved market does not pass columns.csv; the nearest word is named."""
    changes: dict[str, Any] = {"fabric": "infinibnd"}
    offers = (msgspec.structs.replace(erben.offers[0], **changes), *erben.offers[1:])
    with pytest.raises(PlacerError, match="infinibnd") as caught:
        check_figures(replace(erben, offers=offers))
    assert "infiniband" in caught.value.hint


def test_the_words_of_columns_csv_are_those_of_the_code(tmp_path: Path) -> None:
    """Every fabric of the code can be written into a book."""
    for fabric in FABRICS:
        assert mine(with_quote(tmp_path, "100", fabric, "")).fabric == fabric
