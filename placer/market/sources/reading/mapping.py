"""Mapping files: where the rows of a source lie, and which of its names and units are which."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import file_columns, optional_columns, plain_number
from placer.market.sources.reading.expressions import compiled
from placer.market.sources.reading.toml_text import read_toml
from placer.records import replace
from placer.units import parse_bandwidth, parse_bytes, parse_seconds

SHIPPED = Path(__file__).parent.parent / "mappings"
PRICES = ("offers", "egress", "stores", "functions", "regions")
"""Kinds of rows that ``placer catalog import`` makes: files of a book without their ending."""
KINDS = (*PRICES, "links", "capacity", "blocks", "parts")
PLACED = ("offers", "stores", "functions")
"""Kinds of rows that need a region with coordinates."""
HINT = "docs/manual/mappings.md says what a mapping file has"
Parsers = Mapping[str, Callable[[str], Any]]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each record gives for columns of placer.

    Parameters
    ----------
    when
        Expression; the part makes no row of a record where it gives nothing.
    columns
        Name of the source's own column or key, by column of placer.
    fields
        Expression, by column of placer.
    set
        The same text in every row, by column of placer.
    """

    when: str = ""
    columns: Mapping[str, str] = msgspec.field(default_factory=dict)
    fields: Mapping[str, str] = msgspec.field(default_factory=dict)
    set: Mapping[str, str] = msgspec.field(default_factory=dict)

    def given(self) -> list[str]:
        """Return the columns of placer that this part names."""
        return [*self.columns, *self.fields, *self.set]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of records that makes no rows: ``reason`` in words, and the expression ``name`` for
    what it is about.
    """

    when: str
    reason: str
    name: str = ""
    hint: str = ""


class SourceMap(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping file.

    Parameters
    ----------
    about
        What it reads, in a sentence.
    kind
        One of `KINDS`.
    format
        Container of the records.
    rows
        Expression for the list of records inside a JSON document; default: the document itself.
    needs
        Columns or keys that must be there; ``a|b`` for one of two.
    ignored
        Columns or keys that are known and not read; others are named in a note.
    values
        Placer's value by the source's, by column of placer.
    units
        Unit of the source by column of placer: ``Mb/s``, ``us``, ``MiB``, ``cents``.
    zone
        Expression; rows that differ only in it become one: the dearest on demand, else the
        cheapest.
    unknown_names
        Whether a region or device that no book knows is an error or is counted.
    machines
        What says which devices a machine has: the row, or the book by the type of the machine.
    undated
        Whether rows without a date get that of the file.
    whole_lines
        Whether a last line without an end is cut off.
    leave_out, refuse
        Records that are counted, and those that are wrong.
    each
        Several rows of each record; default: one.
    """

    about: str = ""
    kind: str = ""
    format: Literal["csv", "json", "jsonl"] = "csv"
    rows: str = ""
    needs: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    units: Mapping[str, str] = msgspec.field(default_factory=dict)
    zone: str = ""
    unknown_names: Literal["refused", "counted"] = "refused"
    machines: Literal["row", "book"] = "row"
    undated: Literal["refused", "file"] = "refused"
    whole_lines: bool = False
    leave_out: tuple[Rule, ...] = ()
    refuse: tuple[Rule, ...] = ()
    each: tuple[Part, ...] = ()

    def parts(self) -> Iterator[Part]:
        """Yield what each record gives for one row: what all have in common, and what one adds."""
        for part in self.each or (Part(),):
            own = set(part.given())
            yield Part(
                when=part.when,
                columns=_without(self.columns, own) | dict(part.columns),
                fields=_without(self.fields, own) | dict(part.fields),
                set=_without(self.set, own) | dict(part.set),
            )

    def expressions(self) -> Iterator[str]:
        """Yield every expression."""
        yield from filter(None, (self.rows, self.zone))
        for part in (self, *self.each):
            yield from filter(None, (part.when, *part.fields.values()))
        for rule in (*self.leave_out, *self.refuse):
            yield from filter(None, (rule.when, rule.name))


def _without(words: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: word for name, word in words.items() if name not in names}


