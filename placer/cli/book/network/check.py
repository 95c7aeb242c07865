"""``placer network check``: how far the link model is from measured links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer.cli.options import catalog_option, table_option
from placer.cli.output import console, new_table, print_json

if TYPE_CHECKING:
    from placer.market.network.measured_links import NetworkCheck

MOST_LINES = 10
"""Most suspects and unknown places that are printed."""


@click.command("check", epilog="Example: placer network check erben-2023")
@click.argument("grids", nargs=-1, metavar="[GRID]...")
@catalog_option
@click.option(
    "--fit",
    is_flag=True,
    help="Also show the route factors that the grids ask for, beside those in use.",
)
@table_option
def command(grids: tuple[str, ...], catalog: tuple[str, ...], fit: bool, as_json: bool) -> None:
    """Compare estimated links with measured ones.

    A GRID is a book, a folder or a CSV file with the columns of links.csv; without one, the links
    of the catalog itself are compared. The estimate never uses the measured rows.
    """
    import msgspec

    from placer.market.network.measured_links import check_network

    check = check_network(grids, catalog)
    if as_json:
        document = msgspec.to_builtins(check)
        if not fit:
            del document["factors"]
        print_json(document)
        return
    out = console()
    _errors(out, check)
    if fit:
        _factors(out, check)
    _doubts(out, check)


def _errors(out: Any, check: NetworkCheck) -> None:
    table = new_table(
        ("figure", "between", "links", "median", "p90", "worst", "worst link"),
        right=("links", "median", "p90", "worst"),
        wrap=("worst link",),
    )
    before = ""
    for group in check.errors:
        figure, before = "" if group.figure == before else group.figure, group.figure
        shares = (
            f"{group.median_error:.1%}",
            f"{group.p90_error:.1%}",
            f"{group.worst_error:+.1%}",
        )
        table.add_row(
            figure,
            group.group,
            f"{group.links:,}",
            *shares,
            f"{group.worst_src} > {group.worst_dst}",
        )
    out.print(table)


def _factors(out: Any, check: NetworkCheck) -> None:
    table = new_table(("zone", "zone", "factor", "fitted"), right=("factor", "fitted"))
    for refit in check.factors:
        table.add_row(*refit.zones, f"{refit.factor:.2f}", f"{refit.fitted:.2f}")
    out.print()
    out.print(table)


def _doubts(out: Any, check: NetworkCheck) -> None:
    """Print the rows that take no part, each kind with its number."""
    out.print(
        f"{check.rows:,} rows of {', '.join(check.grids)}; places of catalog {check.catalog}",
        style="dim",
    )
    for suspect in check.suspects[:MOST_LINES]:
        words = f"{suspect.rtt_ms:g} ms, light in fibre takes {suspect.light_ms:.1f} ms"
        out.print(
            f"suspect: {suspect.where}: {suspect.src} > {suspect.dst}: {words}", style="yellow"
        )
    if len(check.suspects) > MOST_LINES:
        out.print(
            f"suspect: {len(check.suspects) - MOST_LINES:,} more; --json lists them", style="yellow"
        )
    if check.unknown_places:
        named = [f"{place} ({rows:,} rows)" for place, rows in check.unknown_places.items()]
        more = f" and {len(named) - MOST_LINES:,} more" if len(named) > MOST_LINES else ""
        out.print(f"unknown places: {', '.join(named[:MOST_LINES])}{more}", style="yellow")
    if check.estimated_rows or check.empty_rows:
        out.print(
            f"left out: {check.estimated_rows:,} estimated rows, {check.empty_rows:,} without a "
            f"figure",
            style="yellow",
        )
