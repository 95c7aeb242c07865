"""What commands print and write: lines on a terminal or in a pipe without a library that would take
longer to load than to print with, JSON, and files that are written whole or not at all.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import click

from placer.cli.screen.formats import FORMATS, STDOUT, Collected, document_text
from placer.errors import PlacerError, writing_hint
from placer.files.whole_files import write_whole
from placer.report.draw.wrapping import NARROWEST, labelled, wrapped

PIPED_WIDTH = 120
"""Columns when the output is no terminal and COLUMNS does not say."""
LABELS = 9
"""Columns of the labels of the default answer."""
COLOURS = ("green", "cyan", "yellow", "red")


def screen_width(stream: IO[Any]) -> int:
    """Return the columns of a stream: of COLUMNS, of the terminal, or 120 of a pipe."""
    if not stream.isatty() and "COLUMNS" not in os.environ:
        return PIPED_WIDTH
    return max(NARROWEST, shutil.get_terminal_size((80, 24)).columns)


def styled(text: str, style: str, stream: IO[Any]) -> str:
    """Return text in a style, such as ``bold green``, where the stream is a terminal that shows
    it.
    """
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    if not style or plain or not stream.isatty():
        return text
    words = style.split()
    colour = next((word for word in words if word in COLOURS), None)
    return click.style(text, fg=colour, **{word: True for word in words if word != colour})


def say(text: str = "", style: str = "", *, whole: bool = False, err: bool = False) -> None:
    """Print text on stdout in lines of its width; ``whole``: in one line, so that it can be
    pasted.
    """
    stream = sys.stderr if err else sys.stdout
    for line in [text] if whole else wrapped(text, screen_width(stream)):
        click.echo(styled(line, style, stream), err=err)


def tell(text: str = "", style: str = "", *, whole: bool = False) -> None:
    """Print text on stderr as `say` does."""
    say(text, style, whole=whole, err=True)


def print_labelled(
    pairs: Sequence[tuple[str, str]], *, stderr: bool = False, style: str = "cyan"
) -> None:
    """Print labelled lines, the labels in a colour, the texts from column `LABELS` on."""
    stream = sys.stderr if stderr else sys.stdout
    for label, text in labelled(pairs, screen_width(stream), LABELS):
        click.echo((styled(label, style, stream) + text).rstrip(), err=stderr)


def print_json(document: Any) -> None:
    """Print a document on stdout, as JSON unless ``--format yaml`` was asked for."""
    click.echo(document_text(document), nl=False)


def exit_code(result: Any) -> int:
    """Return 0 for a placement, 3 where it is proved that nothing fits, 4 where that is open."""
    if result.placement is not None:
        return 0
    return 3 if str(result.status) == "infeasible" else 4


def check_targets(*paths: str | None) -> None:
    """Refuse files that could not be written, before anything is computed.

    Raise `PlacerError` if a path is empty, a folder, something else than a file, in no folder that
    can be written, or named twice.
    """
    seen: set[Path] = set()
    for path in (p for p in paths if p is not None):
        if path == STDOUT and isinstance(sys.stdout, Collected):
            continue
        if path == STDOUT:
            raise PlacerError("'-' is no file here", "a file of that name is written with ./-")
        if path.lower() in FORMATS:
            raise PlacerError(
                f"'{path}' is a format, not the name of a file",
                f"give --format {path.lower()}, or ./{path} for a file of that name",
            )
        target = _resolved(path)
        if not path.strip() or target.is_dir():
            raise PlacerError(
                f"'{path}' is not the name of a file", "give a file name, such as plan.json"
            )
        if target.exists() and not target.is_file():
            raise PlacerError(
                f"'{path}' is no regular file", "give the name of a file that may be replaced"
            )
        if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
            raise PlacerError(
                f"cannot write '{path}': its folder does not exist or cannot be written",
                "choose another folder",
            )
        if target in seen:
            raise PlacerError(f"'{path}' is named twice", "give each document a file of its own")
        seen.add(target)


def write_json(path: str, document: Any) -> None:
    """Write a document to a file: to a temporary one in the same folder, then renamed; links are
    followed.

    Raise `PlacerError` if the folder is missing or cannot be written; an existing file stays as it
    was.
    """
    write_text(path, document_text(document, path))


def write_text(path: str, text: str) -> None:
    """Write text to a file as `write_json` does, at once or not at all."""
    write_bytes(path, text.encode())


def write_csv(path: str, rows: Iterable[Sequence[object]]) -> None:
    """Write rows as CSV as `write_json` writes a document."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_text(path, text.getvalue())


def write_bytes(path: str, contents: bytes) -> None:
    """Write a whole file as `write_json` does."""
    check_targets(path)
    if path == STDOUT and isinstance(sys.stdout, Collected):
        sys.stdout.stream.write(contents.decode())
        return
    try:
        write_whole(_resolved(path), contents)
    except OSError as error:
        hint = writing_hint(error, "choose a folder that exists and can be written")
        raise PlacerError(f"cannot write '{path}': {error.strerror or error}", hint) from None


def _resolved(path: str) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError):
        raise PlacerError(
            f"'{path}' is not the name of a file", "give a file name, such as plan.json"
        ) from None
