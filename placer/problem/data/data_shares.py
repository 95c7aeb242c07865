"""Elastic scheduling (Cloudless-Training): the share of a step that each region does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.network.graph import Network
from placer.problem.data.datasets import Dataset

COPY_STREAMS = 16
"""Streams side by side when a dataset moves: copy tools use that many or more."""


def shares(datasets: Sequence[Dataset], speed: Mapping[str, float]) -> dict[str, float]:
    """Share of all samples that each region with workers does, so that the last region finishes as
    early as it can. Water-filling: regions whose own data takes longer than the common time keep
    only that; the others share what may move in proportion to their speed. ``datasets``: what stays
    is done where it is; what may move fills up the regions that would finish first. ``speed``:
    samples/s of each region's workers together. `PlacerError` if samples that stay have no workers.

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


class Move(Struct, frozen=True, kw_only=True):
    """Samples that leave one place for another before the run: bytes, USD once, seconds."""

    src: str
    dst: str
    samples: float
    bytes: float
    usd: float
    seconds: float


def moves(
    datasets: Sequence[Dataset],
    part: Mapping[str, float],
    bytes_per_sample: float,
    network: Network,
) -> tuple[Move, ...]:
    """List what has to move so that each region can do its share; data at home is used first, then
    the cheapest way. ``part``: share of all samples by place, as `shares` gives it.
    """
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
