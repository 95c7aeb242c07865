"""Spot prices of EC2: what each zone asks now and what it asked over the last 30 days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

DAYS = 30
"""How far back the history goes that low and high prices are taken from."""
LOW, HIGH = 0.1, 0.9
"""Quantiles of the price over time, as catalogs/columns.csv says."""


class SpotPrice(NamedTuple):
    """What one zone asks: USD/h now, its day (ISO), and the 10 % and 90 % quantile over time."""

    instance_type: str
    zone: str
    usd_per_hour: float
    since: str
    low: float
    high: float


def spot_prices(
    history: Iterable[Mapping[str, Any]], start: datetime, end: datetime
) -> list[SpotPrice]:
    """Sum up a history by type and zone.

    Parameters
    ----------
    history
        Rows of DescribeSpotPriceHistory in any order; a row holds until the next of its type and
        zone. The first may be older than ``start``: it is the price that held then.
    start, end
        The window of the quantiles.

    Returns
    -------
    list[SpotPrice]
        Sorted by type and zone. The price of now lies between low and high, also when it has just
        moved.
    """
    series: dict[tuple[str, str], list[tuple[datetime, float]]] = defaultdict(list)
    for row in history:
        series[str(row["InstanceType"]), str(row["AvailabilityZone"])].append(
            (row["Timestamp"], float(row["SpotPrice"]))
        )
    return [
        _summed(name, zone, sorted(points), start, end)
        for (name, zone), points in sorted(series.items())
    ]


def _summed(
    name: str, zone: str, points: Sequence[tuple[datetime, float]], start: datetime, end: datetime
) -> SpotPrice:
    since, now = points[-1]
    ends = [moment for moment, _ in points[1:]] + [end]
    held = [
        (price, (min(ended, end) - max(begun, start)).total_seconds())
        for (begun, price), ended in zip(points, ends, strict=True)
    ]
    low, high = (quantile(held, share, now) for share in (LOW, HIGH))
    return SpotPrice(name, zone, now, since.date().isoformat(), min(now, low), max(now, high))


def quantile(held: Iterable[tuple[float, float]], share: float, otherwise: float) -> float:
    """Price below which a series lies for a share of the time.

    Parameters
    ----------
    held
        Prices, each with how long it held; s. Those that held for no time are passed over, and so
        are prices that are none.
    share
        Share of the time.
    otherwise
        Returned for a series that held for no time.

    Examples
    --------
    >>> quantile([(1.0, 60), (2.0, 30), (3.0, 10)], 0.9, 0.0)
    2.0
    """
    ordered = sorted((price, seconds) for price, seconds in held if seconds > 0 and price > 0)
    left = share * sum(seconds for _, seconds in ordered)
    for price, seconds in ordered:
        left -= seconds
        if left <= 1e-9:
            return price
    return ordered[-1][0] if ordered else otherwise
