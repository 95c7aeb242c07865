"""Google Cloud's advice: how likely so many spot machines are available, for how long, and what
they cost over a month.

Formats: compute.googleapis.com, advice.capacity and advice.capacityHistory (REST, beta).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import msgspec

from placer.errors import PlacerError, SourceError
from placer.market.capacity_table import ZoneCapacity, zone_capacity
from placer.market.catalog import Catalog
from placer.market.sources.capacity.asked import Asked, day_of, figure, rows_for, rows_under
from placer.market.sources.harvest import Harvest, Origin, Row

HISTORY = "Google Cloud advice.capacityHistory"
LOW, HIGH = 0.1, 0.9
"""Quantiles of the price over time, as catalogs/columns.csv says."""
LONGEST_H = 1.0
"""An estimated uptime of an hour is the longest that the interface says: it bounds nothing."""


def advice_request(asked: Asked) -> dict[str, Any]:
    """Return the body of a request for advice about one zone or a region."""
    policy: dict[str, Any] = {"targetShape": "ANY_SINGLE_ZONE"}
    if asked.zone:
        policy["zones"] = [{"zone": f"zones/{asked.zone}"}]
    return {
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {
            "instanceSelections": {"asked": {"machineTypes": [asked.offer.instance_type]}}
        },
        "size": asked.machines,
        "distributionPolicy": policy,
    }


def history_request(asked: Asked) -> dict[str, Any]:
    """Return the body of a request for the history of a zone or region."""
    location = f"zones/{asked.zone}" if asked.zone else f"regions/{asked.region}"
    return {
        "instanceProperties": {
            "machineType": asked.offer.instance_type,
            "scheduling": {"provisioningModel": "SPOT"},
        },
        "locationPolicy": {"location": location},
        "types": ["PREEMPTION", "PRICE"],
    }


def advice_harvest(
    document: Mapping[str, Any], asked: Asked, book: Catalog, origin: Origin
) -> Harvest:
    """Make rows of an answer of advice.capacity, with survival in the shape that is known of the
    class.
    """
    rows, left_out = rows_for(asked, "gcp-advice", document, book, origin)
    return Harvest(
        rows={"capacity.csv": [_surviving(row, book) for row in rows]},
        origins=[origin],
        left_out=left_out,
    )


def _surviving(row: Row, book: Catalog) -> Row:
    """Return a row with survival of such a median; as it is where the uptime bounds nothing."""
    hours = float(row.get("survival_b_h") or 0)
    if not 0 < hours < LONGEST_H:
        return {name: cell for name, cell in row.items() if name != "survival_b_h"}
    known: ZoneCapacity = zone_capacity(
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

    Notes
    -----
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
    rows: list[Row] = []
    offer = next(
        (o for o in book.offers_at(place) if (o.instance_type, o.market) == (kind, "spot")), None
    )
    if prices and offer is None:
        notes.append(f"{kind} on spot in {place} is not in the book: its prices are left out")
    if prices and offer is not None:
        values = sorted(price for _, price in prices)
        last_day, last = prices[-1]
        low, high = (values[round(q * (len(values) - 1))] for q in (LOW, HIGH))
        rows.append(
            {
                **msgspec.to_builtins(offer),
                "usd_per_hour": last,
                "usd_per_hour_low": min(low, last),
                "usd_per_hour_high": max(high, last),
                "price_basis": "list",
                "source": f"{HISTORY} ({location})",
                "as_of": min(last_day, date.today().isoformat()),
            }
        )
    return Harvest(rows={"offers.csv": rows} if rows else {}, origins=[origin], notes=notes)


def _end(row: Mapping[str, Any], where: str) -> str:
    interval = row.get("interval")
    if not isinstance(interval, dict):
        raise SourceError(f"{where}: a price without interval", "give the answer as it was")
    return day_of(interval.get("endTime", interval.get("startTime")), where)


def _money(value: object, where: str) -> float:
    """Return USD of Google's Money: whole units and billionths."""
    if not isinstance(value, dict) or value.get("currencyCode", "USD") != "USD":
        raise SourceError(f"{where}: a price that is no USD", "ask for prices in USD")
    units = figure({"units": value.get("units", 0)}, "units", 0, 1e6, where)
    nanos = figure({"nanos": value.get("nanos", 0)}, "nanos", 0, 1e9, where)
    return units + nanos / 1e9
