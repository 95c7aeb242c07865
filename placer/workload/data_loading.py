"""How fast samples reach their workers: over a link with a store in the first pass over the data,
and in later ones from a local disk that holds it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from placer.market.catalog import StoreOffer, VmOffer
from placer.market.network.graph import Network
from placer.market.network.tables import GBPS
from placer.market.words.own_places import SITES
from placer.records import replace
from placer.workload.profile import LARGEST, Rate

LOADER_STREAMS = 16
"""TCP streams side by side in which one machine reads: assumed, several loader processes with
several requests each.
"""
CACHES = ("auto", "disk", "none")
"""Where later passes read from: the local disk where a book says that it holds the data, every
local disk, or the store.
"""
DISK_SHARE = 0.9
"""Share of the local disks that samples may fill: assumed, the rest is for checkpoints."""
DISK_BYTES_PER_S = 660e6
"""Bytes/s that one local disk reads: Google publishes this of a local SSD of 375 GB (2025)."""
DISK_BYTES_PER_S_OF_GB = 0.88e6
"""The same of each GB where there are several: 2,650 MB/s of eight such disks, the least of its
table (6,240 MB/s of sixteen). Assumed alike at other providers.
"""


class Loader(Struct, frozen=True, kw_only=True):
    """How one worker reads its samples. ``store`` holds the samples/s from the store,
    ``disk_samples_per_s`` those from its local disks, and ``streamed`` the share of all samples
    that comes from the store: 1 where every pass reads anew. The disk is never slower than the
    store, or every pass reads anew.
    """

    store: Rate
    disk_samples_per_s: float = math.inf
    streamed: float = 1.0

    def first(self, speed: float, case: int = 0) -> float:
        """Return the speed in the first pass of a worker whose mean speed over all passes is given.
        A worker that waits for the store in its first pass reads as fast as it can; one that does
        not is as fast in all.
        """
        return min(speed, _cases(self.store)[case])

    def loaded(self, rate: Rate) -> Rate:
        """Return the mean speed over all passes of a worker that calculates no faster than it
        reads.

        >>> fast = Rate(gpu="T4", gpu_count=1, framework="none", value=200.0, low=150.0, high=300.0,
        ...     basis="measured", source="")
        >>> store = replace(fast, value=160.0, low=80.0, high=200.0)
        >>> slower = Loader(store=store).loaded(fast)
        >>> slower.low, slower.value, slower.high
        (80.0, 160.0, 200.0)

        Of two passes the second comes from the disk: as many samples at 50/s as at 200/s.

        >>> slow = replace(store, value=50.0, low=50.0, high=50.0)
        >>> Loader(store=slow, disk_samples_per_s=1e9, streamed=0.5).loaded(fast).value
        80.0
        """
        value, low, high = (
            self._mean(own, read)
            for own, read in zip(_cases(rate), _cases(self.store), strict=True)
        )
        return replace(rate, value=value, low=low, high=high)

    def later(self, speed: float) -> float:
        """Return the speed in later passes of a worker whose mean speed over all is given."""
        if not self.keeps:
            return speed
        return (1 - self.streamed) / (1 / speed - self.streamed / self.first(speed))

    @property
    def keeps(self) -> bool:
        """Whether its disks keep the data for later passes."""
        return self.streamed < 1.0

    def _mean(self, own: float, read: float) -> float:
        first = min(own, read)
        later = min(own, max(read, self.disk_samples_per_s))
        # Equal speeds have no mean that differs by rounding.
        return first if first == later else 1 / _seconds(first, later, self.streamed)


def _seconds(first: float, later: float, streamed: float) -> float:
    return streamed / first + (1 - streamed) / later


def _cases(rate: Rate) -> tuple[float, float, float]:
    return rate.value, rate.low, rate.high


def machine_bytes_per_s(store: StoreOffer, offer: VmOffer, network: Network) -> Rate:
    """Return the bytes/s that one machine reads from a store, with an interval and where it comes
    from. Over the network of the machine inside the store's region; from elsewhere also over its
    link with `LOADER_STREAMS` streams. A machine whose network no book names reaches inside a
    region what one stream does. Each machine reads by itself; what a store gives to all of them
    together is `samples_per_s`, and what a site of one's own lets in is `site_line`.
    """
    card = math.inf if offer.network_gbps is None else offer.network_gbps * GBPS
    link = network.link(store.place, offer.place)
    inside = store.place == offer.place and card < math.inf
    away = store.place != offer.place and offer.place.startswith(SITES)
    line = site_line(network, offer.place) if away else (math.inf,) * 3
    value, low, high = (
        # Questions about endless links multiply them by a million.
        card if inside else min(card, link.speed(LOADER_STREAMS, case), line[case], LARGEST)
        for case in range(3)
    )
    return Rate(
        gpu=offer.gpu,
        gpu_count=offer.gpu_count,
        framework="none",
        value=value,
        low=min(low, value),
        high=max(high, value),
        basis="estimated" if inside else link.basis,
        source="network of the machine" if inside else link.source,
    )


def site_line(network: Network, place: str) -> tuple[float, float, float]:
    """Return the bytes/s that all machines of a site of one's own send or receive together:
    expected, slow, fast. A book tells the line of a site as the link of the site with itself, as
    exchanges use it.
    """
    line = network.link(place, place)
    return line.bytes_per_second, line.low, line.high


def disk_bytes_per_s(local_disk_gb: float | None) -> float:
    """Return the bytes/s that the local disks of one machine read; of unknown size: one disk.

    >>> disk_bytes_per_s(None), disk_bytes_per_s(6000)
    (660000000.0, 5280000000.0)
    """
    return max(DISK_BYTES_PER_S, (local_disk_gb or 0.0) * DISK_BYTES_PER_S_OF_GB)


def loader_of(
    read: Rate,
    offer: VmOffer,
    machines: int,
    *,
    bytes_per_sample: float,
    data_bytes: float | None,
    passes: float,
    cache: str,
) -> Loader:
    """Return how a worker of some machines reads. The disks of a worker hold the whole data and not
    a share of it alone: which share is a worker's changes from pass to pass, and when another
    worker is taken away. A disk that reads more slowly than the link is left alone.

    read: bytes/s that one of its machines reads from the store.
    data_bytes: Size of the data; None where nobody says it.
    """
    store = replace(
        read,
        value=machines * read.value / bytes_per_sample,
        low=machines * read.low / bytes_per_sample,
        high=machines * read.high / bytes_per_sample,
    )
    disk = disk_bytes_per_s(offer.local_disk_gb)
    fits = cache == "disk" or (
        cache == "auto"
        and offer.local_disk_gb is not None
        and data_bytes is not None
        and data_bytes <= DISK_SHARE * machines * offer.local_disk_gb * 1e9
    )
    if not fits or passes <= 1 or disk < read.value:
        return Loader(store=store)
    return Loader(
        store=store, disk_samples_per_s=machines * disk / bytes_per_sample, streamed=1 / passes
    )


def samples_per_s(store: StoreOffer | None, bytes_per_sample: float | None) -> float:
    """Return the samples/s that a store gives to all workers; infinite where no book names it."""
    if store is None or store.read_gbps is None or bytes_per_sample is None:
        return math.inf
    return store.read_gbps * GBPS / bytes_per_sample


class Readers(Struct, frozen=True, kw_only=True):
    """Some workers that read alike: how many, the mean speed of each, and how they read; None: the
    data is with them. All of one ``site`` share a line of ``line`` samples/s.
    """

    count: int
    speed: float
    loader: Loader | None
    site: str = ""
    line: float = math.inf

    def first(self, case: int) -> float:
        """Return the speed of each in the first pass."""
        return self.speed if self.loader is None else self.loader.first(self.speed, case)


def speeds_within(
    readers: Sequence[Readers], most: float, case: int = 0, *, equal_parts: bool = False
) -> list[float]:
    """Return the mean speed of each kind of worker where a store gives so many samples/s at most.
    What the store or the line of a site lacks while all of them read their first pass they lack in
    proportion. Workers that read every pass anew keep this share in all of them, although others
    read from their disks by then: the limit then counts too much, never too little. With equal
    parts another worker may be the slowest in the first pass than in later ones; all are then
    slower by what the slowest mean speed leaves out.

    most: samples/s to all workers together.
    case: 0, 1 or 2: expected, slow or fast.
    equal_parts: Whether all workers do equal parts of a step, and so wait for the slowest of each
        pass.

    >>> far = Rate(gpu="T4", gpu_count=1, framework="none", value=100.0, low=100.0, high=100.0,
    ...     basis="measured", source="")
    >>> one = Readers(count=2, speed=100.0, loader=Loader(store=far))
    >>> speeds_within([one], 100.0), speeds_within([one], 300.0)
    ([50.0], [100.0])

    Of two passes the store slows the first down alone: to 50/s of 100/s.

    >>> kept = Loader(store=far, disk_samples_per_s=1e9, streamed=0.5)
    >>> [round(v, 3) for v in speeds_within([replace(one, loader=kept)], 100.0)]
    [66.667]

    The first is the slower one in the first pass, 50/s and then 200/s, the second in the other,
    80/s: of equal parts both do 1 / (0.5 / 50 + 0.5 / 80) = 61.5/s, where 80/s are the slower mean.

    >>> slow = replace(far, value=50.0, low=50.0)
    >>> other = replace(kept, store=slow)
    >>> two = [Readers(count=1, speed=80.0, loader=x) for x in (other, Loader(store=far))]
    >>> [round(v, 1) for v in speeds_within(two, math.inf, equal_parts=True)]
    [61.5, 61.5]
    """
    speeds = [reader.speed for reader in readers]
    lacks = _lacks(readers, most, case)
    if any(lacks):
        speeds = [
            1 / (1 / reader.speed + _streamed(reader) * lack / reader.first(case))
            for reader, lack in zip(readers, lacks, strict=True)
        ]
    streamed = min(map(_streamed, readers), default=1.0)
    if not equal_parts or not 0 < streamed < 1:
        return speeds
    first = [reader.first(case) / (1 + lack) for reader, lack in zip(readers, lacks, strict=True)]
    later = [
        speed if _streamed(reader) == 1.0 else (1 - streamed) / (1 / speed - streamed / slow)
        for reader, speed, slow in zip(readers, speeds, first, strict=True)
    ]
    waits = max(1.0, min(speeds) * _seconds(min(first), min(later), streamed))
    return [speed / waits for speed in speeds]


def _lacks(readers: Sequence[Readers], most: float, case: int) -> list[float]:
    """Return by what share each kind of worker asks for more than line and store give it."""
    asked: dict[str, float] = {}
    for reader in readers:
        if reader.line < math.inf and _streamed(reader) > 0:
            own = reader.count * reader.first(case)
            asked[reader.site] = asked.get(reader.site, 0.0) + own
    over = [max(1.0, asked.get(reader.site, 0.0) / reader.line) for reader in readers]
    together = math.fsum(
        reader.count * reader.first(case) / share
        for reader, share in zip(readers, over, strict=True)
        if _streamed(reader) > 0
    )
    return [share * max(1.0, together / most) - 1 for share in over]


def _streamed(reader: Readers) -> float:
    return 1.0 if reader.loader is None else reader.loader.streamed
