"""Token buckets and delay lines: they give the time at which a packet leaves as a function of the
times at which packets came.

All times are those of the packets, not those of the clock: a packet that is handled late does not
delay the one behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

MOST_QUEUED_BYTES = 256 * 2**20
"""Of one stream; more is dropped. TCP's window (`placer.launch.shaped_network.packets.namespace`)
keeps streams far below.
"""
MANY_STREAMS = 512
"""With more than these, those that are idle are forgotten."""


class Link:
    """One ordered pair of machines.

    Parameters
    ----------
    stream_bytes_per_s, pair_bytes_per_s
        Of one stream and of all together.
    delay_s
        From one end to the other.
    deliver
        Takes a packet at the other end.
    """

    __slots__ = (
        "delay_s",
        "deliver",
        "free_at",
        "pair_bytes_per_s",
        "sent_bytes",
        "stream_bytes_per_s",
    )

    def __init__(
        self,
        stream_bytes_per_s: float,
        pair_bytes_per_s: float,
        delay_s: float,
        deliver: Callable[[Any], None],
    ) -> None:
        self.stream_bytes_per_s, self.pair_bytes_per_s, self.delay_s, self.deliver = (
            stream_bytes_per_s,
            pair_bytes_per_s,
            delay_s,
            deliver,
        )
        self.free_at = 0.0
        self.sent_bytes = 0


class Stream:
    """One direction of one connection: a first-in-first-out queue before its bucket."""

    __slots__ = ("free_at", "link", "queued_bytes", "waiting")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.waiting: deque[tuple[float, int, Any]] = deque()
        self.free_at = 0.0
        self.queued_bytes = 0


class Queues:
    """All streams of a network.

    Notes
    -----
    A packet of n bytes occupies its stream for n / rate and, ending no earlier, the pair of
    machines for n / the pair's rate; then comes the delay line. Of each stream one packet at a time
    asks for the pair, so streams share it evenly and none waits for the queue of another.
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
        """Send the first packet of a stream, which has passed its bucket, to the pair of machines
        and on its way.
        """
        _, size, packet = stream.waiting.popleft()
        stream.queued_bytes -= size
        link = stream.link
        began = max(at - size / max(link.stream_bytes_per_s, link.pair_bytes_per_s), link.free_at)
        link.free_at = began + size / link.pair_bytes_per_s
        heappush(self.events, (link.free_at + link.delay_s, next(self.order), None, link, packet))
        if stream.waiting:
            self._arm(stream, max(at, began))

    def _new(self, link: Link, key: bytes, now: float) -> Stream:
        if len(self.streams) > MANY_STREAMS:
            self.streams = {k: s for k, s in self.streams.items() if s.waiting or s.free_at > now}
        stream = self.streams[key] = Stream(link)
        return stream
