"""The line that says how a search goes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, Run
from placer.cli.screen.progress import SearchProgress, _objective

ASKED = ("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", "--budget", "5/h")


def test_it_has_unit_gap_seconds_and_what_ctrl_c_does() -> None:
    """Before anything was found there is nothing to keep."""
    search = SearchProgress(
        what="searching", objective="throughput", gap="0.1%", limit="30s", keeps=True, begun=10.0
    )
    assert search.words(11.6) == "searching 2 s of 30s; Ctrl-C stops"
    search.best = 1060.2
    words = (
        "searching 3 s of 30s; best 1,060 samples/s, to be proved to 0.1%; Ctrl-C keeps the best"
    )
    assert search.words(13.0) == words
    plain = SearchProgress(what="choosing", best=12_345_678.0, begun=0.0)
    assert plain.words(1.0) == "choosing 1 s; best 12,345,678; Ctrl-C stops"


@pytest.mark.parametrize(
    ("asked", "objective"),
    [
        ({"budget": "5/h"}, "throughput"),
        ({"min_throughput": "400/s"}, "cost"),
        ({"objective": "carbon"}, "carbon"),
        ({"objective": "expected"}, ""),
        ({"objective": None, "gpu": ()}, ""),
    ],
)
def test_the_unit_is_that_of_the_objective(asked: dict[str, object], objective: str) -> None:
    """That of the request; a number alone where it is no usual one."""
    assert _objective(asked) == objective


def test_it_is_shown_on_a_terminal_only(run: Run) -> None:
    """A pseudo-terminal sees the line, which is wiped; a pipe sees nothing of it."""
    assert "Ctrl-C" not in run(*ASKED).stderr
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "placer", *ASKED],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the other end is closed
        while piece := os.read(ours, 4096):
            seen += piece
    os.close(ours)
    out, _ = done.communicate(timeout=PROCESS_TIMEOUT_S)
    assert done.returncode == 0
    assert b"searching 0 s of 30s" in seen
    assert b"Ctrl-C" in seen
    assert b"Ctrl-C" not in out
