"""The allowance of a request: clock, memory, caller, and the seconds after it."""

import importlib
import os
import signal
import threading

import numpy as np
import pytest

from placer.solving import allowance
from placer.solving.allowance import OutOfTimeError, Reason


def test_the_clock_ends_a_request() -> None:
    """No seconds are left from the start, and the reason stays."""
    with allowance.opened(-1.0) as request:
        with pytest.raises(OutOfTimeError) as error:
            allowance.check()
        assert (error.value.reason, request.spent) == (Reason.TIME, Reason.TIME)
        assert request.seconds_left == 0


def test_a_part_ends_alone_and_with_the_whole() -> None:
    """A part without seconds leaves the whole open; a part of a whole without seconds has none."""
    with allowance.opened(1000.0) as whole:
        with allowance.opened(-1.0) as part:
            assert part.spent is Reason.TIME
        assert whole.spent is None
    with allowance.opened(-1.0), allowance.opened(1000.0) as part:
        assert (part.spent, part.seconds_left) == (Reason.TIME, 0.0)


def test_a_request_belongs_to_its_thread() -> None:
    """Another thread that runs beside a spent request is not ended by it."""
    seen: list[Reason | None] = []
    with allowance.opened(-1.0):
        thread = threading.Thread(target=lambda: seen.append(allowance.current().spent))
        thread.start()
        thread.join()
    assert seen == [None]


def test_memory_ends_a_request() -> None:
    """A process of one byte is exceeded by any process, where the system tells its memory; an
    array of 2**60 bytes never fits, wherever this runs.
    """
    with allowance.opened(memory_limit_bytes=1) as request:
        if allowance.resident_bytes():
            assert request.spent is Reason.MEMORY
        with pytest.raises(OutOfTimeError):
            allowance.reserve(2.0**60)
        assert request.spent is Reason.MEMORY


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
    """SIGINT to this process, twice; afterwards Python's own handler is back."""
    with allowance.opened() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.spent is Reason.CANCELLED
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_conjugates_know_the_worths_of_their_ranks() -> None:
    """The prices of a worker are the 1st, 2nd, 3rd, 5th ... largest worths of a row, by a full sort
    too; a row without any worth has price 0.
    """
    conjugate = importlib.import_module("placer.solvers._market.conjugate")
    ranks = conjugate.RANKS
    draw = np.random.default_rng(20261123)
    steps = draw.normal(size=(3, 20, 30))
    steps[1, 5:] = -np.inf
    steps[2] = -np.inf
    ranked = -np.sort(-steps.reshape(3, -1), axis=1)
    prices = conjugate.Conjugates(np.zeros((3, 20, 31)), steps).prices
    assert prices[0].tolist() == ranked[0, np.array(ranks) - 1].tolist()
    finite = np.isfinite(ranked[1]).sum()
    assert prices[1].tolist() == [ranked[1, min(rank, finite) - 1] for rank in ranks]
    assert not prices[2].any()
