"""Rows of any CSV document as rows of a book: the user says which of its columns is which."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from placer.errors import PlacerError, unknown
from placer.market.books.book_reader import load_catalog
from placer.market.books.csv_rows import KEYS, file_columns, optional_columns
from placer.market.catalog import FREE
from placer.market.checks.doubts import ABSURD
from placer.market.sources.harvest import FORMULA, Harvest, Row
from placer.market.sources.prices.skypilot.rows import Tally
from placer.market.sources.reading.csv_text import UTF16_MARKS, Table, read_table
from placer.market.sources.reading.fetch import FAILED, READ_SECONDS, Document, read_document

PLACED = ("offers.csv", "stores.csv", "functions.csv")
"""Files whose rows need a region with coordinates."""
MARKETS = {"ondemand": "on_demand", "spot": "spot", "community": "community"}
"""Markets without blanks, hyphens and capitals, as price lists spell them."""
FIRST_LINES = 50
"""Lines that are looked at to tell what a document is that cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnMap:
    """How the columns of a document become those of one file of a book.

    Parameters
    ----------
    file
        File of the book, such as offers.csv.
    columns
        Their column by placer's column.
    constants
        The same text in every row, by placer's column.
    values
        Placer's value by theirs, by placer's column.
    """

    file: str
    columns: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_mapped(
    place: str, mapping: ColumnMap, *, skip_bad: bool = False, read_seconds: float = READ_SECONDS
) -> Harvest:
    """Read a document as rows of one file of a book.

    Parameters
    ----------
    place
        Path or URL of a CSV document.
    mapping
        Which of its columns is which; columns of the same name need not be mapped.
    skip_bad
        Leave wrong rows out and count them.
    read_seconds
        Longest silence of a server; s.

    Raises
    ------
    PlacerError
        If a column that is needed is neither there nor mapped nor set; with exit code 7 if the
        document was not delivered, or names ``place:line``, column and cell that are wrong.
    """
    document = read_document(place, read_seconds=read_seconds)
    try:
        table = read_table(document)
        sources = _sources(table, mapping)
    except PlacerError as error:
        raise _explained(error, document, mapping) from None
    tally = Tally(skip_bad=skip_bad)
    rows = list(_known(_rows(table, mapping, sources, tally), mapping.file, tally))
    if not rows:
        raise tally.nothing()
    unused = sorted(set(table.header) - set(sources.values()) - {""})
    notes = [f"their columns that were not read: {', '.join(unused[:20])}"] if unused else []
    notes += ["the last line has no end: check that the file is complete"] if table.cut_off else []
    return Harvest(
        rows={mapping.file: rows},
        origins=[document.origin],
        left_out=tally.reasons(),
        notes=[*notes, *tally.sentences()],
    )


def _explained(error: PlacerError, document: Document, mapping: ColumnMap) -> PlacerError:
    """Say what a document is, if it has not the form of a CSV document; else the error stays."""
    place, data = document.origin.place, document.data
    no_csv = PlacerError(f"'{place}' is not CSV", "export it as CSV", error.exit_code)
    if data[:2] == b"PK":
        return (
            no_csv if b"xl/workbook" in data or b"opendocument.spreadsheet" in data[:200] else error
        )
    text = data.decode(
        "utf-16" if data[:2] in UTF16_MARKS else "utf-8-sig", errors="replace"
    ).lstrip()
    if re.search(r"[\0-\x08\x0e-\x1f]", text[:4096]):
        return no_csv
    lines = text.splitlines()[:FIRST_LINES]
    wanted = {*mapping.columns.values(), *file_columns(mapping.file)}
    if not text or text[0] == "<" or any(name.strip() in wanted for name in _header(lines)):
        return error
    if text[0] not in "{[" and _is_table(lines, ","):
        return error
    for separator, words in ((";", "';'"), ("\t", "tabs")):
        if _is_table(lines, separator):
            return PlacerError(
                f"'{place}' is separated by {words}, not by commas",
                "export it as CSV with commas",
                error.exit_code,
            )
    return no_csv


