"""Prices as a provider's interface gives them, and how they become offers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from placer.market.sources.harvest import Origin, Row
from placer.market.sources.reading.book_rows import book_rows
from placer.market.sources.reading.mapped_rows import Found, Known
from placer.market.sources.reading.mapping import SourceMap
from placer.market.sources.reading.tally import Tally
from placer.market.sources.scope import Scope, Shape

FIGURES = ("usd_per_hour", "usd_per_hour_low", "usd_per_hour_high")
ZONED = SourceMap(kind="offers", zone="zone")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """What an interface gave: prices, documents, what was left out by reason, sentences, and
    regions that failed with their error.
    """

    found: Sequence[Found]
    origins: Sequence[Origin]
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


def quote(
    region: str,
    instance_type: str,
    shape: Shape,
    market: str,
    usd_per_hour: float,
    source: str,
    since: str,
    *,
    zone: str = "",
    spread: tuple[float, float] | None = None,
) -> Found:
    """Make a row of one price of one machine.

    Parameters
    ----------
    usd_per_hour
        May be NaN or below 0: such prices are counted and left out.
    since
        First day of the price, ISO; empty where the interface does not say.
    zone
        Where a spot price is asked for by zone.
    spread
        10 % and 90 % quantile of the last 30 days; USD/h.
    """
    low, high = spread or (None, None)
    row: dict[str, Any] = {
        **asdict(shape),
        "region": region,
        "instance_type": instance_type,
        "market": market,
        "usd_per_hour": usd_per_hour,
        "usd_per_hour_low": low,
        "usd_per_hour_high": high,
        "price_basis": "list",
        "source": source,
        "since": since or None,
    }
    return Found(f"{region} {instance_type} {market} {zone} {since} {usd_per_hour}", row, zone)


def origin(place: str, chunks: Iterable[str | bytes]) -> Origin:
    """Digest of the answers that an interface gave."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        data = chunk.encode() if isinstance(chunk, str) else chunk
        digest.update(data)
        size += len(data)
    return Origin(place=place, sha256=digest.hexdigest(), size_bytes=size)


def checked(
    gathered: Gathered, scope: Scope, today: date
) -> tuple[list[Row], dict[str, int], list[str]]:
    """Turn prices into rows of offers.csv, by the checks of every import.

    Returns
    -------
    tuple[list[Row], dict[str, int], list[str]]
        Rows in the order of places; what was left out by reason; notes with those of the source.
    """
    tally = Tally(skip_bad=True, by_reason=True)
    day = {"provider": scope.provider, "as_of": today.isoformat()}
    found = [Found(one.where, {**one.row, **day}, one.zone) for one in gathered.found]
    places = {f"{scope.provider}/{region}" for region in scope.known_regions}
    known = Known(regions=places, gpus=scope.devices, usual=scope.usd_per_device)
    rows = [_rounded(row, scope) for row in book_rows(found, ZONED, tally, known)]
    rows.sort(key=lambda row: (str(row["region"]), str(row["instance_type"]), str(row["market"])))
    left_out = Counter(gathered.left_out) + Counter(tally.reasons())
    return rows, dict(sorted(left_out.items())), [*gathered.notes, *tally.sentences()]


def _rounded(row: Row, scope: Scope) -> Row:
    """Round prices, and add the interruptions of the shipped book: prices do not carry them."""
    low, high = scope.interruptions.get(
        (str(row["region"]), str(row["instance_type"]), str(row["market"])), (None, None)
    )
    words = "" if high is None else "; interruptions of the shipped book"
    figures = {name: row.get(name) for name in FIGURES}
    return {
        **row,
        **{
            name: round(usd, 6) if isinstance(usd, float | int) else None
            for name, usd in figures.items()
        },
        "interruption_low": low,
        "interruption_high": high,
        "source": f"{row['source']}{words}",
    }
