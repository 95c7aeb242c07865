"""What a table of capacity knows of the spot machines of a book, and which of its rows are old."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from placer.market.capacity_table import CapacityRow, zone_capacity
from placer.market.catalog import Catalog
from placer.market.checks.agreement import Located
from placer.market.checks.doubts import Finding

OLD_DAYS = 30
"""Shares of a zone that are older say no more than those of its class: neighbouring weeks differ by
10 points and more.
"""


def covered(book: Catalog) -> dict[str, int]:
    """Count the kinds of spot machine of a book, each a place and device, by what is known of how
    often they launch: ``zone or region measured``, ``class assumed`` and so on; ``unknown`` without
    any row.
    """
    kinds = {(o.provider, o.region, o.gpu) for o in book.offers if o.moves}
    counted: Counter[str] = Counter()
    for provider, region, gpu in kinds:
        own = [row for row in book.capacity if _is_own(row, provider, region, gpu)]
        found = zone_capacity(
            book.capacity, provider=provider, region=region, device=gpu, market="spot"
        ).launches
        row = own[0] if own else found[0] if found else None
        counted["unknown" if row is None else f"{row.level} {row.basis}"] += 1
    return dict(sorted(counted.items()))


def _is_own(row: CapacityRow, provider: str, region: str, gpu: str) -> bool:
    wanted = (provider, region, gpu, "spot")
    return (row.provider, row.region, row.device, row.market) == wanted and row.share is not None


def wrong_dates(rows: Sequence[Located], today: date) -> Iterator[Finding]:
    """Yield the rows from the future, and those of zones and regions whose shares are out of
    date.
    """
    oldest = (today - timedelta(days=OLD_DAYS)).isoformat()
    for where, row in rows:
        if row.as_of > today.isoformat():
            text = f"as_of {row.as_of} is in the future"
            yield Finding(level="error", where=where, message=text)
        elif row.region and row.share is not None and row.as_of < oldest:
            text = (
                f"{row.zone or row.place} {row.device}: as of {row.as_of}, over {OLD_DAYS} days: "
                "shares of neighbouring weeks differ by 10 points and more"
            )
            yield Finding(level="warning", where=where, message=text)
