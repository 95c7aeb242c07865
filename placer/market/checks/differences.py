"""What changed from one catalog to another: rows that are new, gone or different."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from placer.market.books.csv_rows import KEYS
from placer.market.catalog import TABLES, Catalog

UNSAID = ("source", "as_of", "price_basis")
"""Where a figure comes from may change without the figure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One row: ``kind`` is new, gone or changed; ``before`` and ``after`` are the value of
    ``field`` for a changed one.
    """

    file: str
    kind: Literal["new", "gone", "changed"]
    key: tuple[str, ...]
    field: str = ""
    before: str | float | bool | None = None
    after: str | float | bool | None = None

    @property
    def ratio(self) -> float:
        """How many times the figure became, at least 1 either way; 1 for what is not a number."""
        before, after, numbers = self.before, self.after, (int, float)
        if not isinstance(before, numbers) or not isinstance(after, numbers):
            return 1.0
        least = min(before, after)
        return max(before, after) / least if least > 0 else 1.0


def differences(old: Catalog, new: Catalog) -> tuple[Change, ...]:
    """Compare two catalogs row by row: of each file the largest changes first."""
    differences: list[Change] = []
    order = ("offers", "functions", "stores", "egress", "links", "regions", "gpus", "capacity")
    for table in order:
        file, columns = f"{table}.csv", KEYS[f"{table}.csv"]
        before, after = (
            {tuple(str(getattr(row, c)) for c in columns): row for row in catalog.rows_of(table)}
            for catalog in (old, new)
        )
        changed = [
            Change(file=file, kind="changed", key=key, field=name, before=was, after=now)
            for key in before.keys() & after.keys()
            if before[key] != after[key]
            for name in TABLES[table].__struct_fields__
            if name not in UNSAID
            and (was := getattr(before[key], name)) != (now := getattr(after[key], name))
        ]
        differences += sorted(changed, key=lambda c: (-c.ratio, c.key, c.field))
        differences += _only("new", file, after, before)
        differences += _only("gone", file, before, after)
    return tuple(differences)


def _only(
    kind: Literal["new", "gone"],
    file: str,
    here: dict[tuple[str, ...], Any],
    there: dict[tuple[str, ...], Any],
) -> list[Change]:
    return [Change(file=file, kind=kind, key=key) for key in sorted(here.keys() - there.keys())]
