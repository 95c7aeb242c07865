"""Reads a list of machines for sale for a time, as ``placer capacity import aws-blocks`` and
``aws-plans`` write it.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from placer.errors import PlacerError
from placer.files.bounded_file import read_file
from placer.market.sources.capacity.aws_capacity import OfferedBlock

HINT = "give a CSV file as 'placer capacity import aws-blocks -o FILE' writes it"
WHOLE = ("gpu_count", "machines")
AMOUNTS = ("hours", "usd")


def read_blocks(path: str | Path) -> list[OfferedBlock]:
    """Read the blocks of a file in its order.

    Raises
    ------
    PlacerError
        Names file, line and column that are wrong.
    """
    columns = [field.name for field in fields(OfferedBlock)]
    try:
        text = read_file(path, HINT).decode("utf-8-sig")
        rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = next(rows, [])
        if missing := [name for name in columns if name not in header]:
            raise PlacerError(f"{path}: no column '{missing[0]}'", HINT)
        return [
            _block(dict(zip(header, cells, strict=True)), f"{path}:{rows.line_num}")
            for cells in rows
            if cells
        ]
    except UnicodeDecodeError:
        raise PlacerError(f"{path}: cannot be read as UTF-8 text", HINT) from None
    except csv.Error as error:
        raise PlacerError(f"{path}:{rows.line_num}: {error}", HINT) from None
    except ValueError:
        raise PlacerError(
            f"{path}:{rows.line_num}: not as many columns as the header", HINT
        ) from None


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


def _block(cells: dict[str, str], where: str) -> OfferedBlock:
    numbers = {
        name: _number(cells[name], f"{where}:{name}", whole=name in WHOLE)
        for name in (*WHOLE, *AMOUNTS)
    }
    if numbers["hours"] <= 0:
        raise PlacerError(f"{where}:hours: '{cells['hours'][:40]}'", "give a time above 0")
    moment(cells["start"], f"{where}:start")
    return OfferedBlock(
        name=cells["name"],
        place=cells["place"],
        instance_type=cells["instance_type"],
        gpu=cells["gpu"],
        gpu_count=int(numbers["gpu_count"]),
        machines=int(numbers["machines"]),
        start=cells["start"],
        hours=numbers["hours"],
        usd=numbers["usd"],
        source=cells["source"],
    )


def _number(cell: str, where: str, *, whole: bool) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (whole and (value < 1 or value % 1)):
        raise PlacerError(
            f"{where}: '{cell[:40]}'", "give a whole number from 1" if whole else "give a number"
        )
    return value
