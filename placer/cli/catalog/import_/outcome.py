"""What an import prints: what was read, what was left out and why, and the next command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import click

from placer.cli.output import console, print_json
from placer.errors import PlacerError
from placer.sources.harvest import Harvest, Row
from placer.sources.save import save
from placer.units import format_bytes, parse_date


def finish(harvest: Harvest, name: str, *, dry_run: bool, as_json: bool) -> None:
    """Save what was read, unless only asked for, and say what it is.

    Parameters
    ----------
    harvest
        What a source gave.
    name
        Name of the book.
    dry_run
        Check the name and print, but write nothing.
    as_json
        Print a document instead of words.
    """
    folder = None if dry_run else save(harvest, name)
    if as_json:
        print_json(_document(harvest, name, None if folder is None else str(folder)))
        return
    say = console().print
    for origin in harvest.origins:
        say(f"read      {origin.place} ({format_bytes(origin.size_bytes)}, sha256 {origin.sha256[:12]})")
    for file, rows in harvest.rows.items():
        say(f"{'found' if dry_run else 'wrote':<10}{len(rows):,} rows of {file}{_coverage(rows)}, prices of {_dates(rows)}")
    for reason, count in harvest.left_out.items():
        say(f"left out  {count:,} x {reason}")
    for note in harvest.notes:
        say(f"note      {note}")
    _hints(harvest, say)
    if folder is None:
        say("nothing was written: --dry-run")
    else:
        say(f"book      {folder}")
        say(f"next      placer recommend --model roberta-xlm --budget 5/h --catalog default --catalog {name}")


def _coverage(rows: Sequence[Row]) -> str:
    if not rows or "region" not in rows[0]:
        return ""
    providers = sorted({str(row["provider"]) for row in rows})
    places = {(row["provider"], row["region"]) for row in rows}
    return f" in {len(places)} regions of {', '.join(providers)}"


def _dates(rows: Sequence[Row]) -> str:
    days = sorted({str(row["as_of"]) for row in rows if row.get("as_of")})
    return "no date" if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _hints(harvest: Harvest, say: Callable[[str], Any]) -> None:
    reasons = " ".join(harvest.left_out)
    if "gpus.csv does not know" in reasons:
        say("tip       describe unknown devices in a gpus.csv of the book's own (columns: catalogs/columns.csv)")
    if "no book knows" in reasons:
        say("tip       give unknown regions coordinates: a regions.csv beside the providers' folders of SkyPilot")


def _document(harvest: Harvest, name: str, folder: str | None) -> dict[str, Any]:
    return {
        "schema": "placer.import/v1",
        "catalog": name,
        "folder": folder,
        "rows": {file: len(rows) for file, rows in harvest.rows.items()},
        "documents": [{"place": o.place, "sha256": o.sha256, "size_bytes": o.size_bytes} for o in harvest.origins],
        "left_out": dict(harvest.left_out),
        "notes": list(harvest.notes),
    }


def import_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every kind of import."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--timeout", default="20", show_default=True, metavar="SECONDS", help="Longest silence of a server."),
        click.option("--dry-run", is_flag=True, help="Read and report, write nothing."),
        click.option("--skip-bad", is_flag=True, help="Leave wrong rows out and count them, instead of refusing all."),
        click.option("--as", "name", metavar="NAME", help="Name of the book."),
    ):
        function = option(function)
    return function


def seconds(text: str) -> float:
    """Read the option --timeout.

    Raises
    ------
    PlacerError
        If it is no number from 0.1 to 600.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 600:
        raise PlacerError(f"--timeout '{text}' is not from 0.1 to 600 s", "give seconds, such as 20")
    return value


def past_date(text: str, option: str) -> date:
    """Read a date that is not in the future.

    Raises
    ------
    PlacerError
        If it is no date or after today.
    """
    day = parse_date(text, option)
    if day > datetime.now(UTC).date():
        raise PlacerError(f"{option} '{text}' is in the future", "give the day on which the prices were read")
    return day
