"""Books laid over each other: whole and partial ones, contracts, networks, pins, the cache."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.books.book_reader import load_catalog
from placer.market.books.cache import MOST_KEPT, cache_folder, read_compiled
from placer.market.books.folders import own_books, shipped_catalogs
from placer.market.books.layers import default_words, find_layer, pin_document, pin_file
from placer.market.catalog import Catalog, VmOffer, offer_document
from placer.market.checks.agreement import check_figures
from placer.market.network.graph import Network
from placer.records import replace

OFFERS = (
    "provider,region,instance_type,gpu,gpu_count,vcpus,memory_gib,market,"
    "usd_per_hour,price_basis,available,source,as_of\n"
)
ADDED = "gcp,us-west1,new,T4,1,8,30,spot,0.2,list,,q,2026-11-01\n"
QUOTE = OFFERS + "gcp,us-west1,n1-standard-8+T4,T4,1,8,30,spot,0.11,list,,quote 4711,2026-11-01\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shelf, cache and pin of each test's own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("PLACER_HOME", str(folder))
    return folder


def write(path: Path, text: str) -> str:
    """Write a layer; returns its path."""
    path.write_text(text, encoding="utf-8")
    return str(path)


def t4(catalog: Catalog, place: str = "gcp/us-west1", market: str = "spot") -> VmOffer:
    """The T4 of a place."""
    return next(
        offer
        for offer in catalog.offers_at(place)
        if offer.device == "T4" and offer.market == market
    )


def test_a_later_layer_replaces_rows_of_the_same_key_and_adds_others(
    tmp_path: Path, erben: Catalog
) -> None:
    """The quote has a machine at 0.11 instead of 0.18 USD/h, and one that the book has not."""
    machine = t4(erben).instance_type
    quote = write(tmp_path / "quote.csv", QUOTE.replace("n1-standard-8+T4", machine) + ADDED)
    stack = load_catalog(["erben-2023", quote])
    assert len(stack.offers) == len(erben.offers) + 1
    assert t4(stack).usd_per_hour == 0.11
    assert [o.usd_per_hour for o in stack.offers if o not in erben.offers] == [0.11, 0.2]
    assert stack.name == "erben-2023+quote"
    assert stack.digest != erben.digest


def test_volume_tiers_of_a_pair_are_replaced_together(tmp_path: Path) -> None:
    """One flat price of a contract takes the place of all tiers of AWS to the internet."""
    before = Network(load_catalog("default")).egress_tiers("aws/us-east-1", "gcp/us-west1")
    key = before[0]
    row = f"{key.provider},{key.src},{key.dst},0.04,contract,2026-11-01\n"
    flat = write(tmp_path / "flat.csv", f"provider,src,dst,usd_per_gib,source,as_of\n{row}")
    after = Network(load_catalog(["default", flat])).egress_tiers("aws/us-east-1", "gcp/us-west1")
    assert len(before) > 1
    assert [tier.usd_per_gib for tier in after] == [0.04]


def test_a_contract_takes_off_the_layers_below_and_its_last_line_wins(
    tmp_path: Path, erben: Catalog
) -> None:
    """20 % off Google's spot machines, 50 % in us-west1: 0.18 becomes 0.09; Lambda stays."""
    text = (
        f"{CONTRACT}gcp,*,*,*,spot,0.8,contract 47,2026-11-01\n"
        "gcp,us-west1,*,*,*,0.5,contract 47,2026-11-01\n"
    )
    stack = load_catalog(["erben-2023", write(tmp_path / "contract.csv", text)])
    assert t4(stack).usd_per_hour == pytest.approx(0.5 * t4(erben).usd_per_hour)
    assert t4(stack, "gcp/us-central1").usd_per_hour == pytest.approx(
        0.8 * t4(erben, "gcp/us-central1").usd_per_hour
    )
    assert t4(stack).price_basis == "negotiated"
    assert t4(stack).source.endswith("x 0.5: contract 47")
    assert t4(stack).as_of == t4(erben).as_of
    assert [o for o in stack.offers if o.provider != "gcp"] == [
        o for o in erben.offers if o.provider != "gcp"
    ]


