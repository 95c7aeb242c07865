"""Token buckets and delay lines: they give the time at which a packet leaves as a function of the
times at which packets came.

All times are those of the packets, not those of the clock: a packet that is handled late does not
delay the one behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

MOST_QUEUED_BYTES = 256 * 2**20
"""Of one stream; more is dropped. TCP's window (`placer.launch.shaped_network.namespace`) keeps
streams far below.
"""
MANY_STREAMS = 512
"""With more than these, those that are idle are forgotten."""


@dataclass(slots=True, eq=False)
class Card:
    """One direction of a machine's network card, which all its links share."""

    bytes_per_s: float
    free_at: float = 0.0


@dataclass(slots=True, eq=False)
class Link:
    """One ordered pair of machines.

    Parameters
    ----------
    stream_bytes_per_s, pair_bytes_per_s
        Of one stream and of all together.
    delay_s
        From one end to the other.
    cards
        Of the sender and of the receiver.
    deliver
        Takes a packet at the other end.
    busy_s
        Time so far in which the link had something to carry.
    """

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
        """Return when a packet that passed its stream at a time may pass the pair, and when the
        cards as well.
        """
        fastest = max(self.stream_bytes_per_s, self.pair_bytes_per_s)
        pair = max(passed - size / fastest, self.free_at)
        out, into = self.cards
        return pair, max(pair, out.free_at, into.free_at)

    def carry(self, size: int, came: float, pair: float, began: float) -> float:
        """Occupy pair and cards with a packet; return when all of it has left.

        Notes
        -----
        The pair's own time goes on while a packet waits for a card, so that short waits do not make
        it slower.
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

    Notes
    -----
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
        """Take a packet of a stream.

        Parameters
        ----------
        key
            Names the stream.
        size
            Bytes that count.
        now
            When it came, seconds.
        """
        stream = self.streams.get(key)
        if stream is None:
            stream = self._new(link, key, now)
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
        """Send the first packet of a stream, which has passed its bucket, on its way, or let it ask
        again when pair and cards may be free.
        """
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

    def _new(self, link: Link, key: bytes, now: float) -> Stream:
        if len(self.streams) > MANY_STREAMS:
            self.streams = {k: s for k, s in self.streams.items() if s.waiting or s.free_at > now}
        stream = self.streams[key] = Stream(link)
        return stream
