"""Prices one job by regions of speeds and slots; jobs one by one, and who displaced whom."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from placer.advice.portfolio.columns import Column, Columns, Duals, Group, Held, Resource
from placer.advice.portfolio.jobs import HOUR_S
from placer.advice.portfolio.search import Search, Sought, elsewhere
from placer.documents.schemas.many import Displaced
from placer.problem.placement import Placement
from placer.records import replace
from placer.solving import allowance

MOST_SEARCHES = 10
"""Searches for one job at one set of prices; `MOST_SPEEDS` where speed counts."""
MOST_SPEEDS = 3
ENOUGH = 0.003
"""Relative distance of a bound from the best column at which windows of slots are split no more."""
MOST_REGIONS = 120
"""Regions of a job at one set of prices at most."""
SLOWEST = 1e-3
"""The first range of speeds ends at this share of the last one, where a job has no floor."""
NARROW = 1.01
"""A range of speeds with ends in this relation is searched; a wider one is split."""


@dataclass(frozen=True, kw_only=True, order=True)
class Region:
    """Columns of a job that begin in some slots, hold some number of slots, and do so many
    samples/s: at least the first figure, and no more than the second.

    ``searched``: its bound is that of a search.
    """

    starts: tuple[int, int]
    lengths: tuple[int, int]
    speeds: tuple[float, float]
    searched: bool = False


@dataclass(kw_only=True)
class Pricing:
    """Finds columns of a job, and bounds on all of them. ``tops`` bound the speed of groups."""

    columns: Columns
    search: Search
    tops: dict[int, float] = field(default_factory=dict)

    def bound(
        self,
        group: Group,
        duals: Duals,
        floor: float = 0.0,
        near: float = 0.0,
        proved: float = -inf,
    ) -> float:
        """Add the best columns of a job at some prices, and bound the reduced value of all that are
        at least as fast as a floor; infinite if there are none.

        A bound so ``near`` to the best column is enough; ``proved`` is known. A column in a range
        of speeds has at most the value of its upper end, and at least the dollars of its lower end.
        """
        columns, gap = self.columns, self.search.options.gap
        if columns.portfolio.slots is not None:
            gap = max(gap, ENOUGH)
        ranges = columns.portfolio.objective != "cost"
        left, raised = MOST_SPEEDS if ranges else MOST_SEARCHES, list[tuple[float, float]]()
        heap = [(self._relaxed(group, duals, r), r) for r in self._whole(group, floor)]
        while heap:
            bound, region = heap[0]
            low, gain = region.speeds[0], self._gain(group, region)
            slower = max((usd for speed, usd in raised if speed <= low), default=-inf)
            if gain + slower > bound:  # what is as fast costs no less than what is slower
                heapq.heapreplace(heap, (gain + slower, region))
                continue
            best = columns.least(group, duals, floor)
            if max(bound, proved) >= best - max(near, gap * abs(best)) or allowance.current().spent:
                break
            halves = self._halves(group, region)
            if not region.searched and not (ranges and halves) and left:
                left -= 1
                bound = max(bound, self._searched(group, duals, region, best))
                heapq.heapreplace(heap, (bound, replace(region, searched=True)))
                raised += [(low, bound - gain)] if ranges and -inf < gain <= bound < inf else []
            elif halves and left and len(heap) < MOST_REGIONS:
                heapq.heappop(heap)
                for half in halves:
                    least = self._relaxed(group, duals, half)
                    heapq.heappush(heap, (max(bound, least), half))
            else:
                break
        return heap[0][0] if heap else inf

    def cheapest(self, group: Group, sought: Sought) -> tuple[float, tuple[Column, ...]]:
        """Add the columns of the placement of least dollars with surcharges; per hour, or in total
        with slots. Returns a bound on these, and a column for each slot that it may begin in.
        """
        per_sample, scale = self._scale(group)
        sought = replace(sought, known=sought.known / scale)
        found = self.search.cheapest(group.question, sought, per_sample=per_sample)
        made = () if found.placement is None else self.keep(group, found.placement)
        return found.bound * scale, made

    def keep(self, group: Group, placement: Placement) -> tuple[Column, ...]:
        """Keep and return the columns of a placement, and those in other places."""
        before = len(self.columns)
        made = self.columns.add(group, placement)
        if self.columns.portfolio.slots is None and len(self.columns) > before:
            for other in elsewhere(placement, group.job.problem):
                self.columns.add(group, other)
        return made

    def slowest(self, group: Group, slots: int | None = None) -> float:
        """Return the least samples/s of a job that holds no more than some slots, or its window."""
        portfolio, job = self.columns.portfolio, group.job
        if portfolio.slots is None or job.wish.samples is None:
            return job.floor
        most = len(portfolio.window(job)) if slots is None else slots
        seconds = most * portfolio.slots.hours * HOUR_S * (1 + 1e-9)
        return max(job.floor, job.wish.samples / seconds if seconds else inf)

    def family(self, group: Group) -> object:
        """Return what tells a job's question from others but for speed: what is proved of a slow
        job holds for faster ones.
        """
        alike = self.columns.portfolio.slots is None and self.columns.portfolio.objective == "cost"
        return (self.search.family(group.question), group.job.team) if alike else group.number

    def least_usd(self, group: Group, duals: Duals, floor: float) -> float:
        """Return a bound on the dollars and prices of columns that reach a speed, side by side."""
        surcharges, factor = self._surcharges(group, duals, self._whole(group, floor)[0])
        return factor * self.search.relaxed(group.question, surcharges, floor)

    def _scale(self, group: Group) -> tuple[bool, float]:
        """Tell whether a sample's price is what counts, and return the dollars of its unit."""
        job = group.job
        if self.columns.portfolio.slots is None:
            return False, 1.0
        if job.wish.samples is not None:
            return True, job.wish.samples / 1e6
        return False, (job.duration_s or 0.0) / HOUR_S

    def _whole(self, group: Group, floor: float) -> list[Region]:
        """Return the region of all columns of a job that reach a speed; none if there are none."""
        slots, job = self.columns.portfolio.slots, group.job
        window = self.columns.portfolio.window(job)
        short, long = 1, len(window)
        if slots is not None and job.wish.samples is None:
            short = long = slots.needed(job.seconds(1.0))
        low, high = max(floor, self.slowest(group)), self.tops.get(group.number, inf)
        if len(window) < short or low > high * (1 + 1e-9) or low == inf:
            return []
        starts = window.start, window.stop - short
        return [Region(starts=starts, lengths=(short, long), speeds=(low, high))]

    def _halves(self, group: Group, region: Region) -> list[Region]:
        """Split a region along its longer side; nothing if it is one window, or narrow."""
        (first, last), (short, long), (low, high) = region.starts, region.lengths, region.speeds
        if self.columns.portfolio.slots is None:
            if self.columns.portfolio.objective == "cost" or high == inf or high <= low * NARROW:
                return []
            middle = (max(low, high * SLOWEST) * high) ** 0.5
            parts = [{"speeds": (low, middle)}, {"speeds": (middle, high)}]
        elif (first, short) == (last, long):
            return []
        elif last - first >= long - short:
            half = (first + last) // 2
            parts = [{"starts": (first, half)}, {"starts": (half + 1, last)}]
        else:
            half = (short + long) // 2
            fast = self.slowest(group, half), high
            parts = [{"lengths": (short, half), "speeds": fast}, {"lengths": (half + 1, long)}]
        return [replace(region, searched=False, **part) for part in parts]

    def _windows(self, group: Group, region: Region) -> list[tuple[int, int]]:
        """List first slot and number of slots of the columns of a region."""
        stop, (short, long) = self.columns.portfolio.window(group.job).stop, region.lengths
        starts = range(region.starts[0], region.starts[1] + 1)
        return [(s, n) for s in starts for n in range(short, min(long, stop - s) + 1)]

    def _surcharges(
        self, group: Group, duals: Duals, region: Region
    ) -> tuple[dict[Resource, float], float]:
        """Return USD per hour for a unit of each resource, and the value of a dollar.

        A placement holds its slots whole and pays for the hours that it works, so its surcharge by
        the hour is at least that of the cheapest window, spread over the window.
        """
        portfolio = self.columns.portfolio
        factor = duals.budget + (1.0 if portfolio.objective == "cost" else 0.0)
        if portfolio.slots is None:
            return {held[0]: price / factor for held, price in duals.prices.items()}, factor
        prices: dict[Resource, dict[int, float]] = {}
        for (resource, slot), price in duals.prices.items():
            prices.setdefault(resource, {})[slot] = price
        windows, hours = self._windows(group, region), portfolio.slots.hours
        least = {
            resource: min(sum(own.get(s, 0.0) for s in range(a, a + n)) / n for a, n in windows)
            for resource, own in prices.items()
        }
        return {resource: price / (factor * hours) for resource, price in least.items()}, factor

    def _gain(self, group: Group, region: Region) -> float:
        """Return the least part of the value of a region's columns that is not dollars."""
        portfolio = self.columns.portfolio
        cost = portfolio.objective == "cost"
        return 0.0 if cost else portfolio.value(group.job, 0.0, region.speeds[1])

    def _relaxed(self, group: Group, duals: Duals, region: Region) -> float:
        """Return a bound on the reduced value of a region's columns that takes no search."""
        if not self._windows(group, region):
            return inf
        surcharges, factor = self._surcharges(group, duals, region)
        per_sample, scale = self._scale(group)
        low = region.speeds[0]
        usd = self.search.relaxed(group.question, surcharges, low, per_sample=per_sample)
        return self._gain(group, region) + factor * scale * usd

    def _searched(self, group: Group, duals: Duals, region: Region, best: float) -> float:
        """Search the least dollars in a region; returns a bound on its reduced values."""
        surcharges, factor = self._surcharges(group, duals, region)
        columns, gain, floor = self.columns, self._gain(group, region), region.speeds[0]
        windows = [range(start, start + n) for start, n in self._windows(group, region)]
        closed = (
            resource
            for resource in columns.blocks
            if not any(all(columns.capacity((resource, s)) > 0 for s in slots) for slots in windows)
        )
        own = (c for c in columns.of(group) if c.samples_per_second >= floor)
        start = min(own, key=lambda column: column.reduced(duals), default=None)
        sought = Sought(
            floor=floor,
            surcharges=surcharges,
            caps=dict.fromkeys(closed, 0.0),
            known=(best - gain) / factor,
            start=None if start is None else start.placement,
        )
        return gain + factor * self.cheapest(group, sought)[0]