def test_reserved_machines_may_cost_nothing_and_are_used(tmp_path: Path) -> None:
    """Two reserved T4 that are paid for anyway beat every rented one when cost counts."""
    text = (
        OFFERS
        + "gcp,us-west1,t4+reserved,T4,1,8,30,on_demand,0,reserved,2,reservation 12,2026-11-01\n"
    )
    stack = load_catalog(["erben-2023", write(tmp_path / "mine.csv", text)])
    result = Advisor(stack).recommend("roberta-xlm", objective="cost", min_throughput="20/s")
    assert result.placement is not None
    assert result.placement.groups[0].instance_type == "t4+reserved"


def test_a_partial_layer_alone_says_what_it_needs(tmp_path: Path) -> None:
    """No egress is ever free because a file is missing."""
    with pytest.raises(
        PlacerError, match=r"has no regions\.csv.*--catalog default --catalog quote"
    ):
        load_catalog(write(tmp_path / "quote.csv", QUOTE))


BAND = (
    OFFERS.replace("source", "interruption_low,interruption_high,source")
    + "gcp,us-west1,x,T4,1,8,30,spot,0.1,list,,{},q,2026-11-01\n"
)
LINK = (
    "src,dst,gbps_one_stream,gbps_low,gbps_high,rtt_ms,basis,source,as_of\n"
    "gcp/us-west1,gcp/us-central1,{},40,measured,q,2026-11-01\n"
)
FABRIC = (
    OFFERS.replace("source", "network_gbps,fabric,max_island_machines,source")
    + "aws,us-east-1,mine,H100,8,192,2048,on_demand,40,negotiated,,{},quote 7,2026-11-01\n"
)
NETWORKS = "provider,instance_type,network_gbps,fabric,max_island_machines,source,as_of\n"
CONTRACT = "provider,region,instance_type,gpu,market,multiplier,source,as_of\n"
SAME = QUOTE + QUOTE.splitlines()[1] + "\n"


def test_the_second_reading_comes_from_the_cache_and_is_the_same(home: Path) -> None:
    """Every row and their order; the cache has one file for the contents of any name."""
    first, second = load_catalog("erben-2023"), load_catalog("erben-2023")
    assert first == second
    copied = load_catalog(str(shutil.copytree(shipped_catalogs() / "erben-2023", home / "renamed")))
    assert replace(copied, name=first.name) == first
    assert copied.name == "renamed"
    assert len(list(cache_folder().glob("*.msgpack"))) == 1


@pytest.mark.parametrize("content", [b"", b"\x80 but no more", b"garbage" * 100])
def test_a_broken_cache_is_read_around_and_mended(home: Path, content: bytes) -> None:
    """Whatever stands in the cache file, the answer is that of the CSV files."""
    first = load_catalog("erben-2023")
    (path,) = cache_folder().glob("*.msgpack")
    path.write_bytes(content)
    assert load_catalog("erben-2023") == first
    assert read_compiled(first.digest, first.name) == first


def test_no_cache_reads_books_anew_and_keeps_nothing(home: Path, run: Run) -> None:
    """The answer is the same; a file that is there already is neither read nor written."""
    command = ("offers", "--catalog", "erben-2023", "--json")
    anew = run(*command, "--no-cache", PLACER_HOME=str(home)).stdout
    assert not cache_folder().exists()
    assert run(*command, PLACER_HOME=str(home)).stdout == anew
    (path,) = cache_folder().glob("*.msgpack")
    before = path.stat()
    os.utime(path, (1, 1))  # reading it would touch it
    assert run(*command, "--no-cache", PLACER_HOME=str(home)).stdout == anew
    assert (path.stat().st_mtime, path.stat().st_ino) == (1, before.st_ino)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files")
def test_a_cache_that_others_may_write_is_not_believed(home: Path, erben: Catalog) -> None:
    """Whoever can write prices into it can make its digest too; the next one is this user's alone.
    A link to such a file is none either.
    """
    load_catalog("erben-2023")
    (path,) = cache_folder().glob("*.msgpack")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o666)
    assert read_compiled(erben.digest, "erben-2023") is None
    assert load_catalog("erben-2023") == erben
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_compiled(erben.digest, "erben-2023") == erben
    path.rename(path.with_suffix(".kept"))
    path.symlink_to(path.with_suffix(".kept"))
    assert read_compiled(erben.digest, "erben-2023") is None


