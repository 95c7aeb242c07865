"""What a request may take: seconds, memory, and the patience of whoever asked.

One `Allowance` is opened for a request. Every loop that can run long calls `check`, which costs a
microsecond and raises `OutOfTimeError` once something is used up; what makes a large array asks
`reserve` first. Where no allowance is open, both allow everything.

What follows a search, such as tightening its bound, runs in `closing`: a little longer than the
allowance, counted from the moment at which it was used up, however often it is entered.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, Protocol

MOST_DEFAULT_BYTES = 2_000_000_000
"""The default memory limit is never above this."""
DEFAULT_SHARE = 0.25
"""Share of the machine's memory that is the default limit."""
SEARCHED_SHARE = 0.9
"""Share of the memory that a search may fill; the rest is left for what follows it."""
LEAST_ROOM_BYTES = 64_000_000
"""Address space that is left to a process in any case: less would end it in odd places."""
SMALL_BYTES = 4_000_000
"""An array of no more bytes is not asked about: reading the resident memory takes longer."""
LOOK_EVERY_S = 0.02
"""How often the resident memory is read."""
FIRST_S = 0.3
"""Seconds after the end of an allowance in which a search without an answer may construct one."""
CLOSING_S = 0.18
"""Seconds after the end of an allowance in which its bound may still be tightened."""


class Reason(StrEnum):
    """What ended a search before its proof."""

    TIME = "time"
    NODES = "nodes"
    MEMORY = "memory"
    CANCELLED = "cancelled"


class StoppedError(Exception):
    """Raised inside a search to end it before its tree is exhausted."""


class OutOfTimeError(StoppedError):
    """Raised where seconds, nodes, memory or the caller's patience are used up."""

    def __init__(self, reason: Reason = Reason.TIME) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Cancel(Protocol):
    """A token that another thread may set, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the caller wants no more."""


