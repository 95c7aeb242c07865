"""Rows of a table by column: what looks at all rows looks at arrays, and a record is made of each
row that is looked at by itself.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from operator import eq
from typing import Any, Literal, NamedTuple, Self, TypeVar, overload

import msgspec

Row = TypeVar("Row", bound=msgspec.Struct)
DENSE = 8
"""Possible combinations of values for each row up to which they are numbered by a table of all."""


class Column(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One field of many rows: the values that occur, each once, and which of them each row has."""

    values: Sequence[Any]
    codes: Any

    @staticmethod
    def of(cells: Iterable[Any]) -> Column:
        """Build the column of some cells."""
        at: dict[Any, int] = {}
        codes = [at.setdefault(cell, len(at)) for cell in cells]
        return Column([*at], array(code_type(len(at)), codes))

    @cached_property
    def array(self) -> Any:
        """Which of the values each row has; shape (rows,)."""
        import numpy as np  # not needed by who looks at single rows

        return np.asarray(self.codes)

    @cached_property
    def numbers(self) -> Any:
        """Values of all rows, NaN where there is none; shape (rows,)."""
        import numpy as np

        known = [math.nan if value is None else value for value in self.values]
        return np.array(known, dtype=np.float64)[self.array]

    def at(self, rows: Any) -> Column:
        """Return the column of other rows, each with the value of one of these."""
        import numpy as np

        codes = self.array[np.asarray(rows)]
        return Column(self.values, codes)

    def changed(self, rows: Any, cells: Sequence[Any]) -> Column:
        """Return the column with other cells in some rows, or with one in all of these; a value may
        stand twice in it.
        """
        new, codes = Column.of(cells), self.array.astype("I")
        codes[rows] = new.array.astype("I") + len(self.values)
        return Column([*self.values, *new.values], codes)

    def where(self, admits: Callable[[Any], bool]) -> Any:
        """Return in which rows the value is as wanted; shape (rows,)."""
        import numpy as np

        return np.array([admits(value) for value in self.values], dtype=bool)[self.array]


def code_type(values: int) -> Literal["B", "H", "I"]:
    """Return the smallest type of arrays that numbers so many values."""
    return "B" if values <= 1 << 8 else "H" if values <= 1 << 16 else "I"


class Groups(NamedTuple):
    """Rows that are alike: the number of each row's group, and the first row of each group."""

    of: Any
    first: Any


class Records(Sequence[Row]):
    """Records that are made when somebody looks at them, once: each may be known by its identity.

    Equal to any sequence of the same records. ``_made`` makes one by its position.
    """

    def __init__(self, rows: list[Row | None]) -> None:
        self._rows = rows
        self._whole = None not in rows[:1]  # whether all are made
        self._making = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        if not self._whole:
            with self._making:
                pairs = zip(self._rows, self._every(), strict=True)
                self._rows[:] = [new if row is None else row for row, new in pairs]
                self._whole = True
        rows: Any = self._rows
        return iter(rows)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        """Return one record, or some as a tuple."""
        if isinstance(at, slice):
            return tuple(self[each] for each in range(*at.indices(len(self))))
        row = self._rows[at]
        if row is None:
            with self._making:
                row = self._rows[at]  # another thread may have made it
                if row is None:
                    row = self._rows[at] = self._made(at % len(self))
        return row

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(map(eq, self, other)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self):,}>"

    def _made(self, at: int) -> Row:
        raise NotImplementedError

    def _every(self) -> Iterator[Row]:
        """Yield all records, as they would be made."""
        return map(self._made, range(len(self)))


