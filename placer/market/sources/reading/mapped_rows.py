"""Records of any source as rows of placer, by its mapping."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from placer.errors import PlacerError, SourceError
from placer.market.books.book_reader import COLUMNS, load_catalog
from placer.market.sources.harvest import FORMULA, Row, Tally
from placer.market.sources.reading.expressions import Lookup, as_text
from placer.market.sources.reading.mapping import (
    PLACED,
    Part,
    SourceMap,
    columns_of,
    needed_columns,
    shipped_mapping,
    unit_factors,
)
from placer.market.sources.reading.records import Record, Records, parsed_records
from placer.market.words.money import currency_in, time_in

MARKETS = {"ondemand": "on_demand", "spot": "spot", "community": "community"}
"""Markets without blanks, hyphens and capitals, as price lists spell them."""
SIZES = ("gpu", "gpu_count", "vcpus", "memory_gib", *COLUMNS)
"""Columns of a machine that ``machines = "book"`` takes from the book."""


class Found(NamedTuple):
    """A row with where it stands, and its zone where the source has some."""

    where: str
    row: Row
    zone: str = ""


class Known(Struct, frozen=True, kw_only=True):
    """What a book knows: places and devices that rows may name; columns of a row by type of
    machine; devices and their number by (provider, type); and the usual price of a device by
    (device, market), USD/h.
    """

    regions: Collection[str] = ()
    gpus: Collection[str] = ()
    machines: Mapping[str, Row] = field(default_factory=dict)
    shapes: Mapping[tuple[str, str], Collection[tuple[str, int]]] = field(default_factory=dict)
    usual: Mapping[tuple[str, str], float] = field(default_factory=dict)


def known_by_default(provider: str = "") -> Known:
    """Return what the default book knows, with the machines of a provider, or of all."""
    book = load_catalog("default")
    machines = {
        offer.instance_type: {name: getattr(offer, name) for name in SIZES}
        for offer in book.offers
        if provider in ("", offer.provider)
    }
    shapes: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for offer in book.offers:
        shape = (offer.gpu, offer.gpu_count)
        shapes.setdefault((offer.provider, offer.instance_type), set()).add(shape)
    return Known(
        regions=book.regions,
        gpus=book.gpus,
        machines=machines,
        shapes=shapes,
        usual=book.usual_usd_per_gpu_hour,
    )


def shipped_rows(
    name: str,
    document: Any,
    where: str,
    tally: Tally,
    given: Mapping[str, Any] | None = None,
    known: Known | None = None,
    day: str | None = None,
) -> Iterator[Found]:
    """Yield the rows of parsed JSON by a mapping that comes with placer; see `mapped_rows`."""
    mapping = shipped_mapping(name)
    records = parsed_records(document, mapping, where)
    return mapped_rows(records, mapping, tally, given or {}, day, known)


def mapped_rows(
    records: Records,
    mapping: SourceMap,
    tally: Tally,
    given: Mapping[str, Any],
    day: str | None,
    known: Known | None = None,
) -> Iterator[Found]:
    """Yield the rows that records make; every cell is read as catalogs/columns.csv says.

    given: What expressions find under ``given``, beside the ``file``.
    day: ISO date of rows that say none; None refuses such rows.
    known: Rows of other places and devices are counted before more is read of them; None reads all.
    """
    look = Lookup({**given, "file": records.file})
    machines = known.machines if known is not None and mapping.machines == "book" else None
    readers = [_Reader(part, records, mapping, look, day, machines) for part in mapping.parts()]
    for where, record in _each_record(records, mapping, look, tally):
        try:
            if _ruled_out(record, where, mapping, look, tally):
                continue
            if known is not None and (strange := readers[0].stranger(record, known)):
                tally.leave_out(*strange)
                continue
            zone = look.text(mapping.zone, record)
            found = [
                reader.read(record)
                for reader in readers
                if not reader.part.when or look.holds(reader.part.when, record)
            ]
        except ValueError as error:
            tally.refuse(where, str(error))
            continue
        yield from (Found(where, made, zone) for made in found)


def _each_record(
    records: Records, mapping: SourceMap, look: Lookup, tally: Tally
) -> Iterator[tuple[str, Record]]:
    """Yield records, each as often as the list that ``per`` finds in it is long."""
    for where, record in records.rows:
        if not mapping.per:
            yield where, record
            continue
        try:
            several = look.value(mapping.per, record)
        except ValueError as error:
            tally.refuse(where, str(error))
            continue
        if not several or not isinstance(several, list):
            tally.leave_out(f"record without {mapping.per}")
            continue
        yield from ((where, {**record, "one": one}) for one in several)


def _ruled_out(record: Record, where: str, mapping: SourceMap, look: Lookup, tally: Tally) -> bool:
    for rule in mapping.leave_out:
        if look.holds(rule.when, record):
            tally.leave_out(rule.reason, look.text(rule.name, record))
            return True
    for rule in mapping.refuse:
        if look.holds(rule.when, record):
            tally.refuse(where, f"{rule.reason} {look.text(rule.name, record)}".strip(), rule.hint)
            return True
    return False


def unread(records: Records, mapping: SourceMap) -> list[str]:
    """Return the names of a document that the mapping neither reads nor knows."""
    own = {name for part in mapping.parts() for name in part.columns.values()}
    texts = " ".join(mapping.expressions())
    return sorted(
        name
        for name in set(records.names) - own - {*columns_of(mapping.kind), *mapping.ignored, ""}
        if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", texts)
    )


def _check_header(column: str, theirs: str, place: str) -> None:
    """Refuse a column of prices whose own name says that they are of another kind."""
    currency, time = currency_in(theirs), time_in(theirs)
    if currency not in (None, "USD"):
        words, tip = f"has prices in {currency}", "convert them to USD"
    elif column == "usd_per_hour" and time not in (None, "hour"):
        words, tip = f"has prices of a {time}", "give prices of an hour"
    else:
        return
    raise SourceError(
        f"{place}:1: '{theirs}' {words}", f"{tip}, or use 'placer try', which converts prices"
    )


class _Reader:
    """Reads one row of each record."""

    def __init__(
        self,
        part: Part,
        records: Records,
        mapping: SourceMap,
        look: Lookup,
        day: str | None,
        machines: Mapping[str, Row] | None,
    ) -> None:
        self.part, self.mapping, self.look = part, mapping, look
        self.machines, self.day = machines, day
        self.read_before: dict[tuple[str, str], Any] = {}
        self.factors = unit_factors(mapping)
        parsers, named = columns_of(mapping.kind), set(part.given())
        own = [name for name in parsers if name not in named and name in records.names]
        columns = {**part.columns, **{name: name for name in own}}
        there = {*named, *columns, *(next(iter(machines.values()), {}) if machines else {})}
        if day is not None:
            there.add("as_of")
        missing = [name for name in needed_columns(mapping.kind) if name not in there]
        if missing and records.rows:
            tip = f"map them to its columns ({', '.join(records.names[:12])}), or give --set"
            raise PlacerError(f"'{records.place}' gives no {', '.join(missing)}", tip)
        self.sources = {
            name: (columns.get(name), part.fields.get(name), part.set.get(name, ""))
            for name in parsers
            if name in columns or name in named or (name == "as_of" and day is not None)
        }
        for name, theirs in columns.items():
            if name.startswith("usd_"):
                _check_header(name, theirs, records.place)

    def stranger(self, record: Record, known: Known) -> tuple[str, str] | None:
        """Return a name of a record that nobody knows, with the words for it."""
        names = ("provider", "region", "gpu", "instance_type")
        named = {n: self._value(n, *self.sources[n], record) for n in names if n in self.sources}
        place = f"{named.get('provider')}/{named.get('region')}"
        if self.mapping.kind in PLACED and place not in known.regions:
            owners = {region.partition("/")[0] for region in known.regions}
            if named.get("provider") not in owners:
                tip = "provider that no book knows (--set provider=NAME says which it is)"
                return tip, str(named.get("provider"))
            return "region that no book knows", place
        if "gpu" in named and named["gpu"] not in known.gpus:
            return "device that gpus.csv does not know", named["gpu"]
        if self.machines is not None and named["instance_type"] not in self.machines:
            return "machine that the book does not have", named["instance_type"]
        return None

    def read(self, record: Record) -> Row:
        """Return a row; ValueError says which column and what is wrong."""
        row = {name: self._value(name, *source, record) for name, source in self.sources.items()}
        return row if self.machines is None else {**self.machines[row["instance_type"]], **row}

    def _value(
        self, column: str, name: str | None, expression: str | None, fixed: str, record: Record
    ) -> Any:
        text = fixed
        try:
            if name is not None:
                text = as_text(record.get(name))
            elif expression is not None:
                text = self.look.text(expression, record)
            if (column, text) not in self.read_before:
                self.read_before[column, text] = self._parsed(column, self._placers(column, text))
            return self.read_before[column, text]
        except ValueError as error:
            theirs, text = name or expression or column, self._placers(column, text)
            words = column if theirs == column else f"{column} (their '{theirs[:60]}')"
            raise ValueError(f"{words} '{text}' {error}{self._tip(column, text, error)}") from None

    def _parsed(self, column: str, text: str) -> Any:
        value = columns_of(self.mapping.kind)[column](text)
        if isinstance(value, str) and value.startswith(FORMULA):
            raise ValueError("begins as a formula does")
        factor = self.factors.get(column)
        return value if factor is None or value is None else float(f"{value * factor:.12g}")

    def _placers(self, column: str, text: str) -> str:
        text = self.mapping.values.get(column, {}).get(text, text)
        if column == "market":
            return MARKETS.get(re.sub(r"[\s_-]", "", text).lower(), text)
        if column == "as_of":
            return text or self.day or ""
        return text[1:] if column.startswith("usd_") and text[:1] == "$" else text

    def _tip(self, column: str, text: str, error: ValueError) -> str:
        if str(error) == "is not a number" and any(c.isdigit() for c in text):
            return "; write a plain number such as 1234.5"
        if str(error).startswith("is not one of"):
            return f"; rename it in the table [values.{column}] of a mapping file"
        if column == "as_of" and not text:
            return f"; give the day with {'--date' if self.mapping.kind == 'links' else '--as-of'}"
        return ""
