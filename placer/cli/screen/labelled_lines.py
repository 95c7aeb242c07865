"""Labelled lines on a terminal or in a pipe: aligned, wrapped to the width, without a table library
that would take longer to load than to print with.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import IO, Any

import click

from placer.report.draw.wrapping import NARROWEST, labelled

PIPED_WIDTH = 120
"""Columns when the output is no terminal and COLUMNS does not say."""


def screen_width(stream: IO[Any]) -> int:
    """Return the columns of a stream: of COLUMNS, of the terminal, or 120 of a pipe."""
    if not stream.isatty() and "COLUMNS" not in os.environ:
        return PIPED_WIDTH
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def styled(text: str, stream: IO[Any], **style: Any) -> str:
    """Return text with colours where the stream is a terminal that shows them."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return text if plain or not stream.isatty() else click.style(text, **style)


def print_labelled(
    pairs: Iterable[tuple[str, str]], *, stderr: bool = False, style: str = "cyan", column: int = 0
) -> None:
    """Print labelled lines, the labels in a colour, the texts from a column on."""
    stream = sys.stderr if stderr else sys.stdout
    for label, text in labelled(list(pairs), screen_width(stream), column):
        click.echo((styled(label, stream, fg=style) + text).rstrip(), err=stderr)
