"""``placer catalog import csv``: rows of any CSV file whose columns the user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from placer.cli.book.catalog.import_.import_report import finish, import_options, seconds
from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import file_columns

if TYPE_CHECKING:
    from placer.market.sources.reading.mapped_csv import ColumnMap

KINDS = ("offers", "egress", "stores", "functions", "regions")
"""Files of a book that can be imported, without their ending."""
TABLES = ("columns", "set", "values")


@click.command(
    "csv",
    epilog="Example: placer catalog import csv quote.csv --kind offers --map "
    "instance_type=Machine,usd_per_hour=Price --set provider=aws "
    "--set market=on_demand --set price_basis=list --set source='quote 4711' --set "
    "as_of=2026-11-01 --as quote",
)
@click.argument("place", metavar="FILE|URL")
@click.option(
    "--kind",
    default="offers",
    show_default=True,
    metavar="NAME",
    help="offers, egress, stores, functions or regions.",
)
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="FILE.toml|A=B,..",
    help="Their column B is placer's column A; equal names need none.",
)
@click.option(
    "--set",
    "constants",
    multiple=True,
    metavar="A=VALUE",
    help="The same value of placer's column A in every row.",
)
@import_options
def command(
    place: str,
    kind: str,
    maps: tuple[str, ...],
    constants: tuple[str, ...],
    name: str | None,
    skip_bad: bool,
    dry_run: bool,
    timeout: str,
    as_json: bool,
) -> None:
    """Make a book from any CSV file: each of placer's columns is mapped, set, or has the same name
    there.

    A TOML file has the tables [columns], [set] and [values.COLUMN], the last one to rename values:
    [values.gpu] with "Tesla T4" = "T4". Prices are plain numbers in USD; a leading $ is removed,
    anything else beside a number is refused, and so are regions and devices that no book knows.
    """
    from placer.market.books.folders import check_book_name
    from placer.market.books.layers import catalog_names
    from placer.market.sources.reading.mapped_csv import read_mapped

    if name is not None:
        check_book_name(name, catalog_names())
    mapping = read_mapping(kind, maps, constants)
    harvest = read_mapped(place, mapping, skip_bad=skip_bad, read_seconds=seconds(timeout))
    finish(harvest, name or f"imported-{kind}", dry_run=dry_run, as_json=as_json)


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
    from placer.market.sources.reading.mapped_csv import ColumnMap

    if kind not in KINDS:
        raise _no_kind(kind)
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
        raise PlacerError(
            f"column '{twice[0]}' is mapped to '{columns[twice[0]]}' "
            f"and set to '{fixed[twice[0]]}'",
            "keep one of the two",
        )
    for column in values:
        _check_column(column, file)
    return ColumnMap(file=file, columns=columns, constants=fixed, values=values)


def _no_kind(kind: str) -> PlacerError:
    """Build the error of a kind that is not imported; some files of a book come another way."""
    from placer.market.books.layers import BOOK_FILES

    if kind == "links":
        return PlacerError("links are not imported here", "use 'placer network import csv'")
    if f"{kind}.csv" in BOOK_FILES:
        return PlacerError(
            f"kind '{kind}' is not imported",
            f"give it as --catalog FILE, with the columns of {kind}.csv",
        )
    return unknown("kind", kind, KINDS)


def _toml(path: str) -> Mapping[str, Any]:
    from placer.market.sources.reading.toml_text import read_toml

    try:
        tables = read_toml(path, "write a TOML file with [columns], [set] and [values.COLUMN]")
    except PlacerError as error:
        raise PlacerError(
            error.message,
            "check the path" if error.message.startswith("cannot read") else error.hint,
        ) from None
    for name, table in tables.items():
        if name not in TABLES or not isinstance(table, dict):
            raise PlacerError(
                f"{path}: '{name}' is none of its tables",
                "it has [columns], [set] and [values.COLUMN]",
            )
        flat = (
            [cell for column in table.values() for cell in _cells(column)]
            if name == "values"
            else table.values()
        )
        wrong = next((cell for cell in flat if not isinstance(cell, str)), None)
        if wrong is not None:
            raise PlacerError(
                f"{path}: '{wrong}' in [{name}] is not text",
                'put it in quotes, as in provider = "aws"',
            )
    return tables


def _cells(table: Any) -> list[Any]:
    return list(table.values()) if isinstance(table, dict) else [0]


def _pair(word: str, option: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise PlacerError(
            f"{option} '{word}' is not a pair",
            "write placer_column=value, as in usd_per_hour=Price",
        )
    return name.strip(), value.strip()


def _add(target: dict[str, str], pairs: Any, file: str, where: str) -> None:
    for column, value in pairs:
        if column not in file_columns(file) and value in file_columns(file):
            raise PlacerError(f"unknown column '{column}'", f"reversed: write {value}={column}")
        _check_column(column, file)
        if column in target:
            raise PlacerError(
                f"column '{column}' is given twice, again in '{where}'", "keep one of the two"
            )
        target[column] = value


def _check_column(column: str, file: str) -> None:
    if column not in file_columns(file):
        raise unknown(
            "column",
            column,
            file_columns(file),
            f"the columns of {file} are {', '.join(file_columns(file))}",
        )
