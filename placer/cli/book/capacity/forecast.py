"""``placer capacity forecast``: whether zones will launch enough spot machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placer.cli.options import table_option
from placer.cli.output import console, new_table, print_json
from placer.units import format_plain

if TYPE_CHECKING:
    from placer.cost_model.capacity.launch_forecast import CapacityForecast

MOST_ZONES = 4
SHOWN = 20
"""Zones in the table, the most likely first."""
EPILOG = """\b
Example:
  placer capacity forecast launches.csv --machines 16 --ahead 6h
"""


@click.command("forecast", epilog=EPILOG)
@click.argument("log", metavar="LOG")
@click.option("--machines", type=click.IntRange(1), required=True, help="Machines needed.")
@click.option(
    "--ahead", default="1h", show_default=True, metavar="TIME", help="How far ahead to forecast."
)
@click.option(
    "--asked",
    type=click.IntRange(1),
    help="Machines asked for each time; default: the most that were launched.",
)
@click.option(
    "--zones",
    "most_zones",
    type=click.IntRange(1, 8),
    default=MOST_ZONES,
    show_default=True,
    help="Maximum number of zones combined.",
)
@table_option
def command(
    log: str, machines: int, ahead: str, asked: int | None, most_zones: int, as_json: bool
) -> None:
    """Forecast from a log of launches how likely zones have enough machines.

    LOG is a CSV file with a column utc and one for each zone: the machines that were launched,
    empty where nobody asked.
    """
    from placer.interface.capacity import forecast_capacity

    found = forecast_capacity(log, machines=machines, ahead=ahead, asked=asked, zones=most_zones)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(found: CapacityForecast) -> None:
    out, machines = console(), found.machines
    out.print(
        f"{found.observations:,} observations of {len(found.zones)} zones, up to {found.asked} "
        f"machines each, {found.first} to {found.last}"
    )
    out.print(f"chance that spot machines can be launched {_hours(found.hours_ahead)} later")
    out.print()
    alone = machines <= found.asked
    headers = ["zone", "last", f"usually {min(machines, found.asked)}", "any"]
    headers += [f"all {machines}"] if alone else []
    table = new_table(headers, right=headers[1:])
    for row in found.zones[:SHOWN]:
        last = "" if row.last is None else str(row.last)
        cells = (row.zone, last, percent(row.usual), percent(row.chance_any))
        table.add_row(*cells, *((percent(row.chance),) if alone else ()))
    out.print(table)
    if len(found.zones) > SHOWN:
        out.print(f"and {len(found.zones) - SHOWN} more zones")
    out.print()
    headers = ["zones together", f"{machines} in all", "to plan with", f"{machines} in one of them"]
    table = new_table(headers, right=headers[1:])
    for one in found.sets:
        chances = (one.together, one.planned, one.one_zone)
        table.add_row(", ".join(one.zones), *map(percent, chances))
    out.print(table)
    out.print()
    out.print(
        f"estimated: each zone from its own log, zones together in {found.scenarios:,} "
        f"scenarios with a correlation of {found.correlation.region:g} in a region and "
        f"{found.correlation.across:g} across, {found.correlation.source}; to plan with: days "
        f"unlike those of the log are among the scenarios"
    )


def percent(share: float | None) -> str:
    """Write a chance in whole percent; no forecast is certain."""
    if share is None:
        return ""
    return "> 99 %" if share > 0.995 else "< 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _hours(hours: float) -> str:
    return f"{format_plain(hours)} h" if hours >= 1 else f"{format_plain(60 * hours)} min"
