"""Limits of a request: seconds, memory and the caller's patience."""

import importlib
import os
import signal
import sys
import threading
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conforming import validate

import placer
from instances import two_places
from placer.interface import advisor
from placer.solving import allowance
from placer.solving.allowance import OutOfTimeError, Reason
from placer.solving.answer import Status
from placer.solving.solve import solve


def test_the_clock_ends_a_request() -> None:
    """No seconds are left from the start, and the reason stays."""
    with allowance.opened(-1.0) as request:
        with pytest.raises(OutOfTimeError) as error:
            allowance.check()
        assert (error.value.reason, request.spent) == (Reason.TIME, Reason.TIME)
        assert request.seconds_left == 0


def test_a_part_ends_alone_and_with_the_whole() -> None:
    """A part without seconds leaves the whole open; a part of a whole without seconds has none. A
    user who interrupts a part wants no more of the whole.
    """
    with allowance.opened(1000.0) as whole:
        with allowance.opened(-1.0) as part:
            assert part.spent is Reason.TIME
        assert whole.spent is None
    with allowance.opened(-1.0), allowance.opened(1000.0) as part:
        assert (part.spent, part.seconds_left) == (Reason.TIME, 0.0)
    with allowance.opened(1000.0) as whole, allowance.opened(500.0) as part:
        part.interrupt()
        assert (whole.spent, part.spent) == (Reason.CANCELLED, Reason.CANCELLED)


def test_a_request_belongs_to_its_thread() -> None:
    """Another thread that runs beside a spent request is not ended by it."""
    seen: list[Reason | None] = []
    with allowance.opened(-1.0):
        thread = threading.Thread(target=lambda: seen.append(allowance.current().spent))
        thread.start()
        thread.join()
    assert seen == [None]


def test_memory_ends_a_request() -> None:
    """A limit of two bytes is exceeded by any process, where the system tells its memory; an
    array of 2**60 bytes never fits, wherever this runs. Of a limit a search may fill nine tenths.
    """
    with allowance.opened(memory_limit_bytes=2) as request:
        assert request.most_bytes == 1.8
        if allowance.resident_bytes():
            assert request.spent is Reason.MEMORY
        with pytest.raises(OutOfTimeError):
            allowance.reserve(2.0**60)
        assert request.spent is Reason.MEMORY


def test_an_array_may_take_a_quarter_of_the_room() -> None:
    """Of 400 MB that are left one array may take 100 MB, half of them where it asks for a half, and
    never more than it wants; nothing is left of one byte.
    """
    assert allowance.room_bytes(5.0) == 5.0
    with allowance.opened() as request:
        request.most_bytes = allowance.resident_bytes() + 4e8
        assert allowance.room_bytes(1e12) == pytest.approx(1e8, rel=0.1)
        assert allowance.room_bytes(1e12, 0.5) == pytest.approx(2e8, rel=0.1)
        assert allowance.room_bytes(5.0) == 5.0
        allowance.reserve(2e8)
        with allowance.opened(memory_limit_bytes=1) as part:
            assert part.room_bytes < 1
        request.most_bytes = inf
        assert request.room_bytes == inf


def test_sums_of_places_ask_for_their_memory_first() -> None:
    """1,000 rows of up to 99 machines of 10 places take 8 MB, twice: more than any process has left
    of one byte.
    """
    best_sums: Any = importlib.import_module("placer.solvers._market.best_sums")
    values, machines, place = np.ones((1000, 10)), np.full(10, 99), np.arange(10)
    assert best_sums.place_sums(values, machines, place, 10, 99).nbytes == 8_000_000
    with allowance.opened(memory_limit_bytes=1) as request:
        with pytest.raises(OutOfTimeError):
            best_sums.place_sums(values, machines, place, 10, 99)
        assert request.reason is Reason.MEMORY


def test_closing_counts_from_the_moment_of_a_cancellation() -> None:
    """The deadline is far, but the caller has cancelled: 0.5 s are left, not 1000 s."""
    cancel = threading.Event()
    with allowance.opened(1000.0, cancel=cancel), allowance.closing(0.5) as end:
        end.check()
        assert end.seconds_left > 900
        cancel.set()
        assert end.spent is None
        assert 0 < end.seconds_left <= 0.5


def test_the_first_ctrl_c_ends_the_request_and_the_second_raises() -> None:
    """SIGINT to this process, twice; afterwards Python's own handler is back. A handler that a
    program has set stays, in a request too.
    """
    with allowance.opened() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.spent is Reason.CANCELLED
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with allowance.opened() as request:
            os.kill(os.getpid(), signal.SIGINT)
            assert request.spent is None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert heard == [signal.SIGINT]


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
    validate(result.to_dict(), "result")


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


@pytest.mark.parametrize("after", [0, 1, 2])
def test_what_is_told_is_had(after: int) -> None:
    """A search over two regions, whose best unlike machines are no answer, is stopped at once, or
    at the first or second value that it tells: it answers, and with no less than it told.
    """
    cancel, told = threading.Event(), list[float]()

    def hear(value: float) -> None:
        told.append(value)
        if len(told) >= after:
            cancel.set()

    if not after:
        cancel.set()
    result = placer.recommend(
        "roberta-xlm",
        budget="50/h",
        regions="2..",
        alternatives=False,
        cancel=cancel,
        on_better=hear,
    )
    assert result.value is not None
    assert not told or result.value >= max(told)


def test_ctrl_c_in_the_middle_leaves_an_answer() -> None:
    """SIGINT when the first answer is heard: no exception, and the answer has a bound."""
    result = placer.recommend(
        "roberta-xlm", on_better=lambda value: os.kill(os.getpid(), signal.SIGINT), **WORDS
    )
    assert result.interrupted
    assert result.value is not None
    assert result.bound is not None
    assert result.bound >= result.value


@pytest.mark.parametrize(("limit_s", "left_s"), [(60.0, 40.0), (10.0, 0.1)])
def test_reading_a_question_takes_its_time_off_the_limit(
    monkeypatch: pytest.MonkeyPatch, limit_s: float, left_s: float
) -> None:
    """20 s by the clock; where they are more than the limit, a tenth of a second is left, whatever
    its searches are given themselves.
    """
    given, opened, clock = list[float](), allowance.opened, iter((0.0, 20.0))

    def noted(seconds: float, *more: Any) -> Any:
        given.append(seconds)
        return opened(seconds, *more)

    monkeypatch.setattr(allowance, "opened", noted)
    monkeypatch.setattr(advisor, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023", time_limit=limit_s)
    assert given[0] == left_s