class Table(Records[Row]):
    """Rows of one kind, by column or as records: each is made of the other when it is asked for.

    ``kind`` takes its fields by position.
    """

    def __init__(self, kind: type[Row], rows: list[Row | None], columns: dict[str, Column]) -> None:
        super().__init__(rows)
        self._kind, self._columns = kind, columns
        self.memo: dict[str, Any] = {}
        """What others work out of the rows, and keep with them."""

    @classmethod
    def of(cls, kind: type[Row], rows: Iterable[Row]) -> Table[Row]:
        """Build the table of some records."""
        return rows if isinstance(rows, Table) else cls(kind, [*rows], {})

    @classmethod
    def of_columns(cls, kind: type[Row], columns: dict[str, Column]) -> Self:
        """Build the table of the columns of all fields."""
        return cls(kind, [None] * len(next(iter(columns.values())).codes), columns)

    def changed(
        self, columns: Mapping[str, Column | None], make: Callable[[int, Row], Row]
    ) -> Table[Row]:
        """Return a table with other values in some columns.

        ``make`` returns a record as it is there, by its number and the record here: the same one
        where nothing differs. A column of None is made of the records if somebody asks for it.
        """
        return _Changed(self, columns, make)

    def taken(self, rows: Any) -> Table[Row]:
        """Return the table of some rows, by their positions."""
        return _Changed(self, {}, lambda _, row: row, rows)

    def column(self, name: str) -> Column:
        """Return one field of all rows."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = Column.of(getattr(row, name) for row in self)
        return column

    def matching(self, **fields: Any) -> Any:
        """Return the positions of the rows that have some values."""
        import numpy as np

        there = np.ones(len(self), dtype=bool)
        for name, value in fields.items():
            there &= self.column(name).where(partial(eq, value))
        return there.nonzero()[0]

    def groups(self, names: Iterable[str], rows: Any = None) -> Groups:
        """Divide all rows, or some, by the values of some columns; ``first`` counts among them."""
        import numpy as np

        size = len(self) if rows is None else len(rows)
        of, count = np.zeros(size, dtype=np.int64), 1
        for column in map(self.column, names):
            if len(column.values) > 1:
                codes = column.array if rows is None else column.array[rows]
                of, count = numbered(of * len(column.values) + codes, count * len(column.values))
        return grouped(of, count)

    def __reduce__(self) -> tuple[Any, ...]:
        return Table.of, (self._kind, tuple(self))

    def _made(self, at: int) -> Row:
        return self._kind(*[column.values[column.codes[at]] for column in self._fields])

    def _every(self) -> Iterator[Row]:
        cells = (map(column.values.__getitem__, column.codes) for column in self._fields)
        return map(self._kind, *cells)

    @cached_property
    def _fields(self) -> list[Column]:
        return [self._columns[name] for name in self._kind.__struct_fields__]


class _Changed(Table[Row]):
    """A table with other values in some columns of another one, or with some of its ``rows``."""

    def __init__(
        self,
        plain: Table[Row],
        columns: Mapping[str, Column | None],
        make: Callable[[int, Row], Row],
        rows: Any = None,
    ) -> None:
        known = {name: column for name, column in columns.items() if column is not None}
        super().__init__(plain._kind, [None] * len(plain if rows is None else rows), known)
        self._plain, self._differ, self._make = plain, frozenset(columns), make
        self._taken = rows

    def column(self, name: str) -> Column:
        """Return one field of all rows."""
        if name in self._columns or name in self._differ:
            return super().column(name)
        column = self._plain.column(name)
        if self._taken is not None:
            column = Column(*occurring(column.values, column.array[self._taken]))
            self._columns[name] = column
        return column

    def _made(self, at: int) -> Row:
        return self._make(at, self._plain[at if self._taken is None else self._taken[at]])

    def _every(self) -> Iterator[Row]:
        plain: Iterable[Row] = self._plain
        if self._taken is not None:
            plain = map(self._plain.__getitem__, self._taken.tolist())
        return map(self._make, range(len(self)), plain)


def occurring(values: Sequence[Any], codes: Any) -> tuple[Sequence[Any], Any]:
    """Leave out the values that no row has; ``codes`` are the positions of those that rows have."""
    import numpy as np

    there = np.zeros(len(values), dtype=bool)
    there[codes] = True
    if there.all():
        return values, codes
    return [values[at] for at in there.nonzero()[0].tolist()], (np.cumsum(there) - 1)[codes]


def grouped(of: Any, count: int) -> Groups:
    """Divide rows into groups by their numbers below ``count``, of which some may be missing."""
    import numpy as np

    of, count = numbered(of, count)
    first = np.empty(count, dtype=np.intp)
    first[of[::-1]] = np.arange(len(of))[::-1]  # of equal groups the last one that is written stays
    return Groups(of, first)


def numbered(of: Any, count: int) -> tuple[Any, int]:
    """Leave out the numbers below ``count`` that no row has; the order stays."""
    import numpy as np

    if count > DENSE * len(of):
        values, of = np.unique(of, return_inverse=True)
        return of, len(values)
    there = np.zeros(count, dtype=bool)
    there[of] = True
    numbers = np.cumsum(there)
    return numbers[of] - 1, int(numbers[-1]) if count else 0


def members(of: Any, count: int) -> list[Any]:
    """Return the rows of each of ``count`` groups, in their order."""
    import numpy as np

    order = np.argsort(of.astype(np.min_scalar_type(count)), kind="stable")  # small types are fast
    ends = [0, *np.cumsum(np.bincount(of, minlength=count)).tolist()]
    return [order[begin:end] for begin, end in pairwise(ends)]


def medians(of: Any, values: Any, count: int) -> Any:
    """Return the median of the values of each of ``count`` groups, none of which is empty."""
    import numpy as np

    order = np.argsort(values)
    order = order[np.argsort(of[order].astype(np.min_scalar_type(count)), kind="stable")]
    sizes = np.bincount(of, minlength=count)
    begin = np.cumsum(sizes) - sizes
    low, high = (values[order[begin + half // 2]] for half in (sizes - 1, sizes))
    return (low + high) / 2
