"""Rows of CSV files and of sources, whose columns and limits stand in catalogs/columns.csv."""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from placer.errors import PlacerError
from placer.files.bounded_file import bounded
from placer.market.books.folders import shipped_catalogs, shipped_records
from placer.market.table import Column
from placer.units import parse_date

Row = TypeVar("Row")
BOOK_FILES = (
    *("gpus.csv", "regions.csv", "networks.csv", "offers.csv", "discounts.csv", "functions.csv"),
    *("stores.csv", "egress.csv", "links.csv", "settings.csv", "capacity.csv"),
)
"""The files that a book may have, in the order in which they are read."""
MOST_BOOK_BYTES = 256 << 20  # Largest file of a book, or log: a million offers take 100 MB
MOST_HEADER_BYTES = 65_536  # Longest first line that is looked at


def header_of(data: bytes) -> list[str]:
    """Read the names of the columns of a CSV file; what is no CSV has none that is known."""
    first = data[:MOST_HEADER_BYTES].decode("utf-8-sig", errors="replace").splitlines()[:1]
    try:
        return next(csv.reader(first), [])
    except csv.Error:
        return []


def read_rows(path: Path, file: str) -> Iterator[dict[str, Any]]:
    """Read one CSV file of a book; see `read_numbered_rows`."""
    return (row for _, row in read_numbered_rows(path, file))


@lru_cache(maxsize=16)
def shipped_table(file: str, kind: Callable[..., Row]) -> tuple[Row, ...]:
    """Return the rows of a table that lies beside the shipped books."""
    return tuple(kind(**row) for row in read_rows(shipped_catalogs() / file, file))


def csv_lines(path: Path, data: bytes | None = None) -> Iterator[tuple[int, list[str]]]:
    """Read the cells of a CSV file, or of what stood in it, with the number of each line."""
    try:
        content = bounded(path, "give a smaller file", MOST_BOOK_BYTES) if data is None else data
        lines = csv.reader(content.decode("utf-8-sig").splitlines(), strict=True)
    except UnicodeDecodeError:
        raise PlacerError(f"{path}: cannot be read as UTF-8 text", "save it as UTF-8 CSV") from None
    except (OSError, ValueError) as error:
        words = f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
        raise PlacerError(words, "check the path") from None
    try:
        for cells in lines:
            yield lines.line_num, cells
    except csv.Error as error:
        words = f"{path}:{lines.line_num}: not valid CSV: {error}"
        raise PlacerError(words, "check the quotes of this line") from None


