"""A provider that nobody knew costs one mapping file: its listing is read as it comes, in JSON,
lines of JSON or CSV.
"""

import csv
import io
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from price_servers import azure_item, azure_page

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.market.books.csv_rows import read_rows
from placer.market.sources.harvest import Harvest
from placer.market.sources.prices.listing import read_listing
from placer.market.sources.reading.expressions import evaluate
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
        (
            {"prices__hour": 10**9},
            "the median of its device: 1e+07 USD/h of metal-8",
        ),
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


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not the JSON of this source"),
        (b'{"data": "none"}', "has no list of objects under 'data"),
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b'{"data": NaN}', "NaN is not a number"),
        (b"[" * 100_000, "is not the JSON of this source"),
        (b"<html>", "is not the JSON of this source"),
        (b'{"data": []}', "no row can be used: there are none"),
    ],
)
def test_what_is_no_such_json_is_said(tmp_path: Path, data: bytes, words: str) -> None:
    """Cut, foreign or hostile: one line, exit code 7."""
    (tmp_path / "vendor.toml").write_text(VENDOR)
    (tmp_path / "machines.json").write_bytes(data)
    with pytest.raises(PlacerError, match=words) as error:
        read_listing([str(tmp_path / "machines.json")], read_mapping(str(tmp_path / "vendor.toml")))
    assert error.value.exit_code == FAILED


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[columns]", "[columns", "not valid TOML"),
        ("[columns]", "[colums]", "unknown field `colums`"),
        ('"place.region"', "1", "Expected `str`, got `int` - at `$.fields"),
        ('format = "json"', 'format = "xml"', "Invalid enum value 'xml'"),
        ('kind = "offers"', 'kind = "offer"', "unknown kind 'offer'"),
        ("gpu_count =", "gpu_counts =", "unknown column 'gpu_counts'"),
        ("[values.gpu]", "[values.card]", "unknown column 'card'"),
        ('"cents"', '"pence"', "unit 'pence' of usd_per_hour is not known"),
        ('"place.region"', '"place."', "'place.' is no expression"),
        ('"place.region"', f"'{'(' * 100_000}'", "is no expression"),
        ('"place.region"', '"place.region"\nprovider = "x"', "column 'provider' is given twice"),
        ("[columns]", "needs = ['x']\n[columns]", "column 'x' is missing"),
        ('kind = "offers"', 'kind = "regions"', "unknown column 'instance_type'"),
        ('provider = "lambda"', "", "gives no provider"),
        ("[set]", 'provider = "id"\n[set]', "column 'provider' is given twice"),
        ("[columns]", f"about2 = {'[' * 100_000}", "not valid TOML"),
    ],
)
def test_wrong_mapping_files_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    """One line for each kind of mistake, before any row is read."""
    with pytest.raises(PlacerError) as error:
        read(tmp_path, MACHINE, text=VENDOR.replace(old, new, 1))
    assert words in error.value.message


def test_shipped_mappings_can_be_read() -> None:
    """Every name, unit and expression in them is one, and each says what it is for."""
    assert {"iperf3", "skypilot", "skyplane"} <= set(shipped_mappings())
    assert all(shipped_mapping(name).about for name in shipped_mappings())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("find(name, '([0-9]+)x', '\\1')", "8"),
        ("find(name, 'no', 'x')", None),
        ("find(none, 'no', 'x')", None),
        ("replace(name, 'x.*', '')", "8"),
        ("lower(name)", "8xt4"),
        ("median(list)", 2.5),
        ("median(list[?@ > `9`])", None),
        ("day(`0`)", "1970-01-01"),
    ],
)
def test_functions_of_expressions(expression: str, value: object) -> None:
    """Those that placer adds; null gives null."""
    assert evaluate(expression, {"name": "8xT4", "list": [1, 2, 3, 4]}) == value


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
