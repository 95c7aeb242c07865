"""The event loop, whose processes are generators that yield seconds to sleep or a signal to wait
for; and max-min fair flows between machines that share what each can send and receive.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Sequence
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


DONE = 1e-12
"""Share of a flow, or of the time on the clock, that rounding may leave over."""


class Port:
    """One direction of a machine's network."""

    __slots__ = ("bytes_per_s", "open", "room")

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.room = 0.0
        self.open = 0


class Flow:
    """Bytes under way, not faster than ``cap``, through some ports."""

    __slots__ = ("cap", "done", "left", "ports", "rate", "size")

    def __init__(self, size: float, cap: float, ports: Sequence[Port]) -> None:
        self.size = self.left = size
        self.cap = cap
        self.ports = ports
        self.rate = 0.0
        self.done = Signal()


class Fluid:
    """All flows under way; their rates change whenever one begins or ends.

    >>> loop, port = Loop(), Port(10.0)
    >>> fluid, ends = Fluid(loop), []
    >>> for size in (10.0, 30.0):  # 5 bytes/s each until 2 s, then 20 bytes at 10 bytes/s
    ...     fluid.send(size, 100.0, [port]).then(lambda: ends.append(loop.now))
    >>> loop.run()
    >>> ends
    [2.0, 4.0]
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._flows: list[Flow] = []
        self._since = 0.0
        self._version = 0
        self._stale = False

    def send(self, size: float, cap: float, ports: Sequence[Port]) -> Signal:
        """Send bytes from now on; the signal is their arrival.

        size: Bytes, above 0.
        cap: bytes/s that the flow reaches alone.
        """
        self._advance()
        flow = Flow(size, cap, ports)
        self._flows.append(flow)
        self._refresh()
        return flow.done

    def _refresh(self) -> None:
        """Share anew, once for all flows that begin at this time."""
        if not self._stale:
            self._stale = True
            self._loop.after(0.0, self._settle)

    def _settle(self) -> None:
        self._stale = False
        self._version += 1
        if self._flows:
            share(self._flows)
            first = min(flow.left / flow.rate for flow in self._flows)
            self._loop.after(first, partial(self._wake, self._version))

    def _wake(self, version: int) -> None:
        """Take out the flows that have arrived, unless rates have changed since."""
        if version != self._version:
            return
        self._advance()
        instant = self._loop.now * DONE
        arrived, left = list[Flow](), list[Flow]()
        for flow in self._flows:
            rest = max(DONE * flow.size, flow.rate * instant)
            (arrived if flow.left <= rest else left).append(flow)
        self._flows = left
        for flow in arrived:
            flow.done.fire()
        self._refresh()

    def _advance(self) -> None:
        elapsed, self._since = self._loop.now - self._since, self._loop.now
        if elapsed:
            for flow in self._flows:
                flow.left -= flow.rate * elapsed


def share(flows: Sequence[Flow]) -> None:
    """Set the rates of flows: all rise together until a flow reaches its cap or a port is full
    (progressive filling).

    Bertsekas and Gallager, Data Networks (1992), section 6.5.2: the max-min fair allocation.

    >>> port = Port(10.0)
    >>> flows = [Flow(1.0, 2.0, [port]), Flow(1.0, 9.0, [port]), Flow(1.0, 9.0, [port])]
    >>> share(flows)  # the first reaches its cap of 2, the others share the 8 that are left
    >>> [flow.rate for flow in flows]
    [2.0, 4.0, 4.0]
    """
    ports = {id(port): port for flow in flows for port in flow.ports}
    for port in ports.values():
        port.room, port.open = port.bytes_per_s, 0
    for flow in flows:
        for port in flow.ports:
            port.open += 1
    rising = list(flows)
    while rising:
        tightest = min((port for port in ports.values() if port.open), key=_fair, default=None)
        level = float("inf") if tightest is None else _fair(tightest)
        fixed = [flow for flow in rising if flow.cap <= level]
        if fixed:
            rising = [flow for flow in rising if flow.cap > level]
        else:
            fixed = [flow for flow in rising if tightest in flow.ports]
            rising = [flow for flow in rising if tightest not in flow.ports]
        for flow in fixed:
            flow.rate = min(flow.cap, level)
            for port in flow.ports:
                port.room -= flow.rate
                port.open -= 1


def _fair(port: Port) -> float:
    """Return the bytes/s that each flow still rising through a port could have."""
    return max(0.0, port.room) / port.open
