"""The Python interface to capacity of spot machines."""

from __future__ import annotations

import os
from pathlib import Path

from placer.cost_model.capacity.launch_forecast import (
    MOST_ZONES,
    CapacityForecast,
    forecast_launches,
)
from placer.interface.options import whole_number
from placer.market.launch_log import LaunchLog, read_launch_log
from placer.units import SECONDS_PER_HOUR, parse_seconds


def forecast_capacity(
    log: str | os.PathLike[str] | LaunchLog,
    *,
    machines: int,
    ahead: str = "1h",
    asked: int | None = None,
    zones: int = MOST_ZONES,
) -> CapacityForecast:
    """Forecast from a log of launches how likely zones have enough machines.

    Parameters
    ----------
    log
        A CSV file with a column ``utc`` and one for each zone, or what was read of one.
    machines
        That are wanted.
    ahead
        How far ahead, such as ``"6h"``.
    asked
        Machines asked for each time; None: the most that were launched.
    zones
        Maximum number of zones combined.

    Raises
    ------
    PlacerError
        If the file is no such log, or the zones were asked for fewer machines in all.
    """
    known = log if isinstance(log, LaunchLog) else read_launch_log(Path(log), asked)
    return forecast_launches(
        known,
        whole_number("machines", machines, 1, "give the machines that are wanted"),
        parse_seconds(ahead) / SECONDS_PER_HOUR,
        whole_number("zones", zones, 1, "give the most zones together"),
    )
