"""Dollars per hour of a placement, a second time: Phalak et al. (2024), eq. 1-9, and data."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, fsum

from placer.documents.checker.case import BUTTERFLIES, EQUAL_PARTS, GIB, Case, passes_of
from placer.documents.checker.seconds import Bill

HOUR = 3600
MONTH_HOURS = 730
Send = tuple[str, str, float, int, bool]
"""From, to, bytes, how many, whether both ends are machines."""


def dollars_of(case: Case, bill: Bill) -> dict[str, float]:
    """Return USD/h by component, and in total."""
    rounds, server = HOUR / bill.seconds, case.placement["server"]
    beside = [] if server is None else [float(case.offer(server)["usd_per_hour"])]
    sent = (n * size * case.usd_per_byte(a, b, zonal=zonal) for a, b, size, n, zonal in sends(case))
    dollars = {
        "compute": fsum([*(c.usd_per_hour * c.count for c in case.site_groups), *beside]),
        "egress": fsum(sent) * rounds,
        "storage": fsum(_stored(case, *use, bill.seconds) for use in bill.stores) * rounds,
        "functions": fsum(_run(case, place, seconds) for place, seconds in bill.functions) * rounds,
        "data": _per_sample(case) * case.batch * case.local_steps * rounds,
    }
    return {**dollars, "total": fsum(dollars.values())}


def sends(case: Case) -> Iterator[Send]:
    """Yield what is sent in one round; eq. 7-9 for a store and a function."""
    if case.in_ring:
        yield from ((a, b, case.edge_bytes, 1, True) for a, b in case.edges)
        yield from ((p, p, case.edge_bytes, n - 1, True) for p, n in case.counts.items() if n > 1)
    elif case.strategy in BUTTERFLIES:
        yield from _among(case.counts, case.size)
    elif case.strategy in ("central", "hierarchical"):
        yield from _through_stores(case)
    elif case.strategy == "parameter-server":
        for place, n in case.counts.items():
            yield from _there_and_back(case, place, n)
    elif case.strategy != "none":
        yield from _by_regions(case)


def _by_regions(case: Case) -> Iterator[Send]:
    """Return what regions send that synchronise inside and meet through one machine each."""
    size, counts, gossip = case.size, case.counts, case.strategy == "asgd-ga"
    for place, n in counts.items():
        yield from _among({place: n}, size * case.local_steps)
        if n > 1 and not gossip:
            yield place, place, size, n - 1, True
    if case.strategy == "hierarchical-all-reduce":
        yield from _among(dict.fromkeys(counts, 1), size)
    elif gossip:
        part = size / (len(counts) - 1)
        yield from ((a, b, part, 1, True) for a in counts for b in counts if a != b)
    else:
        for place in sorted(counts.keys() - {case.hub}):
            yield from _there_and_back(case, place, 1)


def _there_and_back(case: Case, place: str, count: int) -> Iterator[Send]:
    yield place, case.hub, case.size, count, True
    yield case.hub, place, case.size, count, True


def _among(counts: dict[str, int], size: float) -> Iterator[Send]:
    """Return what every ordered pair of N workers carries: 2 S / N."""
    total = sum(counts.values())
    for a, n in counts.items():
        for b, m in counts.items():
            pairs = n * (n - 1) if a == b else n * m
            if pairs:
                yield a, b, 2 * size / total, pairs, True


def _through_stores(case: Case) -> Iterator[Send]:
    size, store, function = case.size, case.store, case.hub
    if case.strategy == "central":
        for place, n in case.counts.items():
            yield place, store, size, n, False
            yield store, place, size, n, False
        yield store, function, size, case.workers, False
    else:
        for place, n in case.counts.items():
            yield place, place, size, 3 * n + 1, False
            yield place, store, size, 1, False
            yield store, place, size, 1, False
        yield store, function, size, len(case.counts), False
    yield function, store, size, 1, False


def _stored(case: Case, place: str, objects: int, polls: int, seconds: float) -> float:
    """Return S R_st + (2n + l) R_read + (n + 1) R_write + n R_list (eq. 5), and billed reads."""
    row, gib = case.object_store(place), case.size / GIB
    space = gib * row["usd_per_gib_month"] * seconds / (MONTH_HOURS * HOUR)
    reads = (2 * objects + polls) * row["usd_per_thousand_reads"]
    asked = reads + (objects + 1) * row["usd_per_thousand_writes"]
    listed = objects * row["usd_per_thousand_lists"]
    return float(space + (asked + listed) / 1000 + 2 * objects * gib * row["usd_per_gib_retrieved"])


def _run(case: Case, place: str, seconds: float) -> float:
    """Price one run: T x M x R_mem rounded up as billed, CPU billed apart, the request (eq. 4)."""
    row, memory = case.function(place), case.placement["aggregator"]["memory_gib"]
    step = row["billing_step_ms"]
    milliseconds = max(row["min_billed_ms"], ceil(seconds * 1000 / step - 1e-9) * step)
    cpu = 0.0
    if row["gib_per_vcpu"] is not None:
        cpu = memory / row["gib_per_vcpu"] * row["usd_per_vcpu_second"]
    run = milliseconds / 1000 * (memory * row["usd_per_gib_second"] + cpu)
    return float(run + row["usd_per_million_requests"] / 1e6)


def _per_sample(case: Case) -> float:
    """Return the USD that one sample costs on its way to a worker."""
    wish = case.wish
    if wish["datasets"]:
        if not any(d["may_move"] for d in wish["datasets"]):
            return 0.0
        moved = fsum(samples * usd for _, _, samples, usd in case.moves())
        return moved / float(wish["passes"] * sum(d["samples"] for d in wish["datasets"]))
    if wish["data_store"] is None:
        return 0.0
    source, size = case.object_store(wish["data_store"])["place"], case.profile["bytes_per_sample"]
    equal = case.strategy in EQUAL_PARTS
    parts = [(group, (1 if equal else group.speed) * group.count) for group in case.site_groups]
    total = sum(part for _, part in parts)
    # What stays on a local disk is paid in the first pass alone.
    read = fsum(
        part
        / total
        * group.reading.streamed
        * size
        * case.usd_per_byte(source, group.place, zonal=False)
        for group, part in parts
    )
    return read + _copied(case, size)


def _copied(case: Case, bytes_per_sample: float) -> float:
    """Return the USD of a sample for a copy before the run, and for the months it is kept."""
    wish = case.wish
    if case.copy_from is None:
        return 0.0
    source, store = case.object_store(wish["data_source"]), case.object_store(wish["data_store"])
    months = max(1, ceil((wish["deadline_s"] or 0) / HOUR / MONTH_HOURS))
    usd_per_byte = case.usd_per_byte(case.copy_from, store["place"], zonal=False) + (
        (source["usd_per_gib_retrieved"] + months * store["usd_per_gib_month"]) / GIB
    )
    return float(usd_per_byte * bytes_per_sample / passes_of(wish, bytes_per_sample))
