"""``placer capacity forecast`` on the terminal and as JSON."""

from __future__ import annotations

import json

import pytest

from conftest import ROOT
from placer.cli import run

LOG = str(ROOT / "examples" / "launches.csv")


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    with pytest.raises(SystemExit) as ended:
        run(["capacity", "forecast", *words])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


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
