"""Price lists of any source by mapping files, and CSV by words of the command line."""

import csv
import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from price_servers import azure_item, azure_page

from conftest import ROOT, Run
from placer.cli.book.catalog_import import read_words
from placer.errors import PlacerError
from placer.market.books.csv_rows import read_rows
from placer.market.sources.harvest import Harvest
from placer.market.sources.reading.book_rows import read_listing
from placer.market.sources.reading.fetch import FAILED
from placer.market.sources.reading.mapping import read_mapping, shipped_mapping, shipped_mappings
from placer.records import replace

PAGE = (ROOT / "docs" / "manual" / "mappings.md").read_text(encoding="utf-8")
VENDOR = PAGE.split("```toml\n")[1].split("```")[0]
"""What a user writes for a provider, as the manual shows it, and no code."""
MACHINE: dict[str, Any] = {
    "id": "metal-8",
    "in_stock": True,
    "os": "linux",
    "currency": "USD",
    "place": {"region": "us-east-1", "rack": "r1"},
    "gpu": {"model": "NVIDIA A100 PCIe 40 GB", "number": 8},
    "cores": 128,
    "memory": 1048576,
    "prices": {"hour": 1200, "idle": 450.5},
}
"""12 USD/h, 4.505 on spot, 1,024 GiB."""


def with_changes(**changes: Any) -> dict[str, Any]:
    """The machine with other figures; ``a__b`` is the key b of a."""
    made: dict[str, Any] = json.loads(json.dumps(MACHINE))
    for path, value in changes.items():
        *above, key = path.split("__")
        inner = made
        for name in above:
            inner = inner[name]
        inner[key] = value
    return made


def read(tmp_path: Path, *machines: object, text: str = VENDOR, skip_bad: bool = False) -> Harvest:
    """Read a listing by a mapping file."""
    (tmp_path / "vendor.toml").write_text(text, encoding="utf-8")
    place = tmp_path / "machines.json"
    place.write_text(json.dumps({"data": machines}), encoding="utf-8")
    mapping = read_mapping(str(tmp_path / "vendor.toml"))
    return read_listing([str(place)], mapping, skip_bad=skip_bad, as_of=date(2026, 11, 1))


def test_a_listing_becomes_offers_by_a_file_alone(tmp_path: Path) -> None:
    """Paths, units, values, constants and filters: two markets of one record, cents and MiB. Other
    systems and places are counted, what is not in stock is no row.
    """
    other = [
        with_changes(in_stock=False),
        with_changes(os="windows"),
        with_changes(place__region="moon"),
    ]
    found = read(tmp_path, MACHINE, *other)
    on_demand, spot = found.rows["offers.csv"]
    assert on_demand == {
        "provider": "lambda",
        "region": "us-east-1",
        "instance_type": "metal-8",
        "gpu": "A100-40",
        "gpu_count": 8,
        "vcpus": 128.0,
        "memory_gib": 1024.0,
        "market": "on_demand",
        "usd_per_hour": 12.0,
        "price_basis": "list",
        "source": "listing of vendor",
        "as_of": "2026-11-01",
    }
    assert (spot["market"], spot["usd_per_hour"]) == ("spot", 4.505)
    assert found.left_out == {
        "another system: windows": 1,
        "region that no book knows: lambda/moon": 1,
    }


