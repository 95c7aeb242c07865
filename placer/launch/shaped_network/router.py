"""The router of IP packets between TUN devices, with token buckets and delay lines: when a packet
leaves is a function of the times at which packets came.

All times are those of the packets, not those of the clock: a packet that is handled late does not
delay the one behind it.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any

MOST_QUEUED_BYTES = 256 * 2**20
"""Of one stream; more is dropped. TCP's window (`window_bytes`) keeps streams far below."""
MANY_STREAMS = 512
"""With more than these, those that are idle are forgotten."""


@dataclass(slots=True, eq=False)
class Card:
    """One direction of a machine's network card, which all its links share."""

    bytes_per_s: float
    free_at: float = 0.0


@dataclass(slots=True, eq=False)
class Link:
    """An ordered pair of machines: rates of a stream and of all, delay, and time in use so far."""

    stream_bytes_per_s: float
    pair_bytes_per_s: float
    delay_s: float
    cards: tuple[Card, Card]
    deliver: Callable[[Any], None]
    free_at: float = 0.0
    busy_until: float = 0.0
    busy_s: float = 0.0
    sent_bytes: int = 0

    def begin(self, size: int, passed: float) -> tuple[float, float]:
        """Return when a packet that has passed its stream may pass the pair, then the cards."""
        fastest = max(self.stream_bytes_per_s, self.pair_bytes_per_s)
        pair = max(passed - size / fastest, self.free_at)
        out, into = self.cards
        return pair, max(pair, out.free_at, into.free_at)

    def carry(self, size: int, came: float, pair: float, began: float) -> float:
        """Occupy pair and cards with a packet; return when all of it has left. The pair's own time
        goes on while a packet waits for a card, so that short waits do not make it slower.
        """
        self.free_at = pair + size / self.pair_bytes_per_s
        out, into = self.cards
        out.free_at = began + size / out.bytes_per_s
        into.free_at = began + size / into.bytes_per_s
        end = max(self.free_at, out.free_at, into.free_at)
        self.busy_s += end - max(min(came, end), min(self.busy_until, end))
        self.busy_until = max(self.busy_until, end)
        return end


@dataclass(slots=True, eq=False)
class Stream:
    """One direction of one connection: a first-in-first-out queue before its bucket."""

    link: Link
    waiting: deque[tuple[float, int, Any]] = field(default_factory=deque)
    free_at: float = 0.0
    queued_bytes: int = 0


class Queues:
    """All streams of a network.

    A packet of n bytes occupies its stream for n / rate and, ending no earlier, the pair of
    machines and the cards at both ends for n / their rates; then comes the delay line. Of each
    stream one packet at a time asks for them, in turns, so streams share them evenly and none waits
    for the queue of another.
    """

    def __init__(self) -> None:
        self.streams: dict[bytes, Stream] = {}
        self.events: list[tuple[float, int, Stream | None, Link | None, Any]] = []
        self.order = count()
        self.dropped = 0

    def accept(self, link: Link, key: bytes, size: int, packet: Any, now: float) -> None:
        """Take a packet of a stream, with the bytes that count, when it comes."""
        if key not in self.streams:
            if len(self.streams) > MANY_STREAMS:
                kept = {k: s for k, s in self.streams.items() if s.waiting or s.free_at > now}
                self.streams = kept
            self.streams[key] = Stream(link)
        stream = self.streams[key]
        if stream.queued_bytes + size > MOST_QUEUED_BYTES:
            self.dropped += 1
            return
        stream.queued_bytes += size
        stream.waiting.append((now, size, packet))
        if len(stream.waiting) == 1:
            self._arm(stream, now)

    def pass_by(self, link: Link, packet: Any, now: float) -> None:
        """Take a packet that carries nothing: it waits for no bucket, only for the way."""
        heappush(self.events, (now + link.delay_s, next(self.order), None, link, packet))

    def run(self, now: float) -> float | None:
        """Deliver what is due; returns the time of the next event, or None."""
        events = self.events
        while events and events[0][0] <= now:
            at, _, stream, link, packet = heappop(events)
            if stream is None:
                assert link is not None
                link.deliver(packet)
            else:
                self._leave(stream, at)
        return events[0][0] if events else None

    def _arm(self, stream: Stream, earliest: float) -> None:
        """Set the time at which the first packet of a stream has passed its bucket."""
        came, size, _ = stream.waiting[0]
        stream.free_at = max(stream.free_at, came) + size / stream.link.stream_bytes_per_s
        heappush(self.events, (max(stream.free_at, earliest), next(self.order), stream, None, None))

    def _leave(self, stream: Stream, at: float) -> None:
        """Send a stream's first packet, or let it ask again when pair and cards may be free."""
        came, size, packet = stream.waiting[0]
        link = stream.link
        pair, began = link.begin(size, stream.free_at)
        if began > at:
            heappush(self.events, (began, next(self.order), stream, None, None))
            return
        stream.waiting.popleft()
        stream.queued_bytes -= size
        end = link.carry(size, came, pair, began)
        heappush(self.events, (end + link.delay_s, next(self.order), None, link, packet))
        if stream.waiting:
            self._arm(stream, max(at, began))


