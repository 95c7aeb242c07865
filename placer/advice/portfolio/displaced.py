"""Who displaced whom, and what one more of something scarce is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from placer.advice.portfolio.greedy import Ledger
from placer.advice.portfolio.question.columns import Column, Duals

SLACK = 1e-9
"""Slack of a sum against its limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Displacement:
    """Something that a job would have taken alone and that others hold: ``wanted`` in the first
    slot in which it is short, where ``left`` was left beside ``by``, who hold most of it first.
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
    """What one more of something scarce is worth, in USD per hour, or in total with slots: a price
    of the relaxation, which holds for a small change, and jobs come whole.
    """

    resource: str
    unit: str
    usd: float
    slots: tuple[int, ...]


def displacements(
    ledger: Ledger, assigned: Mapping[int, Column], job: int, alone: Column
) -> Iterator[Displacement]:
    """Yield what keeps a job from its column ``alone``; where speed counts, dollars too."""
    portfolio, own = ledger.columns.portfolio, assigned.get(job)

    def holders(amount: Callable[[Column], float]) -> tuple[str, ...]:
        each = ((-amount(column), number) for number, column in assigned.items() if number != job)
        rows = sorted((least, portfolio.jobs[number].name) for least, number in each if least)
        return tuple(name for _, name in rows)

    seen = set[str]()
    for key, wanted in sorted(alone.use.items(), key=lambda item: item[0][1]):
        resource, slot = key
        left = ledger.left(key) + (0.0 if own is None else own.use.get(key, 0.0))
        if wanted > left + SLACK and resource.words not in seen:
            seen.add(resource.words)
            yield Displacement(
                resource=resource.words,
                unit=resource.unit,
                place=resource.place,
                wanted=wanted,
                left=max(0.0, left),
                by=holders(lambda column, key=key: column.use.get(key, 0.0)),  # type: ignore[misc]
                slot=slot,
            )
    if portfolio.budget_usd is None or not portfolio.by_speed:
        return
    left = portfolio.budget_usd - ledger.usd + (0.0 if own is None else own.usd)
    if alone.usd > left * (1 + SLACK):
        yield Displacement(
            resource="of the budget",
            unit="USD/h",
            place="",
            wanted=alone.usd,
            left=max(0.0, left),
            by=holders(lambda column: column.usd),
            slot=0,
        )


def worths(duals: Duals, objective: str) -> tuple[Worth, ...]:
    """List what is scarce, the dearest first; in dollars of the budget where cost is no aim."""
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