def test_zones_become_one_offer(tmp_path: Path) -> None:
    """Two racks: the dearer on demand, the cheaper on spot, which is said."""
    second = with_changes(place__rack="r2", prices={"hour": 1300, "idle": 400})
    on_demand, spot = read(tmp_path, MACHINE, second).rows["offers.csv"]
    assert (on_demand["usd_per_hour"], spot["usd_per_hour"]) == (13.0, 4.0)
    assert spot["source"] == "listing of vendor; cheapest of 2 zones: r2"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prices__hour": -5}, "usd_per_hour (their 'prices.hour') '-5' is not from 0"),
        ({"prices__hour": None}, "usd_per_hour (their 'prices.hour') '' is not a number"),
        ({"prices__hour": [1]}, "(their 'prices.hour') '' is a list or an object"),
        ({"prices__hour": True}, "(their 'prices.hour') 'true' is not a number"),
        ({"prices__hour": 10**9}, "the median of its device: 1e+07 USD/h of metal-8"),
        ({"gpu__number": 1.5}, "gpu_count (their 'gpu.number') '1.5' is not a whole number"),
        ({"gpu__model": 7}, "gpu (their 'replace(gpu.model, '^NVIDIA ', '')') '' cannot be found"),
        ({"id": "=evil()"}, "instance_type (their 'id') '=evil()' begins as a formula does"),
        ({"currency": "EUR"}, "a price in EUR"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    """File, row, column, path and value; --skip-bad leaves the row out."""
    with pytest.raises(PlacerError) as error:
        read(tmp_path, MACHINE, with_changes(**{"place__rack": "r2", **changes}))
    assert error.value.message.startswith(f"{tmp_path / 'machines.json'}: row 2: ")
    assert words in error.value.message
    assert error.value.exit_code == FAILED
    wrong = with_changes(**{"place__rack": "r2", **changes})
    assert len(read(tmp_path, MACHINE, wrong, skip_bad=True).rows["offers.csv"]) == 2


def test_a_record_with_two_wrong_prices_is_one_wrong_row(tmp_path: Path) -> None:
    """Its prices go together, and it counts once."""
    absurd = with_changes(place__rack="r2", prices={"hour": 10**9, "idle": 10**9})
    assert [*read(tmp_path, MACHINE, absurd, skip_bad=True).left_out.values()] == [1]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_other_containers(tmp_path: Path, form: str) -> None:
    """The same rows from lines of JSON and from CSV, and where a wrong one stands: its line."""
    cells = [{"type": "gpu_1x_a10", "usd": usd, "day": "2026-11-01"} for usd in ("0.75", "x")]
    text = io.StringIO()
    if form == "csv":
        writer = csv.DictWriter(text, cells[0])
        writer.writeheader()
        writer.writerows(cells)
    else:
        text.write("".join(f"{json.dumps(row)}\n" for row in cells))
    (tmp_path / "list").write_text(text.getvalue())
    (tmp_path / "map.toml").write_text(
        f"""
        kind = "offers"
        format = "{form}"
        [columns]
        instance_type = "type"
        usd_per_hour = "usd"
        as_of = "day"
        [set]
        provider = "lambda"
        region = "us-east-1"
        gpu = "A10"
        gpu_count = "1"
        vcpus = "30"
        memory_gib = "200"
        market = "on demand"
        price_basis = "list"
        source = "listing"
        """
    )
    mapping = read_mapping(str(tmp_path / "map.toml"))
    later = date(2026, 11, 2)  # --as-of is for rows that say none
    found = read_listing([str(tmp_path / "list")], mapping, skip_bad=True, as_of=later)
    (row,) = found.rows["offers.csv"]
    assert (row["usd_per_hour"], row["market"]) == (0.75, "on_demand")
    assert row["as_of"] == "2026-11-01"
    line = 3 if form == "csv" else 2
    with pytest.raises(PlacerError, match=rf"list:{line}: usd_per_hour \(their 'usd'\) 'x' is not"):
        read_listing([str(tmp_path / "list")], mapping)


def test_shipped_mappings_can_be_read() -> None:
    """Every name, unit and expression in them is one, and each says what it is for."""
    assert {"iperf3", "skypilot", "skyplane"} <= set(shipped_mappings())
    assert all(shipped_mapping(name).about for name in shipped_mappings())


def test_a_list_of_types_takes_machines_from_the_book(tmp_path: Path) -> None:
    """A page of Azure's prices that was saved: the size says it has one T4 and 4 vCPUs."""
    items = [
        azure_item("Standard_NC4as_T4_v3", "eastus", 0.526),
        azure_item("Basic_A0", "eastus", 1),
    ]
    (tmp_path / "page.json").write_text(json.dumps(azure_page(items)))
    mapping = shipped_mapping("azure")
    mapping = replace(mapping, set={**mapping.set, "memory_gib": "27"})  # what the list says counts
    found = read_listing([str(tmp_path / "page.json")], mapping)
    (row,) = found.rows["offers.csv"]
    figures = [row[name] for name in ("gpu", "gpu_count", "vcpus", "memory_gib")]
    assert figures == ["T4", 1, 4.0, 27.0]
    assert found.left_out == {"machine that the book does not have: Basic_A0": 1}


@pytest.mark.parametrize(
    ("price", "currency", "unit", "usd_per_hour"),
    [
        (52.6, "USD", "100 Hours", 0.526),
        (0.526, "EUR", "1 Hour", 0.526 * 1.1204),  # the rate of 5 October 2026
    ],
)
def test_a_list_of_azure_in_other_units(
    tmp_path: Path, price: float, currency: str, unit: str, usd_per_hour: float
) -> None:
    """A price of 100 hours is divided by 100; euros become dollars, and the source says so."""
    changed = {"currencyCode": currency, "unitOfMeasure": unit}
    item = azure_item("Standard_NC4as_T4_v3", "eastus", price, **changed)
    (tmp_path / "page.json").write_text(json.dumps(azure_page([item])))
    mapping = shipped_mapping("azure")
    (row,) = read_listing([str(tmp_path / "page.json")], mapping).rows["offers.csv"]
    assert row["usd_per_hour"] == pytest.approx(usd_per_hour)
    assert ("EUR" in str(row["source"])) == (currency == "EUR")


def test_the_command_takes_a_mapping_file(run: Run, tmp_path: Path) -> None:
    """The listing of a provider becomes a book."""
    (tmp_path / "vendor.toml").write_text(VENDOR)
    (tmp_path / "machines.json").write_text(json.dumps({"data": [MACHINE]}))
    done = run(
        *("catalog", "import", "vendor.toml", "machines.json", "--as", "vendor"),
        *("--as-of", "2026-11-01"),
        cwd=tmp_path,
        PLACER_HOME=str(tmp_path / "home"),
    )
    assert done.returncode == 0, done.stderr
    rows = read_rows(tmp_path / "home" / "catalogs" / "vendor" / "offers.csv", "offers.csv")
    assert {row["instance_type"] for row in rows} == {"metal-8"}


QUOTE = (
    "Machine,Card,Cards,Cores,RAM,Price,Place,Remark\n"
    "p4d.24xlarge,A100-40,8,96,1152,$21.95,us-east-1,net\n"
)
"""A quote for one machine, as somebody may send it."""
LINE = QUOTE.splitlines()[1]
MAP = (
    "instance_type=Machine,gpu=Card,gpu_count=Cards,vcpus=Cores,"
    "memory_gib=RAM,usd_per_hour=Price,region=Place"
)
SET = (
    "provider=aws",
    "market=on_demand",
    "price_basis=list",
    "source=quote 4711",
    "as_of=2026-11-01",
)


def read_csv(
    tmp_path: Path,
    text: str | bytes,
    *,
    maps: str = MAP,
    constants: tuple[str, ...] = SET,
    kind: str = "offers",
    skip_bad: bool = False,
) -> Harvest:
    """Read a text as a file."""
    path = tmp_path / "quote.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    mapping = read_words("csv", kind, [maps] if maps else [], constants)
    return read_listing([str(path)], mapping, skip_bad=skip_bad)


def test_a_quote_becomes_an_offer(tmp_path: Path, run: Run) -> None:
    """Mapped cells, set cells, a $ that is taken away, a column that nobody asked for, which is
    said, and the end of a file, which may be cut off. The command says what it has read.
    """
    found = read_csv(tmp_path, QUOTE.rstrip())
    (row,) = found.rows["offers.csv"]
    assert row == {
        "provider": "aws",
        "region": "us-east-1",
        "instance_type": "p4d.24xlarge",
        "gpu": "A100-40",
        "gpu_count": 8,
        "vcpus": 96.0,
        "memory_gib": 1152.0,
        "market": "on_demand",
        "usd_per_hour": 21.95,
        "price_basis": "list",
        "source": "quote 4711",
        "as_of": "2026-11-01",
    }
    assert found.notes == [
        "their columns that were not read: Remark",
        "the last line has no end: check that the file is complete",
    ]
    words = [word for text in SET for word in ("--set", text)]
    asked = ("catalog", "import", "csv", "quote.csv", "--as", "quote", "--map", MAP, *words)
    done = run(*asked, columns=200, cwd=tmp_path, PLACER_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "1 row of offers.csv in 1 region of aws, prices of 2026-11-01" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("$21.95", '"1,234.50"', "(their 'Price') '1,234.50' is not a number; write a plain"),
        ("$21.95", "€21.95", "usd_per_hour (their 'Price') '€21.95' is not a number"),
        ("$21.95", "21.95/h", "is not a number; write a plain number"),
        ("$21.95", "$$1", "is not a number"),
        ("$21.95", "nan", "'nan' is not a finite number"),
        ("$21.95", "-1", "'-1' is not from 0"),
        ("$21.95", "$0", "on-demand price is zero or less: 0 USD/h of p4d"),
        ("$21.95", "", "is not a number"),
        ("$21.95", "0.00001", "is 1,000 times below the median of its device: 1e-05 USD/h of p4d"),
        ("$21.95", "900000", "on-demand price is 1,000 times above the median of its device"),
        (",8,", ",8.5,", "gpu_count (their 'Cards') '8.5' is not a whole number from 1"),
        ("p4d.24xlarge", "=cmd()", "(their 'Machine') '=cmd()' begins as a formula does"),
        ("p4d.24xlarge", "", "instance_type (their 'Machine') '' is empty"),
        ("p4d.24xlarge", "p4d\x1b[2J", "(their 'Machine') 'p4d?[2J' has control characters"),
        (",net", "", "7 cells instead of 8"),
        (",1152,", ",80 GB,", "memory_gib (their 'RAM') '80 GB' is not a number"),
    ],
)
def test_wrong_cells_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    """File, line, column and cell; --skip-bad counts the row, and refuses only if nothing is left.
    Only a leading $ is read: 1,234 means two things in two countries.
    """
    text = QUOTE.replace(old, new)
    with pytest.raises(PlacerError) as error:
        read_csv(tmp_path, text)
    assert error.value.message.startswith(f"{tmp_path / 'quote.csv'}:2: ")
    assert words in error.value.message
    assert error.value.exit_code == FAILED
    found = read_csv(tmp_path, f"{text}{LINE.replace('p4d', 'p4x')}\n", skip_bad=True)
    assert len(found.rows["offers.csv"]) == 1
    with pytest.raises(PlacerError, match="no row can be used: 1 x wrong row"):
        read_csv(tmp_path, text, skip_bad=True)