def test_a_cache_of_another_version_is_left_alone(
    home: Path, erben: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows may have other columns, and its prices passed other checks."""
    load_catalog("erben-2023")
    monkeypatch.setattr("placer.market.books.cache.__version__", "0.0.1")
    assert read_compiled(erben.digest, "erben-2023") is None
    assert load_catalog("erben-2023") == erben
    assert len(list(cache_folder().glob("*.msgpack"))) == 2


def test_the_cache_keeps_a_bounded_number_of_catalogs(tmp_path: Path) -> None:
    """Fifteen different stacks leave the newest dozen."""
    for n in range(15):
        load_catalog(
            ["erben-2023", write(tmp_path / "q.csv", QUOTE.replace("0.11", f"0.{n + 10}"))]
        )
    assert len(list(cache_folder().glob("*.msgpack"))) == MOST_KEPT


def test_pinned_books_are_used_where_none_is_named(tmp_path: Path, run: Run, home: Path) -> None:
    """Pin a quote over a book; then the quote's price counts without --catalog; --clear ends it."""
    quote = write(tmp_path / "quote.csv", QUOTE)
    done = run("catalog", "pin", "erben-2023", quote)
    assert done.returncode == 0, done.stderr
    assert default_words() == ("erben-2023", quote)
    assert load_catalog().name == "erben-2023+quote"
    assert (
        Advisor().recommend("roberta-xlm", budget="1/h").problem.catalog.name == "erben-2023+quote"
    )
    assert load_catalog(()).name == "erben-2023+quote"
    assert run("catalog", "pin", "--clear").stdout == "nothing is pinned: requests use default\n"
    assert default_words() == ("default",)


def test_a_pinned_book_that_changes_is_an_error_until_it_is_pinned_again(
    tmp_path: Path, run: Run
) -> None:
    """Exit code 5 names the book, and the tip says what to do; a named catalog is not affected."""
    quote = write(tmp_path / "quote.csv", QUOTE)
    run("catalog", "pin", "erben-2023", quote)
    write(tmp_path / "quote.csv", QUOTE.replace("0.11", "0.12"))
    done = run("offers", "--gpu", "T4")
    assert (done.returncode, "has changed" in done.stderr, "catalog pin" in done.stderr) == (
        5,
        True,
        True,
    )
    assert run("offers", "--gpu", "T4", "--catalog", "erben-2023").returncode == 0
    (tmp_path / "quote.csv").unlink()
    assert run("offers", "--gpu", "T4").returncode == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"schema": "placer.pin/v9", "catalogs": []}',
        '{"schema": "placer.pin/v1", "catalogs": []}',
    ],
)
def test_a_broken_pin_is_one_clear_line(home: Path, text: str) -> None:
    """It is never taken for no pin."""
    home.mkdir()
    write(pin_file(), text)
    with pytest.raises(PlacerError, match="is not a pin file of placer"):
        load_catalog()


