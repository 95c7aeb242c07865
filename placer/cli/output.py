"""Consoles, JSON and files: written beside and renamed, so that nothing is half written."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.errors import PlacerError

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Console that follows NO_COLOR, TERM and the width of the terminal."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, emoji=False, markup=False, soft_wrap=False)


def print_json(document: Any) -> None:
    """Print a document on stdout; NaN and infinity are an error, not JSON."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def write_json(path: str, document: Any) -> None:
    """Write a document to a file: to a temporary one in the same folder, then renamed.

    Raises
    ------
    PlacerError
        If the folder is missing or cannot be written; an existing file stays as it was.
    """
    target = Path(path)
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise PlacerError(f"cannot write '{path}': {error.strerror or error}", "choose a folder that exists and can be written") from None


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raises
    ------
    PlacerError
        Names the file, line and column that are wrong.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise PlacerError(f"cannot read '{path}': {error.strerror or error}", "check the path") from None
    try:
        return json.loads(data, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise PlacerError(f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}", "correct the file") from None
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid JSON: {error}", "correct the file") from None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number")
