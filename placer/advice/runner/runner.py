"""Where questions are solved: here, in processes or on Dask."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from placer.advice.runner.blas_threads import starting_one_thread
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
                submit=lambda task, item: executor.submit(task, sent, item),
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


AHEAD = 4
"""Questions for each worker that are handed out before the oldest one is back."""
CHECK_S = 0.5
"""Between two looks whether anybody is left who solves."""
Task = Callable[[Any, Any], Any]
"""A function of a module, called with what all questions share and with one question."""
Opener = Callable[[Any], AbstractContextManager["Runner"]]
"""Opens a runner for questions that share something."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Where questions are solved: here, or by an executor of `concurrent.futures`.

    ``submit`` hands one question to the executor, however the shared part has got there;
    ``workers`` is how many run side by side; ``stop`` ends what is being solved when Ctrl-C came;
    ``check`` raises an error if nobody is left who could solve, and is called while an answer is
    waited for.
    """

    submit: Callable[[Task, Any], Future[Any]]
    workers: int
    stop: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None


@contextlib.contextmanager
def here(shared: Any) -> Iterator[Runner]:
    """Solve one question after the other in this process."""

    def submit(task: Task, item: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(task(shared, item))
        return future

    yield Runner(submit=submit, workers=0)


def answers(
    task: Task,
    items: Iterable[Any],
    runner: Runner,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Any]:
    """Yield the answers to some questions, in their order, whoever solves them.

    It ends early where ``asked_to_stop`` says so; a question during which that came has no answer,
    as its search was cut short. Raises FailureError if a process died: no answer is left out
    silently.
    """
    waiting: deque[Future[Any]] = deque()
    rest = iter(items)
    try:
        while True:
            for item in rest:
                waiting.append(runner.submit(task, item))
                if len(waiting) > AHEAD * runner.workers:
                    break
            if not waiting or asked_to_stop():
                return
            future = waiting.popleft()
            if not _back(future, runner, asked_to_stop) or asked_to_stop():
                return
            yield future.result()
    except BrokenExecutor:
        raise FailureError(
            "a process that solved died",
            "run the same command again; a file of -o keeps what is done",
        ) from None
    finally:
        for future in waiting:
            future.cancel()


def _back(future: Future[Any], runner: Runner, asked_to_stop: Callable[[], bool]) -> bool:
    """Wait for an answer while somebody solves it; False if it is no longer wanted."""
    while not wait([future], CHECK_S).done:
        runner.check()
        if asked_to_stop():
            return False
    return True


@contextlib.contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Remember that Ctrl-C came: a solver takes the exception and returns its best so far."""
    came: list[bool] = []

    def remember(number: int, frame: object) -> None:
        came.append(True)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    old = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, old)


def stopping(options: SolveOptions, interrupted: Callable[[], bool]) -> Callable[[], bool]:
    """Return whether Ctrl-C came, or the caller's token is set."""
    return lambda: interrupted() or (options.cancel is not None and options.cancel.is_set())
