"""The shape of a link between two places."""

from __future__ import annotations

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
        Of one TCP connection in this direction, payload; above 0.
    pair_bytes_per_s
        Of all streams from one machine to another together, payload; above 0.
    rtt_s
        Round-trip time; each direction delays by half of it.
    """

    src: str
    dst: str
    stream_bytes_per_s: float
    pair_bytes_per_s: float
    rtt_s: float

    @property
    def rate_bytes_per_s(self) -> float:
        """Return the rate that one stream alone reaches."""
        return min(self.stream_bytes_per_s, self.pair_bytes_per_s)


def shapes_between(
    places: Sequence[str], shapes: Iterable[Shape]
) -> Mapping[tuple[str, str], Shape]:
    """Return the shapes by pair of places.

    Raises
    ------
    PlacerError
        Names a pair that two machines need and that is missing.
    """
    by_pair = {(shape.src, shape.dst): shape for shape in shapes}
    counts = Counter(places)
    for src, dst in product(counts, counts):
        if (src != dst or counts[src] > 1) and (src, dst) not in by_pair:
            raise PlacerError(
                f"no link {src} -> {dst}",
                "give the shape of each direction between places that have machines",
            )
    return by_pair
