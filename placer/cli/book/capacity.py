"""``placer capacity``: whether zones will launch enough spot machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer.cli.options import json_option
from placer.cli.output import console, new_table, print_json
from placer.errors import PlacerError

if TYPE_CHECKING:
    from placer.market.launch_log import LaunchLog

DRAWS = 8_192
"""Scenarios; a chance of 95 % is known to 0.3 points then."""
SEED = 0
MOST_ZONES = 4
SHOWN = 20
"""Zones in the table, the most likely first."""
EPILOG = """\b
Example:
  placer capacity forecast launches.csv --machines 16 --ahead 6h
"""


@click.group("capacity", epilog=EPILOG)
def command() -> None:
    """Show whether zones will launch enough spot machines."""


@command.command("forecast", epilog=EPILOG)
@click.argument("log", metavar="LOG")
@click.option("--machines", type=click.IntRange(1), required=True, help="Machines that are wanted.")
@click.option("--ahead", default="1h", show_default=True, metavar="TIME", help="How far ahead.")
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
    help="Most zones together.",
)
@json_option
def forecast_command(
    log: str, machines: int, ahead: str, asked: int | None, most_zones: int, as_json: bool
) -> None:
    """Forecast from a log of launches how likely zones have enough machines.

    LOG is a CSV file with a column utc and one for each zone: the machines that were launched,
    empty where nobody asked.
    """
    from pathlib import Path

    from placer.cost_model.capacity.forecast import forecast
    from placer.cost_model.capacity.scenarios import latent, launchable
    from placer.cost_model.capacity.zone_sets import best_sets
    from placer.market.launch_log import read_launch_log
    from placer.units import SECONDS_PER_HOUR, parse_seconds

    lead_h = parse_seconds(ahead) / SECONDS_PER_HOUR
    known = read_launch_log(Path(log), asked)
    if machines > known.most * len(known.zones):
        raise PlacerError(
            f"{machines} machines, where {len(known.zones)} zones were asked for {known.most} each",
            f"give at most {known.most * len(known.zones)}, or log launches of more machines",
        )
    chances = forecast(known.launched, known.hours, lead_h, known.usual)
    scenarios = launchable(chances, latent(known.regions, DRAWS, SEED))
    sets = best_sets(scenarios, machines, most_zones)
    document = _document(known, chances, sets, machines, lead_h)
    if as_json:
        print_json(document)
    else:
        _print(document, known)


def _document(
    log: LaunchLog, chances: Any, sets: Any, machines: int, lead_h: float
) -> dict[str, Any]:
    from placer.cost_model.capacity.scenarios import RESIDUAL

    seen = [column[column >= 0] for column in log.launched.T]
    zones: list[dict[str, Any]] = [
        {
            "zone": zone,
            "region": region,
            "observations": len(own),
            "last": int(own[-1]) if len(own) else None,
            "usual": float((own >= min(machines, log.most)).mean()) if len(own) else None,
            "chance": float(row[machines:].sum()) if machines <= log.most else None,
            "chance_any": float(1 - row[0]),
        }
        for zone, region, own, row in zip(log.zones, log.regions, seen, chances, strict=True)
    ]
    zones.sort(key=_rank)
    return {
        "schema": "placer.capacity-forecast/v1",
        "machines": machines,
        "hours_ahead": lead_h,
        "asked": log.most,
        "first": f"{log.first:%Y-%m-%dT%H:%MZ}",
        "last": f"{log.last:%Y-%m-%dT%H:%MZ}",
        "observations": len(log.hours),
        "zones": zones,
        "sets": [
            {
                "zones": [log.zones[zone] for zone in one.zones],
                "together": one.together,
                "one_zone": one.one_zone,
            }
            for one in sets
        ],
        "scenarios": DRAWS,
        "correlation": {
            "region": RESIDUAL.region,
            "across": RESIDUAL.across,
            "source": RESIDUAL.source,
        },
    }


def _rank(row: dict[str, Any]) -> tuple[float, float, str]:
    return -(row["chance"] or 0.0), -row["chance_any"], row["zone"]


def _print(document: dict[str, Any], log: LaunchLog) -> None:
    out, machines = console(), document["machines"]
    out.print(
        f"{document['observations']:,} observations of {len(log.zones)} zones, up to {log.most} "
        f"machines each, {document['first']} to {document['last']}"
    )
    out.print(f"chance that spot machines can be launched {_hours(document['hours_ahead'])} later")
    out.print()
    alone = machines <= log.most
    headers = ["zone", "last", f"usually {min(machines, log.most)}", "any"]
    headers += [f"all {machines}"] if alone else []
    table = new_table(headers, right=headers[1:])
    for row in document["zones"][:SHOWN]:
        last = "" if row["last"] is None else str(row["last"])
        cells = (row["zone"], last, _percent(row["usual"]), _percent(row["chance_any"]))
        table.add_row(*cells, *((_percent(row["chance"]),) if alone else ()))
    out.print(table)
    if len(document["zones"]) > SHOWN:
        out.print(f"and {len(document['zones']) - SHOWN} more zones")
    out.print()
    headers = ["zones together", f"{machines} in all", f"{machines} in one of them"]
    table = new_table(headers, right=headers[1:])
    for row in document["sets"]:
        table.add_row(", ".join(row["zones"]), _percent(row["together"]), _percent(row["one_zone"]))
    out.print(table)
    out.print()
    out.print(
        f"estimated: each zone from its own log, zones together in {document['scenarios']:,} "
        f"scenarios with a correlation of {document['correlation']['region']:g} in a region and "
        f"{document['correlation']['across']:g} across, {document['correlation']['source']}"
    )


def _percent(share: float | None) -> str:
    """Write a chance in whole percent; no forecast is certain."""
    if share is None:
        return ""
    return "> 99 %" if share > 0.995 else "< 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _hours(hours: float) -> str:
    return f"{hours:.3g} h" if hours >= 1 else f"{60 * hours:.3g} min"