def _header(lines: Sequence[str]) -> list[str]:
    try:
        return next(csv.reader(lines), [])
    except csv.Error:
        return []


def _is_table(lines: Sequence[str], separator: str) -> bool:
    """Tell whether the first line has several names, and most of the others as many cells."""
    try:
        first, *others = (cells for cells in csv.reader(lines, delimiter=separator) if cells)
    except (csv.Error, ValueError):
        return False
    return sum(bool(name.strip()) for name in first) > 1 and 2 * sum(
        len(cells) == len(first) for cells in others
    ) >= len(others)


def _sources(table: Table, mapping: ColumnMap) -> dict[str, str]:
    """Return their column for each of placer's; empty for those that are set."""
    for theirs in mapping.columns.values():
        if theirs not in table.header:
            error = unknown("column", theirs, table.header)
            raise PlacerError(f"{table.place}:1: {error.message}", error.hint)
    columns = {column: mapping.columns.get(column, column) for column in file_columns(mapping.file)}
    columns = {
        column: "" if column in mapping.constants else theirs for column, theirs in columns.items()
    }
    missing = [
        column for column, theirs in columns.items() if theirs and theirs not in table.header
    ]
    needed = [column for column in missing if not _may_be_empty(column, mapping.file)]
    if needed:
        raise PlacerError(
            f"'{table.place}' gives no {', '.join(needed)}",
            f"map them to its columns ({', '.join(table.header[:12])}), or give --set",
        )
    return {column: theirs for column, theirs in columns.items() if column not in missing}


def _may_be_empty(column: str, file: str) -> bool:
    try:
        file_columns(file)[column]("")
    except ValueError:
        return column in optional_columns(file)
    return True


def _rows(
    table: Table, mapping: ColumnMap, sources: Mapping[str, str], tally: Tally
) -> Iterator[tuple[str, Row]]:
    """Yield the line and row of each row whose cells are right; equal rows count once."""
    at = {column: table.header.index(theirs) for column, theirs in sources.items() if theirs}
    seen: dict[tuple[Any, ...], tuple[str, Row]] = {}
    for number, cells in table.cells:
        where = f"{table.place}:{number}"
        if len(cells) != len(table.header):
            tally.refuse(where, f"{len(cells)} cells instead of {len(table.header)}")
            continue
        try:
            row = {
                column: _value(
                    cells[at[column]] if theirs else mapping.constants[column], column, mapping
                )
                for column, theirs in sources.items()
            }
            if row.get("usd_per_hour") == 0 and row.get("price_basis") not in FREE:
                raise ValueError("usd_per_hour '0' of a rented machine")
        except ValueError as error:
            tally.refuse(where, str(error))
            continue
        key = tuple(row.get(name) for name in KEYS[mapping.file])
        line, before = seen.setdefault(key, (where, row))
        if before is row:
            yield where, row
        elif before != row:
            tally.refuse(
                where, f"{'/'.join(map(str, key))} is already in {line} with other figures"
            )


def _value(cell: str, column: str, mapping: ColumnMap) -> Any:
    """Read one cell as placer's column.

    Raises
    ------
    ValueError
        Says which column and what is wrong.
    """
    text = cell.strip()
    text = mapping.values.get(column, {}).get(text, text)
    text = MARKETS.get(re.sub(r"[\s_-]", "", text).lower(), text) if column == "market" else text
    theirs = mapping.columns.get(column, column)
    words = column if theirs == column else f"{column} (their '{theirs}')"
    amount = text[1:] if column.startswith("usd_") and text[:1] == "$" else text
    try:
        value = file_columns(mapping.file)[column](amount)
    except ValueError as error:
        tip = (
            "; write a plain number such as 1234.5"
            if str(error) == "is not a number" and any(c.isdigit() for c in text)
            else ""
        )
        tip = f"; {_rename(column)}" if str(error).startswith("is not one of") else tip
        raise ValueError(f"{words} '{text}' {error}{tip}") from None
    if isinstance(value, str) and value.startswith(FORMULA):
        raise ValueError(f"{words} '{text}' begins as a formula does")
    return value