def test_duplicates(tmp_path: Path) -> None:
    """The same row twice is one; the same machine with another price names both lines."""
    assert len(read_csv(tmp_path, f"{QUOTE}{LINE}\n").rows["offers.csv"]) == 1
    with pytest.raises(
        PlacerError, match=r"quote.csv:3: .* is already in .*quote.csv:2 with other figures"
    ):
        read_csv(tmp_path, f"{QUOTE}{LINE.replace('21.95', '22')}\n")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_of_a_good_file(tmp_path: Path, encoding: str) -> None:
    """A mark, UTF-16 with a mark, CRLF and an empty line change nothing."""
    text = QUOTE.replace("\n", "\r\n\r\n").encode(encoding)
    assert [row["usd_per_hour"] for row in read_csv(tmp_path, text).rows["offers.csv"]] == [21.95]


def test_the_command_writes_a_book(run: Run, tmp_path: Path) -> None:
    """Words of the command line from end to end; --as-of dates what has no date."""
    (tmp_path / "quote.csv").write_text(QUOTE)
    words = [word for pair in SET[:-1] for word in ("--set", pair)]
    done = run(
        *("catalog", "import", "csv", "quote.csv", "--map", MAP, *words, "--as", "quote"),
        *("--as-of", "2026-11-02", "--json"),
        cwd=tmp_path,
        PLACER_HOME=str(tmp_path / "home"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == {"offers.csv": 1}
    (row,) = read_rows(tmp_path / "home" / "catalogs" / "quote" / "offers.csv", "offers.csv")
    assert (row["usd_per_hour"], row["as_of"]) == (21.95, "2026-11-02")
