"""Mapping files: where the rows of a source lie, and which of its names and units are which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import read_toml
from placer.market.books.csv_rows import file_columns, optional_columns
from placer.market.sources.reading.expressions import compiled
from placer.records import replace
from placer.units import parse_bandwidth, parse_bytes, parse_seconds

SHIPPED = Path(__file__).parent.parent / "mappings"
PRICES = ("offers", "egress", "stores", "functions", "regions")
"""Kinds of rows that ``placer catalog import`` makes: files of a book without their ending."""
FILES = (*PRICES, "capacity", "blocks")
"""Kinds of rows that are those of a file."""
KINDS = (*FILES, "links", "parts", "question", "own", "charges", "list")
PLACED = ("offers", "stores", "functions")  # Kinds of rows that need a region with coordinates
HINT = "docs/manual/mappings.md says what a mapping file has"
Parsers = Mapping[str, Callable[[str], Any]]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each record gives for columns of placer.

    By column of placer: ``columns`` has the source's own column or key, ``fields`` an expression,
    ``set`` the same text for every row. Where the expression ``when`` gives nothing, the part makes
    no row of a record.
    """

    when: str = ""
    columns: Mapping[str, str] = msgspec.field(default_factory=dict)
    fields: Mapping[str, str] = msgspec.field(default_factory=dict)
    set: Mapping[str, str] = msgspec.field(default_factory=dict)

    def given(self) -> list[str]:
        """Return the columns of placer that this part names."""
        return [*self.columns, *self.fields, *self.set]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records that make no rows: ``reason`` in words, expression ``name`` of what it is."""

    when: str
    reason: str
    name: str = ""
    hint: str = ""


class SourceMap(Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping file; docs/manual/mappings.md says what each word means.

    ``rows`` is an expression for the list of records inside a JSON document, and ``per`` one for a
    list inside a record that is read once for each, as ``one``. Of ``needs``, ``a|b`` asks for one
    of two columns. A document of JSON is recognised where the expression ``known_by`` gives
    something, and a CSV file where it has all columns of ``needs``. ``values`` and ``units`` are by
    column of placer. ``each`` makes several rows of each record.
    """

    about: str = ""
    kind: str = ""
    format: Literal["csv", "json", "jsonl"] = "csv"
    rows: str = ""
    per: str = ""
    known_by: str = ""
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
        yield from filter(None, (self.rows, self.per, self.known_by, self.zone))
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
    """Read a mapping file; ``kind`` is that of its rows, where it does not say it. PlacerError
    names a table, column, unit or expression that there is not.
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
    except PlacerError as error:
        raise PlacerError(f"{path}: {error.message}", error.hint) from None
    return mapping


def with_words(mapping: SourceMap, maps: Sequence[str], constants: Sequence[str]) -> SourceMap:
    """Add pairs ``placer_column=their_column`` and ``placer_column=value`` to a mapping."""
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
        tip = "write placer_column=value, as in usd_per_hour=Price"
        raise PlacerError(f"{option} '{word}' is not a pair", tip)
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
    """Return the columns of a kind of rows with their parsers."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    # No book keeps the first day of a price.
    since = {"since": file_columns("parts")["since"]} if kind == "offers" else {}
    return {**file_columns(_table(kind)), **since}


def _table(kind: str) -> str:
    """Return the name that catalogs/columns.csv has for a kind of rows."""
    return f"{kind}.csv" if kind in FILES else kind


def needed_columns(kind: str) -> list[str]:
    """Return the columns of a kind that no row can do without."""
    optional = optional_columns(_table(kind))
    needed = []
    for name, parse in columns_of(kind).items():
        try:
            parse("")
        except ValueError:
            if name not in optional:
                needed.append(name)
    return needed


COSTS = ("billed", "effective", "list", "contracted")
"""Costs of a charge in FOCUS: as invoiced, with commitments spread, at list and contract prices."""


def unit_factors(mapping: SourceMap) -> dict[str, float]:
    """Return what the figures of columns are multiplied by; PlacerError for an unknown unit."""
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
    words = f"unit '{unit}' of {column} is not known"
    raise PlacerError(words, "write Mb/s of a rate, us of a time, MiB of a size, cents of a price")
