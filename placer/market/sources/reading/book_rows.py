"""Price lists of any source as rows that a book can have: regions and devices are known, prices can
be, each machine stands once.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from placer.errors import PlacerError, SourceError, unknown
from placer.market.books.csv_rows import key_columns
from placer.market.catalog import FREE
from placer.market.checks.doubts import ABSURD, OLDEST_YEAR, is_slip
from placer.market.sources.harvest import Harvest, Row, Tally
from placer.market.sources.reading.fetch import READ_SECONDS, Document, is_url, read_document
from placer.market.sources.reading.mapped_rows import (
    Found,
    Known,
    known_by_default,
    mapped_rows,
    unread,
)
from placer.market.sources.reading.mapping import (
    PLACED,
    PRICES,
    SourceMap,
    shipped_mapping,
    shipped_mappings,
)
from placer.market.sources.reading.records import fits, is_json, read_records
from placer.records import replace


def read_listing(
    places: Sequence[str],
    mapping: SourceMap,
    *,
    skip_bad: bool = False,
    as_of: date | None = None,
    read_seconds: float = READ_SECONDS,
) -> Harvest:
    """Read documents, by path or URL, as rows of one file of a book; columns with equal names need
    no mapping. ``as_of`` is the date of rows that say none; None leaves that to the mapping.
    PlacerError names ``place:line``, column and cell that are wrong.
    """
    tally = Tally(skip_bad=skip_bad)
    found: dict[str, tuple[SourceMap, list[Found]]] = {}
    for place in places:
        document = read_document(place, read_seconds=read_seconds)
        tally.origins.append(document.origin)
        if pages_follow(document):
            tally.words.append(f"{place} is one page of several: the next ones have more rows")
        for one in _mappings(document, mapping):
            if one.about != mapping.about:
                tally.words.append(f"{place} was read as {one.about}")
            records = read_records(document, one, tally)
            written = as_of or (date_of(place) if one.undated == "file" else None)
            day = None if written is None else written.isoformat()
            known = _known(one, skip_bad=skip_bad)
            given = {**mapping.set, "regions": _regions(one, known)}
            _, rows_of = found.setdefault(one.about, (one, []))
            rows_of += mapped_rows(records, one, tally, given, day, known)
            names = unread(records, one) if one.about == mapping.about else []
            if names:
                tally.words.append(f"their columns that were not read: {', '.join(names[:20])}")
            if records.cut_off:
                tally.words.append("the last line has no end: check that the file is complete")
    rows: dict[str, list[Row]] = {}
    for one, its in found.values():
        rows.setdefault(f"{one.kind}.csv", []).extend(book_rows(its, one, tally))
    rows = {file: kept for file, kept in rows.items() if kept}
    if not rows:
        raise tally.nothing()
    return tally.harvest(rows)


def _mappings(document: Document, mapping: SourceMap) -> Sequence[SourceMap]:
    """Return how to read a document: as asked, or where no word says what a column is, by all
    mappings that come with placer and are made for such documents.
    """
    if mapping.columns or mapping.fields or mapping.about != shipped_mapping("csv").about:
        return (mapping,)
    known = (shipped_mapping(name) for name in shipped_mappings())
    fit = [one for one in known if one.kind in PRICES and fits(document, one)]
    if shipped_mapping("skypilot") in fit:  # whose hosts and devices are added up
        words = f"'{document.origin.place}' is of SkyPilot's catalogs"
        raise PlacerError(words, "use 'placer catalog import skypilot', which adds up machines")
    if not fit and is_json(document):
        words = f"'{document.origin.place}' is JSON of no price list that is known"
        raise SourceError(words, "try 'placer try', or name a mapping file in place of csv")
    return [replace(one, set={**one.set, **mapping.set}) for one in fit] or (mapping,)


def _known(mapping: SourceMap, *, skip_bad: bool) -> Known | None:
    counted = mapping.kind in PLACED and (skip_bad or mapping.unknown_names == "counted")
    by_book = mapping.machines == "book"
    return known_by_default(mapping.set.get("provider", "")) if counted or by_book else None


def _regions(mapping: SourceMap, known: Known | None) -> list[str]:
    """Return the regions of the provider of a mapping, for prices that hold in all of them."""
    pairs = (place.split("/", 1) for place in ([] if known is None else known.regions))
    return [region for owner, region in pairs if owner == mapping.set.get("provider")]


_NEXT_PAGE = re.compile(rb'"(?:NextPageLink|nextPageToken|NextToken)"\s*:\s*"[^"]')


def pages_follow(document: Document) -> bool:
    """Tell whether an answer of an interface names another page, at its beginning or end."""
    return any(map(_NEXT_PAGE.search, (document.data[:1000], document.data[-1000:])))


def date_of(place: str) -> date:
    """Return the day of a document: that of the file, today for a URL."""
    today = datetime.now(UTC).date()
    if is_url(place):
        return today
    return min(today, datetime.fromtimestamp(Path(place).stat().st_mtime, UTC).date())


SPOT_DAYS = 90  # EC2 keeps 90 days of spot prices; one that is older is not what is asked for today


def book_rows(
    found: Iterable[Found], mapping: SourceMap, tally: Tally, known: Known | None = None
) -> list[Row]:
    """Check rows against what is known, and bring those that mean the same into one. Exit code 7 at
    the first wrong row, unless it may be left out.
    """
    found = list(found)
    if mapping.kind in PLACED:
        known = known or known_by_default()
        for one in found:
            _check_names(one, known)
        known = replace(known, usual={**_own_prices(found), **known.usual})
        found = [one for one in found if not _other_shape(one, mapping, known, tally)]
    kept = _plausible(found, tally, {} if known is None else known.usual)
    rows = _folded(kept, tally) if mapping.zone else _once(kept, mapping.kind, tally)
    return [{name: cell for name, cell in row.items() if name != "since"} for row in rows]


def _other_shape(one: Found, mapping: SourceMap, known: Known, tally: Tally) -> bool:
    """Refuse a machine whose type the book knows with other devices: a price of eight beside the
    figures of one would pass for a bargain.
    """
    row = one.row
    shapes = known.shapes.get((str(row["provider"]), str(row.get("instance_type"))), ())
    if "gpu" not in row or not shapes or (row["gpu"], row["gpu_count"]) in shapes:
        return False
    has = " or ".join(f"{count} x {gpu}" for gpu, count in sorted(shapes))
    words = f"{row['instance_type']} with {row['gpu_count']} x {row['gpu']} has {has} in the book"
    if mapping.unknown_names == "counted":
        tally.leave_out("machine that the book knows otherwise", words)
    else:
        tally.refuse(one.where, words)
    return True


def _own_prices(found: Iterable[Found]) -> dict[tuple[str, str], float]:
    """Return the medians of the rows themselves, for devices that the book does not rent."""
    prices: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in found:
        if "gpu" in one.row and 0 < _usd(one) < math.inf:
            prices[str(one.row["gpu"]), str(one.row["market"])].append(_each(one))
    return {key: median(values) for key, values in prices.items()}


def _usd(one: Found) -> float:
    return float(one.row["usd_per_hour"] or 0)


def _each(one: Found) -> float:
    return _usd(one) / int(one.row["gpu_count"] or 1)


def _since(one: Found) -> str:
    return str(one.row.get("since") or "")


def _plausible(
    found: Sequence[Found], tally: Tally, usual: Mapping[tuple[str, str], float]
) -> Iterator[Found]:
    """Yield rows that can be. With one price of a record its others go too."""
    today, wrong = datetime.now(UTC).date(), set()
    for one in found:
        words = _fault(one, usual, today)
        if words and one.where not in wrong:
            price = f": {_usd(one):g} USD/h of {one.row['instance_type']}"
            tally.refuse(one.where, words, name=price if "price" in words else "")
            wrong.add(one.where)
    yield from (one for one in found if one.where not in wrong)


def _fault(one: Found, usual: Mapping[tuple[str, str], float], today: date) -> str:
    """Say why a row cannot be; empty if it can. A machine that is owned may cost nothing."""
    row, since = one.row, _since(one)
    if str(row.get("as_of", "")) > (today + timedelta(days=1)).isoformat():
        return f"as_of {row['as_of']} is in the future"
    if "gpu_count" not in row or row["price_basis"] in FREE:
        return ""
    kind = f"{str(row['market']).replace('_', '-')} price"
    if not math.isfinite(_usd(one)):
        return f"{kind} is not a number"
    if _usd(one) <= 0:
        return f"{kind} is zero or less"
    if since > today.isoformat():
        return f"{kind} takes effect only in the future"
    if since and since < str(OLDEST_YEAR):
        return f"{kind} is dated before {OLDEST_YEAR}"
    if since and one.zone and since < (today - timedelta(days=SPOT_DAYS)).isoformat():
        return f"{kind} is older than {SPOT_DAYS} days"
    middle = usual.get((str(row["gpu"]), str(row["market"])))
    if middle and is_slip(_each(one), middle):
        way = "above" if _each(one) > middle else "below"
        return f"{kind} is {ABSURD:,.0f} times {way} the median of its device"
    return ""


def _once(found: Iterable[Found], kind: str, tally: Tally) -> Iterator[Row]:
    """Yield equal rows once; two that mean the same thing with other figures are wrong."""
    seen: dict[tuple[Any, ...], Found] = {}
    for one in found:
        key = tuple(one.row.get(name) for name in key_columns(f"{kind}.csv"))
        before = seen.setdefault(key, one)
        if before is one:
            yield one.row
        elif before.row != one.row:
            words = f"{'/'.join(map(str, key))} is already in {before.where} with other figures"
            tally.refuse(one.where, words)


def _folded(found: Iterable[Found], tally: Tally) -> Iterator[Row]:
    """Bring the zones of a region into one offer of each machine and market: the dearest on demand,
    else the cheapest zone. Of two prices of one zone the newer counts, and of one day the higher:
    never too cheap.
    """
    machines: dict[tuple[Any, ...], dict[str, Found]] = {}
    for one in found:
        zones = machines.setdefault(tuple(one.row[name] for name in key_columns("offers.csv")), {})
        before = zones.setdefault(one.zone, one)
        if _usd(before) != _usd(one) and _since(before) == _since(one):
            where = " in one zone" * bool(one.zone)
            words = f"a machine stands twice{where} with two prices: the higher one counts"
            tally.note(words, one.where)
        zones[one.zone] = max(before, one, key=lambda price: (_since(price), _usd(price)))
    offers = {key: _one_offer(list(zones.values()), tally) for key, zones in machines.items()}
    for key, one in offers.items():
        listed = offers.get((*key[:-1], "on_demand"))
        if key[-1] == "spot" and listed is not None and _usd(one) > _usd(listed):
            name = f"{one.row['provider']}/{one.row['region']} {one.row['instance_type']}"
            tally.note("a spot price is above on-demand", name)
        yield one.row


def _one_offer(zones: Sequence[Found], tally: Tally) -> Found:
    on_demand = zones[0].row["market"] == "on_demand"
    dearest, cheapest = max(zones, key=_usd), min(zones, key=lambda one: (_usd(one), one.zone))
    if on_demand and _usd(cheapest) < _usd(dearest):
        words = "zones of a region differ in the on-demand price: the highest one counts"
        tally.note(words, dearest.where)
    chosen = dearest if on_demand else cheapest
    sizes = {n: min(float(zone.row[n] or 0) for zone in zones) for n in ("vcpus", "memory_gib")}
    several = not on_demand and len(zones) > 1
    which = f"; cheapest of {len(zones)} zones: {chosen.zone}" if several else ""
    as_of = max(str(zone.row["as_of"]) for zone in zones)
    row = {**chosen.row, **sizes, "source": f"{chosen.row['source']}{which}", "as_of": as_of}
    return chosen._replace(row=row)


def _check_names(one: Found, known: Known) -> None:
    """Refuse a row whose place or device is not known, with what its words come nearest to."""
    provider, region = str(one.row["provider"]), str(one.row["region"])
    if f"{provider}/{region}" not in known.regions:
        pairs = [place.split("/", 1) for place in known.regions]
        regions = [name for owner, name in pairs if owner == provider]
        if not regions:
            error = unknown("provider", provider, {owner for owner, _ in pairs})
            raise _unnamed(one, error.message, f"{error.hint}; correct it", "provider")
        zone = re.fullmatch(r"(.+\d)-?[a-z]|(.+)-\d", region)
        of = next((name for name in (zone.groups() if zone else ()) if name in regions), None)
        if of is not None:
            raise _unnamed(one, f"region '{region}' is a zone of {of}", f"write {of}", "region")
        error = unknown(f"region of {provider}", region, regions)
        others = sorted(owner for owner, name in pairs if name == region)
        elsewhere = f"; {' and '.join(others)} has one of this name" if others else ""
        raise _unnamed(one, error.message, f"{error.hint}{elsewhere}; correct it", "region")
    if "gpu" in one.row and one.row["gpu"] not in known.gpus:
        gpu = str(one.row["gpu"])
        words = {word.removesuffix("GB") for word in re.split(r"[^A-Z0-9]+", gpu.upper())}
        family = [name for name in known.gpus if name.upper().split("-")[0] in words]
        whole = [name for name in family if words.issuperset(name.upper().split("-"))]
        fit = [max(whole, key=lambda name: name.count("-"))] if whole else family
        error = unknown("gpu", gpu, known.gpus)
        tip = f"write {' or '.join(fit)}" if fit else f"{error.hint}; correct it"
        raise _unnamed(one, error.message, tip, "gpu")


def _unnamed(one: Found, message: str, tip: str, column: str) -> PlacerError:
    return SourceError(
        f"{one.where}: {message}",
        f"{tip}, rename it in the table [values.{column}] of a mapping file, or leave such rows "
        "out with --skip-bad",
    )
