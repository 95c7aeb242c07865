"""``placer capacity forecast``: whether zones will launch enough spot machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placer.cli.command import Table, as_command
from placer.cli.screen.show import show
from placer.interface.replay import forecast_capacity

if TYPE_CHECKING:
    pass

SHOWN = 20
"""Zones in the table, the most likely first."""
EPILOG = """\b
Example:
  placer capacity forecast launches.csv --machines 16 --ahead 6h
"""


@as_command("forecast", EPILOG, of=forecast_capacity)
def command(log: str, *, as_json: Table, **words: Any) -> None:
    """Forecast from a log of launches how likely zones have enough machines.

    LOG is a CSV file with a column utc and one for each zone: the machines that were launched,
    empty where nobody asked.
    """
    found = forecast_capacity(log, **words)
    show(found.to_dict(), as_json=as_json)
