"""Prices as a provider's interface gives them, and the checks that each must pass before it becomes
an offer.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from statistics import median

from placer.market.checks.doubts import ABSURD, OLDEST_YEAR, is_slip
from placer.market.sources.harvest import Origin, Row
from placer.market.sources.scope import Scope, Shape

SPOT_DAYS = 90
"""EC2 keeps 90 days of spot prices; one that is older is not what is asked for today."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """One price of one machine.

    Parameters
    ----------
    since
        First day of the price; None where the interface does not say.
    zone
        Where a spot price is asked for by zone: the cheapest zone that passes the checks becomes
        the offer.
    low, high
        10 % and 90 % quantile of the last 30 days; USD/h.
    """

    region: str
    instance_type: str
    shape: Shape
    market: str
    usd_per_hour: float
    source: str
    since: date | None = None
    zone: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What an offer is found by."""
        return self.region, self.instance_type, self.market


@dataclass(frozen=True, kw_only=True, slots=True)
class Gathered:
    """What an interface gave: prices, documents, what was left out by reason, sentences, and
    regions that failed with their error.
    """

    quotes: Sequence[Quote]
    origins: Sequence[Origin]
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


def price_of(text: object) -> float:
    """Read a price; NaN for anything that is no number, which `fault` refuses."""
    try:
        return (
            float(text)
            if isinstance(text, str | int | float) and not isinstance(text, bool)
            else math.nan
        )
    except (ValueError, OverflowError):
        return math.nan


def day_of(text: object) -> date | None:
    """Read the day of a time stamp such as ``2025-01-01T00:00:00Z``; None for anything else."""
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


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
    """Turn prices into rows of offers.csv.

    Returns
    -------
    tuple[list[Row], dict[str, int], list[str]]
        Rows in the order of places; what was left out by reason; notes with those of the source.
    """
    left_out = Counter(gathered.left_out)
    usual = _usual(gathered.quotes, scope)
    best: dict[tuple[str, str, str], Quote] = {}
    for quote in gathered.quotes:
        why = fault(quote, usual, today)
        if why:
            left_out[why] += 1
        elif quote.key not in best:
            best[quote.key] = quote
        else:
            best[quote.key] = _preferred(best[quote.key], quote)
    rows = [_row(best[key], scope, today) for key in sorted(best)]
    return (
        rows,
        {why: count for why, count in sorted(left_out.items()) if count},
        [*gathered.notes, *_dear_spot(best, scope)],
    )


def fault(quote: Quote, usual: Mapping[tuple[str, str], float], today: date) -> str:
    """Say why a price is refused; empty if it is not.

    Parameters
    ----------
    quote
        The price.
    usual
        Median price of one device by (device, market); USD/h.
    today
        The day of the refresh.
    """
    price, kind = quote.usd_per_hour, f"{quote.market.replace('_', '-')} price"
    if not math.isfinite(price):
        return f"{kind} is not a number"
    if price <= 0:
        return f"{kind} is zero or less"
    if quote.since is not None and quote.since > today:
        return f"{kind} takes effect only in the future"
    if quote.since is not None and quote.since.year < OLDEST_YEAR:
        return f"{kind} is dated before {OLDEST_YEAR}"
    if quote.zone and quote.since is not None and (today - quote.since).days > SPOT_DAYS:
        return f"{kind} is older than {SPOT_DAYS} days"
    each, middle = price / quote.shape.gpu_count, usual[quote.shape.gpu, quote.market]
    if is_slip(each, middle):
        return (
            f"{kind} is {ABSURD:,.0f} times {'above' if each > middle else 'below'} the median "
            f"of its device"
        )
    return ""


def _usual(quotes: Sequence[Quote], scope: Scope) -> dict[tuple[str, str], float]:
    """Return the medians of the shipped book; of the answer itself for devices that the book does
    not rent.
    """
    own: dict[tuple[str, str], list[float]] = defaultdict(list)
    for quote in quotes:
        if math.isfinite(quote.usd_per_hour) and quote.usd_per_hour > 0:
            own[quote.shape.gpu, quote.market].append(quote.usd_per_hour / quote.shape.gpu_count)
    return {key: median(prices) for key, prices in own.items()} | dict(scope.usd_per_device)


def _preferred(one: Quote, other: Quote) -> Quote:
    """Take the cheaper of two zones; else the newer price, and of two of one day the dearer: never
    too cheap.
    """
    if one.zone and other.zone:
        return min(one, other, key=lambda q: (q.usd_per_hour, q.zone))
    return max(one, other, key=lambda q: (q.since or date.min, q.usd_per_hour))


def _row(quote: Quote, scope: Scope, today: date) -> Row:
    band = scope.interruptions.get(quote.key, (None, None))
    return {
        "provider": scope.provider,
        "region": quote.region,
        "instance_type": quote.instance_type,
        "gpu": quote.shape.gpu,
        "gpu_count": quote.shape.gpu_count,
        "vcpus": quote.shape.vcpus,
        "memory_gib": quote.shape.memory_gib,
        "market": quote.market,
        "usd_per_hour": round(quote.usd_per_hour, 6),
        "usd_per_hour_low": None if quote.low is None else round(quote.low, 6),
        "usd_per_hour_high": None if quote.high is None else round(quote.high, 6),
        "price_basis": "list",
        "available": None,
        "network_gbps": quote.shape.network_gbps,
        "fabric": quote.shape.fabric,
        "max_island_machines": quote.shape.max_island_machines,
        "local_disk_gb": quote.shape.local_disk_gb,
        "interruption_low": band[0],
        "interruption_high": band[1],
        "source": quote.source
        if band[1] is None
        else f"{quote.source}; interruptions of the shipped book",
        "as_of": today.isoformat(),
    }


def _dear_spot(best: Mapping[tuple[str, str, str], Quote], scope: Scope) -> list[str]:
    dear = [
        f"{scope.provider}/{region} {name}"
        for region, name, market in sorted(best)
        if market == "spot"
        and (region, name, "on_demand") in best
        and best[region, name, market].usd_per_hour > best[region, name, "on_demand"].usd_per_hour
    ]
    if not dear:
        return []
    more = f" and {len(dear) - 3} more" if len(dear) > 3 else ""
    return [f"spot costs more than on-demand: {', '.join(dear[:3])}{more}"]
