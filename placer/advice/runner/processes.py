"""Processes of this machine that solve questions."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from placer.advice.runner.blas_threads import starting_one_thread
from placer.advice.runner.runner import Runner, Task
from placer.errors import PlacerError

MOST_JOBS = 1_024
_shared: Any = None
"""In a child: what all questions share, given once."""


@contextlib.contextmanager
def processes(shared: Any, jobs: int) -> Iterator[Runner]:
    """Solve questions in fresh processes of their own; each is given the shared part once."""
    if not 1 <= jobs <= MOST_JOBS:
        raise PlacerError(f"jobs {jobs}", f"give 1 to {MOST_JOBS:,} processes")
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(shared,))
    try:
        yield Runner(
            submit=lambda task, item: _deafly(executor, task, item),
            workers=jobs,
            stop=lambda: _stop(others),
        )
    except BaseException:
        _stop(others)
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _stop(others: set[multiprocessing.process.BaseProcess]) -> None:
    """End the children that were started here."""
    for child in set(multiprocessing.active_children()) - others:
        child.terminate()


def _deafly(executor: ProcessPoolExecutor, task: Task, item: Any) -> Future[Any]:
    """Hand a question out; a child inherits the mask: it is deaf to Ctrl-C while it imports."""
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with starting_one_thread():
            return executor.submit(_solve_here, task, item)
    finally:
        signal.pthread_sigmask(
            signal.SIG_SETMASK, heard
        )  # a Ctrl-C that came meanwhile is heard now


def _begin(shared: Any) -> None:
    """Keep what all questions share; Ctrl-C is for the parent."""
    global _shared  # noqa: PLW0603 - the one way in which an initializer can hand something to its tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _shared = shared


def _solve_here(task: Task, item: Any) -> Any:
    return task(_shared, item)
