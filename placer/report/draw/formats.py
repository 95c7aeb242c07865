"""Tables as rows of data, and answers as Markdown and as HTML: what they say is never markup."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from placer.report.blocks import Block, Facts, Key, Report, Table, Text
from placer.report.draw.terminal import two_columns


def as_csv(tables: Sequence[Table]) -> str:
    """Write tables as CSV, a blank line between two of them."""
    parts = []
    for table in tables:
        out = io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(table.names)
        rows.writerows(values(table))
        parts.append(out.getvalue())
    return "\n".join(parts)


def as_jsonl(tables: Sequence[Table]) -> str:
    """Write each row as a JSON object by column; of several tables with the number of its table."""
    lines = []
    for number, table in enumerate(tables, start=1):
        head: dict[str, Any] = {"table": number} if len(tables) > 1 else {}
        lines += [
            json.dumps({**head, **dict(zip(table.names, row, strict=True))})
            for row in values(table)
        ]
    return "".join(f"{line}\n" for line in lines)


def values(table: Table) -> Iterator[list[Key]]:
    """Yield the rows of a table as values: numbers in full, texts on one line, None where nothing
    is known.
    """
    for row in table.keys:
        yield ["; ".join(key.split("\n")) if isinstance(key, str) else key for key in row]


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>placer</title></head>
<body>
{body}
</body></html>
"""


def as_markdown(items: Sequence[str | Report]) -> str:
    """Write answers as Markdown, and what was printed between them as it is."""
    return "\n\n".join(_drawn(items, _markdown)) + "\n"


def as_html(items: Sequence[str | Report]) -> str:
    """Write answers as a page that loads nothing."""
    return PAGE.format(body="\n".join(_drawn(items, _html)))


def _drawn(items: Sequence[str | Report], draw: Callable[[str | Block, str], str]) -> Iterator[str]:
    """Yield each part of some answers; the second argument of ``draw`` is the tag of a text."""
    for item in items:
        if isinstance(item, str):
            if item.strip():
                yield draw(item.strip("\n"), "pre")
            continue
        if item.verdict:
            yield draw(item.verdict, "p")
        for part in item.sections:
            if part.title:
                yield draw(part.title, "h2")
            yield from (draw(block, "") for block in part.blocks)


def _markdown(item: str | Block, tag: str) -> str:
    if isinstance(item, str):
        if tag == "pre":
            return f"```text\n{item}\n```"
        return ("## " if tag == "h2" else "") + _markdown_cell(item)
    if isinstance(item, Text):
        mark = "- " if len(item.lines) > 1 else ""
        return "\n".join(f"{mark}{_markdown_cell(line)}" for line in item.lines)
    rows, head, right = _cells(item)
    rule = ["---:" if one else "---" for one in right]
    lines = [rule, *([_markdown_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [map(_markdown_cell, head), *lines])


def _markdown_cell(cell: str) -> str:
    escaped = html.escape(cell, quote=False).replace("\\", "\\\\").replace("|", "\\|")
    return re.sub(r"([*_`\[\]])", r"\\\1", escaped).replace("\n", "<br>")


def _html(item: str | Block, tag: str) -> str:
    if isinstance(item, str):
        return f"<{tag}>{html.escape(item)}</{tag}>"
    if isinstance(item, Text):
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in item.lines)
        return (
            f"<ul>{lines}</ul>" if len(item.lines) > 1 else f"<p>{html.escape(item.lines[0])}</p>"
        )
    rows, head, right = _cells(item)
    top = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "\n".join("<tr>" + "".join(map(_html_cell, row, right)) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _html_cell(cell: str, right: bool) -> str:
    style = ' style="text-align:right"' if right else ""
    return f"<td{style}>{html.escape(cell).replace(chr(10), '<br>')}</td>"


def _cells(block: Block) -> tuple[Sequence[Sequence[str]], Sequence[str], list[bool]]:
    """Return rows, header, and which columns are numbers; facts have two columns."""
    if isinstance(block, Facts):
        return two_columns(block), ("", ""), [False, False]
    assert isinstance(block, Table)
    return block.rows, block.columns, [name in block.numbers for name in block.columns]
