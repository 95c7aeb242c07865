"""What one process measures: seconds by phase, bytes by directed pair of places, requests by kind."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Meter:
    """Counts what happens from one step to the next; `take` hands over and begins again."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin again."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.bytes: Counter[tuple[str, str]] = Counter()
        self.control_bytes = 0
        self.asked: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.wire_s = 0.0

    @contextmanager
    def on_the_wire(self) -> Iterator[None]:
        """Add the wall-clock seconds of a block to those in which messages are under way: a part of its phase."""
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
        """Requests to all object stores by kind."""
        return sum(self.asked.values(), Counter[str]())

    def take(self) -> dict[str, Any]:
        """Return the figures of a record and begin again."""
        exchange = {name: seconds for name, seconds in self.seconds.items() if name != "calculation"}
        taken = {
            "calculation_s": self.seconds["calculation"],
            "exchange_s": exchange,
            "wire_s": self.wire_s,
            "sent": [{"src": src, "dst": dst, "bytes": count} for (src, dst), count in sorted(self.bytes.items())],
            "control_bytes": self.control_bytes,
            "requests": dict(sorted(self.requests.items())),
            "requests_by_bucket": {bucket: dict(sorted(kinds.items())) for bucket, kinds in sorted(self.asked.items())},
        }
        self.clear()
        return taken
