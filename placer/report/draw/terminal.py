"""Blocks as lines of a terminal: every column stays, cells are folded where it is narrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from placer.errors import printable
from placer.report.blocks import Block, Facts, Report, Table, Text, with_columns
from placer.report.draw.wrapping import PARTS, WORDS, cells, fold, labelled, least, longest, wrapped

Line = tuple[tuple[str, str], ...]
"""Pieces of a line, each with its style in the words of rich."""
GAP = 2
"""Blanks between columns."""
VERDICTS = {"good": "bold green", "warning": "bold", "bad": "bold"}


def report_lines(report: Report, width: int) -> Iterator[Line]:
    """Draw what text shows of an answer: its sentence, its key figures and its sections."""
    above = False
    if report.verdict:
        yield from _plain(wrapped(report.verdict, width), VERDICTS[report.tone])
        above = True
    if report.figures:
        rows = (
            f"{value} {unit}{f' ({note})' * bool(note)}" for value, unit, note in report.figures
        )
        yield from _plain(wrapped("; ".join(rows), width))
    for part in report.sections:
        if above:
            yield ()
        if part.title:
            yield from _plain(wrapped(part.title, width), "bold")
        tables = 0
        for block in part.blocks:
            if isinstance(block, Table):
                tables += 1
                if tables > 1:  # the title of the section is that of the first
                    yield from _plain(["", *wrapped(block.caption, width)], "dim")
            yield from block_lines(block, width)
        above = True


def plain_text(report: Report, width: int) -> str:
    """Write what text shows of an answer, without styles."""
    lines = report_lines(report, width)
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def block_lines(block: Block, width: int) -> Iterator[Line]:
    """Draw one block."""
    if isinstance(block, Text):
        yield from _text_lines(block, width)
    elif isinstance(block, Facts):
        for label, line in labelled(two_columns(block), width):
            yield ((printable(label), "cyan"), (printable(line), ""))
    elif isinstance(block, Table):
        yield from table_lines(block, width)


def two_columns(facts: Facts) -> list[tuple[str, str]]:
    """Return names and words, the small print in parentheses."""
    return [(name, f"{words} ({more})" if more else words) for name, words, more in facts.rows]


def _text_lines(block: Text, width: int) -> Iterator[Line]:
    if block.tone == "code":
        yield from _plain(block.lines)
    elif len(block.lines) == 1:
        yield from _plain(wrapped(block.lines[0], width), "bold" * (block.tone == "lead"))
    else:
        for line in block.lines:
            yield from _plain(wrapped(f" - {line}", width, "   "))


def _plain(lines: Iterable[str], style: str = "") -> Iterator[Line]:
    for line in lines:
        yield ((printable(line), style),)


def table_lines(table: Table, width: int) -> Iterator[Line]:
    """Draw a table, no line longer than the width; where its columns have no room its rows are
    records, a header and its value in a line.
    """
    if table.optional and sum(_natural(table)) + GAP * (len(table.columns) - 1) > width:
        table = with_columns(table, [name not in table.optional for name in table.columns])
    widths = _widths(table, width)
    if widths is None:
        yield from _plain(_records(table, width))
        return
    yield from _plain(_row(table, table.columns, widths), "underline")
    for number, row in enumerate(table.rows):
        yield from _plain(_row(table, row, widths), "bold" * (number == table.marked))


def _natural(table: Table) -> list[int]:
    return [max(map(longest, column)) for column in zip(table.columns, *table.rows, strict=True)]


def _widths(table: Table, width: int) -> list[int] | None:
    """Return the columns' widths, narrowed as far as is needed; None if there is no room."""
    columns = list(zip(table.columns, *table.rows, strict=True))
    widths = _natural(table)
    room = width - GAP * (len(columns) - 1)
    every = [True] * len(columns)
    first = [name in table.narrowed for name in table.columns] if table.narrowed else every
    for pattern in (WORDS, PARTS):
        for narrowed in (first, every):
            smallest = [least(column, pattern) for column in columns]
            while sum(widths) > room:
                can = [i for i, w in enumerate(widths) if narrowed[i] and w > smallest[i]]
                if not can:
                    break
                widths[max(can, key=lambda i: widths[i])] -= 1
    return widths if sum(widths) <= room else None


def _row(table: Table, row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    folded = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, folded), default=0)):
        parts = []
        for lines, width, name in zip(folded, widths, table.columns, strict=True):
            text = lines[number] if number < len(lines) else ""
            blanks = " " * (width - cells(text))
            parts.append(blanks + text if name in table.numbers else text + blanks)
        yield (" " * GAP).join(parts).rstrip()


def _records(table: Table, width: int) -> Iterator[str]:
    for row in table.rows:
        for header, cell in zip(table.columns, row, strict=True):
            yield from fold(f"{header}: {' '.join(cell.split())}", width)
        yield ""
