"""Read a price book: a folder of CSV files whose columns and limits stand in catalogs/columns.csv."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from placer.book_checks import check_book
from placer.catalog import (
    Catalog,
    EgressPrice,
    FunctionOffer,
    Gpu,
    MeasuredLink,
    Region,
    StoreOffer,
    VmOffer,
)
from placer.errors import PlacerError, unknown
from placer.shipped import shipped_folder
from placer.units import parse_date

FILES: dict[str, type] = {
    "regions.csv": Region,
    "offers.csv": VmOffer,
    "functions.csv": FunctionOffer,
    "stores.csv": StoreOffer,
    "egress.csv": EgressPrice,
    "links.csv": MeasuredLink,
}
"""The files of a book; regions.csv, offers.csv and egress.csv must exist."""
REQUIRED_FILES = ("regions.csv", "offers.csv", "egress.csv")
KEYS: dict[str, tuple[str, ...]] = {
    "gpus.csv": ("gpu",),
    "regions.csv": ("provider", "region"),
    "offers.csv": ("provider", "region", "instance_type", "gpu", "gpu_count", "market"),
    "functions.csv": ("provider", "region", "function"),
    "stores.csv": ("provider", "region", "store"),
    "egress.csv": ("provider", "src", "dst", "above_gib_per_month"),
    "links.csv": ("src", "dst"),
    "runs.csv": ("experiment", "model"),
    "claims.csv": ("id",),
    "measured.csv": (),
}
"""What may occur only once in each file; runs.csv and claims.csv are figures of a paper beside its book, no part of it;
measured.csv is a file of any name with a user's own runs, which may repeat."""


def shipped_catalogs() -> Path:
    """Folder of the books that come with placer, installed or in a checkout."""
    return shipped_folder("catalogs")


def catalog_names() -> list[str]:
    """Names of the shipped books, sorted."""
    return sorted(path.parent.name for path in shipped_catalogs().glob("*/offers.csv"))


def load_catalog(name: str) -> Catalog:
    """Read and check a book by name or by folder.

    Parameters
    ----------
    name
        A shipped book such as ``default``, or the path of a folder with the same files.

    Raises
    ------
    PlacerError
        If there is no such book, or a cell is wrong: the message names file, line, column and value.
    """
    if not isinstance(name, str):
        raise PlacerError(f"catalog {name!r} is not a name", "give text")
    folder = Path(name) if ("/" in name or name.startswith(".")) else shipped_catalogs() / name
    if not name or not _exists(folder, Path.is_dir):
        raise unknown("catalog", name, catalog_names())
    rows: dict[str, tuple[Any, ...]] = {}
    digest = hashlib.sha256()
    for file, kind in FILES.items():
        path = folder / file
        if not path.is_file():
            if path.exists():
                raise PlacerError(f"{path} is not a file", "a price book has CSV files; catalogs/columns.csv lists them")
            if file in REQUIRED_FILES:
                raise PlacerError(f"catalog '{name}' has no {file}", f"add {path}; catalogs/columns.csv lists its columns")
            rows[file] = ()
            continue
        digest.update(path.read_bytes())
        rows[file] = tuple(kind(**row) for row in read_rows(path, file))
    gpu_path = folder / "gpus.csv" if (folder / "gpus.csv").is_file() else shipped_catalogs() / "gpus.csv"
    digest.update(gpu_path.read_bytes())
    gpus = {row["gpu"]: Gpu(**row) for row in read_rows(gpu_path, "gpus.csv")}
    regions = {region.place: region for region in rows["regions.csv"]}
    check_book(folder, rows, regions, gpus)
    return Catalog(
        name=folder.name,
        digest=digest.hexdigest()[:16],
        regions=regions,
        gpus=gpus,
        offers=rows["offers.csv"],
        functions=rows["functions.csv"],
        stores=rows["stores.csv"],
        egress=rows["egress.csv"],
        links=rows["links.csv"],
    )


def _exists(path: Path, check: Callable[[Path], bool]) -> bool:
    """Ask the file system; a name that it cannot hold does not exist."""
    try:
        return check(path)
    except (OSError, ValueError):
        return False


def read_rows(path: Path, file: str) -> Iterator[dict[str, Any]]:
    """Read one CSV file of a book and check every cell against columns.csv; see `read_numbered_rows`."""
    return (row for _, row in read_numbered_rows(path, file))