SLACK = 1e-9
"""Slack of a sum against its limit."""
AnyUnit = Literal["GPU", "machine", "USD/h", "USD"]
"""Unit of what jobs take."""


class Ledger:
    """What is held of everything that is shared, and what is left."""

    def __init__(self, columns: Columns, counts: Mapping[Column, int] | None = None) -> None:
        self.columns = columns
        self.held: dict[Held, float] = {}
        self.bought: set[int] = set()
        self.usd = 0.0
        self.team_usd: dict[str, float] = {}
        self._value = 0.0
        for column, count in (counts or {}).items():
            self.take(column, count)

    @property
    def total(self) -> float:
        """Value of all that is taken; blocks are paid for in dollars."""
        return self.usd if self.columns.portfolio.objective == "cost" else self._value

    def take(self, column: Column, count: int = 1) -> None:
        """Take what a column holds, so many times."""
        team = self.columns.groups[column.group].job.team
        self.usd += count * column.usd + self._paid(column)
        self.team_usd[team] = self.team_usd.get(team, 0.0) + count * column.usd
        self.bought |= self._needed(column)
        self._value += count * column.value
        for held, amount in column.use.items():
            self.held[held] = self.held.get(held, 0.0) + count * amount

    def left(self, held: Held) -> float:
        """Return what is left of a resource in a slot."""
        return self.columns.capacity(held) - self.held.get(held, 0.0)

    def left_of(self, team: str) -> float:
        """Return the dollars that are left of a team's budget; infinite without one."""
        return self.columns.portfolio.team_usd.get(team, inf) - self.team_usd.get(team, 0.0)

    def best(self, group: Group) -> Column | None:
        """Return the best known column of one more job that fits, with blocks it buys."""
        fitting = (column for column in self.columns.of(group) if self._fits(column))
        return min(fitting, key=lambda column: column.value + self._paid(column), default=None)

    def caps(self, team: str) -> dict[Resource, float]:
        """Return what is left to a team of each resource in all slots, where anything is taken."""
        left: dict[Resource, float] = {}
        for (resource, slot), amount in self.held.items():
            if amount > 0 and resource.team in ("", team):
                most = max(0.0, self.left((resource, slot)))
                left[resource] = min(most, left.get(resource, most))
        return left

    def _fits(self, column: Column) -> bool:
        budget = self.columns.portfolio.budget_usd
        usd = self.usd + column.usd + self._paid(column)
        team = self.columns.groups[column.group].job.team
        if budget is not None and usd > budget * (1 + SLACK):
            return False
        if column.usd > self.left_of(team) * (1 + SLACK) + SLACK:
            return False
        return all(amount <= self.left(held) + SLACK for held, amount in column.use.items())

    def _paid(self, column: Column) -> float:
        """Return the dollars of the blocks that a column would be the first to use."""
        return sum(self.columns.portfolio.blocks[i].usd for i in self._needed(column))

    def _needed(self, column: Column) -> set[int]:
        """Return the blocks that nobody has bought yet and a column may need."""
        own, blocks = self.columns.blocks, self.columns.portfolio.blocks
        return {
            i
            for resource, slot in column.use
            for i in own.get(resource, ())
            if slot in blocks[i].slots and i not in self.bought
        }


