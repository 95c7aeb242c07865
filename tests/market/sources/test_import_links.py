"""Measured links of any tool: iperf3, Skyplane, mapping files."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.market.sources.harvest import Harvest, Tally
from placer.market.sources.links import Reading, harvest_readings, import_links
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.reading.mapping import shipped_mapping

FIXTURES = ROOT / "tests" / "fixtures" / "links"
THROUGHPUT, LATENCY = str(FIXTURES / "throughput.csv"), str(FIXTURES / "latency.csv")
EAST, WEST, AZURE = "aws/us-east-1", "gcp/us-west1", "azure/eastus"


def grid(
    default: Catalog, *files: str, skip_bad: bool = False, date: str | None = "2022-04-16"
) -> Harvest:
    """Read grids against the places of the default book."""
    documents = [(read_document(f), {"from": "", "to": ""}) for f in files]
    mapping = shipped_mapping("skyplane")
    return import_links(documents, mapping, default.regions, date=date, skip_bad=skip_bad)


def pairs(harvest: Harvest) -> dict[tuple[object, object], dict[str, object]]:
    """Rows of a harvest by pair."""
    return {(row["src"], row["dst"]): dict(row) for row in harvest.rows["links.csv"]}


def test_runs_of_a_pair_come_to_their_median(default: Catalog) -> None:
    """Runs of 3, 4, 5 and 0.5 Gb/s: the median of four is 3.5, 0.5 is below 3.5 / 3 and left out,
    so 4 stays; zones are regions.
    """
    harvest = grid(default, THROUGHPUT)
    row = pairs(harvest)[EAST, WEST]
    assert (row["gbps_many_streams"], row["gbps_one_stream"], row["gbps_low"]) == (4.0, None, None)
    assert row["source"] == "Skyplane grid throughput.csv; 3 runs of many streams: 3 to 5 Gb/s"
    assert harvest.left_out["run beyond 3x of the median of its pair"] == 1


def test_what_is_left_out_is_counted_with_its_name(default: Catalog) -> None:
    """Two rows of a region nobody knows, one of the STANDARD tier, one that failed."""
    left_out = grid(default, THROUGHPUT).left_out
    assert left_out["region that the book does not know: gcp/mars-north1"] == 2
    assert (left_out["network tier: STANDARD"], left_out["run that failed"]) == (1, 1)


def test_the_date_stands_in_the_name_of_the_log(default: Catalog) -> None:
    """The oldest run of aws to gcp is of 24 January 2022; a grid without logs needs --date."""
    assert pairs(grid(default, THROUGHPUT, date=None))[EAST, WEST]["as_of"] == "2022-01-24"
    with pytest.raises(
        PlacerError, match=r"latency.csv:2: as_of .* is not a date .*; give the day with --date"
    ):
        grid(default, LATENCY, date=None)


def test_throughput_and_latency_merge(default: Catalog) -> None:
    """The average round-trip time; the empty way back from gcp takes 66.5 ms of the way there."""
    harvest = grid(default, THROUGHPUT, LATENCY)
    found = pairs(harvest)
    assert (found[EAST, WEST]["rtt_ms"], found[WEST, EAST]["rtt_ms"]) == (66.5, 66.5)
    assert (found[WEST, EAST]["gbps_many_streams"], found[AZURE, EAST]["gbps_many_streams"]) == (
        2.0,
        None,
    )
    assert harvest.left_out["row without a figure"] == 1
    assert harvest.notes[0].startswith("2 round-trip times were measured one way only")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("nan", "round-trip time nan ms"),
        ("0", "round-trip time 0 ms"),
        ("-3", "round-trip time -3 ms"),
        ("inf", "round-trip time inf ms"),
        ("99999", "at most 10000 ms"),
        ("20", "light in fibre needs"),
    ],
)
def test_what_cannot_be_true_is_refused_with_its_line(
    default: Catalog, tmp_path: Path, cell: str, words: str
) -> None:
    """N. Virginia to Oregon is 3,700 km: at 100 km/ms at least 37 ms there and back, so 20 ms
    cannot be; --skip-bad counts it.
    """
    path = tmp_path / "l.csv"
    path.write_text(
        f"src_region,dst_region,avg_rtt\naws:us-east-1,azure:eastus,2\naws:us-east-1,gcp:us-west1-a,{cell}\n"
    )
    with pytest.raises(PlacerError, match=words) as caught:
        grid(default, str(path))
    assert caught.value.message.startswith(f"{path}:3: ")
    kept = grid(default, str(path), skip_bad=True)
    assert (len(kept.rows["links.csv"]), sum(kept.left_out.values())) == (2, 1)


def imported(run: Run, home: Path, *words: str) -> tuple[int, list[dict[str, object]], str]:
    """Exit code, links and errors of the command."""
    done = run("network", "import", *words, "--json", PLACER_HOME=str(home))
    return done.returncode, json.loads(done.stdout)["links"] if done.stdout else [], done.stderr


def test_columns_and_units_of_any_csv(run: Run, tmp_path: Path) -> None:
    """250 Mb/s are 0.25 Gb/s, 66,000 us are 66 ms; the file is the source."""
    path = tmp_path / "mine.csv"
    path.write_text(f"from,to,speed,delay\n{EAST},{WEST},250,66000\n")
    maps = ("--map", "src=from,dst=to,gbps_one_stream=speed,rtt_ms=delay")
    units = ("--rate-unit", "Mb/s", "--rtt-unit", "us", "--date", "2026-08-03")
    _, rows, _ = imported(run, tmp_path / "home", "csv", str(path), *maps, *units)
    (row,) = [row for row in rows if row["src"] == EAST]
    figures = [row[name] for name in ("gbps_one_stream", "rtt_ms", "as_of", "source")]
    assert figures == [0.25, 66.0, "2026-08-03", "mine.csv"]


def test_a_mapping_file_reads_links_of_any_tool(run: Run, tmp_path: Path) -> None:
    """Lines of JSON with bytes/s: 12.5 MB/s over one stream and 125 over eight."""
    (tmp_path / "log.jsonl").write_text(
        "".join(
            json.dumps({"path": {"a": EAST, "b": WEST}, "rate": rate, "flows": flows}) + "\n"
            for rate, flows in ((12.5e6, 1), (125e6, 8))
        )
    )
    (tmp_path / "tool.toml").write_text(
        'format = "jsonl"\n[fields]\nsrc = "path.a"\ndst = "path.b"\n'
        '[columns]\ngbps = "rate"\nstreams = "flows"\n[units]\ngbps = "B/s"\n'
    )
    words = (str(tmp_path / "tool.toml"), str(tmp_path / "log.jsonl"), "--date", "2026-08-03")
    code, (row,), _ = imported(run, tmp_path / "home", *words)
    assert (code, row["gbps_one_stream"], row["gbps_many_streams"]) == (0, 0.1, 1.0)


def test_the_best_number_of_streams_is_many(default: Catalog) -> None:
    """4 streams move 1.0, 16 move 2.0 (median of 1.9 and 2.1), 64 move 1.5: 2.0 it is."""
    speeds = [(4, 1.0), (16, 1.9), (16, 2.1), (64, 1.5), (1, 0.3)]
    readings = [
        Reading(
            src=EAST,
            dst=WEST,
            where="x",
            source="s",
            as_of="2026-01-01",
            streams=n,
            bits_per_s=gbps * 1e9,
        )
        for n, gbps in speeds
    ]
    row = pairs(harvest_readings(readings, default.regions, Tally(skip_bad=False)))[EAST, WEST]
    assert (row["gbps_many_streams"], row["gbps_one_stream"]) == (2.0, 0.3)


def test_round_trips_that_contradict_each_other_are_left_out(default: Catalog) -> None:
    """There 66 ms, back 124 ms: a round trip is one, so one is wrong; 66 and 98 ms are within 1.5x;
    1 and 2.9 ms within 2 ms.
    """

    def rtts(there: float, back: float) -> tuple[list[object], int]:
        ways = ((AZURE, EAST, there), (EAST, AZURE, back))
        readings = [
            Reading(
                src=a, dst=b, where="x", source="s", as_of="2026-01-01", bits_per_s=1e9, rtt_ms=ms
            )
            for a, b, ms in ways
        ]
        found = harvest_readings(readings, default.regions, Tally(skip_bad=False))
        return [row["rtt_ms"] for row in found.rows["links.csv"]], sum(found.left_out.values())

    assert rtts(66.0, 124.0) == ([None, None], 2)
    assert rtts(66.0, 98.0) == ([98.0, 66.0], 0)
    assert rtts(1.0, 2.9) == ([2.9, 1.0], 0)


FIXTURES = ROOT / "tests" / "fixtures" / "links"
EAST, WEST = "aws/us-east-1", "gcp/us-west1"


def fixture(name: str) -> Any:
    """Read a fixture as a document."""
    return json.loads((FIXTURES / name).read_text())


def read(default: Catalog, *paths: Path, skip_bad: bool = False) -> list[dict[str, Any]]:
    """Import runs from EAST to WEST."""
    documents = [(read_document(str(path)), {"from": EAST, "to": WEST}) for path in paths]
    harvest = import_links(documents, shipped_mapping("iperf3"), default.regions, skip_bad=skip_bad)
    return [dict(row) for row in harvest.rows["links.csv"]]


def rows_of(default: Catalog, *names: str, skip_bad: bool = False) -> list[dict[str, Any]]:
    """Import fixtures of runs."""
    return read(default, *(FIXTURES / name for name in names), skip_bad=skip_bad)


def changed(tmp_path: Path, **values: object) -> Path:
    """Save a run with other figures; ``a__b`` is the key b of a."""
    document = fixture("one.json")
    for path, value in values.items():
        *above, key = path.split("__")
        inner = document
        for name in above:
            inner = inner[name]
        inner[key] = value
    (tmp_path / "run.json").write_text(json.dumps(document))
    return tmp_path / "run.json"


def test_one_stream_and_sixteen(default: Catalog) -> None:
    """-P 1 arrived with 250 Mb/s, -P 16 with 3.2 Gb/s; the least round trip is 66,000 us."""
    forth, back = rows_of(default, "one.json", "sixteen.json")
    assert (forth["gbps_one_stream"], forth["gbps_many_streams"], forth["rtt_ms"]) == (
        0.25,
        3.2,
        66.0,
    )
    assert forth["as_of"] == "2021-08-01"
    assert (back["src"], back["gbps_one_stream"], back["rtt_ms"]) == (WEST, None, 66.0)


def test_reverse_measures_the_way_back(default: Catalog) -> None:
    """With -R the server sends: 200 Mb/s from WEST to EAST; a round-trip time of 0 is none."""
    (row,) = rows_of(default, "reverse.json")
    assert (row["src"], row["dst"], row["gbps_one_stream"], row["rtt_ms"]) == (
        WEST,
        EAST,
        0.2,
        None,
    )


def test_both_ways_at_once(default: Catalog, tmp_path: Path) -> None:
    """--bidir has the sums of the way back under names of their own."""
    back = {"end__sum_received_bidir_reverse": {"bits_per_second": 1e8}}
    path = changed(tmp_path, start__test_start__bidirectional=1, **back)
    assert [row["gbps_one_stream"] for row in read(default, path)] == [0.25, 0.1]


def test_a_run_that_failed_says_why(default: Catalog) -> None:
    """The error of iperf3 is quoted; --skip-bad leaves it out."""
    with pytest.raises(
        PlacerError,
        match=r"refused.json: iperf3 failed: unable to connect to server: Connection refused",
    ):
        rows_of(default, "refused.json")
    assert len(rows_of(default, "refused.json", "one.json", skip_bad=True)) == 2


def test_a_table_names_the_places_of_each_run(run: Run, tmp_path: Path) -> None:
    """--pairs: files lie beside the table."""
    (tmp_path / "a.json").write_text((FIXTURES / "one.json").read_text())
    (tmp_path / "pairs.csv").write_text(f"file,src,dst\na.json,{EAST},{WEST}\n")
    done = run(
        "network",
        "import",
        "iperf3",
        "--pairs",
        str(tmp_path / "pairs.csv"),
        "--json",
        PLACER_HOME=str(tmp_path / "home"),
    )
    document = json.loads(done.stdout)
    assert (document["book"], document["links"][0]["gbps_one_stream"]) == ("iperf3", 0.25)


def test_a_place_that_nobody_knows_is_an_error(run: Run, tmp_path: Path) -> None:
    """The user wrote it, so it is not left out silently."""
    done = run(
        "network",
        "import",
        "iperf3",
        str(FIXTURES / "one.json"),
        "--from",
        "aws/us-esat-1",
        "--to",
        WEST,
        PLACER_HOME=str(tmp_path),
    )
    assert (done.returncode, "a similar place exists" in done.stderr) == (2, True)


def test_a_matrix_of_latencies(run: Run, tmp_path: Path) -> None:
    """Rows are sources and columns destinations; the corner says what the cells are, and cells of
    one place, empty or with a dash say nothing.
    """
    (tmp_path / "ping.csv").write_text(
        "ping ms,aws/us-east-1,aws/eu-west-1,gcp/us-west1\n"
        "aws/us-east-1,0.5,70,62\naws/eu-west-1,71,,-\ngcp/us-west1,62.5,130,1\n"
    )
    done = run(
        *("network", "import", "csv", "ping.csv", "--date", "2026-11-01", "--json"),
        cwd=tmp_path,
        PLACER_HOME=str(tmp_path / "home"),
    )
    assert done.returncode == 0, done.stderr
    links = {(row["src"], row["dst"]): row["rtt_ms"] for row in json.loads(done.stdout)["links"]}
    assert links["aws/us-east-1", "aws/eu-west-1"] == 70
    assert links["gcp/us-west1", "aws/eu-west-1"] == 130
    assert links["aws/eu-west-1", "gcp/us-west1"] == 130  # measured one way only
    assert ("aws/us-east-1", "aws/us-east-1") not in links


@pytest.mark.parametrize(
    ("corner", "cell", "maps", "found"),
    [
        ("", "70 ms", (), ("rtt_ms", 70)),
        ("", "70", ("--map", "rtt_ms=cell"), ("rtt_ms", 70)),
        ("Gb/s", "1.9", (), ("gbps_many_streams", 1.9)),
        ("", "70", (), "say what the cells of a matrix are: --map rtt_ms=cell"),
    ],
)
def test_what_a_matrix_says_of_its_cells(
    run: Run,
    tmp_path: Path,
    corner: str,
    cell: str,
    maps: tuple[str, ...],
    found: tuple[str, float] | str,
) -> None:
    """A unit in the cells or the corner tells; a number alone is asked about."""
    path = tmp_path / "pairs.csv"
    path.write_text(f"{corner},aws/us-east-1,aws/eu-west-1\naws/us-east-1,N/A,{cell}\n")
    words = ("network", "import", "csv", str(path), *maps, "--date", "2026-11-01", "--dry-run")
    done = run(*words, "--json")
    if isinstance(found, str):
        assert found in done.stderr
        return
    name, figure = found
    links = {(row["src"], row["dst"]): row for row in json.loads(done.stdout)["links"]}
    assert links["aws/us-east-1", "aws/eu-west-1"][name] == figure


@pytest.mark.parametrize(("more", "left_out"), [("", "1 row"), ("us-east-1,1,72\n", "2 rows")])
def test_places_of_a_matrix_need_their_provider(
    run: Run, tmp_path: Path, more: str, left_out: str
) -> None:
    """Two providers have a us-east-1. The place that left out most rows is named, of as many the
    first.
    """
    path = tmp_path / "pairs.csv"
    path.write_text(f"ms,us-east-1,eu-west-1\nus-east-1,1,70\neu-west-1,71,1\n{more}")
    done = run("network", "import", "csv", str(path), "--date", "2026-11-01", "--dry-run")
    assert done.returncode == 7
    assert "place without its provider, as in aws/us-east-1: us-east-1" in done.stderr
    assert f": {left_out} left out: " in done.stderr