def shipped_mappings() -> list[str]:
    """Return the names of the mappings that come with placer."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


@lru_cache(maxsize=32)
def shipped_mapping(name: str) -> SourceMap:
    """Return a mapping that comes with placer."""
    return read_mapping(str(SHIPPED / f"{name}.toml"))


def read_mapping(path: str, kind: str = "") -> SourceMap:
    """Read a mapping file.

    Parameters
    ----------
    path
        A TOML file.
    kind
        Of its rows, where it does not say it.

    Raises
    ------
    PlacerError
        If it cannot be read, or has a table, column, unit or expression that there is not.
    """
    try:
        mapping = msgspec.convert(read_toml(path, HINT), SourceMap)
    except msgspec.ValidationError as error:
        raise PlacerError(f"{path}: {error}", HINT) from None
    mapping = mapping if mapping.kind else replace(mapping, kind=kind)
    try:
        for part in (mapping, *mapping.each):
            _check_names(part.given(), mapping.kind)
            _check_once(part.given(), path)
        _check_names([*mapping.values, *mapping.units], mapping.kind)
        for expression in mapping.expressions():
            compiled(expression)
        unit_factors(mapping)
        if mapping.zone and mapping.kind != "offers":
            raise PlacerError(f"{mapping.kind} have no zone", "leave zone out")
        if (
            mapping.machines == "book"
            and mapping.kind == "offers"
            and "provider" not in mapping.set
        ):
            raise PlacerError('machines = "book" needs a provider', "add it to [set]")
    except PlacerError as error:
        raise PlacerError(f"{path}: {error.message}", error.hint) from None
    return mapping


def with_words(mapping: SourceMap, maps: Sequence[str], constants: Sequence[str]) -> SourceMap:
    """Add what the command line says to a mapping.

    Parameters
    ----------
    mapping
        With its kind.
    maps
        Pairs ``placer_column=their_column`` with commas between.
    constants
        Pairs ``placer_column=value``.

    Raises
    ------
    PlacerError
        If a column is unknown or given twice.
    """
    columns = [_pair(word, "--map") for words in maps for word in words.split(",")]
    fixed = [_pair(word, "--set") for word in constants]
    known = columns_of(mapping.kind)
    for column, theirs in columns:
        if column not in known and theirs in known:
            raise PlacerError(f"unknown column '{column}'", f"reversed: write {theirs}={column}")
    names = [column for column, _ in (*columns, *fixed)]
    _check_names(names, mapping.kind)
    _check_once([*mapping.given(), *names], "the mapping")
    return replace(
        mapping, columns={**mapping.columns, **dict(columns)}, set={**mapping.set, **dict(fixed)}
    )


def _pair(word: str, option: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in word.partition("="))
    if not equals or not name or not value:
        raise PlacerError(
            f"{option} '{word}' is not a pair",
            "write placer_column=value, as in usd_per_hour=Price",
        )
    return name, value


def _check_names(names: Iterable[str], kind: str) -> None:
    known = columns_of(kind)
    for name in names:
        if name not in known:
            raise unknown("column", name, known, f"the columns of {kind} are {', '.join(known)}")


def _check_once(names: Sequence[str], where: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PlacerError(f"column '{twice}' is given twice, again in {where}", "keep one of them")


@lru_cache(maxsize=16)
def columns_of(kind: str) -> Parsers:
    """Return the columns of a kind of rows with their parsers.

    Raises
    ------
    PlacerError
        If there is no such kind.
    """
    if kind in _NO_FILE:
        return _NO_FILE[kind]
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    columns = file_columns(f"{kind}.csv")
    return {**columns, "since": _since} if kind == "offers" else columns


def needed_columns(kind: str) -> list[str]:
    """Return the columns of a kind that no row can do without."""
    optional = () if kind in _NO_FILE else optional_columns(f"{kind}.csv")
    return [
        name for name, parse in columns_of(kind).items() if name not in optional and _fails(parse)
    ]


def _fails(parse: Callable[[str], Any]) -> bool:
    try:
        parse("")
    except ValueError:
        return True
    return False


def _since(cell: str) -> str | None:
    """Read the first day of a price, which no book keeps."""
    return str(_FILE["as_of"](cell)) if cell else None


def _figure(cell: str) -> float | None:
    """Read a figure of a link; who judges links refuses or counts those that cannot be true."""
    return plain_number(cell) if cell else None


def _price(cell: str) -> float:
    """Read a price; NaN for anything that is no number, which the checks refuse."""
    try:
        return plain_number(cell)
    except ValueError:
        return math.nan


def _streams(cell: str) -> int | None:
    if cell and not 1 <= plain_number(cell) <= 1e6:
        raise ValueError("is not a number of streams from 1")
    return int(plain_number(cell)) if cell else None


_FILE = file_columns("links.csv")
_RATES = ("gbps", "gbps_one_stream", "gbps_many_streams", "gbps_low", "gbps_high")
_LINKS: Parsers = {
    **{name: _FILE[name] for name in ("src", "dst", "as_of")},
    **dict.fromkeys((*_RATES, "rtt_ms"), _figure),
    "streams": _streams,
    "basis": lambda cell: _FILE["basis"](cell) if cell else "measured",
    "source": lambda cell: cell,
}
"""Columns of links.csv, and ``gbps`` with ``streams`` for runs that say how many they had."""
_PARTS: Parsers = {
    **dict.fromkeys(("part", "market", "unit", "regions"), str),
    "usd_per_unit": _price,
    "since": _since,
}
"""Parts of machines that are priced by themselves, with their regions between blanks."""
_NO_FILE = {"links": _LINKS, "parts": _PARTS}
"""Kinds whose columns are not those of a file of a book."""


def unit_factors(mapping: SourceMap) -> dict[str, float]:
    """Return what the figures of columns are multiplied by.

    Raises
    ------
    PlacerError
        If a column has no unit, or none of this name.
    """
    return {column: _factor(column, unit) for column, unit in mapping.units.items()}


def _factor(column: str, unit: str) -> float:
    if column.startswith("gbps") or column == "network_gbps":
        return parse_bandwidth(f"1{unit}") * 8 / 1e9
    if column.endswith("_ms"):
        return parse_seconds(f"1{unit}") * 1e3
    if column.endswith(("_gib", "_gb")):
        return parse_bytes(f"1{unit}") / (2**30 if column.endswith("_gib") else 1e9)
    money = {"USD": 1.0, "cents": 0.01}
    if column.startswith("usd_") and unit in money:
        return money[unit]
    raise PlacerError(
        f"unit '{unit}' of {column} is not known",
        "write Mb/s of a rate, us of a time, MiB of a size, cents of a price",
    )
