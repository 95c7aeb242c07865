"""``placer catalog diff``: what changed from one catalog to another."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import table_option
from placer.cli.output import console, new_table, print_json
from placer.units import format_plain


@click.command("diff", epilog="Example: placer catalog diff default my-quote.csv")
@click.argument("old")
@click.argument("new")
@click.option(
    "--limit", default=30, show_default=True, type=click.IntRange(1), help="Most rows of the table."
)
@table_option
def command(old: str, new: str, limit: int, as_json: bool) -> None:
    """List the rows that are new, gone or different in NEW, compared with OLD.

    A partial book is put on top of the default one.
    """
    import msgspec

    from placer.market.books.partial_books import over_default
    from placer.market.checks.differences import differences

    (before, _), (after, _) = over_default([old]), over_default([new])
    changes = differences(before, after)
    counts: dict[str, dict[str, int]] = {}
    for change in changes:
        kinds = counts.setdefault(change.file, {"changed": 0, "new": 0, "gone": 0})
        kinds[change.kind] += 1
    if as_json:
        ends = {
            "old": {"catalog": before.name, "digest": before.digest},
            "new": {"catalog": after.name, "digest": after.digest},
        }
        print_json(
            {
                "schema": "placer.catalog-diff/v1",
                **ends,
                "counts": counts,
                "changes": msgspec.to_builtins(changes),
            }
        )
        return
    out = console()
    if not changes:
        out.print(f"{before.name} and {after.name} agree in every figure")
        return
    _table(out, changes[:limit])
    for file, kinds in counts.items():
        out.print(
            f"{file}: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        )
    if len(changes) > limit:
        out.print(
            f"{limit} of {len(changes):,} differences; --limit or --json shows more", style="dim"
        )


def _table(out: Any, changes: Any) -> None:
    table = new_table(
        ("file", "row", "what", "before", "after", "change"),
        right=("before", "after", "change"),
        wrap=("row", "before", "after", "change"),
    )
    for change in changes:
        numbers = (
            isinstance(change.before, int | float)
            and isinstance(change.after, int | float)
            and change.before > 0
        )
        share = f"{change.after / change.before - 1:+.1%}" if numbers else ""
        before, after = (_shown(value) for value in (change.before, change.after))
        table.add_row(
            change.file.removesuffix(".csv"),
            " ".join(change.key),
            change.field or change.kind,
            before,
            after,
            share,
        )
    out.print(table)


def _shown(value: Any) -> str:
    """Round a figure of a book to its six digits."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return format_plain(value, 6) if abs(value) < 1e6 else f"{value:.0f}"
