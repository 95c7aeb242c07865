"""Rows of any CSV document as rows of a book: the user says which of its columns is which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from placer.audit import ABSURD, usual_prices
from placer.book import load_catalog
from placer.book_checks import FREE
from placer.csv_rows import KEYS, file_columns, optional_columns
from placer.errors import PlacerError, unknown
from placer.sources.csv_text import Table, read_table
from placer.sources.fetch import READ_SECONDS, read_document
from placer.sources.harvest import FORMULA, Harvest, Row
from placer.sources.skypilot.rows import Tally
from placer.sources.toml_text import read_toml

KINDS = ("offers", "egress", "stores", "functions", "regions")
"""Files of a book that can be imported, without their ending."""
PLACED = ("offers.csv", "stores.csv", "functions.csv")
"""Files whose rows need a region with coordinates."""
TABLES = ("columns", "set", "values")


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


def read_mapping(kind: str, maps: Sequence[str], constants: Sequence[str]) -> ColumnMap:
    """Read the words of the command line.

    Parameters
    ----------
    kind
        One of `KINDS`.
    maps
        Paths that end in ``.toml``, or pairs ``placer_column=their_column`` with commas between.
    constants
        Pairs ``placer_column=value``.

    Raises
    ------
    PlacerError
        If a kind, table or column is unknown, or a column is given twice.

    Examples
    --------
    >>> read_mapping("offers", ["usd_per_hour=Price,region=Place"], ["provider=aws"]).columns
    {'usd_per_hour': 'Price', 'region': 'Place'}
    """
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    file = f"{kind}.csv"
    columns: dict[str, str] = {}
    fixed: dict[str, str] = {}
    values: dict[str, Mapping[str, str]] = {}
    for words in maps:
        if not words.endswith(".toml"):
            _add(columns, [_pair(word, "--map") for word in words.split(",")], file, words)
            continue
        tables = _toml(words)
        _add(columns, tables.get("columns", {}).items(), file, words)
        _add(fixed, tables.get("set", {}).items(), file, words)
        values |= tables.get("values", {})
    _add(fixed, [_pair(word, "--set") for word in constants], file, "--set")
    twice = sorted(set(columns) & set(fixed))
    if twice:
        raise PlacerError(f"column '{twice[0]}' is mapped to '{columns[twice[0]]}' and set to '{fixed[twice[0]]}'", "keep one of the two")
    for column in values:
        _check_column(column, file)
    return ColumnMap(file=file, columns=columns, constants=fixed, values=values)


def read_mapped(place: str, mapping: ColumnMap, *, skip_bad: bool = False, read_seconds: float = READ_SECONDS) -> Harvest:
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
        If a column that is needed is neither there nor mapped nor set; with exit code 7 if the document was not delivered, or names
        ``place:line``, column and cell that are wrong.
    """
    document = read_document(place, read_seconds=read_seconds)
    table = read_table(document)
    sources = _sources(table, mapping)
    tally = Tally(skip_bad=skip_bad)
    rows = list(_known(_rows(table, mapping, sources, tally), mapping.file, tally))
    if not rows:
        raise tally.nothing()
    unused = sorted(set(table.header) - set(sources.values()) - {""})
    notes = [f"their columns that were not read: {', '.join(unused[:20])}"] if unused else []
    notes += ["the last line has no end: check that the file is complete"] if table.cut_off else []
    return Harvest(rows={mapping.file: rows}, origins=[document.origin], left_out=tally.reasons(), notes=[*notes, *tally.sentences()])


def _toml(path: str) -> Mapping[str, Any]:
    tables = read_toml(path, "write a TOML file with [columns], [set] and [values.COLUMN]")
    for name, table in tables.items():
        if name not in TABLES or not isinstance(table, dict):
            raise PlacerError(f"{path}: '{name}' is none of its tables", "it has [columns], [set] and [values.COLUMN]")
        flat = [cell for column in table.values() for cell in _cells(column)] if name == "values" else table.values()
        wrong = next((cell for cell in flat if not isinstance(cell, str)), None)
        if wrong is not None:
            raise PlacerError(f"{path}: '{wrong}' in [{name}] is no text", 'put it in quotes, as in provider = "aws"')
    return tables


def _cells(table: Any) -> list[Any]:
    return list(table.values()) if isinstance(table, dict) else [0]


