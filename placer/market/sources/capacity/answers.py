"""What providers say of capacity, as rows of capacity.csv: spot placement scores of AWS, and Google
Cloud's advice on how likely so many spot machines are available, for how long, and what they cost
over a month.

Formats: GetSpotPlacementScores of EC2; compute.googleapis.com, advice.capacity and
advice.capacityHistory (REST, beta).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from placer.errors import PlacerError, SourceError, unknown
from placer.files.json_text import parse_json
from placer.market.capacity_table import zone_capacity
from placer.market.catalog import Catalog, VmOffer
from placer.market.sources.harvest import Harvest, Origin, Row, Tally
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.reading.mapped_rows import shipped_rows

MOST_BYTES = 16 * 2**20  # Largest answer of an interface that is read from a file
AS_PRINTED = "give the answer as it was printed"
AS_WRITTEN = "give the answer as the provider wrote it"
HISTORY = "Google Cloud advice.capacityHistory"
LOW, HIGH = 0.1, 0.9  # Quantiles of the price over time, as catalogs/columns.csv says
LONGEST_H = 1.0
"""An estimated uptime of an hour is the longest that the interface says: it bounds nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The question that a provider was asked: machines of a type, where, on which day.

    ``offer`` is a machine of the book: it says which device a machine type has. ``region`` and
    ``zone`` are empty where they were not named.
    """

    offer: VmOffer
    machines: int
    as_of: date
    region: str = ""
    zone: str = ""


def machine_of(book: Catalog, provider: str, instance_type: str) -> VmOffer:
    """Return some offer of a machine type; PlacerError with the nearest name if there is none."""
    for offer in book.offers:
        if (offer.provider, offer.instance_type) == (provider, instance_type):
            return offer
    names = sorted({o.instance_type for o in book.offers if o.provider == provider})
    raise unknown(f"machine of {provider}", instance_type, names)


def read_answer(place: str) -> tuple[dict[str, Any], Origin]:
    """Read the answer of an interface, as `read_json_answer` does: a JSON object."""
    document, origin = read_json_answer(place)
    if not isinstance(document, dict):
        raise PlacerError(f"{place}: no JSON object", AS_PRINTED)
    return document, origin


def read_json_answer(place: str) -> tuple[Any, Origin]:
    """Read the answer of an interface: JSON, as the provider's command line prints it."""
    document = read_document(place, most_bytes=MOST_BYTES)
    try:
        return parse_json(document.data), document.origin
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{place}: no JSON: {error}", AS_PRINTED) from None


def answer_harvest(
    kind: str, document: Mapping[str, Any], asked: Asked, book: Catalog, origin: Origin
) -> Harvest:
    """Make rows of an answer by the mapping ``aws-scores`` or ``gcp-advice``; regions that no book
    knows are counted.
    """
    given = {
        "instance_type": asked.offer.instance_type,
        "device": asked.offer.gpu,
        "machines": asked.machines,
        "as_of": asked.as_of.isoformat(),
        "region": asked.region,
        "zone": asked.zone,
    }
    tally = Tally(skip_bad=False)
    rows: list[Row] = []
    for _, row, _ in shipped_rows(kind, document, origin.place, tally, given):
        place = f"{row['provider']}/{row['region']}"
        if place in book.regions:
            rows.append(_surviving(row, book))
        else:
            tally.leave_out("region that no book knows", place)
    return Harvest(rows={"capacity.csv": rows}, origins=[origin], left_out=tally.reasons())


def _surviving(row: Row, book: Catalog) -> Row:
    """Return a row with the curve of its median survival; an hour or more bounds nothing."""
    if "survival_b_h" not in row:
        return row
    hours = float(row["survival_b_h"] or 0)
    if not 0 < hours < LONGEST_H:
        return {name: cell for name, cell in row.items() if name != "survival_b_h"}
    known = zone_capacity(
        book.capacity,
        provider="gcp",
        region=str(row["region"]),
        zone=str(row["zone"]),
        device=str(row["device"]),
        market="spot",
    )
    shapes = [stay.survival_a for stay in known.stays if stay.survival_a is not None]
    a = shapes[-1] if shapes else 1.0
    return {**row, "survival_a": a, "survival_b_h": hours / (2 ** (1 / a) - 1)}


