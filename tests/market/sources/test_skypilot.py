"""SkyPilot's catalogs, read and written."""

import csv
import gzip
import json
import shutil
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.books.csv_rows import read_rows
from placer.market.catalog import Catalog, VmOffer
from placer.market.sources.harvest import Harvest, Row, Tally
from placer.market.sources.prices.skypilot import catalogs as skypilot
from placer.market.sources.prices.skypilot.catalogs import SOURCES, read_skypilot, source_rows
from placer.market.sources.prices.skypilot.export import skypilot_lines, split_prices, write_lines
from placer.market.sources.prices.skypilot.names import PROVIDERS
from placer.market.sources.reading.fetch import FAILED
from placer.records import replace

FIXTURES = ROOT / "tests" / "fixtures" / "skypilot"
"""Own figures in the real format: five providers, some of whose regions no book knows."""
HEADER = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,"
    "Price,SpotPrice,Region,AvailabilityZone"
)
GOOD = "g4dn.xlarge,T4,1.0,4.0,16.0,T4,0.5,0.2,us-east-1,use1-az1"
NOVEMBER = date(2026, 11, 1)


@pytest.fixture(scope="module")
def harvest() -> Harvest:
    """All fixtures at once."""
    return read_skypilot([str(FIXTURES)], as_of=NOVEMBER)


def offer(
    harvest: Harvest, machine: str, market: str = "on_demand", region: str | None = None
) -> Row:
    """The one offer of a machine and market."""
    found = [
        row
        for row in harvest.rows["offers.csv"]
        if (row["instance_type"], row["market"]) == (machine, market)
        and region in (None, row["region"])
    ]
    assert len(found) == 1, found
    return found[0]


def write(
    folder: Path, *lines: str, provider: str = "aws", header: str = HEADER, end: str = "\n"
) -> str:
    """A folder with one vms.csv."""
    path = folder / provider / "vms.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("\n".join([header, *lines]) + end).encode())
    return str(path)


def test_zones_fold_into_regions(harvest: Harvest) -> None:
    """The cheapest of three zones is the region's spot price, and the source says which; on-demand
    is the same in all.
    """
    assert offer(harvest, "g4dn.xlarge")["usd_per_hour"] == 0.5
    spot = offer(harvest, "g4dn.xlarge", "spot")
    assert spot["usd_per_hour"] == 0.19
    assert spot["source"] == "SkyPilot catalog aws/vms.csv; cheapest of 3 zones: use1-az2"


def test_hosts_and_devices_of_google_cloud_are_added(harvest: Harvest) -> None:
    """a2-highgpu-1g is a host row of 0.70 and an A100 row of 2.90; spot adds zone by zone: a .30 +
    1.10, b .28 + 1.15.
    """
    machine = offer(harvest, "a2-highgpu-1g")
    assert (machine["gpu"], machine["gpu_count"], machine["vcpus"], machine["memory_gib"]) == (
        "A100-40",
        1,
        12.0,
        85.0,
    )
    assert machine["usd_per_hour"] == 3.6
    assert offer(harvest, "a2-highgpu-1g", "spot")["usd_per_hour"] == 1.4
    assert offer(harvest, "a2-ultragpu-1g")["gpu"] == "A100-80"
    assert [offer(harvest, f"g2-standard-{n}")["usd_per_hour"] for n in (4, 8)] == [
        0.71,
        0.86,
    ]  # each host that an L4 comes with


def test_attached_devices_get_the_host_that_skypilot_takes(harvest: Harvest) -> None:
    """A T4 asks for 4 vCPUs and 16 GiB: n1-standard-4 has 15, so n1-highmem-4 (0.24) is the
    cheapest; a V100 asks for 8 and 32.
    """
    assert offer(harvest, "n1-highmem-4+1xT4")["usd_per_hour"] == 0.59
    assert offer(harvest, "n1-highmem-4+1xT4", "spot")["usd_per_hour"] == 0.19
    assert offer(harvest, "n1-highmem-8+1xV100")["usd_per_hour"] == 2.95
    assert not [
        row
        for row in harvest.rows["offers.csv"]
        if str(row["instance_type"]) in ("a2-highgpu-1g", "a3-megagpu-8g") and row["gpu"] == "CPU-2"
    ]


def test_a_missing_spot_price_is_no_offer(harvest: Harvest) -> None:
    """Two machines have no spot price: one offer each, never a price of 0."""
    for machine in ("p3dn.24xlarge", "a3-megagpu-8g"):
        markets = [
            row["market"] for row in harvest.rows["offers.csv"] if row["instance_type"] == machine
        ]
        assert markets == ["on_demand"]