def _known(rows: Iterator[tuple[str, Row]], file: str, tally: Tally) -> Iterator[Row]:
    """Yield the rows whose region and device the default book knows."""
    book = load_catalog("default") if file in PLACED else None
    usual = book.usual_usd_per_gpu_hour if book is not None and file == "offers.csv" else {}
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    for where, row in rows:
        place = f"{row.get('provider')}/{row.get('region')}"
        if book is not None and place not in book.regions:
            _leave_out(
                tally, "region that no book knows", place, _no_region(where, row, book.regions)
            )
        elif book is not None and "gpu" in row and row["gpu"] not in book.gpus:
            gpu = str(row["gpu"])
            _leave_out(
                tally, "device that gpus.csv does not know", gpu, _no_gpu(where, gpu, book.gpus)
            )
        elif str(row.get("as_of", "")) > tomorrow:
            tally.refuse(where, f"as_of {row['as_of']} is in the future")
        elif not _plausible(row, usual):
            tally.refuse(
                where,
                f"usd_per_hour '{row['usd_per_hour']}' is {ABSURD:,.0f} times what a {row['gpu']} "
                f"costs, or that small a part",
            )
        else:
            yield row


def _leave_out(tally: Tally, reason: str, name: str, error: PlacerError) -> None:
    """Refuse a name that nobody knows, or count it; a name is counted once for all its rows."""
    if not tally.skip_bad:
        raise error
    tally.leave_out(reason, name)


def _no_region(where: str, row: Row, places: Iterable[str]) -> PlacerError:
    """Build the error of a place that is not in the book: a zone, a region that is spelled
    otherwise, or none.
    """
    provider, region = str(row["provider"]), str(row["region"])
    pairs = [place.split("/", 1) for place in places]
    regions = [name for owner, name in pairs if owner == provider]
    if not regions:
        error = unknown("provider", provider, {owner for owner, _ in pairs})
        return _unnamed(where, error.message, f"{error.hint}; correct it", "provider")
    zone = re.fullmatch(r"(.+\d)-?[a-z]|(.+)-\d", region)
    of = next((name for name in (zone.groups() if zone else ()) if name in regions), None)
    if of is not None:
        return _unnamed(where, f"region '{region}' is a zone of {of}", f"write {of}", "region")
    error = unknown(f"region of {provider}", region, regions)
    others = sorted(owner for owner, name in pairs if name == region)
    elsewhere = f"; {' and '.join(others)} has one of this name" if others else ""
    return _unnamed(where, error.message, f"{error.hint}{elsewhere}; correct it", "region")


def _no_gpu(where: str, gpu: str, gpus: Iterable[str]) -> PlacerError:
    """Build the error of a device that is not in gpus.csv, with those that its words name: Tesla
    T4, A100 80GB.
    """
    words = {word.removesuffix("GB") for word in re.split(r"[^A-Z0-9]+", gpu.upper())}
    family = [name for name in gpus if name.upper().split("-")[0] in words]
    whole = [name for name in family if words.issuperset(name.upper().split("-"))]
    fit = [max(whole, key=lambda name: name.count("-"))] if whole else family
    error = unknown("gpu", gpu, gpus)
    return _unnamed(
        where,
        error.message,
        f"write {' or '.join(fit)}" if fit else f"{error.hint}; correct it",
        "gpu",
    )


def _unnamed(where: str, message: str, tip: str, column: str) -> PlacerError:
    return PlacerError(
        f"{where}: {message}",
        f"{tip}, {_rename(column)}, or leave such rows out with --skip-bad",
        exit_code=FAILED,
    )


def _rename(column: str) -> str:
    return f"rename it in the table [values.{column}] of a map file"


def _plausible(row: Row, usual: Mapping[tuple[str, str], float]) -> bool:
    """Tell a price from a slip of the decimal point; a machine that is owned may cost nothing."""
    if row.get("price_basis") in FREE:
        return True
    middle = usual.get((str(row.get("gpu")), str(row.get("market"))))
    return (
        middle is None
        or middle / ABSURD
        <= float(row["usd_per_hour"] or 0) / int(row["gpu_count"] or 1)
        <= middle * ABSURD
    )