def test_a_pin_of_a_path_holds_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is pinned as an absolute one."""
    write(tmp_path / "quote.csv", QUOTE)
    monkeypatch.chdir(tmp_path)
    assert pin_document(("quote.csv",))["catalogs"][0]["name"] == str(tmp_path / "quote.csv")


def test_a_book_of_the_shelf_is_found_by_name_and_shipped_ones_win(home: Path) -> None:
    """A folder on the shelf called as a shipped book is not taken for it."""
    for name in ("mine", "erben-2023"):
        shutil.copytree(shipped_catalogs() / "phalak-2023", own_books() / name)
    assert find_layer("mine").digest == find_layer("phalak-2023").digest
    assert find_layer("erben-2023").digest != find_layer("phalak-2023").digest


def test_max_price_age_leaves_out_old_prices(run: Run) -> None:
    """The book is of April 2023: nothing is younger than ten days; a century admits all."""
    asked = "recommend --model roberta-xlm --budget 5/h --catalog erben-2023 --max-price-age 10d"
    done = run(*asked.split())
    assert done.returncode == 5
    assert "all prices that fit are from before" in done.stderr
    everything = Advisor("erben-2023").recommend(
        "roberta-xlm", budget="5/h", max_price_age="36500d"
    )
    assert everything.value == Advisor("erben-2023").recommend("roberta-xlm", budget="5/h").value


def test_a_price_that_rots_in_the_cache_is_not_believed(home: Path, erben: Catalog) -> None:
    """A flipped bit is another price; here 0.18 USD/h of a T4 become 5.9e-300."""
    load_catalog("erben-2023")
    (path,) = cache_folder().glob("*.msgpack")
    data, price = path.read_bytes(), struct.pack(">d", t4(erben).usd_per_hour)
    assert price in data
    path.write_bytes(data.replace(price, bytes([price[0] & 1]) + price[1:]))
    assert load_catalog("erben-2023") == erben


def test_what_a_layer_has_no_column_for_stays_as_below(tmp_path: Path) -> None:
    """A quote for a spot machine says nothing of its network and its band; one with an empty cell
    says that there is none.
    """
    book = load_catalog("default")
    banded = next(
        o
        for o in book.offers
        if o.provider == "aws" and o.interruption_high is not None and o.network_gbps is not None
    )
    what = f"{banded.instance_type},{banded.gpu},{banded.gpu_count}"
    key = f"{banded.provider},{banded.region},{what},{banded.vcpus:g},{banded.memory_gib:g}"
    row = f"{key},{banded.market},0.77,list,,q,2026-11-01"
    silent = load_catalog(["default", write(tmp_path / "silent.csv", f"{OFFERS}{row}\n")])
    empty = load_catalog(
        ["default", write(tmp_path / "empty.csv", f"{OFFERS.strip()},network_gbps\n{row},\n")]
    )
    found = [next(o for o in stack.offers if o.usd_per_hour == 0.77) for stack in (silent, empty)]
    assert [offer.network_gbps for offer in found] == [banded.network_gbps, None]
    assert [offer.interruption_high for offer in found] == [banded.interruption_high] * 2


def test_a_quote_names_its_fabric(tmp_path: Path) -> None:
    """Figures and word arrive, also from the cache and from a document."""
    quote = write(tmp_path / "quote.csv", FABRIC.format("3200,infiniband,32"))
    for _ in range(2):
        offer = next(
            o
            for o in load_catalog(["default", quote]).offers
            if o.region == "us-east-1" and o.instance_type == "mine"
        )
        network = offer.network_gbps, offer.fabric, offer.max_island_machines
        assert network == (3200, "infiniband", 32)
    assert msgspec.convert(json.loads(json.dumps(offer_document(offer))), VmOffer) == offer


def test_a_fabric_nobody_knows_is_refused_in_a_document(erben: Catalog) -> None:
    """A saved market does not pass columns.csv; the nearest word is named."""
    changes: dict[str, Any] = {"fabric": "infinibnd"}
    offers = (replace(erben.offers[0], **changes), *erben.offers[1:])
    with pytest.raises(PlacerError, match="infinibnd") as caught:
        check_figures(replace(erben, offers=offers))
    assert "infiniband" in caught.value.hint


def test_networks_of_a_user_win(tmp_path: Path) -> None:
    """A reserved cluster at RunPod; the last line that covers a type counts, others keep theirs."""
    lines = (
        "runpod,8x_*,1600,infiniband,8,contract 7,2026-11-01\n"
        "runpod,8x_L40S,400,ethernet,4,contract 7,2026-11-01\n"
    )
    book = load_catalog(["default", write(tmp_path / "ours.csv", NETWORKS + lines)])
    found = {o.instance_type: o for o in book.offers if o.gpu_count == 8}
    assert found["8x_H100-SXM"].fabric == "infiniband"
    assert found["8x_L40S"].network_gbps == 400
    assert found["p5.48xlarge"].network_gbps == 3200
    assert book.digest != load_catalog("default").digest


def test_an_offer_with_a_cell_of_its_own_keeps_it(tmp_path: Path) -> None:
    """Also an empty one; a quote without the columns gets the network of its type."""
    found = []
    for name, cell in (("", ""), ("network_gbps,", "800,"), ("network_gbps,", ",")):
        text = (
            f"{OFFERS.replace('source', f'{name}source')}aws,us-east-1,p5.48xlarge,H100,8,192,2048,"
            f"on_demand,31,negotiated,,{cell}quote 7,2026-11-01\n"
        )
        book = load_catalog(["default", write(tmp_path / "quote.csv", text)])
        found += [o.network_gbps for o in book.offers if o.usd_per_hour == 31]
    assert found == [3200, 800, None]
