"""Runners elsewhere: processes of this machine and Dask clusters; which one a request asks for."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from placer.advice.runner.blas_threads import starting_one_thread
from placer.advice.runner.runner import Opener, Runner, Task, here
from placer.errors import FailureError, PlacerError, installed
from placer.records import replace
from placer.solving.allowance import default_memory_bytes
from placer.solving.answer import SolveOptions
from placer.units import format_bytes

MOST_JOBS = 1_024
_shared: Any = None
"""In a child: what all questions share, given once."""
SILENT_S = 10.0
"""Longest wait for the scheduler to answer."""
WORKERLESS_S = 15.0
"""A cluster whose workers have been gone for so long gets no new ones by itself."""
LEAST_BYTES = 250_000_000
"""A process that solves gets at least so much memory: a hundred MB are placer and a book."""


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


@contextlib.contextmanager
def on_dask(shared: Any, address: str) -> Iterator[Runner]:
    """Solve questions on a Dask cluster through the executor of its client; the shared part is sent
    there once. The questions of a worker that dies go to the others.
    """
    distributed = installed("distributed", "--dask needs the package distributed", "dask")
    try:
        client = distributed.Client(address, timeout=f"{SILENT_S}s")
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
            sent = client.scatter(shared, broadcast=True)
            yield Runner(
                submit=lambda task, item: executor.submit(_solve_there, task, sent, item),
                workers=workers,
                check=check,
            )
        except (
            CancelledError,  # with its workers went what was sent to them
            OSError,  # its connections, and time-outs
            distributed.KilledWorker,
        ):
            raise _workers_died(address) from None
        finally:
            executor.shutdown(wait=False)


def _solve_there(task: Task, shared: Any, item: Any) -> Any:
    return task(shared, item)


def _workers_died(address: str) -> PlacerError:
    return FailureError(
        f"the workers of the Dask cluster at '{address}' died",
        "what -o FILE has is kept: start workers (dask worker ADDRESS), and run the same command "
        "again",
    )


def opener(jobs: int = 1, dask: str | None = None) -> Opener:
    """Return what opens the runner of a request: here, processes, or Dask at an address."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise PlacerError(
            f"jobs {jobs!r} is not a whole number from 1", "give the number of processes"
        )
    if dask is not None and jobs != 1:
        raise PlacerError(f"jobs {jobs} together with a Dask cluster", "use one of them")

    def opened(shared: Any) -> AbstractContextManager[Runner]:
        if dask is not None:
            return on_dask(shared, dask)
        return processes(shared, jobs) if jobs > 1 else here(shared)

    return opened


def options_of_each(options: SolveOptions, jobs: int, *, elsewhere: bool) -> SolveOptions:
    """Return the options of one of some processes, which share the memory and hear nobody."""
    if jobs == 1 and not elsewhere:
        return options.deaf
    limit = options.memory_limit_bytes
    if jobs > 1:
        share = int((default_memory_bytes() if limit is None else limit) / jobs)
        if limit is not None and share < LEAST_BYTES:
            raise PlacerError(
                f"memory limit {format_bytes(limit)}: each of {jobs} processes has "
                f"{format_bytes(share)}",
                f"give {format_bytes(LEAST_BYTES * jobs)} or more, or fewer --jobs",
            )
        limit = max(share, LEAST_BYTES)
    return replace(options.deaf, cancel=None, memory_limit_bytes=limit)
