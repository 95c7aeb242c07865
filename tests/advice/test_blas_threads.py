"""Threads of the linear algebra: one where placer begins the process, and no variable is left."""

import os
import sys

import pytest

from conftest import completed
from placer.advice.runner.blas_threads import VARIABLE
from placer.advice.runner.runner import processes

ASKED = ["recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", "--budget", "5/h"]
COUNTED = f"""
import os
import sys
from placer.cli import run
try:
    run({ASKED!r})
except SystemExit:
    print(len(os.listdir("/proc/self/task")), os.environ.get({VARIABLE!r}), file=sys.stderr)
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")


def told(**variables: str) -> list[str]:
    """Return the threads of a command line at its end, and what the variable is then."""
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    done = completed([sys.executable, "-c", COUNTED], env={**environment, **variables}, check=True)
    return done.stderr.splitlines()[-1].split()


@linux
def test_a_command_that_searches_has_one_thread_and_leaves_no_variable() -> None:
    """What it starts later, such as trainers, may have as many as it likes."""
    assert told() == ["1", "None"]


@linux
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="OpenBLAS has no more threads than cores")
def test_what_the_user_has_set_stays() -> None:
    """Two threads are asked for, and had."""
    assert told(**{VARIABLE: "2"}) == ["2", "2"]


def test_processes_of_a_runner_have_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the cores; the process that starts them keeps its environment."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with processes(VARIABLE, 1) as runner:
        assert runner.submit(os.getenv, None).result() == "1"
    assert VARIABLE not in os.environ