def one_by_one(
    pricing: Pricing, taken: Mapping[Column, int] | None = None, *, searched: bool = True
) -> dict[Column, int]:
    """Place jobs one after the other, by priority and order, each on what is left beside ``taken``.

    ``searched``: a job whose best column does not fit is asked about again; else only known columns
    are looked at. Jobs that find nothing are not among the chosen columns.
    """
    columns, chosen = pricing.columns, dict(taken or {})
    ledger, run = Ledger(columns, chosen), running(columns, chosen)
    for group in sorted(columns.groups, key=lambda g: (-g.job.priority, g.members[0])):
        for _ in range(group.count - run[group.number]):
            best, alone = ledger.best(group), columns.cheapest(group)
            fits = best is not None and alone is not None and best.usd <= alone.usd
            if searched and not fits and not allowance.current().spent:
                caps = ledger.caps(group.job.team)
                pricing.cheapest(group, Sought(floor=pricing.slowest(group), caps=caps))
                best = ledger.best(group)
            if best is None:
                break
            ledger.take(best)
            chosen[best] = chosen.get(best, 0) + 1
    return chosen


def running(columns: Columns, counts: Mapping[Column, int]) -> list[int]:
    """Return how many jobs of each group run."""
    run = [0] * len(columns.groups)
    for column, count in counts.items():
        run[column.group] += count
    return run


