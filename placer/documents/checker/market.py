"""The market of a saved problem by weak duality: the most that N machines reach for a price, in
plain Python.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import accumulate, pairwise

from placer.documents.checker.averages import class_of
from placer.documents.checker.limits import fits, not_admitted, quota_of, supply_of
from placer.records import Json

MOST_COUNTED = 16
"""Quota up to which every mix of machine sizes is counted."""
CHEAPEST = float("inf")
"""Multiplier that asks for the cheapest N machines instead."""


@dataclass(frozen=True)
class Machine:
    """One admitted offer: samples/s alone and in a group, USD/h, most of them, GPUs of one, what
    its quota counts with; the rows of the book and of the speeds that it is made of.
    """

    alone: float
    speed: float
    usd: float
    most: int
    gpus: int
    host: str
    bucket: tuple[str, ...]
    quota: int | None
    offer: Json = field(default_factory=dict, repr=False, compare=False)
    speeds: Json = field(default_factory=dict, repr=False, compare=False)


def machines_of(problem: Json, speeds: Sequence[Json]) -> list[Machine]:
    """List the offers of a whole ``placer.problem/v1`` document that its wishes admit, as
    `broken_limits` reads them, with the samples/s of their device, alone and in a group.
    """
    known: dict[tuple[str, int], list[Json]] = {}
    for row in speeds:
        known.setdefault((row["gpu"], row["gpu_count"]), []).append(row)
    return [
        machine
        for offer in problem["catalog"]["offers"]
        for row in known.get((offer["gpu"], offer["gpu_count"]), ())
        if _is_of(offer, row) and _admitted(offer, row, problem)
        for machine in _machine(offer, row, problem)
    ]


def _is_of(offer: Json, row: Json) -> bool:
    """Tell whether a speed is that of an offer; workers with a plan have one for each network."""
    # What nobody wrote down is left out of a book, and stands empty among speeds.
    return all(
        (offer.get(key) or None) == (row[key] or None)
        for key in ("network_gbps", "fabric")
        if key in row
    )


def _machine(offer: Json, speed: Json, problem: Json) -> list[Machine]:
    """Return an offer as one kind of worker; empty if quota or number allow none."""
    wish, machines = problem["requirements"], int(speed.get("machines", 1))
    place = f"{offer['provider']}/{offer['region']}"
    bucket: tuple[str, ...] = (place, offer["gpu"], offer["market"])
    quota = quota_of(place, offer["gpu"], offer["market"], wish)
    gpus, most = machines * offer["gpu_count"], [int(wish["max_workers"])]
    if quota is not None:
        most.append(quota // gpus)
    launch = supply_of(offer, problem)
    if launch is not None:  # no quota counts it, so its machine type has this one to itself
        bucket, quota = (*bucket, offer["instance_type"]), launch * offer["gpu_count"]
        most.append(launch // machines)
    if offer["available"] is not None:
        most.append(offer["available"] // machines)
    if min(most) < 1:
        return []
    return [
        Machine(
            alone=speed["alone"],
            speed=speed["in_group"],
            usd=machines * offer["usd_per_hour"],
            most=min(most),
            gpus=gpus,
            host=class_of(offer, machines, problem),
            bucket=bucket,
            quota=quota,
            offer=offer,
            speeds=speed,
        )
    ]


def _admitted(offer: Json, speed: Json, problem: Json) -> bool:
    wish, place = problem["requirements"], f"{offer['provider']}/{offer['region']}"
    if any(not_admitted(offer, speed["basis"], wish)):
        return False
    if problem["profile"].get("architecture") is None and not fits(offer, problem):
        return False
    if offer["price_basis"] != "owned":
        return True
    # Own machines are used where something names their place.
    patterns = [*wish["places_in"], *(rule["place"] for rule in wish["used"])]
    named = [pattern for pattern in patterns if fnmatchcase(place, pattern)]
    return place in _own_places(problem["catalog"]) or any(not p.startswith("*") for p in named)


def _own_places(book: Json) -> list[str]:
    """List the sites of machines that were put into the book: ``own=NAME=2xT4@Berlin``."""
    words = [str(word).split("=") for word in book.get("changes", ())]
    return [f"onprem/{word[1].strip()}" for word in words if word[0] == "own" and word[1:]]


def largest_sums(machines: Sequence[Machine], multiplier: float, most: int) -> list[float]:
    """Bound the sum of (v - lambda c) of exactly N machines from above, for N from 0; with
    `CHEAPEST` the sum of -c. Lambda is the multiplier, samples/s for a USD/h; every value of 0 or
    more gives a bound.

    Weak duality: whatever N machines within the quotas are, their speeds together are at most this
    plus lambda times their price. Machines of several sizes that share a quota enter by the concave
    majorant of the best exact counts, under a large quota by weak duality again. Fewer values than
    ``most`` + 1 say that no more machines exist.
    """
    shared: dict[tuple[str, ...], list[tuple[float, Machine]]] = {}
    for machine in machines:
        worth = -machine.usd if multiplier == CHEAPEST else machine.speed - multiplier * machine.usd
        shared.setdefault(machine.bucket, []).append((worth, machine))
    steps: list[float] = []
    apart: list[tuple[float, int]] = []
    for rows in shared.values():
        quota = rows[0][1].quota
        if len(rows) == 1 or quota is None:
            apart += [(worth, machine.most) for worth, machine in rows]
        elif quota <= MOST_COUNTED:
            steps += _majorant(_best_of_bucket(rows, quota, most))
        else:
            steps += _priced_devices(rows, quota, most)
    for worth, count in heapq.nlargest(most, apart):
        steps += [worth] * min(count, most)
    return [0.0, *accumulate(heapq.nlargest(most, steps))]


def undominated(machines: Sequence[Machine], most: int) -> list[Machine]:
    """Leave out machines in whose place another one does as well: one that no quota counts, of
    which there are ``most``, and that is as fast for as little. It can stand in for any number of
    them, so the largest sum of N machines stays what it was for every multiplier.
    """
    order = sorted(range(len(machines)), key=lambda i: (machines[i].usd, -machines[i].speed))
    kept, fastest = [], float("-inf")
    for i in order:
        if machines[i].speed > fastest:
            kept.append(i)
            if machines[i].quota is None and machines[i].most >= most:
                fastest = machines[i].speed
    return [machines[i] for i in sorted(kept)]


def _priced_devices(rows: Sequence[tuple[float, Machine]], quota: int, most: int) -> list[float]:
    """Bound what each further machine of one quota adds, by prices of a device: whatever machines
    there are, they are worth at most the whole quota at its price and what each is worth above its
    own devices'.
    """
    prices = {0.0} | {
        max(0.0, (big - small) / (large.gpus - little.gpus))
        for small, little in rows
        for big, large in rows
        if little.gpus < large.gpus
    }
    bounds = []
    for price in prices:
        units = [
            worth - price * machine.gpus
            for worth, machine in rows
            for _ in range(min(machine.most, most))
        ]
        bounds.append([price * quota, *heapq.nlargest(most, units)])
    sums = [min(column) for column in zip(*(accumulate(bound) for bound in bounds), strict=True)]
    fewest = min(machine.gpus for _, machine in rows)
    machines = min(len(sums) - 1, quota // fewest)
    return [high - low for low, high in pairwise(sums[: machines + 1])]


def _best_of_bucket(rows: Sequence[tuple[float, Machine]], quota: int, most: int) -> list[float]:
    """Return the largest worth of exactly k machines of one quota, for k from 0, GPU by GPU."""
    best = {(0, 0): 0.0}
    for worth, machine in rows:
        now = dict(best)
        for (count, gpus), value in best.items():
            for k in range(1, min(machine.most, (quota - gpus) // machine.gpus, most - count) + 1):
                key = count + k, gpus + k * machine.gpus
                now[key] = max(now.get(key, value + k * worth), value + k * worth)
        best = now
    counts = max(count for count, _ in best)
    return [
        max(value for (count, _), value in best.items() if count == k) for k in range(counts + 1)
    ]


def _majorant(values: Sequence[float]) -> list[float]:
    """Return the increments of the least concave function above some values."""
    corners = [(0, values[0])]
    for k, value in enumerate(values[1:], start=1):
        while len(corners) > 1 and (corners[-1][1] - corners[-2][1]) * (k - corners[-2][0]) <= (
            value - corners[-2][1]
        ) * (corners[-1][0] - corners[-2][0]):
            corners.pop()
        corners.append((k, value))
    found: list[float] = []
    for (k, low), (n, high) in pairwise(corners):
        found += [(high - low) / (n - k)] * (n - k)
    return found
