"""What an answer says, whatever draws it: sections of paragraphs, facts, tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from placer.records import replace

Key: TypeAlias = str | float | int | None
"""What a cell is sorted by; None stays below all others."""
Cell: TypeAlias = str | int | tuple[str, Key]
"""What a cell shows, and its value where that is something else: numbers are sorted by it, and
`--format csv` and `jsonl` have it in full. A count is both.
"""
Pair: TypeAlias = tuple[str, str, str]
"""A name, its words, and more in small print."""


class Text(Struct, frozen=True, kw_only=True):
    """A paragraph or, with several ``lines``, a list.

    A terminal writes a ``warning`` and a ``hint`` to stderr.
    """

    lines: tuple[str, ...]
    tone: Literal["plain", "lead", "warning", "hint", "code"] = "plain"
    kind: Literal["text"] = "text"


class Facts(Struct, frozen=True, kw_only=True):
    """Pairs of a name and its words; a third entry says more in small print."""

    rows: tuple[Pair, ...]
    kind: Literal["facts"] = "facts"


class Table(Struct, frozen=True, kw_only=True):
    """A table whose columns may be sorted.

    ``numbers`` are the names of columns that are aligned and sorted as figures. ``rows`` hold the
    text of each cell; ``keys``, of the same shape, its value. ``marked`` is the row that stands
    out. A terminal narrows the columns of ``narrowed`` first (none: all alike), leaves those of
    ``optional`` out where it has no room, and shows a ``folded`` table never. Where tables are
    ``data``, formats of rows have these alone. ``units`` names columns in rows of data, where the
    text of a cell has the unit or a column has no name: ``{"rtt": "rtt s"}``.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[Key, ...], ...] = ()
    numbers: frozenset[str] = frozenset()
    marked: int | None = None
    folded: bool = False
    narrowed: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    units: Mapping[str, str] = {}
    data: bool = False
    kind: Literal["table"] = "table"

    @property
    def names(self) -> list[str]:
        """Return the names of the columns in rows of data, each once."""
        names: list[str] = []
        for number, column in enumerate(self.columns, start=1):
            name = self.units.get(column, column) or f"column{number}"
            names.append(f"{name} {number}" if name in names else name)
        return names


class Chart(Struct, frozen=True, kw_only=True):
    """A chart with what it shows in one sentence, and the same figures as a table.

    ``draw`` builds the Vega-Lite chart (Altair); it is called when the page is made.
    """

    name: str
    title: str
    draw: Callable[[], Any]
    table: Table
    note: str = ""
    table_open: bool = False
    kind: Literal["chart"] = "chart"


Block: TypeAlias = Text | Facts | Table | Chart


class Section(Struct, frozen=True, kw_only=True):
    """A heading and what stands below it; a terminal shows a ``detail`` with ``-v`` alone."""

    title: str
    blocks: tuple[Block, ...]
    detail: bool = False


class Report(Struct, frozen=True, kw_only=True):
    """The contents of a page: a title, the answer in one sentence, key figures and sections.

    ``tone`` says whether the answer is one (``good``), comes with a doubt (``warning``) or is none
    (``bad``). ``figures`` are (value, unit, note), the first the most important.
    """

    title: str
    subtitle: str
    verdict: str = ""
    tone: Literal["good", "warning", "bad"] = "good"
    figures: tuple[Pair, ...] = ()
    sections: tuple[Section, ...] = ()


def section(title: str, *blocks: Block | None, detail: bool = False) -> tuple[Section, ...]:
    """Make a section of the blocks that there are; none if there are none."""
    kept = tuple(block for block in blocks if block is not None)
    return (Section(title=title, blocks=kept, detail=detail),) if kept else ()


def text(*lines: str, tone: Literal["plain", "lead", "warning", "hint"] = "plain") -> Text | None:
    """Make a paragraph or a list of the lines that say something; None without any."""
    kept = tuple(filter(None, lines))
    return Text(lines=kept, tone=tone) if kept else None


def facts(*rows: tuple[str, ...]) -> Facts | None:
    """Make facts of names with their words, and perhaps small print; None without any."""
    kept = tuple((row[0], row[1], row[2] if len(row) > 2 else "") for row in rows)
    return Facts(rows=kept) if kept else None


def chart(
    name: str,
    title: str,
    draw: Callable[[], Any],
    listed: Table | None,
    note: str = "",
    *,
    table_open: bool = False,
) -> Chart | None:
    """Make a chart of what a table lists; None without one."""
    if listed is None:
        return None
    return Chart(name=name, title=title, draw=draw, table=listed, note=note, table_open=table_open)


