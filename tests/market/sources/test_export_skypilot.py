"""Books as SkyPilot's catalogs: importing what was exported gives the same offers."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog, VmOffer
from placer.market.sources.harvest import Harvest
from placer.market.sources.prices.skypilot.catalogs import read_skypilot
from placer.market.sources.prices.skypilot.export import skypilot_lines, write_lines
from placer.market.sources.prices.skypilot.names import PROVIDERS
from placer.market.sources.prices.skypilot.price_sources import SOURCES, source_rows
from placer.market.sources.prices.skypilot.split import split_prices
from placer.market.sources.reading.tally import Tally
from placer.records import replace

Key = tuple[str, str, str, str, int, str]


def offers(book: Catalog) -> dict[Key, tuple[float, float, float]]:
    """Size and price of each offer that SkyPilot's files can hold."""
    return {
        (o.provider, o.region, o.instance_type, o.gpu, o.gpu_count, o.market): (
            o.vcpus,
            o.memory_gib,
            o.usd_per_hour,
        )
        for o in book.offers
        if o.price_basis != "owned"
    }


def exported(book: Catalog, folder: Path) -> Harvest:
    """What an import reads of an export."""
    lines = skypilot_lines(book, Tally(skip_bad=True))
    write_lines(str(folder), lines, source_rows(book, lines), force=False)
    return read_skypilot([str(folder)])


def again(book: Catalog, folder: Path) -> dict[Key, tuple[float, float, float]]:
    """Offers after an export and an import."""
    found = {}
    for row in exported(book, folder).rows["offers.csv"]:
        key = tuple(
            row[name]
            for name in ("provider", "region", "instance_type", "gpu", "gpu_count", "market")
        )
        found[key] = tuple(row[name] for name in ("vcpus", "memory_gib", "usd_per_hour"))
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["default", "phalak-2023"])
def test_the_round_trip_is_exact(name: str, tmp_path: Path) -> None:
    """Every offer comes back with its size and its price to the last digit, and no other one;
    SkyPilot has no spot without on-demand and no machines of third parties, and OCI is not written.
    """
    book = load_catalog(name)
    known = {
        key: figures
        for key, figures in offers(book).items()
        if key[0] in PROVIDERS and key[-1] != "community"
    }
    assert again(book, tmp_path) == {
        key: figures for key, figures in known.items() if (*key[:-1], "on_demand") in known
    }


@pytest.mark.parametrize("name", ["default", "phalak-2023"])
def test_what_skypilot_cannot_say_comes_back(name: str, tmp_path: Path) -> None:
    """Basis, source, date and the optional figures of every offer are those of the book, and no
    note says otherwise.
    """
    book = load_catalog(name)
    harvest = exported(book, tmp_path)
    columns = VmOffer.__struct_fields__
    booked = {tuple(getattr(offer, column) for column in columns) for offer in book.offers}
    assert {
        tuple(row.get(column) for column in columns) for row in harvest.rows["offers.csv"]
    } <= booked
    assert not any("not of the prices" in note for note in harvest.notes)
    assert {Path(origin.place).name for origin in harvest.origins} == {"vms.csv", SOURCES}


def test_an_edited_price_loses_what_was_said_of_it(default: Catalog, tmp_path: Path) -> None:
    """An estimate of 2020 whose on-demand price was raised by 1 % is a list price of the file's
    date; its spot price keeps what it had.
    """
    pair = {
        o.market: o
        for o in default.offers
        if (o.instance_type, o.region) == ("g4dn.xlarge", "us-east-1")
    }
    old = [
        msgspec.structs.replace(o, price_basis="estimated", source="a guess", as_of="2020-01-01")
        for o in pair.values()
    ]
    exported(replace(default, offers=tuple(old)), tmp_path)
    path = tmp_path / "aws" / "vms.csv"
    path.write_text(
        path.read_text().replace(
            repr(pair["on_demand"].usd_per_hour), repr(pair["on_demand"].usd_per_hour * 1.01)
        )
    )
    day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    harvest = read_skypilot([str(tmp_path)])
    said = {
        row["market"]: (row["price_basis"], row["source"], row["as_of"])
        for row in harvest.rows["offers.csv"]
    }
    assert said == {
        "on_demand": ("list", "SkyPilot catalog aws/vms.csv", day),
        "spot": ("estimated", "a guess", "2020-01-01"),
    }
    assert any(
        note.startswith("the dates of 1 of 2 prices are those of the file, not of the prices")
        for note in harvest.notes
    )