def worth(columns: Columns, counts: Mapping[Column, int]) -> tuple[float, ...]:
    """Return a sort key of a choice, lowest is best: weight left out by priority, then value."""
    missed: dict[int, float] = {}
    for group, run in zip(columns.groups, running(columns, counts), strict=True):
        priority = -group.job.priority
        lost = (group.count - run) * group.job.weight
        missed[priority] = missed.get(priority, 0.0) + lost
    total = Ledger(columns, counts).total
    return (*(round(missed[priority], 9) for priority in sorted(missed)), total)


def displacements(
    ledger: Ledger, assigned: Mapping[int, Column], job: int, alone: Column
) -> Iterator[Displaced]:
    """Yield what keeps a job from its column ``alone``; where speed counts, dollars too."""
    portfolio, own = ledger.columns.portfolio, assigned.get(job)

    def short(
        resource: str, unit: AnyUnit, wanted: float, left: float, taken: Mapping[int, float]
    ) -> Displaced:
        each = (
            (-amount, portfolio.jobs[number].name) for number, amount in taken.items() if amount
        )
        by = tuple(name for _, name in sorted(each))
        left = max(0.0, left)
        return Displaced(resource, unit, place="", wanted=wanted, left=left, by=by, slot=0)

    others = {number: column for number, column in assigned.items() if number != job}
    seen = set[str]()
    for key, wanted in sorted(alone.use.items(), key=lambda item: item[0][1]):
        resource, slot = key
        left = ledger.left(key) + (0.0 if own is None else own.use.get(key, 0.0))
        if wanted > left + SLACK and resource.words not in seen:
            seen.add(resource.words)
            taken = {number: column.use.get(key, 0.0) for number, column in others.items()}
            found = short(resource.words, resource.unit, wanted, left, taken)
            yield replace(found, place=resource.place, slot=slot)
    team, back = portfolio.jobs[job].team, 0.0 if own is None else own.usd
    usd = {number: column.usd for number, column in others.items()}
    mates = {number: paid for number, paid in usd.items() if portfolio.jobs[number].team == team}
    budgets = [(f"of the budget of team {team}", ledger.left_of(team) + back, mates)]
    if portfolio.budget_usd is not None and portfolio.by_speed:
        budgets.append(("of the budget", portfolio.budget_usd - ledger.usd + back, usd))
    for words, left, taken in budgets:
        if alone.usd > left * (1 + SLACK) + SLACK:
            yield short(words, portfolio.unit, alone.usd, left, taken)
