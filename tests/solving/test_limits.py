"""Limits of requests: memory, a token, Ctrl-C; what is answered, and that its bound is valid."""

import json
import os
import signal
import sys
import threading
from typing import Any

import jsonschema
import pytest

import placer
from conftest import Run
from instances import two_places
from placer.documents.schemas import schema_text
from placer.solving import allowance
from placer.solving.answer import Status
from placer.solving.solve import solve

WORDS: dict[str, Any] = {"catalog": "erben-2023", "gpu": ["T4", "A10"], "budget": "5/h"}
QUESTION = ("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", "--gpu", "T4,A10")
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads resident memory in /proc")


@needs_proc
def test_memory_that_is_used_up_gives_a_status_of_its_own() -> None:
    """One byte is less than any process holds; the equal machines that are still evaluated answer,
    and the document keeps its schema.
    """
    result = placer.recommend("roberta-xlm", memory_limit=1, **WORDS)
    assert result.status is Status.MEMORY_LIMIT
    jsonschema.validate(result.to_dict(), json.loads(schema_text("result")))


@needs_proc
def test_a_memory_limit_leaves_a_valid_bound() -> None:
    """A search that memory ends at its 10th look says no more than is true: 0.1 % above the proved
    value at most is what the whole search says, the stopped one at least that value.
    """
    problem = two_places(max_workers=12, budget_usd_per_hour=9.0)
    proved = solve(problem, "exact")
    looks = 0
    real = allowance.Allowance.check

    def check(this: allowance.Allowance) -> None:
        nonlocal looks
        looks += 1
        if looks == 10 and not isinstance(this, allowance.Closing):
            this.stop(allowance.Reason.MEMORY)
        real(this)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allowance.Allowance, "check", check)
        stopped = solve(problem, "exact")
    assert proved.value is not None
    assert stopped.status is Status.MEMORY_LIMIT
    assert stopped.bound is None or stopped.bound >= proved.value * (1 - 1e-9)


def test_a_token_works_from_another_thread() -> None:
    """It is set when the first better answer is heard: the search ends with that answer or a
    better one, and does not prove it.
    """
    cancel, heard = threading.Event(), []

    def hear(value: float) -> None:
        heard.append(value)
        thread = threading.Thread(target=cancel.set)
        thread.start()
        thread.join()

    result = placer.recommend(
        "roberta-xlm", cancel=cancel, on_better=hear, alternatives=False, **WORDS
    )
    assert result.interrupted
    assert result.value is not None
    assert result.value >= heard[0]


def test_ctrl_c_in_the_middle_leaves_an_answer() -> None:
    """SIGINT when the first answer is heard: no exception, and the answer has a bound."""
    result = placer.recommend(
        "roberta-xlm", on_better=lambda value: os.kill(os.getpid(), signal.SIGINT), **WORDS
    )
    assert result.interrupted
    assert result.value is not None
    assert result.bound is not None
    assert result.bound >= result.value


@pytest.mark.parametrize("value", ["0", "-1", "lots", "1", "", "1e999GB"])
def test_the_command_line_refuses_a_wrong_memory_limit_in_one_line(run: Run, value: str) -> None:
    """Exit code 2, one line and a tip."""
    done = run(*QUESTION, "--budget", "5/h", f"--memory-limit={value}")
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) == 2
