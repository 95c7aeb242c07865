"""What providers say of capacity, as rows of capacity.csv: spot placement scores of AWS, and Google
Cloud's advice on how likely so many spot machines are available, and for how long.

Formats: GetSpotPlacementScores of EC2; compute.googleapis.com, advice.capacity (REST, beta).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

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
