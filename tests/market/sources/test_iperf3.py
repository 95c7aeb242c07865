"""Runs of iperf3 become links; the fixtures have the shape of iperf 3.9, the figures are made
up.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.market.sources.links.imported import import_links
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.reading.mapping import shipped_mapping

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
    """-P 1 arrived with 250 Mb/s, -P 16 with 3.2 Gb/s; the least round-trip time is 66,000 us; 1
    August 2021.
    """
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


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("start__test_start__protocol", "UDP", "is a run over UDP"),
        ("end__sum_received__bits_per_second", 0, "throughput 0 bits/s is not above 0"),
        ("end__sum_received__bits_per_second", float("nan"), "NaN is not a number"),
        ("end__sum_received__bits_per_second", "fast", "'fast' is not a number"),
        ("end__sum_received__bits_per_second", None, "neither a throughput nor"),
        ("start__timestamp", {}, "give the day with --date"),
        ("start__timestamp__timesecs", 10**30, "cannot be found"),
        ("start__timestamp__timesecs", 4_000_000_000, "measured on 2096-10-02, which is in the f"),
        ("start__timestamp__timesecs", 0, "measured on 1970-01-01"),
        ("start__test_start__num_streams", -4, "'-4' is not a number of streams from 1"),
    ],
)
def test_wrong_figures_are_refused(
    default: Catalog, tmp_path: Path, path: str, value: object, words: str
) -> None:
    """UDP, nothing that arrived, no date or one of a clock that is wrong, which would make a link
    the newest or the oldest of its book.
    """
    with pytest.raises(PlacerError, match=words):
        read(default, changed(tmp_path, **{path: value}))


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
