"""Tables in the formats of ``--format``: what a command prints is kept, and written at its end.

``csv`` and ``jsonl`` have the tables alone, with plain numbers; ``md`` and ``html`` have the text
around them as well. ``json`` is the document of ``--json``.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from placer.cli.screen.tables import Sheet
from placer.errors import PlacerError

NUMBER = re.compile(r"[+-]?\$?(?P<digits>\d{1,3}(,\d{3})+(\.\d+)?|\d+(\.\d+)?)(~| ?%)?")
"""A cell that is one number: with separators, dollars, a percent sign or a mark of an estimate."""
COLUMN = "column"
"""Name of a column that has none, before its number."""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>placer</title></head>
<body>
{body}
</body></html>
"""

STDOUT = "-"
"""In place of a file: stdout."""
Item = str | Sheet


class Collected(io.StringIO):
    """A stand-in for stdout that keeps what is printed until a command is done.

    Parameters
    ----------
    name
        Format, of `FORMATS`; or ``-`` where a document goes to stdout in place of all else.
    stream
        What stdout was.
    path
        File that is written; None: the stream.
    """

    def __init__(self, name: str, stream: IO[str], path: str | None = None) -> None:
        super().__init__()
        self.name, self.stream, self.path = name, stream, path
        self.items: list[Item] = []

    def write(self, text: str) -> int:
        """Keep text, together with what was written just before it."""
        if self.items and isinstance(self.items[-1], str):
            self.items[-1] += text
        else:
            self.items.append(text)
        return len(text)

    def text(self, failed: bool) -> str:
        """Return all in the format; of a command that failed what it printed, if anything.

        Raises
        ------
        PlacerError
            If there is no table, or nothing in the document's place.
        """
        plain = "".join(item for item in self.items if isinstance(item, str))
        if self.name == STDOUT:
            return ""
        if self.name not in WRITERS:
            return plain
        if not tables_of(self.items):
            if failed:
                return ""
            raise PlacerError(
                f"there is no table to print as {self.name}", "use --format table or json"
            )
        return WRITERS[self.name](self.items)


def collect(name: str, path: str | None = None) -> None:
    """Keep what is printed from now on; where it is kept already, change only what is given."""
    kept = sys.stdout
    if isinstance(kept, Collected):
        kept.path = kept.path if path is None else path
        kept.name = name
    else:
        sys.stdout = Collected(name, kept, path)


def keep_table(sheet: Sheet) -> bool:
    """Keep a table where its format is none of a terminal, and say whether it was."""
    kept = sys.stdout
    if isinstance(kept, Collected) and kept.name in WRITERS:
        kept.items.append(sheet)
        return True
    return False


def whole_tables() -> bool:
    """Tell whether tables are asked for in a format, rather than an answer to read."""
    return isinstance(sys.stdout, Collected) and sys.stdout.name in WRITERS


def as_csv(items: Sequence[Item]) -> str:
    """Write the tables as CSV, a blank line between two of them."""
    parts = []
    for sheet in tables_of(items):
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(_names(sheet))
        rows.writerows([[_plain(cell) for cell in row] for row in sheet.rows])
        parts.append(out.getvalue())
    return "\n".join(parts)


def as_jsonl(items: Sequence[Item]) -> str:
    """Write each row as a JSON object by header; of several tables with the number of its table."""
    lines, tables = [], tables_of(items)
    for number, sheet in enumerate(tables, start=1):
        head: dict[str, Any] = {"table": number} if len(tables) > 1 else {}
        names = _names(sheet)
        lines += [
            json.dumps({**head, **dict(zip(names, map(_value, row), strict=True))})
            for row in sheet.rows
        ]
    return "".join(f"{line}\n" for line in lines)


def as_markdown(items: Sequence[Item]) -> str:
    """Write tables and text as Markdown."""
    return "\n\n".join(filter(None, (_markdown(item) for item in items))) + "\n"


def as_html(items: Sequence[Item]) -> str:
    """Write tables and text as a page that loads nothing; what they say is never markup."""
    return PAGE.format(body="\n".join(filter(None, (_html(item) for item in items))))


def tables_of(items: Sequence[Item]) -> list[Sheet]:
    """Return the tables among what was printed."""
    return [item for item in items if isinstance(item, Sheet)]


def _names(sheet: Sheet) -> list[str]:
    """Return the names of the columns, each once."""
    names: list[str] = []
    for number, known in enumerate(sheet.names, start=1):
        name = known or f"{COLUMN}{number}"
        names.append(f"{name} {number}" if name in names else name)
    return names


def _plain(cell: str) -> str:
    """Write a number without what only people read; other cells stay as they are, on one line."""
    text = cell.strip()
    match = NUMBER.fullmatch(text)
    if match is None:
        return "; ".join(text.split("\n"))
    return ("-" if text.startswith("-") else "") + match["digits"].replace(",", "")


def _value(cell: str) -> Any:
    text = _plain(cell)
    if NUMBER.fullmatch(cell.strip()) is None:
        return None if text == "-" else text
    return float(text) if "." in text else int(text)


def _markdown(item: Item) -> str:
    if isinstance(item, str):
        text = item.strip("\n")
        return f"```text\n{text}\n```" if text.strip() else ""
    rule = ["---:" if right else "---" for right in item.right]
    rows = [item.headers, rule, *item.rows]
    return "\n".join(f"| {' | '.join(_markdown_cell(cell) for cell in row)} |" for row in rows)


def _markdown_cell(cell: str) -> str:
    escaped = _escaped(cell, quote=False).replace("\\", "\\\\").replace("|", "\\|")
    return re.sub(r"([*_`\[\]])", r"\\\1", escaped).replace("\n", "<br>")


def _html(item: Item) -> str:
    if isinstance(item, str):
        text = item.strip("\n")
        return f"<pre>{_escaped(text)}</pre>" if text.strip() else ""
    head = "".join(f'<th scope="col">{_escaped(header)}</th>' for header in item.headers)
    body = "\n".join(f"<tr>{''.join(_html_cells(item, row))}</tr>" for row in item.rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _html_cells(sheet: Sheet, row: Sequence[str]) -> Iterator[str]:
    for cell, right in zip(row, sheet.right, strict=True):
        style = ' style="text-align:right"' if right else ""
        yield f"<td{style}>{_escaped(cell).replace(chr(10), '<br>')}</td>"


def _escaped(text: str, *, quote: bool = True) -> str:
    """Write a text as HTML has it."""
    import html  # its table of 2,200 names is for two of the formats

    return html.escape(text, quote=quote)


WRITERS: dict[str, Callable[[Sequence[Item]], str]] = {
    "csv": as_csv,
    "jsonl": as_jsonl,
    "md": as_markdown,
    "html": as_html,
}
FORMATS = ("table", "json", *WRITERS)
"""Names of --format."""
