"""Processes and Dask clusters that solve the points of a sweep."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from dataclasses import replace

from placer.advice.sweep.answer import Row
from placer.advice.sweep.run import Runner, on_executor, solve_point
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.solving.allowance import default_memory_bytes
from placer.solving.answer import SolveOptions
from placer.units import format_bytes
from placer.version import install_line

MOST_JOBS = 1_024
LEAST_BYTES = 250_000_000
"""A process that solves points gets at least so much memory: a hundred MB are placer and a book."""
WORKERLESS_S = 15.0
"""A cluster whose workers have been gone for so long gets no new ones by itself."""
_question: tuple[Problem, str, SolveOptions] | None = None
"""In a child: the question, given once."""


@contextlib.contextmanager
def processes(problem: Problem, solver: str, options: SolveOptions, jobs: int) -> Iterator[Runner]:
    """Solve points in processes of their own, started afresh; each is given the question once.

    Raises
    ------
    PlacerError
        If the number of processes is not reasonable.
    """
    if not 1 <= jobs <= MOST_JOBS:
        raise PlacerError(f"jobs {jobs}", f"give 1 to {MOST_JOBS:,} processes")
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    given = bare(problem), solver, _shared(options, jobs)
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=given)
    try:
        yield Runner(
            submit=lambda words: _deafly(executor, words), workers=jobs, stop=lambda: _stop(others)
        )
    except BaseException:
        _stop(others)
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _shared(options: SolveOptions, jobs: int) -> SolveOptions:
    """Return the options of one of some processes, which share the memory; the caller's token is
    watched here.
    """
    limit = options.memory_limit_bytes
    share = int((default_memory_bytes() if limit is None else limit) / jobs)
    if limit is not None and share < LEAST_BYTES:
        raise PlacerError(
            f"memory limit {format_bytes(limit)}: each of {jobs} processes has "
            f"{format_bytes(share)}",
            f"give {format_bytes(LEAST_BYTES * jobs)} or more, or fewer --jobs",
        )
    share = max(share, LEAST_BYTES)
    return replace(options, on_better=None, cancel=None, memory_limit_bytes=share)


def bare(problem: Problem) -> Problem:
    """Return the question without what was worked out of it: that is found by identity and means
    nothing in another process.
    """
    return replace(problem, catalog=replace(problem.catalog))


def _stop(others: set[multiprocessing.process.BaseProcess]) -> None:
    """End the children that were started here."""
    for child in set(multiprocessing.active_children()) - others:
        child.terminate()


def _deafly(executor: ProcessPoolExecutor, words: tuple[str, ...]) -> Future[Row]:
    """Hand a point out; a child that this starts inherits the mask, so it does not hear Ctrl-C
    while it is still importing.
    """
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return executor.submit(_solve_here, words)
    finally:
        signal.pthread_sigmask(
            signal.SIG_SETMASK, heard
        )  # a Ctrl-C that came meanwhile is heard now


def _begin(problem: Problem, solver: str, options: SolveOptions) -> None:
    """Keep the question; Ctrl-C is for the parent."""
    global _question  # noqa: PLW0603 - the one way in which an initializer can hand something to its tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _question = problem, solver, options


def _solve_here(words: tuple[str, ...]) -> Row:
    assert _question is not None
    problem, solver, options = _question
    return solve_point(problem, words, solver, options)


@contextlib.contextmanager
def dask(address: str, problem: Problem, solver: str, options: SolveOptions) -> Iterator[Runner]:
    """Solve points on a Dask cluster through the executor of its client; the question is sent there
    once.

    Raises
    ------
    PlacerError
        If ``distributed`` is not installed, nobody answers at the address, or all workers died.
    """
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise PlacerError(
            "--dask needs the package distributed", f"install it: {install_line('dask')}"
        ) from None
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise PlacerError(
            f"no Dask scheduler answers at '{address}' ({type(error).__name__})",
            "give it as tcp://host:8786",
        ) from None
    with client:
        workers = sum(client.nthreads().values())
        if not workers:
            raise PlacerError(
                f"the Dask cluster at '{address}' has no workers", "start some: dask worker ADDRESS"
            )
        seen = [time.monotonic()]

        def check() -> None:
            """Give up where there has been no worker for `WORKERLESS_S`."""
            if client.nthreads():
                seen[0] = time.monotonic()
            elif time.monotonic() - seen[0] > WORKERLESS_S:
                raise _workers_died(address)

        executor = client.get_executor(pure=False)
        try:
            sent = client.scatter(bare(problem), broadcast=True)
            given = replace(options, on_better=None, cancel=None)
            yield on_executor(executor, sent, solver, given, workers, check)
        except (
            CancelledError,  # with its workers went the question that was sent to them
            OSError,  # its connections, and time-outs
            distributed.KilledWorker,
        ):
            raise _workers_died(address) from None
        finally:
            executor.shutdown(wait=False)


def _workers_died(address: str) -> PlacerError:
    return PlacerError(
        f"the workers of the Dask cluster at '{address}' died",
        "what -o FILE has is kept: start workers (dask worker ADDRESS), and run the same command "
        "again",
        exit_code=1,
    )