def figure(value: float | None, write: Callable[[float], str], missing: str = "") -> Cell:
    """Make the cell of a number that may not be known.

    >>> figure(0.25, "{:.0%}".format), figure(None, str, "-")
    (('25%', 0.25), ('-', None))
    """
    return (missing, None) if value is None else (write(value), value)


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    numbers: Sequence[str] | None = None,
    marked: int | None = None,
    folded: bool = False,
    narrowed: Sequence[str] = (),
    optional: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    data: bool = False,
) -> Table | None:
    """Make a table of cells, each a text or a text with its value; None without rows.

    ``numbers``: None: the columns whose cells are figures, or missing ones.

    >>> prices = table("Prices", ("GPU", "USD/h"), [("T4", ("$0.18", 0.18))])
    >>> prices.rows, prices.keys, prices.numbers
    ((('T4', '$0.18'),), (('T4', 0.18),), frozenset({'USD/h'}))
    """
    if not rows:
        return None
    pairs = [[_pair(cell) for cell in row] for row in rows]
    if numbers is None:
        every = zip(columns, zip(*rows, strict=True), strict=True)
        numbers = [column for column, cells in every if _are_figures(cells)]
    return Table(
        caption=caption,
        columns=tuple(columns),
        rows=tuple(tuple(text for text, _ in row) for row in pairs),
        keys=tuple(tuple(key for _, key in row) for row in pairs),
        numbers=frozenset(numbers),
        marked=marked,
        folded=folded,
        narrowed=frozenset(narrowed),
        optional=frozenset(optional),
        units=units or {},
        data=data,
    )


def _pair(cell: Cell) -> tuple[str, Key]:
    if isinstance(cell, tuple):
        return cell
    return (f"{cell:,}", cell) if isinstance(cell, int) else (cell, cell or None)


def _are_figures(cells: Sequence[Cell]) -> bool:
    """Tell whether all cells of a column that say something have a number, or miss one."""
    told = [cell for cell in cells if cell != ""]
    return bool(told) and all(
        isinstance(cell[1] if isinstance(cell, tuple) else cell, int | float | None)
        for cell in told
    )


def without_empty_columns(made: Table | None) -> Table | None:
    """Leave out the columns in which nothing stands."""
    if made is None:
        return None
    return with_columns(made, [any(column) for column in zip(*made.rows, strict=True)])


def with_columns(made: Table, kept: Sequence[bool]) -> Table:
    """Keep some columns of a table, in their order."""

    def picked(cells: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(compress(cells, kept))

    return replace(
        made,
        columns=picked(made.columns),
        rows=tuple(map(picked, made.rows)),
        keys=tuple(map(picked, made.keys)),
    )


ASIDES = ("warning", "hint")
"""Tones of texts that stand beside an answer."""


def in_text(report: Report, *, whole: bool = False) -> Report:
    """Return what text shows of an answer: charts as their tables, without asides.

    ``report``: as a page shows it. ``whole``: keep sections of detail, and the tables of charts
    that say it better on a page.
    """
    kept = [part for part in report.sections if whole or not part.detail]
    sections = [replace(part, blocks=tuple(_blocks_in_text(part, whole))) for part in kept]
    return replace(report, sections=tuple(part for part in sections if part.blocks))


def _blocks_in_text(part: Section, whole: bool) -> Iterator[Block]:
    for block in part.blocks:
        if isinstance(block, Chart):
            if whole or block.table_open:
                yield block.table
        elif not (
            (isinstance(block, Table) and block.folded)
            or (isinstance(block, Text) and block.tone in ASIDES)
        ):
            yield block


def asides(report: Report, *, whole: bool = False) -> list[tuple[str, str]]:
    """Return tone and words of what stands beside an answer: warnings and hints."""
    texts = (
        block
        for part in report.sections
        if whole or not part.detail
        for block in part.blocks
        if isinstance(block, Text) and block.tone in ASIDES
    )
    return [(block.tone, line) for block in texts for line in block.lines]


def tables_of(report: Report, *, whole: bool = False) -> list[Table]:
    """Return the tables of an answer that are rows of data: those that say so, else those in text;
    arguments as for `in_text`.
    """
    every, shown = (
        [b for part in one.sections for b in part.blocks if isinstance(b, Table)]
        for one in (in_text(report, whole=True), in_text(report, whole=whole))
    )
    return [one for one in every if one.data] or shown
