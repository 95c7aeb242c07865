"""The all-reduce of gloo, with which PyTorch and torchft average on CPUs: a ring in which each rank
sends to the one before it (gloo/allreduce.cc).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import ceil

from placer.market.network.graph import Link

MOST_SEGMENT_BYTES = 2**20
IN_FLIGHT = 2
"""Segments that a rank sends, and receives, at a time (gloo/allreduce.cc, ``ring``)."""
Links = Callable[[str, str], Link]


def ring_seconds(places: Sequence[str], byte_count: float, link: Links) -> float:
    """Return the seconds of an all-reduce of some bytes over ranks in some places.

    Reduce-scatter and all-gather each pass all but one part of the vector on to the next rank, in
    segments. One is sent when its receiver has said that it waits for it, and that one waits for
    two at a time: far ranks wait for a round trip for each two. Of two ranks the asking waits
    behind the segments that go the same way, over the same connection.

    >>> from placer.market.network.graph import Link
    >>> def even(src, dst):
    ...     return Link(
    ...         src=src, dst=dst, bytes_per_second=1e7, low=1e7, high=1e7, cap=1e7, rtt_s=0.1,
    ...         basis="measured", source="")
    >>> # twice two segments of half a MB, and a round trip
    >>> round(ring_seconds(["a", "b"], 2e6, even), 3)
    0.4
    """
    ranks = len(places)
    parts = max(IN_FLIGHT, ceil(byte_count / MOST_SEGMENT_BYTES / ranks))
    segment = byte_count / ranks / parts
    # As seen from the last rank to the first, each sends to the next.
    backwards = places[::-1]
    links = [link(backwards[number - 1], place) for number, place in enumerate(backwards)]
    delays = [way.rtt_s / 2 for way in links]
    free, began = [0.0] * ranks, 0.0
    for _ in range(2):
        ready = [[began] * ranks for _ in range(IN_FLIGHT)]
        ended = began
        for number in range((ranks - 1) * parts):
            posted = ready[number % IN_FLIGHT]
            came, sent, before = [0.0] * ranks, [0.0] * ranks, list(free)
            for rank, way in enumerate(links):
                asked, takes = posted[rank], segment / way.bytes_per_second
                if ranks == 2 and before[rank - 1] - takes <= asked:  # a segment is on its way
                    asked = max(asked, before[rank - 1])
                start = max(posted[rank - 1], asked + delays[rank], free[rank])
                free[rank] = sent[rank - 1] = start + takes
                came[rank] = free[rank] + delays[rank]
            ready[number % IN_FLIGHT] = [max(pair) for pair in zip(came, sent, strict=True)]
            ended = max(ended, *came)
        began = ended
    return began


def first_copies(places: Sequence[str], byte_count: float) -> dict[tuple[str, str], float]:
    """Return the bytes by which rank 0 first gives its model to the others, in a binomial tree.

    >>> dict(first_copies(["a", "a", "b", "b"], 100.0))
    {('a', 'a'): 100.0, ('a', 'b'): 200.0}
    """
    sent: defaultdict[tuple[str, str], float] = defaultdict(float)
    for rank in range(1, len(places)):
        parent = rank - (1 << (rank.bit_length() - 1))
        sent[places[parent], places[rank]] += byte_count
    return sent
