"""`placer network check`: the model beside measured links, and what it says of bad grids."""

from pathlib import Path

import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.market.network.measured_links import ALL, SAME_REGION, check_network

HEADER = "src,dst,gbps_one_stream,gbps_many_streams,gbps_low,gbps_high,rtt_ms,basis,source,as_of"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No books of the user's own."""
    monkeypatch.setenv("PLACER_HOME", str(tmp_path / "home"))


def grid(tmp_path: Path, *rows: str) -> str:
    """Write a grid; each row is ``src,dst,one,many,rtt``, measured unless a sixth cell says
    otherwise.
    """
    lines = [HEADER]
    for row in rows:
        src, dst, one, many, rtt, *basis = row.split(",")
        kind = basis[0] if basis else "measured"
        lines.append(f"{src},{dst},{one},{many},,,{rtt},{kind},iperf3,2026-11-01")
    path = tmp_path / "grid.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_book_of_erben_is_compared_with_the_model_not_with_itself() -> None:
    """28 links between regions and 8 inside, whose streams are as the model's caps; no pair is
    exact. The inside of both sites has no row in the default book's model.
    """
    found = check_network(["erben-2023"], "default")
    groups = {(group.figure, group.group): group for group in found.errors}
    assert groups["rtt", ALL].links == 28
    assert groups["one stream", SAME_REGION].links == 8
    assert 0 < groups["rtt", ALL].median_error <= 0.1
    assert groups["one stream", "AS-EU"].worst_error == pytest.approx(0.14, abs=0.01)
    assert (found.rows, found.suspects, found.unknown_places) == (38, (), {})


def test_each_figure_counts_where_it_was_measured(tmp_path: Path) -> None:
    """One row with a round-trip time, one with many streams; AWS sends 4.8 Gb/s where 4 were
    measured: 20 % above.
    """
    rows = ("aws/us-east-1,aws/eu-west-2,,,80", "aws/us-east-1,gcp/us-central1,,4.0,")
    found = check_network([grid(tmp_path, *rows)], "default")
    links = {(group.figure, group.group): group.links for group in found.errors}
    assert links == {
        ("rtt", "EU-NA"): 1,
        ("rtt", ALL): 1,
        ("many streams", "NA-NA"): 1,
        ("many streams", ALL): 1,
    }
    assert found.errors[-1].worst_error == pytest.approx(0.2)


def test_rows_faster_than_light_are_suspects_and_no_errors(tmp_path: Path) -> None:
    """Virginia to London are 5,900 km: 59 ms at least, so 20 ms is a slip, with its line."""
    rows = ("aws/us-east-1,aws/eu-west-2,,,20", "aws/us-east-1,aws/eu-central-1,,,90")
    found = check_network([grid(tmp_path, *rows)], "default")
    (suspect,) = found.suspects
    assert suspect.where.endswith("grid.csv:2")
    assert suspect.light_ms == pytest.approx(59, abs=1)
    assert [group.links for group in found.errors] == [1, 1]


def test_unknown_places_estimated_rows_and_empty_rows_are_counted(tmp_path: Path) -> None:
    """Three rows name a moon base, one is an estimate, one has no figure."""
    moon = "moon/base"
    rows = (
        f"{moon},aws/us-east-1,,,2600",
        f"aws/us-east-1,{moon},,,2600",
        f"{moon},{moon},,,1",
        "aws/us-east-1,aws/us-west-2,,,60,estimated",
        "aws/us-east-1,aws/us-east-2,,,",
        "aws/us-east-1,aws/eu-west-2,,,80",
    )
    found = check_network([grid(tmp_path, *rows)], "default")
    assert (found.unknown_places, found.estimated_rows, found.empty_rows) == ({moon: 3}, 1, 1)


def test_a_grid_may_bring_its_regions(tmp_path: Path) -> None:
    """A folder with regions.csv beside links.csv makes an unknown site known."""
    grid(tmp_path, "onprem/oslo,aws/eu-north-1,,,12")
    (tmp_path / "grid.csv").rename(tmp_path / "links.csv")
    head = (
        "provider,region,display_name,city,country,continent,egress_zone,"
        "latitude_deg,longitude_deg,source,as_of"
    )
    (tmp_path / "regions.csv").write_text(
        f"{head}\nonprem,oslo,Oslo,Oslo,NO,EU,EU,59.9,10.8,mine,2026-11-01\n", encoding="utf-8"
    )
    found = check_network([str(tmp_path)], "default")
    assert found.unknown_places == {}
    assert found.errors[0].group == "EU-EU"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), "no measured links"),
        (
            ("moon/base,aws/us-east-1,,,2600",),
            "none of 1 rows can be compared: no book knows moon/base",
        ),
        (("aws/us-east-1,aws/us-west-2,,,60,estimated",), "none of 1 rows can be compared"),
        (("aws/us-east-1,aws/us-west-2,,,",), "none of 1 rows can be compared"),
        (("aws/us-east-1,aws/us-west-2,,,nan",), "rtt_ms 'nan' is not a finite number"),
        (("aws/us-east-1,aws/us-west-2,,,0",), "rtt_ms '0' is not above 0"),
        (("aws/us-east-1,aws/us-west-2,fast,,",), "gbps_one_stream 'fast' is not a number"),
    ],
)
def test_grids_without_use_are_errors(tmp_path: Path, rows: tuple[str, ...], words: str) -> None:
    """Each message names the grid or the line and what is wrong."""
    with pytest.raises(PlacerError, match=r"grid") as caught:
        check_network([grid(tmp_path, *rows)], "default")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no measured links"),
        (("nowhere",), "nowhere"),
        (("phalak-2023",), "has no links.csv"),
        (("./missing.csv",), "missing.csv"),
    ],
)
def test_bad_words_give_exit_code_2(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    """The default book has no measured links; names and files that are not there; never a
    traceback.
    """
    done = run("network", "check", *arguments, PLACER_HOME=str(tmp_path))
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
