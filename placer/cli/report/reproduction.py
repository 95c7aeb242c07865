"""The tables of a paper worked out again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from placer.cli.report.recommend.terminal import MOST_WIDTH
from placer.cli.screen.tables import Sheet
from placer.reproduction.comparison import Claim, Group, Reproduction, Row, Verdict
from placer.units import format_number

STYLES = {
    Verdict.REPRODUCED: "green",
    Verdict.UNDECIDED: "yellow",
    Verdict.CONTRADICTED: "red",
}
SHORT = {"calculation": "calc."}
"""Headers that would not fit 80 columns."""
USD_DECIMALS = 6
"""A mini-batch costs thousandths of a dollar."""


def print_reproduction(console: Console, got: Reproduction, *, all_rows: bool = False) -> None:
    """Print rows, groups, claims and notes; without ``all_rows`` only the first measured quantity
    and the best of each family.
    """
    console.print(Text(got.title, style="bold"))
    measured, computed = (
        [r for r in got.rows if r.published is not None],
        [r for r in got.rows if r.published is None],
    )
    for quantity in list(dict.fromkeys(row.quantity for row in measured))[
        : None if all_rows else 1
    ]:
        rows = [row for row in measured if row.quantity == quantity]
        _section(
            console,
            f"Published and estimated {quantity} (* outside of the interval)",
            _measured(rows),
        )
    for group, quantity in dict.fromkeys((row.groups[0], row.quantity) for row in computed):
        rows = [row for row in computed if (row.groups[0], row.quantity) == (group, quantity)]
        shown = rows if all_rows else best_of_families(rows)
        left = (
            ""
            if len(shown) == len(rows)
            else f" (best of each family, {len(shown)} of {len(rows)}; --all shows all)"
        )
        _section(console, f"{group}: {quantity}{left}", _computed(shown))
    if got.groups:
        _section(console, "Errors by group", _groups(got.groups))
    if got.claims:
        _section(
            console,
            f"Claims: {', '.join(f'{count} {verdict}' for verdict, count in got.verdicts.items())}",
            _claims(got.claims, console.width),
        )
    console.print()
    for note in got.notes:
        console.print(Text(f"note: {note}", style="dim"))


def best_of_families(rows: Iterable[Row]) -> list[Row]:
    """Keep the row with the smallest figure of each family, in the order of the families."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.family not in best or row.ours < best[row.family].ours:
            best[row.family] = row
    return list(best.values())


def _section(console: Console, title: str, table: RenderableType) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)


def _measured(rows: Sequence[Row]) -> Sheet:
    """Put published figures beside ours, one line a run."""
    table = _table(
        ("run", "published", "ours", "error", "interval", "fitted"),
        text=("run", "interval", "fitted"),
    )
    for row in rows:
        interval = (
            ""
            if row.low is None or row.high is None
            else f"{format_number(row.low)} to {format_number(row.high)}"
        )
        marks = "" if row.inside is not False else " *"
        cells = (format_number(row.published or 0.0), format_number(row.ours), _percent(row.error))
        table.add_row(row.label, *cells, f"{interval}{marks}", "yes" if row.calibrates else "")
    return table


def _computed(rows: Sequence[Row]) -> Sheet:
    """List our figure and its parts, one line a placement, the best one marked."""
    parts = [SHORT.get(name, name) for name, _ in rows[0].parts]
    table = _table(("", "placement", rows[0].unit, *parts), text=("", "placement"))
    for row in rows:
        cells = [
            _amount(value, row.unit) for value in (row.ours, *(value for _, value in row.parts))
        ]
        table.add_row(
            "*" if row.best else "", row.label, *cells, style="bold" if row.best else None
        )
    return table


def _groups(groups: Sequence[Group]) -> Sheet:
    table = _table(
        ("group", "quantity", "rows", "mean", "worst", "in interval"), text=("group", "quantity")
    )
    for group in groups:
        coverage = "" if group.coverage is None else f"{100 * group.coverage:.0f} %"
        mean = f"{100 * group.mean_error:.1f} %"
        table.add_row(
            group.name, group.quantity, str(group.rows), mean, _percent(group.worst_error), coverage
        )
    return table


def _claims(claims: Sequence[Claim], width: int) -> Table:
    """List each claim with its verdict, the condition it is judged under, our figure and the
    reason.
    """
    table = Table.grid(padding=(0, 2))
    table.width = min(width, MOST_WIDTH)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for claim in claims:
        published, found = claim.published, claim.finding
        value = (
            f" ({published.value}{f' {published.unit}' if published.unit else ''})"
            if published.value
            else ""
        )
        passage = f"; {published.passage}" if published.passage else ""
        text = Text.assemble(
            (found.verdict, STYLES[found.verdict]), f": {published.statement}{value}{passage}"
        )
        table.add_row(published.id, text)
        condition = f"under: {published.condition}"
        if published.tolerance is not None:
            condition += f"; {100 * published.tolerance:g} % allowed"
        table.add_row("", Text(condition))
        if found.ours:
            table.add_row("", Text(f"ours: {found.ours}"))
        table.add_row("", Text(f"because: {found.why}", style="dim"))
    return table


def _table(headers: Iterable[str], text: Iterable[str]) -> Sheet:
    names, left = list(headers), set(text)
    return Sheet(names, right=[name for name in names if name not in left], wrap=left)


def _amount(value: float, unit: str) -> str:
    return f"{value:.{USD_DECIMALS}f}" if unit == "USD" else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+,.1f} %"
