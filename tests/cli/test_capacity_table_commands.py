"""``placer capacity show`` and ``check`` on the terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placer.cli import run

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


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("gcp,us-west1,,H100,spot,8,8,0.9,0.8,0.95,measured,own,2999-01-20", "is in the future"),
        ("gcp,us-west1,,H100,spot,8,8,0.9,0.8,1.95,measured,own,2026-01-20", "capacity.csv:2"),
        ("gcp,us-moon1,,H100,spot,8,8,0.9,0.8,0.95,measured,own,2026-01-20", "us-moon1"),
    ],
)
def test_a_wrong_row_fails_the_check(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, row: str, message: str
) -> None:
    """Exit code 2, and what is wrong."""
    code, out, err = ran(capsys, "check", layer(tmp_path, row))
    assert (code, message in out.replace("\n", "") + err) == (2, True)
