"""Datasets: samples with a place, and elastic scheduling (Cloudless-Training) of their shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.network.graph import Network
from placer.records import Amount


class Dataset(Struct, frozen=True, kw_only=True):
    """Samples that lie in one place; they stay there, or may move to where the workers are."""

    place: str
    samples: int
    may_move: bool

    def __post_init__(self) -> None:
        """Refuse empty datasets."""
        if self.samples < 1:
            raise PlacerError(
                f"dataset in {self.place} has {self.samples} samples", "give a whole number above 0"
            )


def needs_place(datasets: Sequence[Dataset]) -> tuple[str, ...]:
    """Return the places where data must stay, so that workers must be there; sorted."""
    return tuple(sorted({data.place for data in datasets if not data.may_move}))


def passes_of(
    passes: float, samples: int | None, data_bytes: float | None, bytes_per_sample: float
) -> float:
    """Return how often a run reads the data of a store, at least once: as the user says (1 is the
    default), or as samples and size do. Without either it is once, in which the store sets the
    pace: more passes are never slower.

    >>> passes_of(1, 10_000, 1e6, 1000.0), passes_of(3, None, None, 1000.0)
    (10.0, 3)
    >>> passes_of(1, 10, 1e6, 1000.0), passes_of(1, None, 1e6, 1000.0)
    (1.0, 1.0)
    >>> passes_of(0.5, None, None, 1000.0), passes_of(1.5, None, None, 1000.0)
    (1.0, 1.5)
    """
    if passes != 1:
        return max(1.0, passes)
    if samples is None or data_bytes is None:
        return 1.0
    return max(1.0, samples * bytes_per_sample / data_bytes)


def bytes_of(
    passes: float, samples: int | None, data_bytes: float | None, bytes_per_sample: float
) -> float | None:
    """Return the size of the data of a store; where only samples and passes say it, what each
    leaves.

    >>> bytes_of(10, 10_000, None, 1000.0), bytes_of(1, 10_000, None, 1000.0)
    (1000000.0, None)
    """
    if data_bytes is not None or samples is None or passes == 1:
        return data_bytes
    return samples * bytes_per_sample / max(1.0, passes)


COPY_STREAMS = 16
"""Streams side by side when a dataset moves: copy tools use that many or more."""


def shares(datasets: Sequence[Dataset], speed: Mapping[str, float]) -> dict[str, float]:
    """Share of all samples that each region with workers does, so that the last region finishes as
    early as it can. Water-filling: regions whose own data takes longer than the common time keep
    only that; the others share what may move in proportion to their speed in samples/s.

    >>> sizes = {"a": 300, "b": 100}
    >>> two = [Dataset(place=p, samples=n, may_move=False) for p, n in sizes.items()]
    >>> shares(two, {"a": 10.0, "b": 10.0})
    {'a': 0.75, 'b': 0.25}
    >>> # 300 stay, 100 move to c
    >>> shares([two[0], Dataset(place="b", samples=100, may_move=True)], {"a": 10.0, "c": 10.0})
    {'a': 0.75, 'c': 0.25}
    """
    stay = dict.fromkeys(speed, 0.0)
    for data in datasets:
        if not data.may_move:
            if data.place not in speed:
                raise PlacerError(
                    f"{data.samples:,} samples must stay in {data.place}, where there is no worker",
                    "put workers there",
                )
            stay[data.place] += data.samples
    total = fsum(data.samples for data in datasets)
    free = total - fsum(stay.values())
    open_ = sorted(speed, key=lambda p: stay[p] / speed[p])
    level = 0.0
    for k in range(len(open_), 0, -1):
        filled = open_[:k]
        level = (free + fsum(stay[p] for p in filled)) / fsum(speed[p] for p in filled)
        if level >= stay[filled[-1]] / speed[filled[-1]]:
            break
    return {
        place: max(stay[place], level * speed[place] if free else stay[place]) / total
        for place in speed
    }


class Move(Struct, frozen=True, kw_only=True, rename={"src": "from", "dst": "to"}):
    """Samples that leave one place for another before the run: bytes, USD once, seconds."""

    src: str
    dst: str
    samples: Amount
    bytes: Amount
    usd: Amount
    seconds: Amount


def moves(
    datasets: Sequence[Dataset],
    part: Mapping[str, float],
    bytes_per_sample: float,
    network: Network,
) -> tuple[Move, ...]:
    """List what has to move for shares by place: data at home is used first, then the cheapest."""
    total = fsum(data.samples for data in datasets)
    wanted = {place: share * total for place, share in part.items()}
    for data in datasets:
        if not data.may_move:
            wanted[data.place] -= data.samples
    left = {data.place: 0.0 for data in datasets if data.may_move}
    for data in datasets:
        if data.may_move:
            left[data.place] += data.samples
    ways = sorted(
        (src != dst, network.usd_per_byte(src, dst), src, dst) for src in left for dst in wanted
    )
    moves = []
    for away, usd_per_byte, src, dst in ways:
        samples = min(left[src], wanted[dst])
        left[src], wanted[dst] = left[src] - samples, wanted[dst] - samples
        if away and samples >= 1:
            size = samples * bytes_per_sample
            seconds = size / network.link(src, dst).speed(COPY_STREAMS)
            moves.append(
                Move(
                    src=src,
                    dst=dst,
                    samples=samples,
                    bytes=size,
                    usd=size * usd_per_byte,
                    seconds=seconds,
                )
            )
    return tuple(moves)
