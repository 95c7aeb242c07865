"""The line that says how a search goes."""

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress

import click
import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, Run
from placer.cli.screen.progress import SearchProgress, nothing_kept

ASKED = ("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", "--budget", "5/h")


def test_ctrl_c_is_nobodys_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """It ends a command also while a file is looked for, where errors mean that there is none."""

    def look() -> None:
        with nothing_kept("it is a test"), suppress(Exception):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(click.exceptions.Exit) as ended:
        look()
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "stopped: nothing is kept, because it is a test\n"


def test_it_has_unit_gap_seconds_and_what_ctrl_c_does() -> None:
    """Before anything was found there is nothing to keep."""
    search = SearchProgress(
        what="searching", objective="throughput", gap="0.1%", limit="30s", keeps=True, begun=10.0
    )
    assert search.words(11.6) == "searching 2 s of 30s; Ctrl-C stops"
    search.heard(1060.2)
    words = "searching 3 s of 30s; best 1,060 samples/s, {}; Ctrl-C keeps the best"
    assert search.words(13.0) == words.format("no bound yet (0.1% asked)")
    search.proved(1113.2)
    assert search.words(13.0) == words.format("gap 5 % (0.1% asked)")
    search.proved(1e9)  # a first rough bound says nothing
    assert search.words(13.0) == words.format("no bound yet (0.1% asked)")
    search.proved(None)  # another search begins, of which nothing is known
    assert search.words(13.0) == "searching 3 s of 30s; Ctrl-C stops"
    plain = SearchProgress(what="choosing", best=12_345_678.0, begun=0.0)
    assert plain.words(1.0) == "choosing 1 s; best 12,345,678; Ctrl-C stops"


def on_terminal(*asked: str, until: bytes = b"") -> tuple[bytes, str, int]:
    """Run a command on a pseudo-terminal, press Ctrl-C when it shows something; return what it
    showed, its output and its exit code.
    """
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "placer", *asked],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    seen, pressed = b"", not until
    with suppress(OSError):  # the other end is closed
        while piece := os.read(ours, 4096):
            seen += piece
            if not pressed and until in seen:
                done.send_signal(signal.SIGINT)
                pressed = True
    os.close(ours)
    out, _ = done.communicate(timeout=PROCESS_TIMEOUT_S)
    return seen, out, done.returncode


def test_it_is_shown_on_a_terminal_only(run: Run) -> None:
    """A pseudo-terminal sees the line, which is wiped; a pipe sees nothing of it."""
    assert "Ctrl-C" not in run(*ASKED).stderr
    seen, out, code = on_terminal(*ASKED)
    assert code == 0
    assert b"searching 0 s of 30s" in seen
    assert b"Ctrl-C" in seen
    assert "Ctrl-C" not in out


def test_it_shows_the_gap_that_is_reached_and_ctrl_c_keeps_the_best() -> None:
    """The gap of this moment beside the one that was asked for; then the answer is printed."""
    hard = "--budget 20/h --gpu T4,A10 --exchange asgd-ga --local-steps 1..16 --time-limit 60s"
    seen, out, code = on_terminal(*ASKED, *hard.split(), until=b" % (0.1% asked)")
    assert re.search(rb"best [\d,.]+ samples/s, gap [\d.]+ % \(0.1% asked\)", seen)
    assert b"Ctrl-C keeps the best" in seen
    assert code == 0
    assert "not proved" in out


@pytest.mark.parametrize(
    ("asked", "until"),
    [
        ("robust --model roberta-xlm --budget 5/h --worlds 10000", b"looking at other worlds"),
        ("reproduce erben", b"recomputing the paper"),
    ],
)
def test_ctrl_c_says_that_nothing_is_kept(asked: str, until: bytes) -> None:
    """Where there is no answer before the last step; the exit code is that of `sweep`."""
    seen, out, code = on_terminal(*asked.split(), until=until)
    assert code == 130
    assert b"stopped: nothing is kept, because" in seen
    assert out == ""
