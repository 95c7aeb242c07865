"""The event loop: processes are generators that yield seconds to sleep, or a signal to wait for."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from functools import partial

Action = Callable[[], None]


class Signal:
    """Something that happens once; processes wait for it."""

    __slots__ = ("_waiting", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._waiting: list[Action] = []

    def then(self, action: Action) -> None:
        """Call back when it happens, at once if it has."""
        if self.fired:
            action()
        else:
            self._waiting.append(action)

    def fire(self) -> None:
        """Let it happen, now."""
        self.fired = True
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()


Process = Generator[float | Signal, None, None]


class Loop:
    """Events in the order of their time, those of one time in the order in which they were planned.

    Examples
    --------
    >>> loop, ended = Loop(), []
    >>> def sleeper(name, seconds):
    ...     yield seconds
    ...     ended.append((name, loop.now))
    >>> for name, seconds in (("late", 2.0), ("early", 1.0)):
    ...     _ = loop.start(sleeper(name, seconds))
    >>> loop.run()
    >>> ended
    [('early', 1.0), ('late', 2.0)]
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._planned: list[tuple[float, int, Action]] = []
        self._number = 0

    def after(self, seconds: float, action: Action) -> None:
        """Plan an action."""
        self._number += 1
        heapq.heappush(self._planned, (self.now + seconds, self._number, action))

    def start(self, process: Process) -> Signal:
        """Run a process from now on; the signal is its end."""
        done = Signal()
        self._resume(process, done)
        return done

    def run(self) -> None:
        """Run until nothing is planned."""
        while self._planned:
            self.now, _, action = heapq.heappop(self._planned)
            action()

    def _resume(self, process: Process, done: Signal) -> None:
        wanted = next(process, None)
        if wanted is None:
            done.fire()
        elif isinstance(wanted, Signal):
            wanted.then(partial(self._resume, process, done))
        else:
            self.after(wanted, partial(self._resume, process, done))