def test_machines_without_gpus_need_a_cpu_kind(harvest: Harvest) -> None:
    """2 vCPUs with 8 GiB are CPU-2; 4 GiB, 96 vCPUs, bursting and Arm cores are none."""
    kinds = {
        str(row["instance_type"]) for row in harvest.rows["offers.csv"] if row["gpu"] == "CPU-2"
    }
    assert kinds == {"m5.large", "e2-standard-2", "Standard_D2s_v5"}
    shared = "machine without a GPU whose vCPUs are shared, Arm or from before 2014"
    assert harvest.left_out[shared] == 3  # m6g.large, t3.large, Standard_D2ps_v5


def test_what_is_left_out_is_counted_by_name(harvest: Harvest) -> None:
    """Regions without coordinates, devices without data, fractions, devices without a host."""
    assert {
        "region that no book knows: aws/us-gov-west-1": 1,
        "region that no book knows: runpod/EU-SE-9": 1,
        "device that gpus.csv does not know: tpu": 2,
        "device that gpus.csv does not know: A4500": 1,
        "fraction of a device: A10 in Standard_NV6ads_A10_v5": 1,
        "devices without a host in their zone: V100:1": 1,
    }.items() <= harvest.left_out.items()


def test_every_row_is_a_row_of_a_book(harvest: Harvest) -> None:
    """Dates, bases and digests: what `save` writes is what columns.csv asks for."""
    assert {row["as_of"] for row in harvest.rows["offers.csv"]} == {"2026-11-01"}
    assert {row["price_basis"] for row in harvest.rows["offers.csv"]} == {"list"}
    assert [len(origin.sha256) for origin in harvest.origins] == [64] * 5


def test_own_regions_and_devices(tmp_path: Path) -> None:
    """A regions.csv and a gpus.csv beside the providers' folders make their rows usable."""
    shutil.copytree(FIXTURES, tmp_path / "v8")
    (tmp_path / "v8" / "regions.csv").write_text(
        "provider,region,display_name,city,country,continent,egress_zone,"
        "latitude_deg,longitude_deg,source,as_of\n"
        "runpod,EU-SE-9,Sweden 9,Stockholm,SE,EU,EU,59.3,18.1,own,2026-11-01\n"
    )
    (tmp_path / "v8" / "gpus.csv").write_text(
        "gpu,kind,memory_gib,fp16_tflops,memory_gb_per_s,host,source,as_of\n"
        "A4500,gpu,19.5,94.6,640,a10,NVIDIA data sheet,2021-11-23\n"
    )
    found = read_skypilot([str(tmp_path / "v8")])
    places = {str(row["region"]) for row in found.rows["offers.csv"] if row["provider"] == "runpod"}
    assert places == {"CA-MTL-1", "EU-SE-9"}  # SkyPilot's zones of CA and SE
    assert offer(found, "gpu_1x_a4500")["gpu"] == "A4500"
    assert len(found.rows["regions.csv"]) == len(found.rows["gpus.csv"]) == 1


