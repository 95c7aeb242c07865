"""Chooses who runs where: by the search that an objective needs, within the limits of a request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT, signal
from threading import current_thread, main_thread

from placer.advice.portfolio.faster import faster
from placer.advice.portfolio.generation import Found, solved
from placer.advice.portfolio.question.jobs import Portfolio
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import Allowance
from placer.solving.answer import SolveOptions


def chosen(portfolio: Portfolio, options: SolveOptions) -> Found:
    """Choose who runs where and when.

    Parameters
    ----------
    options
        Gap of the portfolio and time for all of it.
    """
    started = time.perf_counter()
    with interruptible(options) as own:
        found = (faster if portfolio.by_speed else solved)(portfolio, options)
        stopped = own.spent is not None
    return replace(found, seconds=time.perf_counter() - started, stopped=stopped)


@contextmanager
def interruptible(options: SolveOptions) -> Iterator[Allowance]:
    """Open the allowance of a portfolio; Ctrl-C uses it up, so that the best so far is returned.

    Notes
    -----
    Outside of the main thread a caller cancels with ``options.cancel``.
    """
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel) as own:
        if current_thread() is not main_thread():
            yield own
            return
        before = signal(SIGINT, lambda *_: own.interrupt())
        try:
            yield own
        finally:
            signal(SIGINT, before)
