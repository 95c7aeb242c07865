"""``placer capacity check``: whether a table of capacity holds, and what it knows of a book."""

from __future__ import annotations

import click

from placer.cli.command import Table, as_command
from placer.cli.output import console, print_json

SHOWN = 20
"""Doubts that are printed; --json has all."""


@as_command("check", "Example: placer capacity check default my-capacity.csv")
def command(ctx: click.Context, names: tuple[str, ...] = (), *, as_json: Table) -> None:
    """Check every row of capacity, and count the spot machines of the book that it knows.

    A partial book is put on top of the default one. A row that no table may have is refused with
    its file and line; shares of a zone that are out of date are a warning. The exit code is 2 if
    there is an error.

    Parameters
    ----------
    names : NAME|DIR|CSV...
    """
    from datetime import UTC, datetime

    import msgspec

    from placer.market.books.book_reader import devices, located_rows
    from placer.market.books.partial_books import over_default
    from placer.market.checks.capacity_cover import covered, wrong_dates

    book, layers = over_default(names)
    rows = located_rows([devices(), *layers])["capacity.csv"]
    found = tuple(wrong_dates(rows, datetime.now(UTC).date()))
    errors = sum(finding.level == "error" for finding in found)
    known = covered(book)
    if as_json:
        document = {
            "schema": "placer.capacity-check/v1",
            "catalog": book.name,
            "rows": len(book.capacity),
            "own_rows": len(rows),
            "valid": not errors,
            "spot_machines": known,
        }
        print_json({**document, "findings": msgspec.to_builtins(found)})
        ctx.exit(2 if errors else 0)
    out = console()
    for finding in found[:SHOWN]:
        style = "red" if finding.level == "error" else "yellow"
        out.print(f"{finding.level}: {finding.where}: {finding.message}", style=style)
    if len(found) > SHOWN:
        out.print(f"{SHOWN} of {len(found):,} doubts; --json has all", style="dim")
    verdict = f"{errors} errors" if errors else "valid"
    out.print(
        f"{verdict}: catalog {book.name}: {len(book.capacity):,} rows of capacity, "
        f"{len(rows):,} of its own and {len(book.capacity) - len(rows):,} that come with placer"
    )
    counts = ", ".join(f"{count:,} {words}" for words, count in known.items())
    out.print(f"spot machines by place and device: {counts or 'none'}")
    ctx.exit(2 if errors else 0)
