"""What the commands that fill a book say: what was read, what was left out and why, and the next
command.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from placer.cli.output import print_json, say
from placer.errors import PlacerError
from placer.units import parse_date

if TYPE_CHECKING:
    from placer.market.checks.doubts import Finding
    from placer.market.sources.harvest import Harvest

MOST_REASONS = 12
"""Reasons for leaving something out that are printed; --json has them all."""


def finish(
    harvest: Harvest,
    name: str,
    catalog: Sequence[str],
    *,
    fields: Mapping[str, Any] = MappingProxyType({}),
    words: Sequence[str],
    commands: Sequence[str] = (),
    dry_run: bool,
    as_json: bool,
) -> None:
    """Save a harvest unless this is a dry run, and say what it holds and what comes next.

    ``harvest``: what a source gave. ``name``: name of the book. ``catalog``: books that the next
    commands lay under it; none: what is pinned. ``fields``: what the JSON document has besides what
    every one has. ``words``: lines that are printed first. ``commands``: next commands before
    ``placer recommend``; the layers are added. ``dry_run``: check the rows and print, but write
    nothing. ``as_json``: print a document instead of words.
    """
    import msgspec

    from placer.market.sources.save import save

    folder = None if dry_run else str(save(harvest, name))
    if as_json:
        print_json(
            {
                "schema": "placer.import/v1",
                "book": name,
                "folder": folder,
                "rows": {file: len(rows) for file, rows in harvest.rows.items()},
                **fields,
                "documents": msgspec.to_builtins(harvest.origins),
                "left_out": dict(harvest.left_out),
                "notes": list(harvest.notes),
            }
        )
        return
    for line in words:
        say(line, whole=True)
    say_rest(harvest.left_out, harvest.notes)
    if folder is not None:
        say(f"saved as '{name}' in {folder}", whole=True)
    say_next(name, catalog, commands, dry_run=dry_run)


def say_rest(left_out: Mapping[str, int], notes: Sequence[str]) -> None:
    """Say what was left out, most frequent reasons first, and the notes of a source."""
    ranked = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    for reason, count in ranked[:MOST_REASONS]:
        say(f"left out: {count:,} x {reason}", whole=True)
    if rest := ranked[MOST_REASONS:]:
        say(
            f"left out: {sum(count for _, count in rest):,} x {len(rest)} other reasons (--json "
            f"lists them)"
        )
    for note in notes:
        say(f"note: {note}", whole=True)


def say_next(
    name: str, catalog: Sequence[str] = (), commands: Sequence[str] = (), *, dry_run: bool
) -> None:
    """Say which commands use the book, laid over the books that were given, else over those that
    are pinned.
    """
    from placer.market.books.layers import DEFAULT_CATALOG, pinned

    if dry_run:
        say("nothing was written (--dry-run)")
        return
    under = catalog or [word for word, _ in pinned()] or [DEFAULT_CATALOG]
    layers = " ".join(f"--catalog {shlex.quote(book)}" for book in dict.fromkeys((*under, name)))
    for command in (*commands, "placer recommend --model roberta-xlm --budget 5/h"):
        say(f"next: {command} {layers}", whole=True)


def print_findings(findings: Sequence[Finding], most: int, more: str) -> None:
    """Print doubts about a book, at most so many, and how to see the others."""
    for finding in findings[:most]:
        style = "red" if finding.level == "error" else "yellow"
        say(f"{finding.level}: {finding.where}: {finding.message}", style)
    if len(findings) > most:
        say(f"{most} of {len(findings):,} doubts; {more}", "dim")


def past_date(text: str, option: str) -> date:
    """Read a date that is not in the future.

    Raise `PlacerError` if it is no date or after today in UTC.
    """
    day = parse_date(text, option)
    if day > datetime.now(UTC).date():
        raise PlacerError(
            f"{option} '{text}' is in the future",
            "give the day of the prices or of the measurement",
        )
    return day
