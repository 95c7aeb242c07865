"""Charges of a bill in the FinOps format FOCUS, each with what it is for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, convert

from placer.errors import PlacerError, SourceError
from placer.files.json_text import parse_json
from placer.market.sources.harvest import Row, Tally
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.reading.mapped_rows import mapped_rows
from placer.market.sources.reading.mapping import COSTS, SourceMap, shipped_mapping
from placer.market.sources.reading.records import Records, read_records
from placer.market.words.money import exchange_rates
from placer.records import replace
from placer.units import parse_moment

COLUMNS = {cost: f"{cost.title()}Cost" for cost in COSTS}
"""Columns of FOCUS by cost."""
SHARED = ("provider", "instance_type", "market")
"""Fields that prices are read by as well."""
USAGE = "Usage"
"""Category of what was used; others are taxes, credits, purchases, adjustments and corrections."""


class Charge(Struct, frozen=True, kw_only=True):
    """One charge.

    component: compute, egress, storage, functions or other.
    machine: Type of the machine; empty where the bill does not name it.
    hours: Hours of machines; None where its quantity is of something else.
    ends: None where the bill does not say it.
    committed: Whether a commitment pays for it.
    rate: What its currency was exchanged at, in words; empty in USD.
    """

    component: str
    place: str
    machine: str
    market: str
    category: str
    service: str
    description: str
    starts: datetime
    ends: datetime | None
    hours: float | None
    committed: bool
    tags: str
    usd: float
    rate: str


def read_charges(path: str, cost: str) -> list[Charge]:
    """Read the charges of a CSV file with the columns of FOCUS 1.0 or later, in USD; other
    currencies at the dated rates of ``catalogs/exchange_rates.csv``.

    ``cost``: one of `COSTS`. Raise `PlacerError` that names the line, column and cell if a charge
    has no such cost, no time, or a currency without a rate.
    """
    charges, prices = shipped_mapping("focus-charges"), shipped_mapping("focus")
    # Machines and markets are called as in a bill's prices.
    fields = {**{name: prices.fields[name] for name in SHARED}, **charges.fields}
    mapping = replace(charges, fields=fields, values=prices.values)
    tally = Tally(skip_bad=False, may_skip=False)
    records = read_records(read_document(path), mapping, tally)
    if COLUMNS[cost] not in records.names:
        there = [name for name, column in COLUMNS.items() if column in records.names]
        tip = f"name one that it has: {' or '.join(f'--cost {name}' for name in there)}"
        raise PlacerError(f"'{path}' has no column {COLUMNS[cost]}", tip)
    return list(_charges(records, mapping, tally, cost))


def _charges(records: Records, mapping: SourceMap, tally: Tally, cost: str) -> Iterator[Charge]:
    for where, row, _ in mapped_rows(records, mapping, tally, {}, None):
        ends = str(row["ends"])
        usd, rate = _in_dollars(row, cost, where)
        instance = str(row["instance_type"])
        found = {
            **row,
            "place": f"{row['provider']}/{row['region']}" if row["region"] else row["provider"],
            # Prices call what names no type by its description, which has blanks.
            "machine": instance if row["component"] == "compute" and " " not in instance else "",
            "starts": parse_moment(str(row["starts"]), f"{where}: ChargePeriodStart"),
            "ends": parse_moment(ends, f"{where}: ChargePeriodEnd") if ends else None,
            "hours": row["machine_hours"],
            "committed": bool(row["committed"]),
            "usd": usd,
            "rate": rate,
        }
        yield convert(found, Charge)


def _in_dollars(row: Row, cost: str, where: str) -> tuple[float, str]:
    amount, currency = row[cost], str(row["currency"])
    if not isinstance(amount, float) or not math.isfinite(amount):
        raise SourceError(f"{where}: {COLUMNS[cost]} is no amount", "correct it; 0 is one as well")
    if currency == "USD":
        return amount, ""
    rate = exchange_rates().get(currency)
    if rate is None:
        known = ", ".join(("USD", *exchange_rates()))
        raise SourceError(f"{where}: no rate of {currency} is known", f"give a bill in {known}")
    return amount * rate.usd, rate.words


def has_tag(charge: Charge, key: str, value: str) -> bool:
    """Tell whether a charge has a tag: its cell of ``Tags`` is an object of JSON."""
    try:
        tags = parse_json(charge.tags.encode()) if charge.tags else {}
    except (ValueError, RecursionError):
        return False
    return isinstance(tags, dict) and str(tags.get(key)) == value
