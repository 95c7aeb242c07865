"""``placer capacity forecast``: whether zones will launch enough spot machines."""

from __future__ import annotations

import click

from placer.cli.options import table_option
from placer.cli.screen.show import show

MOST_ZONES = 4
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
    show(found.to_dict(), as_json=as_json)
