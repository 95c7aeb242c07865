"""Who displaced whom, and what one more of something scarce is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placer.advice.portfolio.question.columns import Column, Columns, Duals
from placer.advice.portfolio.question.resources import Held

SLACK = 1e-9
"""Slack of a sum against its limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Displacement:
    """Something that a job would have taken alone and that others hold.

    Notes
    -----
    ``wanted`` of it in the first slot in which it is short, where only ``left`` was left beside
    ``by``, the jobs that hold most of it, first.
    """

    resource: str
    unit: str
    place: str
    wanted: float
    left: float
    by: tuple[str, ...]
    slot: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Worth:
    """What one more of something scarce is worth: USD per hour, or in total with slots.

    Notes
    -----
    A price of the relaxation: it holds for a small change, and jobs come whole.
    """

    resource: str
    unit: str
    usd: float
    slots: tuple[int, ...]


def displacements(
    columns: Columns,
    assigned: Mapping[int, Column],
    held: Mapping[Held, float],
    job: int,
    alone: Column,
) -> tuple[Displacement, ...]:
    """List what keeps a job from the placement that it would have alone.

    Parameters
    ----------
    assigned
        Column of each job that runs, by its number.
    held
        What all of them hold.
    job
        Number of the job.
    alone
        Its best column with the market to itself.
    """
    own = assigned[job].use if job in assigned else {}
    rows: dict[str, Displacement] = {}
    for key, wanted in sorted(alone.use.items(), key=lambda item: item[0][1]):
        resource, slot = key
        left = columns.limits.capacity(key) - held.get(key, 0.0) + own.get(key, 0.0)
        if wanted <= left + SLACK or resource.words in rows:
            continue
        users = [
            (-column.use[key], columns.portfolio.jobs[other].name)
            for other, column in assigned.items()
            if other != job and key in column.use
        ]
        rows[resource.words] = Displacement(
            resource=resource.words,
            unit=resource.unit,
            place=resource.place,
            wanted=wanted,
            left=max(0.0, left),
            by=tuple(name for _, name in sorted(users)),
            slot=slot,
        )
    return tuple(rows.values())


def budget_displacement(
    columns: Columns, assigned: Mapping[int, Column], job: int, alone: Column
) -> tuple[Displacement, ...]:
    """Say who has the dollars that a job would spend by itself; empty if they are left."""
    budget = columns.portfolio.budget_usd
    if budget is None or not columns.portfolio.by_speed:
        return ()
    others = [
        (-column.usd, columns.portfolio.jobs[number].name)
        for number, column in assigned.items()
        if number != job
    ]
    left = budget + sum(usd for usd, _ in others)
    if alone.usd <= left * (1 + SLACK):
        return ()
    row = Displacement(
        resource="of the budget",
        unit="USD/h",
        place="",
        wanted=alone.usd,
        left=max(0.0, left),
        by=tuple(name for _, name in sorted(others)),
        slot=0,
    )
    return (row,)


def worths(duals: Duals, objective: str) -> tuple[Worth, ...]:
    """List what is scarce, the dearest first; where it is not cost that counts, in dollars of the
    budget that are worth as much.
    """
    if objective != "cost" and not duals.budget:
        return ()
    dollar = 1.0 if objective == "cost" else duals.budget
    prices: dict[tuple[str, str], dict[int, float]] = {}
    for (resource, slot), usd in duals.prices.items():
        prices.setdefault((resource.words, resource.unit), {})[slot] = usd / dollar
    rows = (
        Worth(resource=words, unit=unit, usd=sum(usd.values()), slots=tuple(sorted(usd)))
        for (words, unit), usd in prices.items()
    )
    return tuple(sorted((row for row in rows if row.usd > 0), key=lambda row: -row.usd))


def giving_way(columns: Columns, running: Sequence[int]) -> tuple[str, ...]:
    """Return the jobs that run in the order in which they give way: the lowest priority first, then
    the least weight, then the last of the list.
    """
    jobs = columns.portfolio.jobs
    order = sorted(running, key=lambda n: (jobs[n].priority, jobs[n].weight, -n))
    return tuple(jobs[number].name for number in order)
