"""Labelled lines on a terminal or in a pipe: aligned, wrapped to the width, without a table library
that would take longer to load than to print with.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO, Any

import click

PIPED_WIDTH = 120
"""Columns when the output is no terminal and COLUMNS does not say."""
NARROWEST = 24
"""Columns below which lines are no longer wrapped to the terminal."""
TIED = "\N{NO-BREAK SPACE}%"
"""A percent sign stays on the line of its number."""


def screen_width(stream: IO[Any]) -> int:
    """Return the columns of a stream: of COLUMNS, of the terminal, or 120 of a pipe."""
    if not stream.isatty() and "COLUMNS" not in os.environ:
        return PIPED_WIDTH
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def styled(text: str, stream: IO[Any], **style: Any) -> str:
    """Return text with colours where the stream is a terminal that shows them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return text if plain or not stream.isatty() else click.style(text, **style)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap a paragraph; what is written with hyphens stays whole, so that it can be pasted.

    Examples
    --------
    >>> wrapped("add --require-measured", 20, "  ")
    ['add', '  --require-measured']
    """
    lines = textwrap.wrap(
        text.replace(" %", TIED), width, subsequent_indent=indent, break_on_hyphens=False
    )
    return [line.replace(TIED, " %") for line in lines] or [""]


def labelled(pairs: Sequence[tuple[str, str]], width: int, least: int = 0) -> list[tuple[str, str]]:
    """Return pairs of a padded label and a line of its text; further lines have a blank label.
    Texts start at a column, or later where a label is longer.

    Examples
    --------
    >>> labelled([("step", "29.6 s: compute"), ("risk", "none")], 16)
    [('step  ', '29.6 s:'), ('      ', 'compute'), ('risk  ', 'none')]
    """
    column = max([least, *(len(label) + 2 for label, _ in pairs)])
    lines = []
    for label, text in pairs:
        first, *others = wrapped(text, max(width - column, NARROWEST // 2))
        lines.append((label.ljust(column), first))
        lines += [(" " * column, other) for other in others]
    return lines


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of cells as lines whose cells stand below each other; the last ones stay as long
    as they are.

    Examples
    --------
    >>> aligned([("own", "$3", "2 x H100"), ("own + spot", "$40.20", "4 x H100")])
    ['own         $3      2 x H100', 'own + spot  $40.20  4 x H100']
    """
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]) for row in rows]


def print_labelled(
    pairs: Iterable[tuple[str, str]], *, stderr: bool = False, style: str = "cyan", column: int = 0
) -> None:
    """Print labelled lines, the labels in a colour, the texts from a column on."""
    stream = sys.stderr if stderr else sys.stdout
    for label, text in labelled(list(pairs), screen_width(stream), column):
        click.echo((styled(label, stream, fg=style) + text).rstrip(), err=stderr)
