"""The shape of a link between two places."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from placer.errors import PlacerError


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The rates and the round-trip time of one direction between two places.

    Parameters
    ----------
    src, dst
        Places; the same one: two machines of one region.
    stream_bytes_per_s
        Of one TCP connection in this direction, payload.
    pair_bytes_per_s
        Of all streams from one machine to another together, payload.
    rtt_s
        Round-trip time; each direction delays by half of it.

    Raises
    ------
    PlacerError
        If a rate is not positive or a time is negative.
    """

    src: str
    dst: str
    stream_bytes_per_s: float
    pair_bytes_per_s: float
    rtt_s: float

    def __post_init__(self) -> None:
        for name in ("stream_bytes_per_s", "pair_bytes_per_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise PlacerError(
                    f"link {self.src} -> {self.dst}: {name} is {value}",
                    "give a positive rate in bytes/s",
                )
        if not (math.isfinite(self.rtt_s) and self.rtt_s >= 0):
            raise PlacerError(
                f"link {self.src} -> {self.dst}: rtt_s is {self.rtt_s}",
                "give a time in seconds, 0 or more",
            )

    @property
    def rate_bytes_per_s(self) -> float:
        """Return the rate that one stream alone reaches."""
        return min(self.stream_bytes_per_s, self.pair_bytes_per_s)


def shapes_between(
    places: Sequence[str], shapes: Iterable[Shape]
) -> Mapping[tuple[str, str], Shape]:
    """Return the shapes by pair of places, and check that each pair that two machines need is there
    once.

    Raises
    ------
    PlacerError
        Names a pair that is missing or stands twice.
    """
    by_pair: dict[tuple[str, str], Shape] = {}
    for shape in shapes:
        if by_pair.setdefault((shape.src, shape.dst), shape) != shape:
            raise PlacerError(
                f"link {shape.src} -> {shape.dst} appears twice with other figures",
                "give each direction once",
            )
    counts = Counter(places)
    for src, dst in product(counts, counts):
        if (src != dst or counts[src] > 1) and (src, dst) not in by_pair:
            raise PlacerError(
                f"no link {src} -> {dst}",
                "give the shape of each direction between places that have machines",
            )
    return by_pair
