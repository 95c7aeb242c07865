"""What offers say of the network between machines: Gb/s, fabric, most machines of an island."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog, VmOffer, offer_document
from placer.market.checks.agreement import check_figures
from placer.records import replace

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


NETWORKS = "provider,instance_type,network_gbps,fabric,max_island_machines,source,as_of\n"


def over_default(folder: Path, lines: str) -> Catalog:
    """The default book under a networks.csv of a user, a file of any name."""
    path = folder / "ours.csv"
    path.write_text(NETWORKS + lines, encoding="utf-8")
    return load_catalog(["default", str(path)])


def test_networks_of_a_user_win(tmp_path: Path) -> None:
    """A reserved cluster at RunPod; the last line that covers a type counts, others keep theirs."""
    book = over_default(
        tmp_path,
        "runpod,8x_*,1600,infiniband,8,contract 7,2026-11-01\n"
        "runpod,8x_L40S,400,ethernet,4,contract 7,2026-11-01\n",
    )
    found = {o.instance_type: o for o in book.offers if o.gpu_count == 8}
    assert found["8x_H100-SXM"].fabric == "infiniband"
    assert found["8x_L40S"].network_gbps == 400
    assert found["p5.48xlarge"].network_gbps == 3200
    assert book.digest != load_catalog("default").digest


def test_an_offer_with_a_cell_of_its_own_keeps_it(tmp_path: Path) -> None:
    """Also an empty one; a quote without the columns gets the network of its type."""
    quote = (
        "provider,region,instance_type,gpu,gpu_count,vcpus,memory_gib,market,usd_per_hour,"
        "price_basis,available,{}source,as_of\naws,us-east-1,p5.48xlarge,H100,8,192,2048,"
        "on_demand,31,negotiated,,{}quote 7,2026-11-01\n"
    )
    found = []
    for name, cell in (("", ""), ("network_gbps,", "800,"), ("network_gbps,", ",")):
        path = tmp_path / "quote.csv"
        path.write_text(quote.format(name, cell), encoding="utf-8")
        book = load_catalog(["default", str(path)])
        found += [o.network_gbps for o in book.offers if o.usd_per_hour == 31]
    assert found == [3200, 800, None]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("aws,*,3200,myrinet,,s,2026-11-01", "ours.csv:2: fabric 'myrinet' is not one of efa"),
        ("aws,*,-5,efa,,s,2026-11-01", "ours.csv:2: network_gbps '-5' is not above 0"),
        ("aws,*,5,efa,0,s,2026-11-01", "max_island_machines '0' is not a whole number"),
        ("aws,*,5,efa,,,2026-11-01", "source '' is empty"),
        ("aws,,5,efa,,s,2026-11-01", "instance_type '' is empty"),
        ("aws,*,5,efa,,s,yesterday", "as_of 'yesterday' is not a date"),
    ],
)
def test_bad_lines_of_networks_are_refused(tmp_path: Path, line: str, says: str) -> None:
    """File, line, column and value."""
    with pytest.raises(PlacerError) as caught:
        over_default(tmp_path, f"{line}\n")
    assert says in caught.value.message