VNET = 10
"""Bytes before each packet: struct virtio_net_hdr; at 4 stands the size of its TCP segments."""
MOST_PACKET_BYTES = 65_536 + VNET
AT_ONCE = 32
"""Packets taken from one device before what is due goes out."""
TCP, UDP = 6, 17
SYN_FIN_RST = 0x07
NEEDS_CHECKSUM = 1
HALF = 2**31
LONGEST_SLEEP_S = 3600.0


class Router:
    """A router by destination address, and the loop that carries what is due. ``cards``: bytes/s
    that each machine sends, and as many that it receives. ``shapes``: stream and pair in bytes/s
    and delay in s, by ordered pair of machines.
    """

    def __init__(
        self,
        tuns: Sequence[int],
        addresses: Sequence[bytes],
        cards: Sequence[float],
        shapes: dict[tuple[int, int], tuple[float, float, float]],
    ) -> None:
        self.queues, self.poll = Queues(), select.epoll()
        self.actions: dict[int, Callable[[], None]] = {}
        out, into = ([Card(rate) for rate in cards] for _ in range(2))
        self.links: dict[tuple[int, int], Link] = {}
        self.ways: dict[int, dict[bytes, Link]] = {tun: {} for tun in tuns}
        outlets = [Outlet(tun) for tun in tuns]
        for (src, dst), shape in shapes.items():
            link = self.links[src, dst] = Link(*shape, (out[src], into[dst]), outlets[dst])
            self.ways[tuns[src]][addresses[dst]] = link
        for tun in tuns:
            self.watch(tun, partial(self._read, tun))

    def watch(self, fd: int, action: Callable[[], None]) -> None:
        """Call an action whenever a file is ready to be read."""
        self.poll.register(fd, select.EPOLLIN)
        self.actions[fd] = action

    def run(self) -> None:
        """Carry until an action raises."""
        while True:
            due = self.queues.run(time.monotonic())
            # An epoll set is ready when a file in it is. The time-out of select has microseconds,
            # that of epoll only milliseconds.
            wait = LONGEST_SLEEP_S if due is None else max(0.0, due - time.monotonic())
            if select.select([self.poll], [], [], wait)[0]:
                for fd, _ in self.poll.poll(0):
                    self.actions[fd]()

    def _read(self, tun: int) -> None:
        ways = self.ways[tun]
        for _ in range(AT_ONCE):
            try:
                packet = os.read(tun, MOST_PACKET_BYTES)
            except BlockingIOError:
                return
            link = ways.get(packet[VNET + 16 : VNET + 20])
            if link is not None and packet[VNET] >> 4 == 4:
                self._route(link, packet)

    def _route(self, link: Link, packet: bytes) -> None:
        now = time.monotonic()
        header = (packet[VNET] & 15) * 4
        at = VNET + header  # of what IP carries
        protocol = packet[VNET + 9]
        if protocol != TCP:
            size = len(packet) - VNET
            link.sent_bytes += size
            key = (
                packet[VNET + 12 : VNET + 20]
                + bytes((protocol,))
                + (packet[at : at + 4] if protocol == UDP else b"")
            )
            self.queues.accept(link, key, size, packet, now)
            return
        headers = header + (packet[at + 12] >> 4) * 4
        size = len(packet) - VNET - headers
        segment = packet[4] | packet[5] << 8
        segments = -(-size // segment) if packet[1] and segment else 1
        if size == 0 and not packet[at + 13] & SYN_FIN_RST:
            self.queues.pass_by(link, packet, now)  # what it confirms is counted on the way there
        else:
            link.sent_bytes += size + segments * headers
            self.queues.accept(
                link, packet[VNET + 12 : VNET + 20] + packet[at : at + 4], size, packet, now
            )


class Outlet:
    """The end of all links to one machine.

    Confirmations overtake the data that waits for its bucket, as they would where nothing waits:
    behind data that goes the other way, both directions of a connection would lose a quarter of
    their rate. Data that was overtaken then carries an older confirmation than the last one, and
    would be dropped for it (RFC 5961, section 5.2), so it gets the last one.
    """

    def __init__(self, tun: int) -> None:
        self.tun = tun
        self.last: dict[bytes, bytes] = {}

    def __call__(self, packet: bytes) -> None:
        """Give a packet to the machine."""
        at = VNET + (packet[VNET] & 15) * 4
        if packet[VNET + 9] == TCP and packet[0] & NEEDS_CHECKSUM:
            packet = self._confirmed(packet, at)
        with contextlib.suppress(OSError):  # full: lost, as on any network
            os.write(self.tun, packet)

    def _confirmed(self, packet: bytes, at: int) -> bytes:
        """Keep the confirmation and window of a packet, or give it the last ones."""
        key = packet[VNET + 12 : VNET + 20] + packet[at : at + 4]
        if packet[at + 13] & SYN_FIN_RST:
            self.last.pop(key, None)
            return packet
        own, last = packet[at + 8 : at + 16], self.last.get(key)
        if last is None or _after(own, last):
            self.last[key] = own
            return packet
        if own[:4] == last[:4]:
            return packet
        return packet[: at + 8] + last[:4] + own[4:6] + last[6:] + packet[at + 16 :]


def _after(one: bytes, other: bytes) -> bool:
    """Return whether a sequence number comes after another; they wrap at 2**32."""
    return 0 < (int.from_bytes(one[:4], "big") - int.from_bytes(other[:4], "big")) % 2**32 < HALF
