"""What the imports of prices have in common: their options, and what they say of the rows that were
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from placer.cli import harvest as harvests
from placer.errors import PlacerError
from placer.units import counted, format_bytes

if TYPE_CHECKING:
    from placer.market.sources.harvest import Harvest, Row

import_options = harvests.import_options(
    click.option(
        "--timeout",
        default="20",
        show_default=True,
        metavar="SECONDS",
        help="Longest silence of a server.",
    )
)
"""Options of every kind of import."""


def finish(harvest: Harvest, name: str, *, dry_run: bool, as_json: bool) -> None:
    """Save rows of prices unless this is a dry run, and say what they are; see
    `placer.cli.harvest.finish`.
    """
    harvests.finish(
        harvest,
        name,
        (),
        words=[*_words(harvest), *_tips(harvest)],
        dry_run=dry_run,
        as_json=as_json,
    )


def _words(harvest: Harvest) -> Iterator[str]:
    for origin in harvest.origins:
        yield (
            f"read {origin.place} ({format_bytes(origin.size_bytes)}, sha256 {origin.sha256[:12]})"
        )
    for file, rows in harvest.rows.items():
        yield f"{counted(len(rows), 'row')} of {file}{_coverage(rows)}, prices of {_dates(rows)}"


def _coverage(rows: Sequence[Row]) -> str:
    if not rows or "region" not in rows[0]:
        return ""
    providers = sorted({str(row["provider"]) for row in rows})
    places = {(row["provider"], row["region"]) for row in rows}
    return f" in {counted(len(places), 'region')} of {', '.join(providers)}"


def _dates(rows: Sequence[Row]) -> str:
    days = sorted({str(row["as_of"]) for row in rows if row.get("as_of")})
    return "no date" if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _tips(harvest: Harvest) -> Iterator[str]:
    reasons = " ".join(harvest.left_out)
    if "gpus.csv does not know" in reasons:
        yield (
            "tip: describe unknown devices in a gpus.csv of the book's own (columns: "
            "catalogs/columns.csv)"
        )
    if "no book knows" in reasons:
        yield (
            "tip: give unknown regions coordinates: a regions.csv beside the providers' folders "
            "of SkyPilot"
        )


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
        raise PlacerError(
            f"--timeout '{text}' is not from 0.1 to 600 s", "give seconds, such as 20"
        )
    return value
