"""New rows of capacity over those that a book of the user has."""

from __future__ import annotations

from collections.abc import Sequence

from placer.errors import PlacerError
from placer.market.books.csv_rows import KEYS, read_rows
from placer.market.books.folders import own_books
from placer.market.sources.harvest import Harvest, Row
from placer.records import replace

FILES = ("capacity.csv", "offers.csv")
"""What a book of capacity may have."""


def merged(harvest: Harvest, name: str) -> Harvest:
    """Lay the rows of a harvest over those that the book of that name has.

    Raises
    ------
    PlacerError
        If the book has other files: it is none of capacity.
    """
    book = own_books() / name
    if not book.is_dir():
        return harvest
    other = sorted(path.name for path in book.glob("*.csv") if path.name not in FILES)
    if other:
        raise PlacerError(
            f"the book '{name}' has {other[0]}: it is no book of capacity",
            "choose another name with --as",
        )
    rows: dict[str, Sequence[Row]] = {}
    for file in FILES:
        below = read_rows(book / file, file) if (book / file).is_file() else ()
        keyed = {_key(file, row): row for row in (*below, *harvest.rows.get(file, ()))}
        if keyed:
            rows[file] = [*keyed.values()]
    return replace(harvest, rows=rows)


def _key(file: str, row: Row) -> tuple[object, ...]:
    return tuple(row.get(column) or "" for column in KEYS[file])