def read_numbered_rows(
    path: Path, file: str, data: bytes | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read one CSV file, or what stood in it, with the number of each line; every cell is as
    columns.csv has it for ``file``, or PlacerError names ``file:line:column`` and the value.
    """
    columns = file_columns(file)
    lines = csv_lines(path, data)
    _, header = next(lines, (1, []))
    missing = [c for c in columns if c not in header and c not in optional_columns(file)]
    extra = [c for c in header if c not in columns]
    if missing or extra or len(set(header)) != len(header):
        wrong = (
            f"column '{missing[0]}' is missing"
            if missing
            else f"unknown column '{extra[0] if extra else header}'"
        )
        raise PlacerError(f"{path}:1: {wrong}", f"the columns are {', '.join(columns)}")
    # Most cells of a book repeat others.
    parsed = [lru_cache(maxsize=None)(partial(_parsed, name, columns[name])) for name in header]
    keys = [name for name in key_columns(file) if name in header]
    seen: dict[tuple[Any, ...], int] = {}
    for number, cells in lines:
        if not cells:
            continue
        if len(cells) != len(header):
            words = f"{path}:{number}: {len(cells)} cells instead of {len(header)}"
            raise PlacerError(words, "check the commas of this line")
        try:
            row = {name: of(cell) for name, of, cell in zip(header, parsed, cells, strict=True)}
        except ValueError as error:
            raise PlacerError(f"{path}:{number}: {error}", "correct this cell") from None
        key = tuple([row[name] for name in keys])
        if key and key in seen:
            words = "/".join(cells[header.index(name)] for name in keys)
            raise PlacerError(
                f"{path}:{number}: {words} is already in line {seen[key]}",
                "keep one of the two rows",
            )
        seen[key] = number
        yield number, row


AT_ONCE = 256
"""Lines of which the cells are put into columns at once: while they are in the cache."""


def read_columns(path: Path, file: str, data: bytes) -> tuple[dict[str, Column], array[int]] | None:
    """Read one CSV file as `read_numbered_rows`, by column, with the number of each line; None
    where something is wrong: that function says what. Keys may repeat.
    """
    columns, texts = file_columns(file), [_numbered() for _ in header_of(data)]
    codes, numbers = [array("I") for _ in texts], array("I")
    try:
        lines = csv_lines(path, data)
        _, header = next(lines)
        while some := [*islice(lines, AT_ONCE)]:
            rows = [cells for _, cells in some if cells]
            numbers.extend([number for number, cells in some if cells])
            for known, each, cells in zip(texts, codes, zip(*rows, strict=True), strict=True):
                each.extend(map(known.__getitem__, cells))
        built = {
            name: Column.of(map(columns[name], known)).at(each)
            for name, known, each in zip(header, texts, codes, strict=True)
        }
    except (PlacerError, ValueError, KeyError, StopIteration):
        return None
    whole = len(built) == len(header) and columns.keys() - optional_columns(file) <= built.keys()
    return (built, numbers) if whole else None


def _parsed(name: str, parse: Callable[[str], Any], cell: str) -> Any:
    try:
        return parse(cell)
    except ValueError as error:
        raise ValueError(f"{name} '{cell}' {error}") from None


def _numbered() -> defaultdict[str, int]:
    """Make an empty table of the texts of a column, which numbers each that is looked up."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


@lru_cache(maxsize=16)
def file_columns(file: str) -> dict[str, Callable[[str], Any]]:
    """Return the columns of one file with their parsers, as catalogs/columns.csv describes them."""
    return {
        column: _parser(kind.removeprefix(_OPTIONAL))
        for column, (kind, _) in _column_types()[file].items()
    }


@lru_cache(maxsize=16)
def optional_columns(file: str) -> frozenset[str]:
    """Return the columns that a file may lack; the field of the row then has its default."""
    return frozenset(
        column for column, (kind, _) in _column_types()[file].items() if kind.startswith(_OPTIONAL)
    )


@lru_cache(maxsize=16)
def key_columns(file: str) -> tuple[str, ...]:
    """Return the columns of a file whose values may occur together only once; none: rows repeat."""
    return tuple(column for column, (_, key) in _column_types()[file].items() if key)


MOST_TEXT = 2_000  # Longest text of a cell
LEAST_NUMBER = 1e-12  # Below it a number is a slip of the keyboard, and ratios to it overflow
_MAY_BE_EMPTY = "optional_"  # Before a type of columns.csv: a cell may be empty
_OPTIONAL = "optional:"  # Before a type of columns.csv: the whole column may be missing


@lru_cache(maxsize=1)
def _column_types() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the type of each column by file, and whether it is of the key (``yes`` or empty)."""
    types: dict[str, dict[str, tuple[str, str]]] = {}
    for row in shipped_records("columns.csv"):
        types.setdefault(row["file"], {})[row["column"]] = row["type"], row["key"]
    return types


def _parser(kind: str) -> Callable[[str], Any]:
    optional, kind = kind.startswith(_MAY_BE_EMPTY), kind.removeprefix(_MAY_BE_EMPTY)
    if kind.startswith("choice:"):
        return _choice([""] * optional + kind.removeprefix("choice:").split("|"))
    parse = _PARSERS[kind]
    if not optional:
        return parse
    if kind == "text":
        return lambda cell: _text(cell) if cell else ""
    return lambda cell: parse(cell) if cell.strip() else None


def _text(cell: str) -> str:
    if not cell.strip():
        raise ValueError("is empty")
    if not cell.isprintable():
        raise ValueError("has control characters")
    if len(cell) > MOST_TEXT:
        raise ValueError(f"has more than {MOST_TEXT:,} characters")
    return cell


def plain_number(cell: str) -> float:
    """Read a number in ASCII digits, also NaN and infinity; ValueError if it is none."""
    try:
        value = float(cell)
    except ValueError:
        value = None
    if value is None or "_" in cell or not cell.isascii():
        raise ValueError("is not a number")
    return value


def _number(low: float, high: float, *, open_low: bool = False) -> Callable[[str], float]:
    def parse(cell: str) -> float:
        value = plain_number(cell)
        if not math.isfinite(value):
            raise ValueError("is not a finite number")
        if 0 < abs(value) < LEAST_NUMBER:
            raise ValueError(f"is nearer to 0 than {LEAST_NUMBER:g}")
        if value < low or value > high or (open_low and value == low):
            raise ValueError(
                f"is not {'above' if open_low else 'from'} "
                f"{low:g}{'' if high == 1e9 and value <= high else f' to {high:g}'}"
            )
        return value

    return parse


def _whole(digits: int) -> Callable[[str], int]:
    def parse(cell: str) -> int:
        if not re.fullmatch(rf"[0-9]{{1,{digits}}}", cell) or int(cell) < 1:
            raise ValueError("is not a whole number from 1")
        return int(cell)

    return parse


def _streams(cell: str) -> int | None:
    if cell and not 1 <= plain_number(cell) <= 1e6:
        raise ValueError("is not a number of streams from 1")
    return int(plain_number(cell)) if cell else None


def _price(cell: str) -> float:
    """Read a price; NaN for anything that is no number, which the checks refuse."""
    try:
        return plain_number(cell)
    except ValueError:
        return math.nan


def _date(cell: str) -> str:
    try:
        return parse_date(cell, "date").isoformat()
    except PlacerError:
        raise ValueError("is not a date (YYYY-MM-DD)") from None


def _choice(allowed: list[str]) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if cell not in allowed:
            raise ValueError(f"is not one of {', '.join(filter(None, allowed))}")
        return cell

    return parse


_PARSERS: dict[str, Callable[[str], Any]] = {
    "text": _text,
    "positive": _number(0.0, 1e9, open_low=True),
    "nonnegative": _number(0.0, 1e9),
    "multiplier": _number(0.01, 100.0),
    "share": _number(0.0, 1.0),
    "latitude": _number(-90.0, 90.0),
    "longitude": _number(-180.0, 180.0),
    "whole": _whole(9),
    "whole_large": _whole(15),  # such as a number of parameters
    "date": _date,
    # Of rows of sources, which are judged whole: what is wrong is refused or counted.
    "any": str,
    "words": lambda cell: cell.lstrip("=+-@ "),  # of a bill, which may begin as a formula does
    "figure": lambda cell: plain_number(cell) if cell else None,
    "price": _price,
    "streams": _streams,
}
