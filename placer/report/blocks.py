"""What a page consists of: sections of paragraphs, facts, tables and charts, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Key: TypeAlias = str | float | int | None
"""What a cell is sorted by; None stays below all others."""
Cell: TypeAlias = str | tuple[str, Key]
"""What a cell shows, and what it is sorted by where that is something else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A paragraph or, with several ``lines``, a list."""

    lines: tuple[str, ...]
    tone: Literal["plain", "lead", "warning", "code"] = "plain"
    kind: Literal["text"] = "text"


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Pairs of a name and its words; a third entry says more in small print."""

    rows: tuple[tuple[str, str, str], ...]
    kind: Literal["facts"] = "facts"


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table whose columns may be sorted.

    Notes
    -----
    ``numbers`` are the names of columns that are aligned and sorted as figures. ``rows`` hold the
    text of each cell; ``keys``, of the same shape, what a column is sorted by, where that is not
    the text. ``marked`` is the row that stands out.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[Key, ...], ...] = ()
    numbers: frozenset[str] = frozenset()
    marked: int | None = None
    folded: bool = False
    kind: Literal["table"] = "table"


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart with what it shows in one sentence, and the same figures as a table.

    Notes
    -----
    ``draw`` builds the Vega-Lite chart (Altair); it is called when the page is made.
    """

    name: str
    title: str
    draw: Callable[[], Any] = field(repr=False)
    table: Table
    note: str = ""
    table_open: bool = False
    kind: Literal["chart"] = "chart"


Block: TypeAlias = Text | Facts | Table | Chart


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The contents of a page: a title, the answer in one sentence, key figures and sections.

    Notes
    -----
    ``tone`` says whether the answer is one (``good``), comes with a doubt (``warning``) or is none
    (``bad``). ``figures`` are (value, unit, note), the first the most important.
    """

    title: str
    subtitle: str
    verdict: str
    tone: Literal["good", "warning", "bad"] = "good"
    figures: tuple[tuple[str, str, str], ...] = ()
    sections: tuple[Section, ...] = ()


def section(title: str, *blocks: Block | None) -> tuple[Section, ...]:
    """Make a section of the blocks that there are; none if there are none."""
    kept = tuple(block for block in blocks if block is not None)
    return (Section(title=title, blocks=kept),) if kept else ()


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    numbers: Sequence[str] = (),
    marked: int | None = None,
    folded: bool = False,
) -> Table | None:
    """Make a table of cells, each a text or a text with what it is sorted by; None without rows.

    Examples
    --------
    >>> prices = table("Prices", ("GPU", "USD/h"), [("T4", ("$0.18", 0.18))], numbers=("USD/h",))
    >>> prices.rows, prices.keys
    ((('T4', '$0.18'),), (('T4', 0.18),))
    """
    if not rows:
        return None
    pairs = [
        [cell if isinstance(cell, tuple) else (cell, None if cell == "" else cell) for cell in row]
        for row in rows
    ]
    return Table(
        caption=caption,
        columns=tuple(columns),
        rows=tuple(tuple(text for text, _ in row) for row in pairs),
        keys=tuple(tuple(key for _, key in row) for row in pairs),
        numbers=frozenset(numbers),
        marked=marked,
        folded=folded,
    )
