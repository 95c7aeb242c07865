"""Shares of a step by place, and the data that has to move for them, a second time."""

from __future__ import annotations

from collections.abc import Iterator

from placer.documents.checker.case import EQUAL_PARTS, Case


def shares(case: Case) -> dict[str, float]:
    """Return the share of a step by place: by data that has a place, else by heads or by speed."""
    if case.wish["datasets"]:
        return _by_data(case)
    if case.strategy in EQUAL_PARTS:
        return {place: count / case.workers for place, count in case.counts.items()}
    total = sum(case.pace.values())
    return {place: pace / total for place, pace in case.pace.items()}


def _by_data(case: Case) -> dict[str, float]:
    """Divide a step so that all places end together; none does less than the data that must stay
    there: drop those that are full until it fits.
    """
    datasets = case.wish["datasets"]
    total = sum(d["samples"] for d in datasets)
    stay = {
        p: sum(d["samples"] for d in datasets if d["place"] == p and not d["may_move"])
        for p in case.pace
    }
    if not any(d["may_move"] for d in datasets):
        return {p: samples / total for p, samples in stay.items()}
    open_ = set(stay)
    while True:
        seconds = (total - sum(stay[p] for p in stay if p not in open_)) / sum(
            case.pace[p] for p in open_
        )
        full = {p for p in open_ if stay[p] > seconds * case.pace[p] * (1 + 1e-15)}
        if not full or full == open_:
            break
        open_ -= full
    return {p: (seconds * case.pace[p] if p in open_ else stay[p]) / total for p in stay}


def moves(case: Case) -> Iterator[tuple[str, str, float, float]]:
    """Yield (from, to, samples, USD per sample) of the data that moves before the run: home first,
    then by the cheapest way.
    """
    datasets, size = case.wish["datasets"], case.profile["bytes_per_sample"]
    total = sum(d["samples"] for d in datasets)
    wanted = {place: share * total for place, share in shares(case).items()}
    left: dict[str, float] = {}
    for data in datasets:
        if data["may_move"]:
            left[data["place"]] = left.get(data["place"], 0.0) + data["samples"]
        else:
            wanted[data["place"]] -= data["samples"]
    ways = [
        (src != dst, case.usd_per_byte(src, dst, zonal=False), src, dst)
        for src in left
        for dst in wanted
    ]
    for away, price, src, dst in sorted(ways):
        samples = min(left[src], wanted[dst])
        left[src] -= samples
        wanted[dst] -= samples
        if away and samples >= 1:
            yield src, dst, samples, size * price
