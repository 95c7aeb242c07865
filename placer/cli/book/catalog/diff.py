"""``placer catalog diff``: what changed from one catalog to another."""

from __future__ import annotations

from placer.cli.command import Table, as_command
from placer.cli.screen.show import show


@as_command("diff", "Example: placer catalog diff default my-quote.csv")
def command(old: str, new: str, *, limit: int = 30, as_json: Table) -> None:
    """List the rows that are new, gone or different in NEW, compared with OLD.

    A partial book is put on top of the default one.

    Parameters
    ----------
    limit : 1..
        Most rows of the table.
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
    document = {
        "schema": "placer.catalog-diff/v1",
        "old": {"catalog": before.name, "digest": before.digest},
        "new": {"catalog": after.name, "digest": after.digest},
        "counts": counts,
        "changes": msgspec.to_builtins(changes),
    }
    if as_json:
        show(document, as_json=True)
    else:
        show({**document, "changes": document["changes"][:limit]})
