"""``placer capacity``: show, check, forecast and replay on the terminal, as JSON and in files."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from placer.cli import run
from placer.errors import PlacerError
from placer.interface.replay import priced_market

TRACE = str(ROOT / "examples" / "capacity-trace.csv")
LOG = str(ROOT / "examples" / "launches.csv")
JOB = ("--machines", "8", "--work", "12h", "--slack", "50%", "--every", "1d")
HEAD = "utc,gcp/us-central1-a,gcp/us-east4-a"
HEADER = (
    "provider,region,zone,device,market,machines_asked,machines,share,share_low,share_high,"
    "basis,source,as_of\n"
)


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    with pytest.raises(SystemExit) as ended:
        run(["capacity", *words])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def layer(folder: Path, row: str) -> str:
    """Write a capacity.csv with one row; returns its path."""
    path = folder / "capacity.csv"
    path.write_text(HEADER + row + "\n", encoding="utf-8")
    return str(path)


def test_a_place_has_its_own_rows_and_those_of_its_classes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A row of us-west1-a is shown for us-west1 and not for us-central1."""
    path = layer(
        tmp_path, "gcp,us-west1,us-west1-a,H100,spot,8,8,0.9,0.8,0.95,measured,own,2026-11-20"
    )
    assert "us-west1-a" in ran(capsys, "show", "--catalog", path, "--in", "gcp/us-west1")[1]
    assert "us-west1-a" not in ran(capsys, "show", "--catalog", path, "--in", "gcp/us-central1")[1]


def test_a_check_counts_what_is_known_of_a_book(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One kind of spot machine is measured in its zone; the row is old by now."""
    path = layer(
        tmp_path, "gcp,us-west1,us-west1-a,H100,spot,8,8,0.9,0.8,0.95,measured,own,2026-01-20"
    )
    code, out, _ = ran(capsys, "check", path)
    assert code == 0
    assert "over 30 days" in out
    document = json.loads(ran(capsys, "check", path, "--json")[1])
    assert document["own_rows"] == 1
    assert document["spot_machines"]["zone measured"] == 1
    assert document["spot_machines"]["class assumed"] > 100
    assert [finding["level"] for finding in document["findings"]] == ["warning"]


def test_more_machines_than_one_zone_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """20 of 16: no zone has them alone, two together may; no column promises what was not seen."""
    code, out, _ = ran(capsys, "forecast", LOG, "--machines", "20")
    assert code == 0
    assert "all 20" not in out
    assert "20 in all" in out
    document = json.loads(ran(capsys, "forecast", LOG, "--machines", "20", "--json")[1])
    assert {row["chance"] for row in document["zones"]} == {None}
    assert {row["one_zone"] for row in document["sets"]} == {0.0}
    assert ran(capsys, "forecast", "nowhere.csv", "--machines", "4")[0] == 2


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


@pytest.mark.parametrize(
    ("table", "on_demand", "usd", "zone"),
    [
        ("8,10 5,9", None, 9, "gcp/us-east4-a"),
        ("8,10 5,9", 7.0, 7, "gcp/us-east4-a"),
        ("8, 5,", 7.0, 7, "gcp/us-central1"),
    ],
)
def test_a_given_price_keeps_the_zone_of_the_table(
    table: str, on_demand: float | None, usd: float, zone: str, tmp_path: Path
) -> None:
    """On-demand machines are in the zone where the table has them cheapest, or else in the first;
    a table without a price of them needs one from elsewhere.
    """
    zones = ["gcp/us-central1", "gcp/us-east4-a"]
    rows = [f"{name},{row}" for name, row in zip(zones, table.split(), strict=True)]
    prices = written(tmp_path, "prices.csv", "zone,usd_per_hour,on_demand_usd_per_hour", *rows)
    words: Any = {"prices": prices, "on_demand": on_demand, "egress": 0.0}
    got, _ = priced_market(zones, None, None, words, ())
    assert (got.on_demand_usd_per_hour, got.on_demand_zone) == (usd, zone)
    if "9" not in table:
        words["on_demand"] = None
        with pytest.raises(PlacerError, match="no price of on-demand machines"):
            priced_market(zones, None, None, words, ())


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
    code, out, err = ran(capsys, "replay", *words, "--json")
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    return document
