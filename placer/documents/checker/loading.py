"""How workers read their samples, a second time: from a store in the first pass over the data, and
from local disks that hold it in later ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from placer.records import Json

LOADER_STREAMS = 16
"""Streams side by side in which one machine reads samples."""
DISK_SHARE = 0.9
"""Share of its disks that samples may fill."""
ONE_DISK, EACH_GB = 660e6, 0.88e6
"""Bytes/s of one local disk, and of each GB of several."""


@dataclass(frozen=True)
class Reading:
    """Samples/s of a worker from the store and from its disks, and the share of the store."""

    store: float
    disk: float
    streamed: float

    def mean(self, speed: float = float("inf")) -> float:
        """Return the samples/s over all passes of a worker that calculates so fast at most."""
        first, later = min(speed, self.store), min(speed, self.disk)
        return 1 / (self.streamed / first + (1 - self.streamed) / later)

    def first(self, speed: float) -> float:
        """Return the speed in the first pass of a worker with some speed over all passes."""
        return min(speed, self.store)


UNKNOWN = Reading(float("inf"), float("inf"), 1.0)
"""Of data that is with the workers, or that comes over a link that a file does not name."""


def passes_of(wish: Json, bytes_per_sample: float) -> float:
    """Return how often the run reads the data: as asked, else by its samples and the size."""
    if wish["passes"] != 1:
        return max(1.0, float(wish["passes"]))
    if not wish["samples"] or not wish.get("data_bytes"):
        return 1.0
    return max(1.0, float(wish["samples"] * bytes_per_sample / wish["data_bytes"]))


def reading_of(
    wish: Json, offer: Json, machines: int, bytes_per_sample: float, bytes_per_s: float
) -> Reading:
    """Return how a worker of some machines reads, of which one reads so much from the store."""
    passes, gb = passes_of(wish, bytes_per_sample), offer.get("local_disk_gb")
    store = machines * bytes_per_s / bytes_per_sample
    disk = max(ONE_DISK, EACH_GB * (gb or 0.0))
    if passes <= 1 or disk < bytes_per_s or not _kept(wish, gb, machines, bytes_per_sample):
        return Reading(store, store, 1.0)
    return Reading(store, machines * disk / bytes_per_sample, 1 / passes)


def _kept(wish: Json, gb: float | None, machines: int, bytes_per_sample: float) -> bool:
    size = wish.get("data_bytes")
    if not size and wish["samples"] and wish["passes"] != 1:
        size = wish["samples"] * bytes_per_sample / max(1.0, wish["passes"])
    if wish.get("data_cache") in ("disk", "none"):
        return bool(wish["data_cache"] == "disk")
    return bool(gb and size and size <= DISK_SHARE * machines * gb * 1e9)
