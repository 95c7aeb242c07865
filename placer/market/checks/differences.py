"""What changed from one catalog to another: rows that are new, gone or different."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from placer.market.books.csv_rows import KEYS
from placer.market.catalog import Catalog

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
        numbers = (int, float)
        if (
            not isinstance(self.before, numbers)
            or not isinstance(self.after, numbers)
            or min(self.before, self.after) <= 0
        ):
            return 1.0
        return max(self.before, self.after) / min(self.before, self.after)


def differences(old: Catalog, new: Catalog) -> tuple[Change, ...]:
    """Compare two catalogs row by row.

    Returns
    -------
    tuple of Change
        In the order of the files; in a file the changed rows first, by how much their figure
        changed.
    """
    differences: list[Change] = []
    for file in (
        "offers.csv",
        "functions.csv",
        "stores.csv",
        "egress.csv",
        "links.csv",
        "regions.csv",
        "gpus.csv",
        "capacity.csv",
    ):
        before, after = _by_key(file, _rows(old, file)), _by_key(file, _rows(new, file))
        changes = [
            *_changed(file, before, after),
            *_only("new", file, after, before),
            *_only("gone", file, before, after),
        ]
        order = {"changed": 0, "new": 1, "gone": 2}
        differences += sorted(changes, key=lambda c: (order[c.kind], -c.ratio, c.key, c.field))
    return tuple(differences)


def _rows(catalog: Catalog, file: str) -> Iterable[Any]:
    rows = getattr(catalog, file.removesuffix(".csv"))
    return rows.values() if isinstance(rows, Mapping) else rows


def _by_key(file: str, rows: Iterable[Any]) -> dict[tuple[str, ...], Any]:
    return {tuple(str(getattr(row, column)) for column in KEYS[file]): row for row in rows}


def _only(
    kind: Literal["new", "gone"],
    file: str,
    here: Mapping[tuple[str, ...], Any],
    there: Mapping[tuple[str, ...], Any],
) -> list[Change]:
    return [Change(file=file, kind=kind, key=key) for key in here if key not in there]


def _changed(
    file: str, before: Mapping[tuple[str, ...], Any], after: Mapping[tuple[str, ...], Any]
) -> list[Change]:
    import msgspec

    changes = []
    for key in before.keys() & after.keys():
        if before[key] == after[key]:
            continue
        old, new = msgspec.to_builtins(before[key]), msgspec.to_builtins(after[key])
        changes += [
            Change(
                file=file, kind="changed", key=key, field=name, before=old[name], after=new[name]
            )
            for name in old
            if name not in UNSAID and old[name] != new[name]
        ]
    return changes