def history_harvest(
    document: Mapping[str, Any], asked: Asked, book: Catalog, origin: Origin
) -> Harvest:
    """Make a price with its range of an answer of advice.capacityHistory.

    The preemption rate is the share of stopped machines that Google stopped. It counts stops and
    not hours, so it is told and becomes no survival.
    """
    where, kind = origin.place, asked.offer.instance_type
    location = str(document.get("location", asked.zone or asked.region)).rpartition("/")[2]
    region = location.rpartition("-")[0] if location.count("-") > 1 else location
    place = f"gcp/{region}"
    if place not in book.regions:
        raise PlacerError(f"{where}: region '{place[:60]}' is not in the book", "give --in REGION")
    known = {"priceHistory": [], "preemptionHistory": [], **document}
    prices = sorted(
        (_end(row, where), _money(row.get("listPrice"), where))
        for row in rows_under(known, "priceHistory", where)
    )
    rates = [
        figure(row, "preemptionRate", 0.0, 1.0, where)
        for row in rows_under(known, "preemptionHistory", where)
    ]
    notes = []
    if rates:
        notes.append(
            f"{kind} in {location}: of the machines that stopped, Google stopped "
            f"{100 * sum(rates) / len(rates):.0f} % on average over {len(rates)} days "
            f"({100 * min(rates):.0f} to {100 * max(rates):.0f} %); stops are no hours, so no "
            "survival follows"
        )
    spot = (o for o in book.offers_at(place) if (o.instance_type, o.market) == (kind, "spot"))
    offer, rows = next(spot, None), {}
    if prices and offer is None:
        notes.append(f"{kind} on spot in {place} is not in the book: its prices are left out")
    if prices and offer is not None:
        values = sorted(price for _, price in prices)
        last_day, last = prices[-1]
        low, high = (values[round(q * (len(values) - 1))] for q in (LOW, HIGH))
        row = {
            **msgspec.to_builtins(offer),
            "usd_per_hour": last,
            "usd_per_hour_low": min(low, last),
            "usd_per_hour_high": max(high, last),
            "price_basis": "list",
            "source": f"{HISTORY} ({location})",
            "as_of": min(last_day, date.today().isoformat()),
        }
        rows["offers.csv"] = [row]
    return Harvest(rows=rows, origins=[origin], notes=notes)


def _end(row: Mapping[str, Any], where: str) -> str:
    interval = row.get("interval")
    if not isinstance(interval, dict):
        raise SourceError(f"{where}: a price without interval", "give the answer as it was")
    return day_of(interval.get("endTime", interval.get("startTime")), where)


def _money(value: object, where: str) -> float:
    """Return USD of Google's Money: whole units and billionths."""
    if not isinstance(value, dict) or value.get("currencyCode", "USD") != "USD":
        raise SourceError(f"{where}: a price that is no USD", "ask for prices in USD")
    parts = {"units": 0, "nanos": 0, **value}
    return figure(parts, "units", 0, 1e6, where) + figure(parts, "nanos", 0, 1e9, where) / 1e9


def rows_under(document: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    """Return the list of objects that an answer has under a key; exit code 7 if it has none."""
    rows = document.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{where}: no list '{key}'", AS_WRITTEN)
    return rows


def figure(row: Mapping[str, Any], key: str, low: float, high: float, where: str) -> float:
    """Return a number of an answer within limits; exit code 7 if it is none."""
    value = row.get(key)
    try:
        number = float(value) if isinstance(value, str | int | float) else float("nan")
    except ValueError:
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high:
        words = f"{where}: {key} '{str(value)[:40]}' is not from {low:g} to {high:g}"
        raise SourceError(words, AS_WRITTEN)
    return number


def day_of(value: object, where: str) -> str:
    """Return the day of a time in an answer, ISO; exit code 7 if it is no time."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).date().isoformat()
    try:
        return datetime.fromisoformat(str(value)).date().isoformat()
    except ValueError:
        raise SourceError(f"{where}: '{str(value)[:40]}' is not a time", AS_WRITTEN) from None
