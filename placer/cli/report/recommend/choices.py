"""The choices beside an answer, a row each: the best at an older price, at the figures of the book,
on demand (``steady``), and the next best.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from placer.cli.report.recommend.sentences import brief
from placer.cost_model.outlook.totals import speed_between, totals_of, unmeasured
from placer.market.books.defended_figures import PLANNED
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.result import Option, Result
from placer.units import format_duration, format_usd

CENTS_BELOW = 100
"""USD from which cents are left out of a total."""
LEAST_WIDTH = 20
"""Columns of the names of machines in a narrow terminal."""
GAP = "  "
BASES = {"list": "quoted", "published": "published", "owned": "own", "estimated": "estimated"}
"""How a price is known, by its basis in the book."""


class Choice(NamedTuple):
    """One row, as it is printed."""

    label: str
    machines: str
    price: str
    speed: str
    total: str
    known: str


def choices(result: Result) -> list[Choice]:
    """Return the rows beside an answer, at most four; no placement twice."""
    shown = {result.placement and result.placement.canonical()}
    rows = []
    for label, option in _named(result):
        if option.placement.canonical() in shown:
            continue
        shown.add(option.placement.canonical())
        rows.append(_row(label, option, result.problem))
    return rows


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


def _usd(value: float) -> str:
    """Write an amount without cents where it has three digits."""
    return format_usd(value) if value < CENTS_BELOW else f"${value:,.0f}"


def _row(label: str, option: Option, problem: Problem) -> Choice:
    got, total = option.estimate, ""
    if problem.requirements.samples is not None:
        totals = totals_of(got, problem.requirements)
        total = f"{format_duration(totals.seconds.value)}, {_usd(totals.usd.value)}"
    return Choice(
        label=label,
        machines=brief(option.placement, types=False),
        price=format_usd(got.usd_per_hour.total),
        speed=speed_between(got),
        total=total,
        known=_known_words(option, problem, at_book=label == "bold"),
    )


def _known_words(option: Option, problem: Problem, *, at_book: bool) -> str:
    """Say in two words how price and speed of a placement are known."""
    speeds = (
        " and ".join(dict.fromkeys(unmeasured(option.estimate.provenance).values())) or "measured"
    )
    bases = dict.fromkeys(_price_basis(offer) for offer in rented(option.placement, problem))
    prices = "book" if at_book else " and ".join(basis.partition(" ")[0] for basis in bases)
    return f"{prices}; {speeds}"


def price_words(placement: Placement, problem: Problem) -> str:
    """Say how the prices of the machines of a placement are known, and of when they are."""
    return " and ".join(dict.fromkeys(map(_price_basis, rented(placement, problem))))


def rented(placement: Placement, problem: Problem) -> Iterator[VmOffer]:
    """Yield the offers of the workers of a placement."""
    for group in placement.groups:
        row = group.place, group.instance_type, group.gpu, group.gpu_count, group.market
        offer = problem.catalog.offer(*row)
        if offer is not None:
            yield offer


def _price_basis(offer: VmOffer) -> str:
    if offer.source.startswith(PLANNED):
        return f"planned from {offer.as_of[:7]}"
    known = BASES.get(offer.price_basis, offer.price_basis)
    return known if offer.price_basis == "owned" else f"{known} {offer.as_of[:7]}"


def table(rows: Sequence[Choice], unit: str, width: int) -> Iterator[tuple[str, str]]:
    """Yield labels and lines of the rows under a head. Without room, how they are known is left out
    and machines are wrapped.

    ``unit``: of the speeds. ``width``: columns beside the labels.
    """
    if not rows:
        return
    head = Choice("", "machines", "USD/h", unit, "total" if rows[0].total else "", "price; speed")
    columns = [list(column) for column in zip(head, *rows, strict=True)][2:]
    widths = [max(map(len, column)) for column in columns]
    room = width - sum(wide + len(GAP) for wide in widths if wide)
    if room < LEAST_WIDTH:
        room, widths[-1] = room + widths[-1] + len(GAP), 0
    names = max(LEAST_WIDTH, min(room, max(len(row.machines) for row in rows)))
    for row in (head, *rows):
        first, *more = textwrap.wrap(row.machines, names, break_on_hyphens=False) or [""]
        cells = [
            text.ljust(wide) if last else text.rjust(wide)
            for text, wide, last in zip(row[2:], widths, (False, False, False, True), strict=True)
            if wide
        ]
        yield row.label, GAP.join([first.ljust(names), *cells]).rstrip()
        yield from (("", line) for line in more)
