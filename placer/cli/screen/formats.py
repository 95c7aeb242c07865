"""The formats of ``--format``: what a command prints is kept, and written at its end.

``csv`` and ``jsonl`` have the tables alone, with numbers in full; ``md`` and ``html`` have the text
around them as well. ``json`` is the document of ``--json``, ``yaml`` the same as YAML.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import click

from placer.errors import PlacerError

if TYPE_CHECKING:
    from placer.report.blocks import Report

    Item = str | Report

FORMAT = "placer.format"
"""Key in a context's ``meta`` of the format that was asked for."""
STDOUT = "-"
"""In place of a file: stdout."""


class Collected(io.StringIO):
    """A stand-in for stdout that keeps what is printed until a command is done.

    ``name``: format, of `FORMATS`; or ``-`` where a document goes to stdout in place of all else.
    ``stream``: what stdout was. ``path``: file that is written; None: the stream.
    """

    def __init__(self, name: str, stream: IO[str], path: str | None = None) -> None:
        super().__init__()
        self.name, self.stream, self.path = name, stream, path
        self.items: list[Item] = []

    def write(self, text: str) -> int:
        """Keep text, together with what was written just before it."""
        if not isinstance(text, str):  # click tries whether a stream takes bytes
            raise TypeError("text is kept, not bytes")
        if self.items and isinstance(self.items[-1], str):
            self.items[-1] += text
        else:
            self.items.append(text)
        return len(text)

    def text(self, failed: bool) -> str:
        """Return all in the format; of a command that failed what it printed, if anything.

        Raise `PlacerError` if there is no table, or nothing in the document's place.
        """
        if self.name == STDOUT:
            return ""
        if self.name not in WRITERS:
            return "".join(item for item in self.items if isinstance(item, str))
        from placer.report.blocks import Table
        from placer.report.draw import formats

        parts = [part for item in self.items if not isinstance(item, str) for part in item.sections]
        tables = [block for part in parts for block in part.blocks if isinstance(block, Table)]
        if not tables and not failed:
            raise PlacerError(
                f"there is no table to print as {self.name}", "use --format table or json"
            )
        writer: Callable[..., str] = getattr(formats, f"as_{WRITERS[self.name]}")
        return writer(tables if self.name in ROWS else self.items) if tables else ""


def collect(name: str, path: str | None = None) -> None:
    """Keep what is printed from now on; where it is kept already, change only what is given."""
    kept = sys.stdout
    if isinstance(kept, Collected):
        kept.path = kept.path if path is None else path
        kept.name = name
    else:
        sys.stdout = Collected(name, kept, path)


def keep_answer(report: Report, *, whole: bool) -> bool:
    """Keep an answer where its format is none of a terminal, and say whether it was."""
    from placer.records import replace
    from placer.report.blocks import in_text, section, tables_of

    kept = sys.stdout
    if not (isinstance(kept, Collected) and kept.name in WRITERS):
        return False
    if kept.name in ROWS:
        tables = section("", *tables_of(report, whole=whole))
        kept.items.append(replace(report, sections=tables))
    else:
        kept.items.append(in_text(report, whole=whole))
    return True


def whole_tables() -> bool:
    """Tell whether tables are asked for in a format, rather than an answer to read."""
    return isinstance(sys.stdout, Collected) and sys.stdout.name in WRITERS


def document_text(document: Any, path: str = STDOUT) -> str:
    """Write a document as JSON, or as YAML where ``--format yaml`` was asked for and the file, if
    any, is named so; NaN and infinity are an error, not JSON.
    """
    ctx = click.get_current_context(silent=True)
    asked = ctx is not None and ctx.meta.get(FORMAT) == "yaml"
    if not (asked and (path == STDOUT or path.endswith(YAML))):
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    import yaml

    plain = json.loads(json.dumps(document, allow_nan=False))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


WRITERS = {"csv": "csv", "jsonl": "jsonl", "md": "markdown", "html": "html"}
"""Formats of answers by name, and how `placer.report.draw.formats` calls them."""
ROWS = ("csv", "jsonl")
"""Formats of rows, numbers in full."""
DOCUMENTS = ("json", "yaml")
"""Formats of whole documents."""
YAML = (".yaml", ".yml")
FORMATS = ("table", *DOCUMENTS, *WRITERS)
"""Names of --format."""
