"""A relay of TCP connections, whose bytes pass `placer.launch.shaped_network.shaping.queues` in
chunks instead of packets.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count

from placer.launch.shaped_network.packets.namespace import window_bytes
from placer.launch.shaped_network.shaping.loop import Loop
from placer.launch.shaped_network.shaping.queues import Link

CHUNK_BYTES = 65_536
AT_ONCE = 16
"""Chunks taken from one connection before others have their turn."""
KERNEL_BYTES = 2**18
"""Of the socket at which bytes wait for the relay: with `End.window` it bounds how far a sender is
ahead.
"""
NEWEST = 256
"""Connections that may wait to be accepted."""
CONNECTED_S = 1.0
"""What the relay waits for a process that takes no connections; nothing else is carried meanwhile.
"""
RESET_AT_ONCE = struct.pack("ii", 1, 0)

_numbers = count()


class Streams(Loop):
    """All connections between machines.

    Parameters
    ----------
    shapes
        Stream and pair rate in bytes/s and delay in s, by ordered pair of machines.
    """

    def __init__(self, shapes: dict[tuple[int, int], tuple[float, float, float]]) -> None:
        super().__init__()
        self.links = {pair: Link(*shape, _do) for pair, shape in shapes.items()}
        self.listeners: list[socket.socket] = []

    def listen(self, address: str, src: int, dst: int, target: tuple[str, int]) -> int:
        """Take connections from a machine that are meant for an address of another; returns the
        port.
        """
        listener = socket.socket()
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES
        )  # those that are accepted have it, too
        listener.bind((address, 0))
        listener.listen(NEWEST)
        listener.setblocking(False)
        self.listeners.append(listener)
        self.watch(
            listener.fileno(),
            partial(self._accept, listener, self.links[src, dst], self.links[dst, src], target),
        )
        port: int = listener.getsockname()[1]
        return port

    def _accept(
        self, listener: socket.socket, there: Link, back: Link, target: tuple[str, int]
    ) -> None:
        """Accept a connection. It takes a round trip before it carries anything, and half of one
        more until the other side has it.
        """
        try:
            opened, _ = listener.accept()
        except OSError:  # gone again
            return
        near, far = End(self, there), End(self, back)
        near.other, far.other = far, near
        near.take(opened)
        came = time.monotonic() + there.delay_s
        self.queues.pass_by(back, near.begin, came)
        self.queues.pass_by(there, partial(far.connect, target), came + back.delay_s)


class End:
    """One socket of a connection: what is read goes to the other end, what comes from there is
    written.

    Attributes
    ----------
    under_way
        Bytes that were read here and not yet written there; at ``window`` reading stops, so that
        the sender has to wait.
    begun, ended, shut, closed
        May be read; has been read to its end; has been written to its end; is gone.

    Notes
    -----
    Nothing is read in a call of the queues: those may be about to be emptied.
    """

    __slots__ = (
        "begun",
        "closed",
        "ended",
        "key",
        "link",
        "loop",
        "other",
        "out",
        "shut",
        "socket",
        "under_way",
        "wanted",
        "window",
    )

    other: End

    def __init__(self, loop: Streams, link: Link) -> None:
        self.loop, self.link = loop, link
        self.key = next(_numbers).to_bytes(8, "big")
        rate = min(link.stream_bytes_per_s, link.pair_bytes_per_s)
        self.window = window_bytes(rate, 2 * link.delay_s)
        self.socket: socket.socket | None = None
        self.out: deque[memoryview | None] = deque()
        self.under_way = 0
        self.wanted = 0
        self.begun = self.ended = self.shut = self.closed = False

    def take(self, opened: socket.socket) -> None:
        """Get the socket."""
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = opened

    def begin(self) -> None:
        """Read from now on."""
        self.begun = True
        self._want()

    def connect(self, target: tuple[str, int]) -> None:
        """Open the far side; on the loopback device that is done at once, or refused, unless too
        many wait there already.
        """
        if self.closed:
            return
        made = socket.socket()
        made.settimeout(CONNECTED_S)
        try:
            made.connect(target)
        except OSError:
            made.close()
            self._broken()
            return
        self.take(made)
        self.begin()
        self._write()

    def ready(self) -> None:
        """Write and read: the socket is ready."""
        self._write()
        self._read()

    def arrived(self, data: bytes | None) -> None:
        """Take bytes from the other side. Empty bytes: it has ended its side; None: it has broken
        off.
        """
        if self.closed:
            return
        if data is None:
            self._close(reset=True)
            return
        self.out.append(memoryview(data) if data else None)
        if self.socket is not None:
            self._write()

    def _read(self) -> None:
        for _ in range(AT_ONCE):
            if self.closed or self.ended or not self.begun or self.under_way >= self.window:
                break
            assert self.socket is not None
            try:
                data = self.socket.recv(CHUNK_BYTES)
            except BlockingIOError:
                break
            except OSError:
                self._broken()
                return
            self.ended = not data
            self.under_way += len(data)
            self.link.sent_bytes += len(data)
            self._tell(data)
        self._finish()

    def _write(self) -> None:
        while self.out and self.socket is not None:
            first = self.out[0]
            try:
                if first is None:
                    self.socket.shutdown(socket.SHUT_WR)
                    self.shut, done = True, 0
                else:
                    done = self.socket.send(first)
            except BlockingIOError:
                break
            except OSError:
                self._broken()
                return
            self.other.under_way -= done
            if first is None or done == len(first):
                self.out.popleft()
            else:
                self.out[0] = first[done:]
        self.other._want()
        self._finish()

    def _tell(self, data: bytes | None) -> None:
        """Send something to the other end."""
        self.loop.queues.accept(
            self.link,
            self.key,
            len(data or b""),
            partial(self.other.arrived, data),
            time.monotonic(),
        )

    def _broken(self) -> None:
        self._close(reset=False)
        self._tell(None)

    def _finish(self) -> None:
        """Close what has ended on both sides, or wait for more."""
        if self.ended and self.shut and not self.closed:
            self._close(reset=False)
        else:
            self._want()

    def _want(self) -> None:
        """Wait for what can be done now; a socket that nothing is asked of is not watched, else its
        end would wake the loop for ever.
        """
        if self.closed or self.socket is None:
            return
        read = self.begun and not self.ended and self.under_way < self.window
        wanted = (select.EPOLLIN if read else 0) | (select.EPOLLOUT if self.out else 0)
        if wanted != self.wanted:
            self.loop.watch(self.socket.fileno(), self.ready, wanted)
            self.wanted = wanted

    def _close(self, *, reset: bool) -> None:
        self.closed = True
        self.out.clear()
        if self.socket is not None:
            self.loop.watch(self.socket.fileno(), self.ready, 0)
            with contextlib.suppress(OSError):
                if reset:
                    self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_ONCE)
                self.socket.close()


def _do(action: Callable[[], None]) -> None:
    action()
