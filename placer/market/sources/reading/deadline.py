"""Wait for work no longer than some seconds, whatever it does: a server that drips single bytes
resets every other clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do something in a thread and give its result.

    Parameters
    ----------
    seconds
        Longest wait; s. Work that lasts longer is left alone and ends with the process.
    work
        What is done; what it raises is raised here.

    Raises
    ------
    TimeoutError
        If it lasts longer.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result(seconds)
