"""Prices a job in slots of time: windows of slots in groups, split where the bound is weakest."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

from placer.advice.portfolio.pricing.search import Cheapest, Search
from placer.advice.portfolio.question.columns import Columns, Duals, Group
from placer.advice.portfolio.question.jobs import HOUR_S
from placer.advice.portfolio.question.resources import Resource
from placer.solving import allowance

MOST_WINDOWS = 10
"""Groups of windows that are asked about at one set of prices."""
ENOUGH = 0.003
"""Relative distance of a bound from the best column at which windows are split no more."""


@dataclass(frozen=True, order=True)
class Windows:
    """Windows that begin in some slots and hold some number of slots."""

    starts: tuple[int, int]
    lengths: tuple[int, int]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Iterate over first slot and number of slots."""
        for start in range(self.starts[0], self.starts[1] + 1):
            for length in range(self.lengths[0], self.lengths[1] + 1):
                yield start, length

    def halves(self) -> list[Windows]:
        """Split along the longer side; empty if there is one window alone."""
        (s0, s1), (l0, l1) = self.starts, self.lengths
        if s0 == s1 and l0 == l1:
            return []
        if s1 - s0 >= l1 - l0:
            middle = (s0 + s1) // 2
            return [Windows((s0, middle), (l0, l1)), Windows((middle + 1, s1), (l0, l1))]
        middle = (l0 + l1) // 2
        return [Windows((s0, s1), (l0, middle)), Windows((s0, s1), (middle + 1, l1))]


def bound_in_slots(search: Search, columns: Columns, group: Group, duals: Duals) -> float:
    """Add the best columns of a job at some prices to those that are kept.

    Returns
    -------
    float
        No column of the job has a smaller reduced value. A placement holds its slots whole and
        pays for the hours that it works, so its surcharge by the hour is at least that of the
        cheapest window of a group, spread over the window.
    """
    window = columns.portfolio.window(group.job)
    everything = _all(columns, group, window)
    if everything is None:
        return inf
    heap = [(_asked(search, columns, group, duals, everything), everything)]
    for _ in range(MOST_WINDOWS):
        bound, worst = heap[0]
        best = min((c.reduced(duals) for c in columns.of(group.number)), default=inf)
        halves = worst.halves()
        if bound >= best - ENOUGH * abs(best) or not halves or allowance.current().spent:
            break
        heapq.heappop(heap)
        for half in halves:
            if half.starts[0] + half.lengths[0] <= window.stop:
                found = max(bound, _asked(search, columns, group, duals, half))
                heapq.heappush(heap, (found, half))
        if not heap:
            return inf
    return heap[0][0]


def cheapest_in_slots(
    search: Search,
    columns: Columns,
    group: Group,
    caps: Mapping[Resource, float],
    most_slots: int | None,
    gap: float | None,
) -> Cheapest:
    """Find the least dollars in total of a job within some limits."""
    window = columns.portfolio.window(group.job)
    longest = len(window) if most_slots is None else min(most_slots, len(window))
    if longest < 1:
        return Cheapest(bound=inf)
    return _in_total(search, columns, group, {}, longest, caps=caps, gap=gap)


def _all(columns: Columns, group: Group, window: range) -> Windows | None:
    """Return all windows of a job; None if there are none."""
    slots, job = columns.portfolio.slots, group.job
    assert slots is not None
    least, most = 1, len(window)
    if job.duration_s is not None:
        least = most = slots.needed(job.duration_s)
    if len(window) < least:
        return None
    return Windows((window.start, window.stop - least), (least, most))


def _asked(search: Search, columns: Columns, group: Group, duals: Duals, windows: Windows) -> float:
    """Ask for the best placement in a group of windows; return its bound."""
    slots = columns.portfolio.slots
    assert slots is not None
    stop = columns.portfolio.window(group.job).stop
    fitting = [(s, n) for s, n in windows if s + n <= stop]
    if not fitting:
        return inf
    factor = 1 + duals.budget
    surcharges = _least_surcharges(duals, fitting, factor * slots.hours)
    closed = {
        resource: 0.0
        for resource in columns.limits.blocks
        if not any(_covered(columns, resource, s, n) for s, n in fitting)
    }
    longest = max(n for _, n in fitting)
    found = _in_total(search, columns, group, surcharges, longest, caps=closed)
    if found.placement is not None:
        columns.add(group, found.placement)
    return factor * found.bound


def _covered(columns: Columns, resource: Resource, start: int, length: int) -> bool:
    """Tell whether some block of an offer may serve a whole window."""
    return all(columns.limits.capacity((resource, s)) > 0 for s in range(start, start + length))


def _least_surcharges(
    duals: Duals, windows: list[tuple[int, int]], hours: float
) -> dict[Resource, float]:
    """Return USD per hour for a unit of each resource: the least over some windows."""
    prices: dict[Resource, dict[int, float]] = {}
    for (resource, slot), usd in duals.prices.items():
        prices.setdefault(resource, {})[slot] = usd
    surcharges = {}
    for resource, by_slot in prices.items():
        least = min(
            sum(by_slot.get(slot, 0.0) for slot in range(start, start + length)) / length
            for start, length in windows
        )
        if least > 0:
            surcharges[resource] = least / hours
    return surcharges


def _in_total(
    search: Search,
    columns: Columns,
    group: Group,
    surcharges: Mapping[Resource, float],
    longest: int,
    *,
    caps: Mapping[Resource, float] | None = None,
    gap: float | None = None,
) -> Cheapest:
    """Find the least dollars in total of a job that holds no more than so many slots."""
    slots, job = columns.portfolio.slots, group.job
    assert slots is not None
    if job.wish.samples is None:
        hours = (job.duration_s or 0.0) / HOUR_S
        floor = job.wish.min_samples_per_second or 0.0
        found = search.cheapest(job.problem, surcharges, floor, caps=caps, gap=gap)
        return Cheapest(bound=found.bound * hours, placement=found.placement)
    seconds = longest * slots.hours * HOUR_S * (1 + 1e-9)
    floor = max(job.wish.samples / seconds, job.wish.min_samples_per_second or 0.0)
    found = search.cheapest(
        job.problem, surcharges, floor, objective="cost-per-sample", caps=caps, gap=gap
    )
    return Cheapest(bound=found.bound * job.wish.samples / 1e6, placement=found.placement)