def test_a_wrong_file_beside_is_said(default: Catalog, tmp_path: Path) -> None:
    """A date that is none names its file and line; the sources of another provider are no one's."""
    exported(default, tmp_path)
    beside = tmp_path / "lambda" / SOURCES
    beside.write_text((tmp_path / "aws" / SOURCES).read_text())
    notes = read_skypilot([str(beside.with_name("vms.csv"))]).notes
    assert any(note.startswith("the dates of the prices are those of the file") for note in notes)
    header, row = beside.read_text().splitlines()[:2]
    beside.write_text(f"{header}\n{row[:-10]}yesterday\n")  # as_of is the last column
    with pytest.raises(PlacerError, match=rf"{SOURCES}:2: as_of 'yesterday' is not a date"):
        read_skypilot([str(tmp_path)])


def test_data_centres_of_runpod_are_zones_of_countries(default: Catalog) -> None:
    """SkyPilot's regions of RunPod are countries: EU-SE-1 is a zone of SE."""
    lines = skypilot_lines(default, Tally(skip_bad=True))["runpod"]
    assert {(line["Region"], line["AvailabilityZone"]) for line in lines} >= {
        ("SE", "EU-SE-1"),
        ("CA", "CA-MTL-1"),
    }


def test_what_skypilot_cannot_say_is_counted(erben: Catalog, tmp_path: Path) -> None:
    """Owned machines, a machine that is only spot, and a DGX-2 of Google Cloud stay behind; all
    others come back.
    """
    tally = Tally(skip_bad=True)
    skypilot_lines(erben, tally)
    assert tally.reasons() == {
        "owned machine: onprem/erben-dgx2": 1,
        "owned machine: onprem/erben-eu": 2,
        "spot machine without an on-demand price": 1,
        "machine that SkyPilot does not attach devices to: DGX-2 (8 x V100)": 1,
    }
    found = again(erben, tmp_path)
    assert found.items() <= offers(erben).items()
    assert (
        len(offers(erben)) - len(found) == 3
    )  # the spot machine and both markets of the DGX-2; owned ones are not counted here


def test_devices_of_google_cloud_are_lines_of_their_own(default: Catalog) -> None:
    """SkyPilot expects no line with both a machine and devices there, and a zone in which both are
    found.
    """
    lines = skypilot_lines(default, Tally(skip_bad=True))["gcp"]
    assert not [line for line in lines if line["InstanceType"] and line["AcceleratorName"]]
    assert all(line["AvailabilityZone"].startswith(f"{line['Region']}-") for line in lines)
    assert {line["AcceleratorName"] for line in lines} >= {"A100", "A100-80GB", "H100-MEGA", "L4"}
    assert all(
        line["GpuInfo"] == line["AcceleratorName"] for line in lines
    )  # SkyPilot takes lines without GpuInfo for no GPU


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")),
        st.tuples(st.integers(1, 9), st.integers(1, 9)),
        max_size=12,
    )
)
def test_parts_add_up(prices: dict[tuple[str, str], tuple[int, int]]) -> None:
    """Whatever the prices: each machine is the sum of two parts above 0 in both markets, or it is
    left out.
    """
    machines = {edge: {"on_demand": a / 8, "spot": b / 8} for edge, (a, b) in prices.items()}
    parts, left_out = split_prices(machines, {})
    assert left_out <= set(machines)
    assert len(left_out) < max(1, len(machines))  # one machine alone always has a split
    for edge in set(machines) - left_out:
        for market, usd in machines[edge].items():
            host, devices = (parts[name][market] for name in edge)
            assert min(host, devices) > 0
            assert round(host + devices, 9) == usd


def test_files_are_not_replaced_unasked(run: Run, tmp_path: Path) -> None:
    """The second export is refused with exit code 2 and changes nothing; --force replaces the
    files, and nothing lies beside them.
    """
    first = run("catalog", "export", "skypilot", "out", "--catalog", "phalak-2023", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    path = tmp_path / "out" / "aws" / "vms.csv"
    path.write_text("mine")
    refused = run("catalog", "export", "skypilot", "out", "--catalog", "phalak-2023", cwd=tmp_path)
    assert refused.returncode == 2
    assert "exists" in refused.stderr
    assert path.read_text() == "mine"
    done = run(
        "catalog",
        "export",
        "skypilot",
        "out",
        "--catalog",
        "phalak-2023",
        "--force",
        "--json",
        cwd=tmp_path,
    )
    document = json.loads(done.stdout)
    assert path.read_text().startswith("InstanceType,")
    assert len(list(csv.DictReader(path.read_text().splitlines()))) == document["files"][0]["rows"]
    assert {p.name for p in path.parent.iterdir()} == {"vms.csv", SOURCES}


def test_no_cell_is_a_formula(default: Catalog) -> None:
    """A machine whose name begins as a formula does is left out and counted."""
    evil: VmOffer = msgspec.structs.replace(default.offers[0], instance_type="=cmd()")
    tally = Tally(skip_bad=True)
    skypilot_lines(replace(default, offers=(*default.offers, evil)), tally)
    assert tally.reasons()["name that a spreadsheet would take for a formula: =cmd()"] == 1
