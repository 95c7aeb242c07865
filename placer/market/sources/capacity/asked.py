"""What an import of capacity is about: a machine type, how many, where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from placer.errors import PlacerError, SourceError, unknown
from placer.files.json_text import parse_json
from placer.market.catalog import Catalog, VmOffer
from placer.market.sources.harvest import Origin, Row
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.reading.mapped_rows import Found, Known, mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import parsed_records
from placer.market.sources.reading.tally import Tally

MOST_BYTES = 16 * 2**20
"""Largest answer of an interface that is read from a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The question that a provider was asked.

    Notes
    -----
    ``offer`` is a machine of the book: it says which device a machine type has. ``region`` and
    ``zone`` are empty where they were not named.
    """

    offer: VmOffer
    machines: int
    as_of: date
    region: str = ""
    zone: str = ""


def machine_of(book: Catalog, provider: str, instance_type: str) -> VmOffer:
    """Return some offer of a machine type.

    Raises
    ------
    PlacerError
        If the book has no such machine of that provider; the nearest name is a tip.
    """
    for offer in book.offers:
        if (offer.provider, offer.instance_type) == (provider, instance_type):
            return offer
    names = sorted({o.instance_type for o in book.offers if o.provider == provider})
    raise unknown(f"machine of {provider}", instance_type, names)


def read_answer(place: str) -> tuple[dict[str, Any], Origin]:
    """Read the answer of an interface, as `read_json_answer` does: a JSON object.

    Raises
    ------
    PlacerError
        If it is none.
    """
    document, origin = read_json_answer(place)
    if not isinstance(document, dict):
        raise PlacerError(f"{place}: no JSON object", "give the answer as it was printed")
    return document, origin


def read_json_answer(place: str) -> tuple[Any, Origin]:
    """Read the answer of an interface: JSON, as the provider's command line prints it.

    Raises
    ------
    PlacerError
        If there is no such file, it is too large, or no JSON.
    """
    document = read_document(place, most_bytes=MOST_BYTES)
    try:
        return parse_json(document.data), document.origin
    except (ValueError, RecursionError) as error:
        raise PlacerError(
            f"{place}: no JSON: {error}", "give the answer as it was printed"
        ) from None


def mapped(
    name: str,
    document: Any,
    where: str,
    given: Mapping[str, Any],
    known: Known,
    tally: Tally | None = None,
) -> list[Found]:
    """Read an answer by a mapping that comes with placer."""
    mapping = shipped_mapping(name)
    records = parsed_records(document, mapping, where)
    return list(mapped_rows(records, mapping, tally or Tally(skip_bad=False), given, None, known))


def rows_for(
    asked: Asked, name: str, document: Mapping[str, Any], book: Catalog, origin: Origin
) -> tuple[list[Row], Counter[str]]:
    """Read the rows of capacity of an answer by a mapping; count those of regions that no book
    knows.
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
    for _, row, _ in mapped(name, document, origin.place, given, Known(), tally):
        place = f"{row['provider']}/{row['region']}"
        if place in book.regions:
            rows.append(row)
        else:
            tally.leave_out("region that no book knows", place)
    return rows, Counter(tally.reasons())


def rows_under(document: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    """Return the list of objects that an answer has under a key.

    Raises
    ------
    PlacerError
        With exit code 7 if it has none.
    """
    rows = document.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{where}: no list '{key}'", "give the answer as the provider wrote it")
    return rows


def figure(row: Mapping[str, Any], key: str, low: float, high: float, where: str) -> float:
    """Return a number of an answer within limits.

    Raises
    ------
    PlacerError
        With exit code 7 if it is none.
    """
    value = row.get(key)
    try:
        number = float(value) if isinstance(value, str | int | float) else float("nan")
    except ValueError:
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high:
        raise SourceError(
            f"{where}: {key} '{str(value)[:40]}' is not from {low:g} to {high:g}",
            "give the answer as the provider wrote it",
        )
    return number


def day_of(value: object, where: str) -> str:
    """Return the day of a time in an answer, ISO.

    Raises
    ------
    PlacerError
        With exit code 7 if it is no time.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).date().isoformat()
    try:
        return datetime.fromisoformat(str(value)).date().isoformat()
    except ValueError:
        raise SourceError(
            f"{where}: '{str(value)[:40]}' is not a time",
            "give the answer as the provider wrote it",
        ) from None
