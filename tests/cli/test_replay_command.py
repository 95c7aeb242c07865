"""``placer capacity replay`` on the terminal, as JSON, in a file, and from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from placer.cli import run

TRACE = str(ROOT / "examples" / "capacity-trace.csv")
JOB = ("--machines", "8", "--work", "12h", "--slack", "50%", "--every", "1d")
HEAD = "utc,gcp/us-central1-a,gcp/us-east4-a"


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    with pytest.raises(SystemExit) as ended:
        run(["capacity", "replay", *words])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def written(tmp_path: Path, name: str, *lines: str) -> str:
    """A file with some lines."""
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def short_trace(tmp_path: Path) -> str:
    """Four machines in the first zone for six hours, then in the second one."""
    counts = ["4,0"] * 6 + ["0,4"] * 7
    rows = [f"2026-11-01T{hour:02d}:00Z,{count}" for hour, count in enumerate(counts)]
    return written(tmp_path, "trace.csv", HEAD, *rows)


def test_prices_of_a_table_and_egress(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The first zone for 6 h at 1 USD, 0.2 h of them a start: 24 USD. Then the second one at 2 USD:
    a start and 2.2 h of work, 19.2 USD, and a checkpoint of 10 GiB at 0.05 USD. From the one start
    that the trace has room for.
    """
    prices = written(
        tmp_path, "prices.csv", "zone,usd_per_hour,on_demand_usd_per_hour",
        "gcp/us-central1,1,10", "gcp/us-east4-a,2,",
    )  # fmt: skip
    document = replayed(
        capsys, short_trace(tmp_path), "--prices", prices, "--egress", "0.05", "--checkpoint",
        "10GiB", "--machines", "4", "--work", "8h", "--deadline", "12h", "--policy", "migrate",
        "--every", "12h",
    )  # fmt: skip
    (row,) = document["policies"]
    assert row["usd"] == pytest.approx(24 + 19.2 + 0.5)
    assert row["checkpoint_usd"] == pytest.approx(0.5)
    assert (row["moves"], row["machines_lost"]) == (1, 4)
    assert document["sensitivity"] == []


def test_missing_cells_are_carried_forward(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An hour without a line and a cell without a count, of five hours and two zones: the share of
    cells that nobody filled is 3 of 10.
    """
    rows = [f"2026-11-01T0{hour}:00Z,4,{'' if hour == 1 else 2}" for hour in (0, 1, 2, 4)]
    trace = written(tmp_path, "trace.csv", HEAD, *rows)
    document = replayed(
        capsys, trace, "--gpu", "H100", "--machines", "4", "--work", "2h", "--deadline", "4h"
    )
    assert document["trace"]["ticks"] == 5
    assert document["trace"]["carried"] == pytest.approx(0.3)


def replayed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The document of a replay that works."""
    code, out, err = ran(capsys, *words, "--json")
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--machines", "8", "--work", "12h"), "neither of deadline and slack"),
        ((*JOB, "--deadline", "20h", "--gpu", "H100"), "both of deadline and slack"),
        (JOB, "no prices"),
        ((*JOB, "--gpu", "H1"), "no spot H1"),
        ((*JOB, "--gpu", "H100", "--policy", "spam"), "unknown policy 'spam'"),
        ((*JOB, "--gpu", "H100", "--asked", "3"), "where 3 are said to have been asked for"),
        ((*JOB, "--gpu", "H100", "--tick", "5s"), "ticks of 5 s"),
        ((*JOB, "--gpu", "H100", "--efficiency", "0"), "efficiency 0"),
        ((*JOB, "--prices", "nowhere.csv"), "nowhere.csv"),
        (("--machines", "8", "--work", "12h", "--slack", "1%", "--gpu", "H100"), "do not fit"),
        (("--machines", "8", "--work", "9d", "--slack", "9%", "--gpu", "H100"), "a trace of 120 h"),
        (("--machines", "0", "--work", "9d", "--slack", "9%"), "0"),
    ],
)
def test_wrong_words_are_named(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    """One line, a tip, and exit code 2, or 5 where the catalog lacks a price."""
    code, out, err = ran(capsys, TRACE, *words)
    assert code == (5 if "no spot" in message else 2)
    assert message in err
    assert out == ""


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("zone,usd_per_hour", "gcp/us-central1-a,1"), "no price for zone 'gcp/us-east4-a'"),
        (("zone,usd_per_hour", "gcp/us-central1-a,-1"), "prices.csv:2:usd_per_hour: '-1'"),
        (("zone,usd_per_hour", "a,1", "a,2"), "prices.csv:3: 'a' appears twice"),
        (("zone,usd_per_hour", "gcp/us-central1,1,2"), "prices.csv:2: 3 columns"),
        (("zone,usd_per_hour", "gcp/us-central1,1", "gcp/us-east4,1"), "no price of on-demand"),
        (("where,usd", "a,1"), "no file of prices"),
        ((HEAD, "2026-11-02T00:00Z,1,1"), "has no price of 2026-11-01T00:00Z"),
        ((HEAD, "soon,1,1"), "prices.csv:2:utc: 'soon' is not a time"),
        ((HEAD, "2026-11-01T00:00Z,1,x"), "prices.csv:2:gcp/us-east4-a: 'x'"),
        (("utc,gcp/us-central1-a", "2026-11-01T00:00Z,1"), "no column for zone 'gcp/us-east4-a'"),
        (
            (HEAD, "2026-11-01T00:00Z,1,1", "2026-10-31T00:00Z,1,1"),
            "prices.csv:3: not later than the line before",
        ),
    ],
)
def test_wrong_prices_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    """The file, its line and its column."""
    prices = written(tmp_path, "prices.csv", *lines)
    words = ("--machines", "4", "--work", "4h", "--deadline", "8h", "--prices", prices)
    code, _, err = ran(capsys, short_trace(tmp_path), *words)
    assert code == 2
    assert message in err