def read_numbered_rows(path: Path, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read one CSV file with the number of each line and check every cell against columns.csv.

    Raises
    ------
    PlacerError
        Names ``file:line:column`` and the value that is wrong.
    """
    columns = file_columns(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise PlacerError(f"{path}: cannot be read as UTF-8 text", "save it as UTF-8 CSV") from None
        raise PlacerError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}", "check the path") from None
    lines = csv.reader(text.splitlines(), strict=True)
    try:
        yield from _checked_rows(lines, path, file, columns)
    except csv.Error as error:
        raise PlacerError(f"{path}:{lines.line_num}: not valid CSV: {error}", "check the quotes of this line") from None


def _checked_rows(lines: Any, path: Path, file: str, columns: dict[str, Callable[[str], Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    header: list[str] = next(lines, [])
    missing = [c for c in columns if c not in header and c not in optional_columns(file)]
    extra = [c for c in header if c not in columns]
    if missing or extra or len(set(header)) != len(header):
        wrong = f"column '{missing[0]}' is missing" if missing else f"unknown column '{extra[0] if extra else header}'"
        raise PlacerError(f"{path}:1: {wrong}", f"the columns are {', '.join(columns)}")
    parsers = [(name, columns[name]) for name in header]
    key_at = [header.index(name) for name in KEYS[file] if name in header]
    seen: dict[tuple[str, ...], int] = {}
    for cells in lines:
        if not cells:
            continue
        where = f"{path}:{lines.line_num}"
        if len(cells) != len(parsers):
            raise PlacerError(f"{where}: {len(cells)} cells instead of {len(parsers)}", "check the commas of this line")
        key = tuple(cells[i] for i in key_at)
        if key and key in seen:
            raise PlacerError(f"{where}: {'/'.join(key)} stands already in line {seen[key]}", "keep one of the two rows")
        seen[key] = lines.line_num
        yield lines.line_num, {name: _cell(parse, cell, name, where) for (name, parse), cell in zip(parsers, cells, strict=True)}


def _cell(parse: Callable[[str], Any], cell: str, name: str, where: str) -> Any:
    try:
        return parse(cell)
    except ValueError as error:
        raise PlacerError(f"{where}: {name} '{cell}' {error}", "correct this cell") from None


@lru_cache(maxsize=16)
def file_columns(file: str) -> dict[str, Callable[[str], Any]]:
    """Columns of one file with their parsers, as catalogs/columns.csv describes them."""
    return {column: _parser(kind.removeprefix(_OPTIONAL)) for column, kind in _column_types(file).items()}


@lru_cache(maxsize=16)
def optional_columns(file: str) -> frozenset[str]:
    """Columns that a file may lack; the field of the row then has its default."""
    return frozenset(column for column, kind in _column_types(file).items() if kind.startswith(_OPTIONAL))


_OPTIONAL = "optional:"
"""Before a type of columns.csv: the whole column may be missing."""


def _column_types(file: str) -> dict[str, str]:
    with (shipped_catalogs() / "columns.csv").open(encoding="utf-8", newline="") as handle:
        return {row["column"]: row["type"] for row in csv.DictReader(handle) if row["file"] == file}


def _parser(kind: str) -> Callable[[str], Any]:
    """Build the parser of one type of columns.csv."""
    if kind.startswith("choice:"):
        return _choice(kind.removeprefix("choice:").split("|"))
    return _PARSERS[kind]


def _text(cell: str) -> str:
    if not cell.strip():
        raise ValueError("is empty")
    if any(ord(c) < 32 for c in cell):
        raise ValueError("has control characters")
    return cell


def _optional_text(cell: str) -> str:
    return _text(cell) if cell else ""


def _number(low: float, high: float, *, open_low: bool = False) -> Callable[[str], float]:
    def parse(cell: str) -> float:
        try:
            value = float(cell)
        except ValueError:
            value = None
        if value is None or "_" in cell or not cell.isascii():
            raise ValueError("is not a number")
        if not math.isfinite(value):
            raise ValueError("is not a finite number")
        if value < low or value > high or (open_low and value == low):
            raise ValueError(f"is not {'above' if open_low else 'from'} {low:g}{'' if high == 1e9 and value <= high else f' to {high:g}'}")
        return value

    return parse


def _whole(cell: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", cell) or int(cell) < 1:
        raise ValueError("is not a whole number from 1")
    return int(cell)


def _optional(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let a cell be empty."""
    return lambda cell: parse(cell) if cell.strip() else None


def _date(cell: str) -> str:
    try:
        return parse_date(cell, "date").isoformat()
    except PlacerError:
        raise ValueError("is not a date (YYYY-MM-DD)") from None


def _choice(allowed: list[str]) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if cell not in allowed:
            raise ValueError(f"is not one of {', '.join(allowed)}")
        return cell

    return parse


_PARSERS: dict[str, Callable[[str], Any]] = {
    "text": _text,
    "optional_text": _optional_text,
    "positive": _number(0.0, 1e9, open_low=True),
    "optional_positive": _optional(_number(0.0, 1e9, open_low=True)),
    "nonnegative": _number(0.0, 1e9),
    "optional_nonnegative": _optional(_number(0.0, 1e9)),
    "latitude": _number(-90.0, 90.0),
    "longitude": _number(-180.0, 180.0),
    "whole": _whole,
    "optional_whole": _optional(_whole),
    "date": _date,
}
