"""Logs of launches: what is read, and what is refused with the line that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT
from placer.errors import PlacerError
from placer.market.launch_log import read_launch_log, region_of


def log(folder: Path, text: str) -> Path:
    """Write a log."""
    path = folder / "launches.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_cells_and_times_are_read(tmp_path: Path) -> None:
    """An empty cell is nobody's question; hours count from the first line in any time zone."""
    text = "utc,us-east1-b,us-east1-c\n2026-11-01T10:00Z,4,\n2026-11-01T13:30+01:00,0,8\n"
    known = read_launch_log(log(tmp_path, text))
    assert known.launched.tolist() == [[4, -1], [0, 8]]
    assert known.hours.tolist() == [0.0, 2.5]
    assert (known.most, known.regions) == (8, ("us-east1", "us-east1"))
    assert known.usual.tolist() == [1 / 3, 0, 0, 0, 1 / 3, 0, 0, 0, 1 / 3]
    assert read_launch_log(tmp_path / "launches.csv", 16).most == 16


def test_the_example_is_a_log() -> None:
    """72 hours of three zones."""
    known = read_launch_log(ROOT / "examples" / "launches.csv")
    assert known.launched.shape == (72, 3)
    assert float(known.hours[-1]) == 71.0


HEAD = "utc,a,b\n"
LINE = "2026-11-01T10:00Z,1,2\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no log of launches"),
        ("time,a\n" + LINE, "no log of launches"),
        ("utc,a,a\n" + LINE, "no log of launches"),
        (HEAD, "has no launches"),
        (HEAD + "2026-11-01T10:00Z,,\n", "every cell is empty"),
        (HEAD + "2026-11-01T10:00Z,1\n", ":2: 2 columns where the header has 3"),
        (HEAD + "yesterday,1,2\n", ":2:utc: 'yesterday' is not a time"),
        (HEAD + LINE + LINE, ":3: '2026-11-01T10:00Z' is not later"),
        (HEAD + "2026-11-01T10:00Z,1,-1\n", ":2:b: '-1' is not a number of machines"),
        (HEAD + "2026-11-01T10:00Z,1,nan\n", "'nan' is not a number of machines"),
        (HEAD + "2026-11-01T10:00Z,1,1.5\n", "'1.5' is not a number of machines"),
        (HEAD + "2026-11-01T10:00Z,1,1e300\n", "'1e300' is not a number of machines"),
        (HEAD + '2026-11-01T10:00Z,1,"2\n', "not valid CSV"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    """One line with file, line and column."""
    with pytest.raises(PlacerError) as error:
        read_launch_log(log(tmp_path, text))
    assert words in error.value.message


def test_fewer_asked_than_launched_is_refused(tmp_path: Path) -> None:
    """Two machines cannot be launched where one was asked for."""
    with pytest.raises(PlacerError, match="2 machines were launched where 1"):
        read_launch_log(log(tmp_path, HEAD + LINE), 1)


@pytest.mark.parametrize(
    ("zone", "region"),
    [
        ("europe-west4-a", "europe-west4"),
        ("us-east-1a", "us-east-1"),
        ("westeurope-3", "westeurope"),
        ("gcp/us-central1-f", "gcp/us-central1"),
        ("us-east-1", "us-east-1"),
        ("anywhere", "anywhere"),
    ],
)
def test_regions_by_name(zone: str, region: str) -> None:
    """Names of Google, AWS and Azure; a region is its own."""
    assert region_of(zone) == region
