"""Rows of a source that a book can have: regions and devices are known, prices can be, each machine
stands once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import KEYS
from placer.market.catalog import FREE
from placer.market.checks.doubts import ABSURD, is_slip
from placer.market.sources.harvest import Row
from placer.market.sources.reading.fetch import FAILED
from placer.market.sources.reading.mapped_rows import Found, Known, known_by_default
from placer.market.sources.reading.mapping import PLACED, SourceMap
from placer.market.sources.reading.tally import Tally
from placer.records import replace


def book_rows(
    found: Iterable[Found], mapping: SourceMap, tally: Tally, known: Known | None = None
) -> list[Row]:
    """Check rows against what is known, and bring those that mean the same into one.

    Raises
    ------
    PlacerError
        With exit code 7 at the first wrong row, unless it may be left out.
    """
    if mapping.kind in PLACED:
        known = known or known_by_default()
        found = list(_named(found, known))
        known = replace(known, usual={**_own_prices(found), **known.usual})
    kept = _plausible(found, tally, {} if known is None else known.usual)
    return _folded(kept, tally) if mapping.zone else list(_once(kept, mapping.kind, tally))


def _named(found: Iterable[Found], known: Known) -> Iterator[Found]:
    """Yield the rows; one whose region or device is not known is wrong."""
    for one in found:
        if f"{one.row['provider']}/{one.row['region']}" not in known.regions:
            raise _no_region(one.where, one.row, known.regions)
        if "gpu" in one.row and one.row["gpu"] not in known.gpus:
            raise _no_gpu(one.where, str(one.row["gpu"]), known.gpus)
        yield one


def _own_prices(found: Iterable[Found]) -> dict[tuple[str, str], float]:
    """Return the medians of the rows themselves, for devices that the book does not rent."""
    prices: dict[tuple[str, str], list[float]] = {}
    for _, row, _ in found:
        if "gpu" in row and row["price_basis"] not in FREE:
            prices.setdefault((str(row["gpu"]), str(row["market"])), []).append(_each(row))
    return {key: median(values) for key, values in prices.items()}


def _each(row: Mapping[str, Any]) -> float:
    return float(row["usd_per_hour"]) / int(row["gpu_count"])


def _plausible(
    found: Iterable[Found], tally: Tally, usual: Mapping[tuple[str, str], float]
) -> Iterator[Found]:
    """Yield rows that are not of the future, and whose price is no slip of the decimal point; a
    machine that is owned may cost nothing. With one price of a record its others go too.
    """
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
    everything, wrong = list(found), set()
    for where, row, _ in everything:
        middle = usual.get((str(row.get("gpu")), str(row.get("market"))))
        words = ""
        if str(row.get("as_of", "")) > tomorrow:
            words = f"as_of {row['as_of']} is in the future"
        elif middle and row["price_basis"] not in FREE and is_slip(_each(row), middle):
            words = (
                f"usd_per_hour '{row['usd_per_hour']}' of {row['instance_type']} is {ABSURD:,.0f} "
                f"times what {row['gpu']} costs, or that small a part"
            )
        if words and where not in wrong:
            tally.refuse(where, words)
            wrong.add(where)
    yield from (one for one in everything if one.where not in wrong)


def _once(found: Iterable[Found], kind: str, tally: Tally) -> Iterator[Row]:
    """Yield equal rows once; two that mean the same thing with other figures are wrong."""
    seen: dict[tuple[Any, ...], Found] = {}
    for one in found:
        key = tuple(one.row.get(name) for name in KEYS[f"{kind}.csv"])
        before = seen.setdefault(key, one)
        if before is one:
            yield one.row
        elif before.row != one.row:
            words = f"{'/'.join(map(str, key))} is already in {before.where} with other figures"
            tally.refuse(one.where, words)


def _folded(found: Iterable[Found], tally: Tally) -> list[Row]:
    """Bring the zones of a region into one offer of each machine and market: the dearest on demand,
    else the cheapest zone. Of two prices of one zone the higher counts.
    """
    machines: dict[tuple[Any, ...], dict[str, Found]] = {}
    for one in found:
        zones = machines.setdefault(tuple(one.row[name] for name in KEYS["offers.csv"]), {})
        before = zones.setdefault(one.zone, one)
        if _usd(before) != _usd(one):
            tally.note(
                "a machine stands twice in one zone with two prices: the higher one counts",
                one.where,
            )
            zones[one.zone] = max(before, one, key=_usd)
    offers: dict[tuple[Any, ...], Row] = {}
    for key, zones in machines.items():
        offer = offers[key] = _one_offer(list(zones.values()), tally)
        listed = offers.get((*key[:-1], "on_demand"))
        if key[-1] == "spot" and listed is not None and _above(offer, listed):
            tally.note("a spot price is above on-demand", next(iter(zones.values())).where)
    return list(offers.values())


def _usd(one: Found) -> float:
    return float(one.row["usd_per_hour"] or 0)


def _above(offer: Row, listed: Row) -> bool:
    return float(offer["usd_per_hour"] or 0) > float(listed["usd_per_hour"] or 0)


def _one_offer(zones: Sequence[Found], tally: Tally) -> Row:
    on_demand = zones[0].row["market"] == "on_demand"
    dearest, cheapest = max(zones, key=_usd), min(zones, key=lambda one: (_usd(one), one.zone))
    if on_demand and _usd(cheapest) < _usd(dearest):
        tally.note(
            "zones of a region differ in the on-demand price: the highest one counts",
            dearest.where,
        )
    chosen = dearest if on_demand else cheapest
    sizes = {name: min(z.row[name] for z in zones) for name in ("vcpus", "memory_gib")}  # type: ignore[type-var]
    which = (
        "" if on_demand or len(zones) < 2 else f"; cheapest of {len(zones)} zones: {chosen.zone}"
    )
    as_of = max(str(zone.row["as_of"]) for zone in zones)
    return {**chosen.row, **sizes, "source": f"{chosen.row['source']}{which}", "as_of": as_of}


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
    tip = f"write {' or '.join(fit)}" if fit else f"{error.hint}; correct it"
    return _unnamed(where, error.message, tip, "gpu")


def _unnamed(where: str, message: str, tip: str, column: str) -> PlacerError:
    return PlacerError(
        f"{where}: {message}",
        f"{tip}, rename it in the table [values.{column}] of a mapping file, or leave such rows "
        "out with --skip-bad",
        FAILED,
    )
