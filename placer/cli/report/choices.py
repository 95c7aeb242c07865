"""The choices beside an answer, a row each: the best at an older price, at the figures of the book,
on demand (``steady``), and the next best; and own machines beside rented ones.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from placer.cli.report.placements import brief, rented
from placer.cli.report.proof import price_basis, speed_basis
from placer.cost_model.outlook.totals import speed_between, totals_of
from placer.documents.schemas.proofs import BreakEven
from placer.problem.problem import Problem
from placer.report.draw.wrapping import aligned
from placer.solving.result import Option, OwnOrRented, Result
from placer.units import format_duration, format_usd, speed_unit

CENTS_BELOW = 100
"""USD from which cents are left out of a total."""
LEAST_WIDTH = 20
"""Columns of the names of machines in a narrow terminal."""
GAP = "  "


class Choice(NamedTuple):
    """One row, as it is printed."""

    label: str
    machines: str
    price: str
    speed: str
    total: str
    known: str


def choice_lines(result: Result, width: int) -> Iterator[tuple[str, str]]:
    """Yield labels and lines of at most four choices beside an answer under a head, no placement
    twice. Without room in the columns beside the labels, how they are known is left out and
    machines are wrapped.
    """
    shown = {result.placement and result.placement.canonical()}
    rows = []
    for label, option in _named(result):
        if option.placement.canonical() not in shown:
            shown.add(option.placement.canonical())
            rows.append(_row(label, option, result.problem))
    if not rows or result.estimate is None:
        return
    unit = speed_unit(result.estimate.tokens_per_sample)
    head = Choice("", "machines", "USD/h", unit, "total" if rows[0].total else "", "price; speed")
    columns = [list(column) for column in zip(head, *rows, strict=True)][2:]
    widths = [max(map(len, column)) for column in columns]
    room = width - sum(wide + len(GAP) for wide in widths if wide)
    if room < LEAST_WIDTH:
        room, widths[-1] = room + widths[-1] + len(GAP), 0
    names = max(LEAST_WIDTH, min(room, max(len(row.machines) for row in rows)))
    for row in (head, *rows):
        first, *more = textwrap.wrap(row.machines, names, break_on_hyphens=False) or [""]
        figures = [text.rjust(wide) for text, wide in zip(row[2:5], widths, strict=False) if wide]
        known = [row.known] if widths[-1] else []
        yield row.label, GAP.join([first.ljust(names), *figures, *known]).rstrip()
        yield from (("", line) for line in more)


def _named(result: Result) -> Iterator[tuple[str, Option]]:
    if result.older is not None:
        yield result.older.label, result.older
    if result.bold is not None:
        yield "bold", result.bold
    if result.own_machines is not None:
        return  # they have a table of their own
    rows = [option for option in result.options if _devices(option) != _devices(result)]
    on_demand = [o for o in rows if all(g.market == "on_demand" for g in o.placement.groups)]
    yield from (("steady", option) for option in on_demand[:1])
    yield from [("next", option) for option in rows if option not in on_demand[:1]][:1]


def _devices(shown: Option | Result) -> set[tuple[str, str]]:
    """Return what is rented, whatever the number of devices of a machine."""
    groups = () if shown.placement is None else shown.placement.groups
    return {(group.gpu, group.market) for group in groups}


def _row(label: str, option: Option, problem: Problem) -> Choice:
    got, total = option.estimate, ""
    if problem.requirements.samples is not None:
        totals = totals_of(got, problem.requirements)
        usd = totals.usd.value
        money = format_usd(usd) if usd < CENTS_BELOW else f"${usd:,.0f}"
        total = f"{format_duration(totals.seconds.value)}, {money}"
    bases = dict.fromkeys(price_basis(offer) for offer in rented(option.placement, problem))
    prices = " and ".join(basis.partition(" ")[0] for basis in bases)
    return Choice(
        label=label,
        machines=brief(option.placement),
        price=format_usd(got.usd_per_hour.total),
        speed=speed_between(got),
        total=total,
        known=f"{'book' if label == 'bold' else prices}; {speed_basis(got.provenance)}",
    )


def own_lines(beside: OwnOrRented, problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield a table of own machines, own with spot ones and spot ones alone, and the prices at
    which own machines and rented ones cost the same.
    """
    wish = problem.requirements
    each = "sample" if problem.profile.architecture is None else "token"
    rows = [["", "USD/h", f"{each}s/s", "total", "machines"]]
    for row in beside.rows:
        total = ""
        if wish.samples is not None:
            whole = totals_of(row.estimate, wish)
            total = f"{format_usd(whole.usd.value)} in {format_duration(whole.seconds.value)}"
        usd, speed = format_usd(row.estimate.usd_per_hour.total), speed_between(row.estimate)
        rows.append([row.label, usd, speed, total, brief(row.placement)])
    if wish.samples is None:
        rows = [[*row[:3], row[4]] for row in rows]
    for number, line in enumerate(aligned(rows)):
        yield "" if number else "options", line
    if beside.break_even is not None:
        yield "cheaper", _break_even(beside.break_even, each)


def _break_even(even: BreakEven, each: str) -> str:
    """Say up to which price own machines are cheaper, and below which rented ones are."""
    most, least = even.most_own_usd_per_machine_hour, even.least_rented_usd_per_hour
    mine = f"up to {format_usd(most)}/h each" if most else "at no price"
    other = f"below {format_usd(least)}/h in all" if least else "at no price"
    return (
        f"own {mine} (now {format_usd(even.own_usd_per_machine_hour)}), {even.rented} {other} "
        f"(now {format_usd(even.rented_usd_per_hour)}), per {each}"
    )