def test_of_two_prices_of_a_host_the_higher_counts(tmp_path: Path) -> None:
    """0.24 and 0.20 with a T4 for 0.35: 0.59."""
    host = "n1-highmem-4,,,4.0,26.0,,{},0.05,us-central1,us-central1-a"
    device = ",T4,1.0,,,T4,0.35,0.1,us-central1,us-central1-a"
    lines = (host.format("0.24"), host.format("0.20"), device)
    found = read_skypilot([write(tmp_path, *lines, provider="gcp")])
    assert offer(found, "n1-highmem-4+1xT4")["usd_per_hour"] == 0.59


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",0.5,", ",nan,", "usd_per_hour (their 'Price') 'nan' is not a finite number"),
        (",0.5,", ",1e999,", "usd_per_hour (their 'Price') '1e999' is not a finite number"),
        (",0.5,", ",-0.5,", "usd_per_hour (their 'Price') '-0.5' is not from 0"),
        (",0.5,", ",0,", "on-demand price is zero or less"),
        (",0.5,", ",0.5 USD,", "usd_per_hour (their 'Price') '0.5 USD' is not a number"),
        (",0.5,", ",5000,", "on-demand price is 1,000 times above"),
        (",0.2,", ",0.00001,", "spot price is 1,000 times below"),
        (",4.0,", ",,", "vcpus (their 'vCPUs') '' is not a number"),
        ("1.0,", "many,", "gpu_count (their "),
        ("g4dn.xlarge", "", "instance_type (their 'InstanceType') '' is empty"),
        ("g4dn.xlarge", "g4dn\x1b[2J", "instance_type (their "),
        (",use1-az1", "", "9 cells instead of 10"),
    ],
)
def test_wrong_rows_are_refused_with_their_line(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    """One wrong row refuses everything and names its line; --skip-bad counts it."""
    path = write(tmp_path, GOOD.replace("xlarge", "2xlarge"), GOOD.replace(old, new, 1))
    with pytest.raises(PlacerError) as error:
        read_skypilot([path])
    assert error.value.message.startswith(f"{path}:3: {words}")
    assert error.value.exit_code == FAILED
    found = read_skypilot([path], skip_bad=True)
    assert {row["instance_type"] for row in found.rows["offers.csv"]} == {"g4dn.2xlarge"}
    assert [reason for reason in found.left_out if reason.startswith("wrong row: ")]


@pytest.mark.parametrize(
    ("old", "new", "markets"),
    [
        (",0.5,0.2,", ",0.5,0.0,", ["on_demand"]),
        (",0.5,0.2,", ",0.5,nan,", ["on_demand"]),
        (",0.5,0.2,", ",0.5,,", ["on_demand"]),
        (",0.5,0.2,", ",,0.2,", ["spot"]),
        (",0.5,0.2,", ",,,", []),
    ],
)
def test_a_price_that_is_missing_takes_no_other_with_it(
    tmp_path: Path, old: str, new: str, markets: list[str]
) -> None:
    """SkyPilot's catalogs always have machines without a price, and spot prices of 0 and nan: the
    other price of the row stays, and a machine with neither is counted.
    """
    bare = GOOD.replace("xlarge", "2xlarge").replace(old, new)
    found = read_skypilot([write(tmp_path, GOOD, bare)])
    rows = [row for row in found.rows["offers.csv"] if row["instance_type"] == "g4dn.2xlarge"]
    assert [row["market"] for row in rows] == markets
    counted = found.left_out.get("machine without a price: g4dn.2xlarge", 0)
    assert counted == (0 if markets else 1)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """A price can lose digits and still be a number: only the missing end tells."""
    path = write(tmp_path, GOOD, GOOD.replace("xlarge", "2xlarge")[:-3], end="")
    with pytest.raises(PlacerError, match=r"vms.csv:3: the last line has no end"):
        read_skypilot([path])
    assert len(read_skypilot([path], skip_bad=True).rows["offers.csv"]) == 2


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    """As SkyPilot's mirrors deliver it."""
    path = Path(write(tmp_path))
    path.write_bytes(gzip.compress(f"{HEADER}\n\n{GOOD}\n".encode(), mtime=0))
    assert len(read_skypilot([str(path)]).rows["offers.csv"]) == 2


def test_a_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes that become more than the limit, which is lowered here."""
    monkeypatch.setattr(skypilot, "MOST_BYTES", 1 << 20)
    path = Path(write(tmp_path))
    path.write_bytes(gzip.compress(b"a" * (64 << 20)))
    with pytest.raises(PlacerError, match="has more than 1 MiB"):
        read_skypilot([str(path)])


def test_the_date_is_that_of_the_file(tmp_path: Path) -> None:
    """SkyPilot's files say no date: the file's own is taken, never one after today."""
    path = Path(write(tmp_path, GOOD))
    day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    found = read_skypilot([str(path)])
    assert offer(found, "g4dn.xlarge")["as_of"] == day
    assert [
        note
        for note in found.notes
        if note.startswith("the dates of the prices are those of the file, not of the prices")
    ]
    assert not read_skypilot([str(path)], as_of=NOVEMBER).notes  # the user says the date


def test_the_command_writes_a_book_and_says_what_next(run: Run, tmp_path: Path) -> None:
    """One provider gives its name to the book; the words name files, dates and what next."""
    arguments = ["catalog", "import", "skypilot", str(FIXTURES / "gcp"), "--as-of", "2026-11-01"]
    done = run(*arguments, columns=200, PLACER_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    book = tmp_path / "catalogs" / "skypilot-gcp"
    rows = list(read_rows(book / "offers.csv", "offers.csv"))
    assert {row["region"] for row in rows} == {"us-central1"}
    assert "prices of 2026-11-01" in done.stdout
    assert "left out: 2 x device that gpus.csv does not know: tpu" in done.stdout
    assert "--catalog default --catalog skypilot-gcp" in done.stdout
    assert json.loads((book / "origin.json").read_text())["documents"][0]["place"].endswith(
        "gcp/vms.csv"
    )


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
    """Basis, source, date and figures of every offer are those of the book."""
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
        replace(o, price_basis="estimated", source="a guess", as_of="2020-01-01")
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
    """Owned machines, one that is only spot, and a DGX-2 of Google Cloud stay behind."""
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
    """SkyPilot expects no line with machine and devices there, and a zone that has both."""
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
    """Each machine is the sum of two parts above 0 in both markets, or left out."""
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
    """The second export is refused and changes nothing; --force replaces the files."""
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
    evil: VmOffer = replace(default.offers[0], instance_type="=cmd()")
    tally = Tally(skip_bad=True)
    skypilot_lines(replace(default, offers=(*default.offers, evil)), tally)
    assert tally.reasons()["name that a spreadsheet would take for a formula: =cmd()"] == 1