@dataclass
class Allowance:
    """Seconds and memory of one request, and whether its caller still wants an answer. Mutable: it
    notes why and when it was used up. ``deadline`` and ``ended`` are by the monotonic clock,
    ``most_bytes`` is resident memory of this process. A part of a request has an allowance of its
    own, which ends with the ``whole`` at the latest.
    """

    deadline: float = inf
    most_bytes: float = inf
    cancel: Cancel | None = None
    whole: Allowance | None = None
    interrupted: bool = False
    reason: Reason | None = None
    ended: float = inf
    _looked: float = field(default=-inf, repr=False)

    def check(self) -> None:
        """Look at clock, caller and memory; `OutOfTimeError` if something is used up."""
        if self.reason is None:
            now = time.monotonic()
            if now > self.deadline:
                self.stop(Reason.TIME)
            elif self.interrupted or (self.cancel is not None and self.cancel.is_set()):
                self.stop(Reason.CANCELLED)
            elif self.most_bytes < inf and now > self._looked + LOOK_EVERY_S:
                self._looked = now
                if resident_bytes() > self.most_bytes:
                    self.stop(Reason.MEMORY)
        if self.reason is not None:
            raise OutOfTimeError(self.reason)
        if self.whole is not None:
            self.whole.check()

    def reserve(self, count: float) -> None:
        """Ask before an array of so many bytes is made. `OutOfTimeError` if it does not fit."""
        if count > SMALL_BYTES and count > self.room_bytes:
            self.stop(Reason.MEMORY)
            raise OutOfTimeError(Reason.MEMORY)

    def stop(self, reason: Reason) -> None:
        """Note why nothing more may be done; the first reason stays."""
        if self.reason is None:
            self.reason, self.ended = reason, time.monotonic()

    def interrupt(self) -> None:
        """Note that the user wants no more: the whole request ends."""
        if self.whole is not None:
            self.whole.interrupt()
        self.interrupted = True

    @property
    def spent(self) -> Reason | None:
        """Why nothing more may be done; None while something may."""
        try:
            self.check()
        except OutOfTimeError as error:
            return error.reason
        return None

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; 0 where something is used up."""
        return 0.0 if self.spent else max(0.0, self.end - time.monotonic())

    @property
    def end(self) -> float:
        """When the allowance ends, or ended; by the monotonic clock."""
        own = min(self.deadline, self.ended)
        return own if self.whole is None else min(own, self.whole.end)

    @property
    def room_bytes(self) -> float:
        """Bytes that may still be taken; infinite without a limit."""
        most = self.least_most_bytes
        return most if most == inf else max(0.0, most - resident_bytes())

    @property
    def least_most_bytes(self) -> float:
        """The resident memory that ends this allowance, or the one around it."""
        most = inf if self.whole is None else self.whole.least_most_bytes
        return min(self.most_bytes, most)


@dataclass
class Closing(Allowance):
    """The seconds after another allowance: ended by its clock alone, and by the whole memory."""

    after: Allowance = field(default_factory=Allowance)
    seconds: float = CLOSING_S

    def check(self) -> None:
        """Look at the clock and the memory; see `Allowance.check`."""
        if self.deadline == inf or self.after.reason is None:
            self.after.spent  # noqa: B018 - notes the moment of a Ctrl-C that comes only now
            self.deadline = self.after.end + self.seconds
        super().check()


_current: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


def check() -> None:
    """Look at clock, caller and memory of the request that runs here; see `Allowance.check`."""
    allowance = _current.get()
    if allowance is not None:
        allowance.check()


def reserve(count: float) -> None:
    """Ask before an array of so many bytes is made; see `Allowance.reserve`."""
    allowance = _current.get()
    if allowance is not None:
        allowance.reserve(count)


def room_bytes(most: float, share: float = 0.25) -> float:
    """Return the bytes that one array may take: a share of what is left, never above ``most``."""
    allowance = _current.get()
    return most if allowance is None else min(most, share * allowance.room_bytes)


def current() -> Allowance:
    """Return the allowance of the request that runs here; a boundless one outside of any."""
    return _current.get() or Allowance()


@contextmanager
def opened(
    seconds: float = inf, memory_limit_bytes: float | None = None, cancel: Cancel | None = None
) -> Iterator[Allowance]:
    """Open the allowance of a request, or of a part of one that is open, from now. Without a limit
    of its own a whole request has what the process holds and `default_memory_bytes` beside it. In
    the main thread the first Ctrl-C ends a whole request instead of raising KeyboardInterrupt, so
    that what was found is returned; the second one raises.
    """
    whole, deadline = _current.get(), time.monotonic() + seconds
    if memory_limit_bytes is not None:
        most = SEARCHED_SHARE * memory_limit_bytes
    elif whole is None:
        most = resident_bytes() + SEARCHED_SHARE * default_memory_bytes()
    else:
        most = inf
    if whole is not None:
        most = most if most < whole.least_most_bytes else inf
        cancel = None if cancel is whole.cancel else cancel
        if deadline >= whole.end and most == inf and cancel is None:  # the same again
            yield whole
            return
    allowance = Allowance(deadline=deadline, most_bytes=most, cancel=cancel, whole=whole)
    with _held(allowance), _heeding_interrupts(allowance):
        yield allowance


@contextmanager
def closing(seconds: float = CLOSING_S) -> Iterator[Allowance]:
    """Go on a little longer than the allowance that is open: for what a stopped search has to say.
    ``seconds``: from the moment at which the allowance was used up, or else from its deadline.
    """
    after = _current.get()
    if after is None or isinstance(after, Closing):
        yield current()
        return
    most = after.least_most_bytes / SEARCHED_SHARE
    with _held(Closing(most_bytes=most, after=after, seconds=seconds)) as allowance:
        yield allowance


@contextmanager
def _held(allowance: Allowance) -> Iterator[Allowance]:
    token = _current.set(allowance)
    try:
        yield allowance
    finally:
        _current.reset(token)


@contextmanager
def _heeding_interrupts(allowance: Allowance) -> Iterator[None]:
    """Let the first Ctrl-C end an allowance, where nobody else has taken the signal."""
    taken = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    main = threading.current_thread() is threading.main_thread()
    if allowance.whole is not None or taken or not main:
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        if allowance.interrupted:
            signal.default_int_handler(number, frame)
        allowance.interrupted = True

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def bounded_address_space(memory_limit_bytes: float | None) -> Iterator[None]:
    """Bound the address space of this process too, so that no array takes it over its memory limit:
    what asks for more gets a MemoryError. For programs such as the command line. What is resident
    never grows by more than the address space does.
    """
    import numpy  # noqa: F401, ICN001 - reserves address space that it never fills

    held = resident_bytes()
    if not held:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = held + default_memory_bytes() if memory_limit_bytes is None else memory_limit_bytes
    most = int(_memory_pages()[0] * PAGE_BYTES + max(limit - held, LEAST_ROOM_BYTES))
    if before[0] != resource.RLIM_INFINITY:
        most = min(most, before[0])
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def default_memory_bytes() -> float:
    """Return the default memory limit: a quarter of the machine's memory, at most 2 GB."""
    return min(DEFAULT_SHARE * machine_bytes(), MOST_DEFAULT_BYTES)


def machine_bytes() -> float:
    """Return the memory of the machine or its container; 8 GB where nobody says."""
    known = []
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:  # noqa: PTH123
            known.append(float(file.read()))
    except (OSError, ValueError):  # no container, or "max"
        pass
    return min(known, default=4 * MOST_DEFAULT_BYTES)


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 where the system does not tell."""
    return _memory_pages()[1] * PAGE_BYTES


def _memory_pages() -> tuple[int, int]:
    """Return the pages of this process, and those that are resident; 0 if not told."""
    if sys.platform != "linux":
        return 0, 0
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123 - often
            size, resident = file.read().split()[:2]
            return int(size), int(resident)
    except (OSError, ValueError):
        return 0, 0


PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
