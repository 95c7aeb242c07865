"""The meter of one process: seconds by phase, bytes by pair of places, requests by kind."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Meter:
    """Counters from one step to the next; `take` returns and resets them."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin again."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.asked: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.wire_s = 0.0
        self.overlap_s: dict[str, float] = {}

    @contextmanager
    def on_the_wire(self) -> Iterator[None]:
        """Add the wall-clock seconds of a block to those in which messages are under way: a part of
        its phase.
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wire_s += time.perf_counter() - start

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the wall-clock seconds of a block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def sent(self, src: str, dst: str, count: int) -> None:
        """Count bytes of a payload that go from a place to a place."""
        self.bytes[src, dst] += count

    def request(self, bucket: str, kind: str) -> None:
        """Count a request to an object store."""
        self.asked[bucket][kind] += 1

    @property
    def requests(self) -> Counter[str]:
        """Return the requests to all object stores by kind."""
        return sum(self.asked.values(), Counter[str]())

    def overlap(self, **seconds: float) -> None:
        """Count an exchange that ran in a thread of its own.

        Parameters
        ----------
        seconds
            ``exchange_s`` that it took beside the calculation of the next round; ``waited_s`` for
            which it was then still waited for; ``flushed_s`` for which it was waited for at once,
            as a checkpoint or the end of the run came.
        """
        for name in ("exchange_s", "waited_s", "flushed_s"):
            self.overlap_s[name] = self.overlap_s.get(name, 0.0) + seconds.get(name, 0.0)

    def absorb(self, other: Meter) -> None:
        """Take over what another meter has counted; it begins again."""
        for name, seconds in other.seconds.items():
            self.seconds[name] += seconds
        self.bytes.update(other.bytes)
        for bucket, kinds in other.asked.items():
            self.asked[bucket].update(kinds)
        self.wire_s += other.wire_s
        other.clear()

    def take(self) -> dict[str, Any]:
        """Return the figures of a record and begin again."""
        exchange = {name: s for name, s in self.seconds.items() if name != "calculation"}
        taken = {
            "calculation_s": self.seconds["calculation"],
            "exchange_s": exchange,
            "wire_s": self.wire_s,
            "sent": [
                {"src": src, "dst": dst, "bytes": count}
                for (src, dst), count in sorted(self.bytes.items())
            ],
            "control_bytes": 0,  # of early runtimes
            "requests": dict(sorted(self.requests.items())),
            "requests_by_bucket": {
                bucket: dict(sorted(kinds.items())) for bucket, kinds in sorted(self.asked.items())
            },
            **({"beside": self.overlap_s} if self.overlap_s else {}),
        }
        self.clear()
        return taken
