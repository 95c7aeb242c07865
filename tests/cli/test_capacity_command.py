"""``placer capacity forecast`` on the terminal and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from conftest import ROOT
from placer.cli import run
from placer.documents.schemas import schema_text

LOG = str(ROOT / "examples" / "launches.csv")


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    with pytest.raises(SystemExit) as ended:
        run(["capacity", "forecast", *words])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_the_document_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """Each zone's chance of all machines is at most that of any; more zones never lower it."""
    code, out, _ = ran(capsys, LOG, "--machines", "8", "--ahead", "6h", "--json")
    document = json.loads(out)
    jsonschema.validate(document, json.loads(schema_text("capacity-forecast")))
    assert code == 0
    assert all(row["chance"] <= row["chance_any"] for row in document["zones"])
    together = [row["together"] for row in document["sets"]]
    assert together == sorted(together)
    assert all(0 < row["planned"] <= row["together"] for row in document["sets"])
    assert any(row["planned"] < row["together"] for row in document["sets"])


def test_more_machines_than_one_zone_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """20 of 16: no zone has them alone, two together may; no column promises what was not seen."""
    code, out, _ = ran(capsys, LOG, "--machines", "20")
    assert code == 0
    assert "all 20" not in out
    assert "20 in all" in out
    document = json.loads(ran(capsys, LOG, "--machines", "20", "--json")[1])
    assert {row["chance"] for row in document["zones"]} == {None}
    assert {row["one_zone"] for row in document["sets"]} == {0.0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((LOG, "--machines", "49"), "49 machines, where 3 zones were asked for 16 each"),
        ((LOG, "--machines", "4", "--ahead", "0h"), "0h"),
        ((LOG, "--machines", "4", "--ahead", "soon"), "soon"),
        ((LOG, "--machines", "4", "--asked", "3"), "16 machines were launched where 3"),
        (("nowhere.csv", "--machines", "4"), "nowhere.csv"),
        ((LOG, "--machines", "0"), "0"),
    ],
)
def test_wrong_words_are_named(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    """One line and exit code 2."""
    code, _, err = ran(capsys, *words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_chances_are_never_certain(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A zone that always had all machines reads over 99 % at most."""
    lines = [f"2026-11-01T{hour:02d}:00Z,4,0" for hour in range(24)]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["utc,a,b", *lines]) + "\n", encoding="utf-8")
    _, out, _ = ran(capsys, str(log), "--machines", "4", "--ahead", "10min")
    assert "100 %" not in out.split("zones together")[1]