def _pair(word: str, option: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise PlacerError(f"{option} '{word}' is no pair", "write placer_column=value, as in usd_per_hour=Price")
    return name.strip(), value.strip()


def _add(target: dict[str, str], pairs: Any, file: str, where: str) -> None:
    for column, value in pairs:
        _check_column(column, file)
        if column in target:
            raise PlacerError(f"column '{column}' is given twice, again in '{where}'", "keep one of the two")
        target[column] = value


def _check_column(column: str, file: str) -> None:
    if column not in file_columns(file):
        raise unknown("column", column, file_columns(file), f"the columns of {file} are {', '.join(file_columns(file))}")


def _sources(table: Table, mapping: ColumnMap) -> dict[str, str]:
    """Their column for each of placer's; empty for those that are set."""
    for theirs in mapping.columns.values():
        if theirs not in table.header:
            error = unknown("column", theirs, table.header)
            raise PlacerError(f"{table.place}:1: {error.message}", error.hint)
    found = {column: mapping.columns.get(column, column) for column in file_columns(mapping.file)}
    found = {column: "" if column in mapping.constants else theirs for column, theirs in found.items()}
    missing = [column for column, theirs in found.items() if theirs and theirs not in table.header]
    needed = [column for column in missing if not _may_be_empty(column, mapping.file)]
    if needed:
        raise PlacerError(
            f"'{table.place}' gives no {', '.join(needed)}", f"map them to its columns ({', '.join(table.header[:12])}), or give --set"
        )
    return {column: theirs for column, theirs in found.items() if column not in missing}


def _may_be_empty(column: str, file: str) -> bool:
    try:
        file_columns(file)[column]("")
    except ValueError:
        return column in optional_columns(file)
    return True


def _rows(table: Table, mapping: ColumnMap, sources: Mapping[str, str], tally: Tally) -> Iterator[tuple[str, Row]]:
    """Line and row of each row whose cells are right; equal rows count once."""
    at = {column: table.header.index(theirs) for column, theirs in sources.items() if theirs}
    seen: dict[tuple[Any, ...], tuple[str, Row]] = {}
    for number, cells in table.cells:
        where = f"{table.place}:{number}"
        if len(cells) != len(table.header):
            tally.refuse(where, f"{len(cells)} cells instead of {len(table.header)}")
            continue
        try:
            row = {
                column: _value(cells[at[column]] if theirs else mapping.constants[column], column, mapping)
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
            tally.refuse(where, f"{'/'.join(map(str, key))} stands already in {line} with other figures")


def _value(cell: str, column: str, mapping: ColumnMap) -> Any:
    """Read one cell as placer's column.

    Raises
    ------
    ValueError
        Says which column and what is wrong.
    """
    text = cell.strip()
    text = mapping.values.get(column, {}).get(text, text)
    theirs = mapping.columns.get(column, column)
    words = column if theirs == column else f"{column} (their '{theirs}')"
    amount = text[1:] if column.startswith("usd_") and text[:1] == "$" else text
    try:
        value = file_columns(mapping.file)[column](amount)
    except ValueError as error:
        tip = "; write a plain number such as 1234.5" if str(error) == "is not a number" and any(c.isdigit() for c in text) else ""
        raise ValueError(f"{words} '{text}' {error}{tip}") from None
    if isinstance(value, str) and value.startswith(FORMULA):
        raise ValueError(f"{words} '{text}' begins as a formula does")
    return value


def _known(rows: Iterator[tuple[str, Row]], file: str, tally: Tally) -> Iterator[Row]:
    """Rows whose region and device the default book knows."""
    book = load_catalog("default") if file in PLACED else None
    usual = usual_prices(book.offers) if book is not None and file == "offers.csv" else {}
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    for where, row in rows:
        place = f"{row.get('provider')}/{row.get('region')}"
        if book is not None and place not in book.regions:
            tally.leave_out("region that no book knows", place)
        elif book is not None and "gpu" in row and row["gpu"] not in book.gpus:
            tally.leave_out("device that gpus.csv does not know", str(row["gpu"]))
        elif str(row.get("as_of", "")) > tomorrow:
            tally.refuse(where, f"as_of {row['as_of']} is in the future")
        elif not _plausible(row, usual):
            tally.refuse(
                where, f"usd_per_hour '{row['usd_per_hour']}' is {ABSURD:,.0f} times what a {row['gpu']} costs, or that small a part"
            )
        else:
            yield row


def _plausible(row: Row, usual: Mapping[tuple[str, str], float]) -> bool:
    """Tell a price from a slip of the decimal point; a machine that is owned may cost nothing."""
    if row.get("price_basis") in FREE:
        return True
    middle = usual.get((str(row.get("gpu")), str(row.get("market"))))
    return middle is None or middle / ABSURD <= float(row["usd_per_hour"] or 0) / int(row["gpu_count"] or 1) <= middle * ABSURD
