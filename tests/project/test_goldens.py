"""Goldens are compared, and a difference is noticed and can be accepted."""

import os
import subprocess
import sys
from pathlib import Path

from goldens.__main__ import CPU, FROZEN, accept, chosen, compared, frozen
from goldens.commands import laid_out
from goldens.outputs import goldens

from conftest import ROOT


def test_all_that_is_made_is_frozen() -> None:
    """No file is left of what is not made any more, and none is missing."""
    assert {*frozen(FROZEN)} == {*goldens(), CPU}


def test_a_planted_difference_is_noticed(tmp_path: Path) -> None:
    """One word of the signatures was another one: exit code 1, and the line that differs."""
    text = (FROZEN / "signatures.txt").read_text(encoding="utf-8")
    line = "    start: 'Placement | None' = None"
    (tmp_path / "signatures.txt").write_text(text.replace(line, "    begin: 'Placement'", 1))
    words = ["signatures", "--folder", str(tmp_path), "--processes", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "goldens", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "--- frozen/signatures.txt\n+++ now/signatures.txt\n" in done.stdout
    assert f"\n-    begin: 'Placement'\n+{line}\n" in done.stdout
    assert "1 goldens, 1 differ" in done.stdout


def test_what_is_accepted_does_not_differ(tmp_path: Path) -> None:
    """New, changed and former outputs are all named; accepted, none is."""
    (tmp_path / "former.txt").write_text("x\n")
    (tmp_path / "same.txt").write_text("x\n")
    now = {"screens/new.txt": "x\n", "same.txt": "x\n"}
    found = compared(frozen(tmp_path), now)
    assert [*found] == ["former.txt", "screens/new.txt"]
    accept(tmp_path, [*found], now)
    assert frozen(tmp_path) == now


def test_names_are_chosen_by_their_beginning() -> None:
    """As in `make goldens NAMES=screens`."""
    assert chosen(["screens/a", "help/b"], ["screens"]) == ["screens/a"]
    assert chosen(["screens/a", "help/b"], []) == ["screens/a", "help/b"]


def test_figures_have_nine_digits() -> None:
    """The tenth depends on the order of a sum; minus zero is zero."""
    assert laid_out({"b": [1.0000000001, -0.0], "a": 3}) == '{"a": 3, "b": [1.0, 0.0]}\n'
