"""Tables as rows of data: CSV and JSON lines, with numbers in full."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from placer.report.blocks import Key, Table


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
