"""Reads a list of machines for sale for a time, as ``placer capacity import aws-blocks`` and
``aws-plans`` write it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from placer.errors import PlacerError
from placer.files.bounded_file import read_file
from placer.market.books.csv_rows import read_numbered_rows
from placer.market.sources.capacity.aws_capacity import OfferedBlock

HINT = "give a CSV file as 'placer capacity import aws-blocks -o FILE' writes it"


def read_blocks(path: str | Path) -> list[OfferedBlock]:
    """Read the blocks of a file in its order.

    Raises
    ------
    PlacerError
        Names file, line and column that are wrong.
    """
    blocks = []
    data = read_file(path, HINT)
    for number, row in read_numbered_rows(Path(path), "blocks.csv", data):
        moment(row["start"], f"{path}:{number}: start")
        blocks.append(OfferedBlock(**row))
    return blocks


def moment(text: str, where: str) -> datetime:
    """Read an ISO date and time; without a zone it is UTC.

    Raises
    ------
    PlacerError
        Says where it stands.
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise PlacerError(
            f"{where}: '{text[:40]}' is not a time", "write it as 2026-11-24T12:00Z"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
