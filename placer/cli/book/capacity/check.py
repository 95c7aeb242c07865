"""``placer capacity check``: whether a table of capacity holds, and what it knows of a book."""

from __future__ import annotations

import click

from placer.cli.options import json_option
from placer.cli.output import console, print_json

SHOWN = 20
"""Warnings that are printed; --json has all."""


@click.command("check", epilog="Example: placer capacity check default my-capacity.csv")
@click.argument("names", nargs=-1, metavar="NAME|DIR|CSV...")
@json_option
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Check every row of capacity, and count the spot machines of the book that it knows.

    A partial book is put on top of the default one. A row that no table may have is refused with
    its file and line; shares of a zone that are out of date are a warning.
    """
    from datetime import UTC, datetime

    import msgspec

    from placer.market.books.book_reader import devices, located_rows
    from placer.market.books.partial_books import over_default
    from placer.market.checks.capacity_cover import covered, old_rows

    book, layers = over_default(names)
    rows = located_rows([devices(), *layers])["capacity.csv"]
    old = tuple(old_rows(rows, datetime.now(UTC).date()))
    known = covered(book)
    if as_json:
        document = {
            "schema": "placer.capacity-check/v1",
            "catalog": book.name,
            "rows": len(book.capacity),
            "own_rows": len(rows),
            "spot_machines": known,
        }
        print_json({**document, "findings": msgspec.to_builtins(old)})
        return
    out = console()
    for finding in old[:SHOWN]:
        out.print(f"{finding.level}: {finding.where}: {finding.message}", style="yellow")
    if len(old) > SHOWN:
        out.print(f"{SHOWN} of {len(old):,} warnings; --json has all", style="dim")
    out.print(
        f"valid: catalog {book.name}: {len(book.capacity):,} rows of capacity, {len(rows):,} of "
        f"its own and {len(book.capacity) - len(rows):,} that come with placer"
    )
    counts = ", ".join(f"{count:,} {words}" for words, count in known.items())
    out.print(f"spot machines by place and device: {counts or 'none'}")
