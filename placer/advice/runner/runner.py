"""A runner: where many questions of one kind are solved; answers come back in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from placer.errors import FailureError
from placer.solving.answer import SolveOptions

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
