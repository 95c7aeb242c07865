"""Consoles, JSON and files: written beside and renamed, so that nothing is half written."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from placer.cli.screen.formats import FORMATS, STDOUT, Collected
from placer.cli.screen.labelled_lines import PIPED_WIDTH
from placer.errors import PlacerError, writing_hint
from placer.files.bounded_file import read_file
from placer.files.json_text import parse_json
from placer.files.whole_files import write_whole

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return the console that follows NO_COLOR, TERM and the width of the terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty()
    width = None if terminal or "COLUMNS" in os.environ else PIPED_WIDTH
    made = Console(
        file=stream if terminal else cast("IO[str]", _WithoutTrailingBlanks(stream)),
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=False,
        width=width,
    )
    made.on_broken_pipe = _broken_pipe  # type: ignore[method-assign]
    return made


class _WithoutTrailingBlanks:
    """A stream that leaves out the blanks with which tables fill their lines."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines."""
        return self._stream.write(re.sub("[ ]+$", "", text, flags=re.MULTILINE))

    def __getattr__(self, name: str) -> Any:
        """Pass on whatever else is asked of the stream."""
        return getattr(self._stream, name)


def _broken_pipe() -> None:
    raise BrokenPipeError


def print_json(document: Any) -> None:
    """Print a document on stdout; NaN and infinity are an error, not JSON."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


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
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def write_text(path: str, text: str) -> None:
    """Write text to a file as `write_json` does, at once or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: str, contents: bytes) -> None:
    """Write a whole file as `write_json` does.

    Raise `PlacerError` if the folder is missing or cannot be written; an existing file stays as it
    was.
    """
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


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raise a `PlacerError` that names the file, line and column that are wrong.
    """
    data = read_file(path)
    try:
        return parse_json(data)
    except json.JSONDecodeError as error:
        raise PlacerError(
            f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}", "correct the file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid JSON: {error}", "correct the file") from None
