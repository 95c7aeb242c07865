"""Readers of the table of wishes: from the words of a wish to the fields of `Requirements`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from placer.errors import PlacerError, unknown
from placer.market.carbon import parse_carbon
from placer.market.catalog import Catalog
from placer.market.words.money import in_dollars
from placer.market.words.selection import devices_of, patterns_of, words
from placer.problem.exchange import traits
from placer.problem.placement import LARGEST_ISLAND
from placer.problem.question import MOST_KNOWN_LOCAL_STEPS
from placer.problem.requirements import ALL_REGIONS, EXCHANGES, NO_COPY, OBJECTIVES
from placer.problem.shares import AREAS, ShareLimit
from placer.problem.words.data import parse_datasets, parse_kept, parse_multipliers, store_named
from placer.problem.words.machines import parse_used, quota_gpus, quotas_of, read_quotas
from placer.problem.words.wishes import Wish
from placer.units import (
    parse_budget,
    parse_bytes,
    parse_count,
    parse_date,
    parse_fraction,
    parse_range,
    parse_rate,
    parse_seconds,
    parse_tokens,
)
from placer.workload.constants import RINGS

MOST_LOCAL_STEPS = 100_000
"""More local steps are a slip of the keyboard."""
MOST_DAYS = 36_500
"""Prices older than a century are a slip of the keyboard."""
MOST_SHARE = 0.99
EXPECTED = "expected"
"""The usual objective on average over scenarios of spot capacity."""
MOST_SURE = 0.9999
"""More is not seen in a thousand scenarios."""


class Reading(Struct, frozen=True, kw_only=True):
    """A wish with what its words are read against: the catalog, and the other words."""

    wish: Wish
    catalog: Catalog
    words: Mapping[str, Any] = field(default_factory=dict)


Reader = Callable[[Any, Reading], Any]
"""Returns the value of the field of a wish; of several fields their values."""


def read_wish(
    wish: Wish, value: object, catalog: Catalog, words: Mapping[str, Any]
) -> dict[str, Any]:
    """Read the words of one wish as fields of `Requirements`, against a catalog and the other
    words: ``samples`` decides what a budget is, ``exchange`` what an aggregator is.
    """
    read = READERS[wish.reader](value, Reading(wish=wish, catalog=catalog, words=words))
    return dict(zip(wish.fields, read if len(wish.fields) > 1 else [read], strict=True))


def _flag(value: str | bool, asked: Reading) -> bool:
    if isinstance(value, bool):
        return value
    if value not in ("yes", "no"):
        raise unknown(asked.wish.word, value, ["yes", "no"])
    return value == "yes"


def _mixed(value: str | bool, asked: Reading) -> bool:
    transport = asked.words.get("transport") or asked.catalog.transport
    return not _flag(value, asked) and transport in RINGS  # hivemind divides a step by speed


def _supply(value: str, asked: Reading) -> int | None:
    return None if value == "any" else parse_count(value, asked.wish.word)


def _number(value: str, asked: Reading) -> float:
    try:
        return float(value)
    except ValueError:
        raise PlacerError(
            f"{asked.wish.word} '{value}' is not a number",
            "write how often the data is read, such as 3",
        ) from None


def _local_steps(value: str, asked: Reading) -> tuple[object, ...]:
    low, high = parse_range(value, "local-steps", MOST_KNOWN_LOCAL_STEPS)
    if high > MOST_LOCAL_STEPS:
        raise PlacerError(
            f"local-steps '{value}' is above {MOST_LOCAL_STEPS:,}",
            "give the optimizer steps between exchanges",
        )
    return low, high


def _batch(value: str, asked: Reading) -> tuple[object, ...]:
    low, dots, high = value.partition("..")
    if value.strip().endswith(("tok", "tokens")):
        if dots:
            raise PlacerError(
                f"tbs '{value}' is a range in tokens", "write one batch as 4Mtok, or 256..1024"
            )
        return None, None, parse_tokens(value, "tbs")
    if not dots:
        return parse_count(low, "tbs"), None, None
    if not (low.strip() and high.strip()):
        raise PlacerError(f"tbs '{value}' has an open end", "write a range of batches as 8K..64K")
    return None, (parse_count(low, "tbs"), parse_count(high, "tbs")), None


def _zones(value: str, asked: Reading) -> bool:
    if value not in ("one", "spread"):
        raise unknown("zones", value, ["one", "spread"])
    return value == "one"


def _oldest_price(value: str, asked: Reading) -> str:
    days = parse_seconds(value) / 86400
    if days > MOST_DAYS:
        raise PlacerError(
            f"max-price-age '{value}' is more than {MOST_DAYS:,} days", "write it as 30d"
        )
    return (date.today() - timedelta(days=days)).isoformat()


def _quotas(value: str | Mapping[Any, int], asked: Reading) -> tuple[object, ...]:
    if isinstance(value, Mapping):
        return quotas_of(value, asked.catalog), None
    if re.fullmatch(r"[+-]?[0-9]+", value):
        return (), quota_gpus(value, "quota")
    return read_quotas(Path(value), asked.catalog), None


def _data(value: str | Iterable[str], asked: Reading) -> tuple[object, ...]:
    given = words(value, "data") if value else []
    placed = [word for word in given if "=" in word and "://" not in word]
    stores = [word for word in given if word not in placed]
    if len(stores) > 1 or (stores and placed):
        raise PlacerError(
            f"data '{', '.join(stores)}' together with other data",
            "name one store, or datasets as PLACE=SAMPLES:stay, without commas in numbers",
        )
    store = store_named(stores[0], asked.catalog).place if stores else None
    return store, parse_datasets(placed, asked.catalog)


def _aggregator(value: str, asked: Reading) -> tuple[object, ...]:
    catalog, exchange = asked.catalog, asked.words.get("exchange", "auto")
    if exchange == "auto" or traits(exchange).hub == "function":
        place = catalog.function(value).place
    else:
        place = catalog.region(value).place
    return place, catalog.function(value).function if "@" in value else None


def _exchange(value: str, asked: Reading) -> str:
    """Read an exchange; places of an aggregator or a store ask for a central one."""
    aggregator, storage = asked.words.get("aggregator"), asked.words.get("storage")
    if value not in EXCHANGES:
        raise unknown("exchange", value, EXCHANGES)
    hub = "function" if value == "auto" else traits(value).hub
    if (not hub and aggregator is not None) or (hub != "function" and storage is not None):
        what = "store" if hub else "aggregator and no store"
        raise PlacerError(
            f"the exchange {value} has no {what}",
            "leave out --aggregator and --storage, or use --exchange central",
        )
    if hub != "function" or (value == "auto" and aggregator is None and storage is None):
        return value
    if not (asked.catalog.functions and asked.catalog.stores):
        missing = "stores" if asked.catalog.functions else "functions"
        named = "central" if value == "auto" else value
        raise PlacerError(
            f"catalog '{asked.catalog.name}' has no {missing}, so the exchange {named} cannot run",
            "use --exchange all-reduce, or another catalog",
        )
    return "central" if value == "auto" else value


def default_objective(given: Mapping[str, Any]) -> str:
    """Choose cost where a floor or a deadline is given and no budget."""
    floor = given.get("min_throughput") or given.get("deadline")
    return _cost(given) if floor and not given.get("budget") else "throughput"


def _cost(given: Mapping[str, Any]) -> str:
    """Name what ``cost`` means: USD in all where a job has an end, as of plans with fallbacks."""
    return "total" if _ends(given) else "cost"


def _ends(given: Mapping[str, Any]) -> bool:
    return any(given.get(word) is not None for word in ("samples", "tokens"))


def _startup(value: str, asked: Reading) -> float:
    """Read the paid time until machines work, which counts where a job has an end."""
    seconds = 0.0 if re.fullmatch(r"0+(\.0+)?\s*[a-z]*", value.strip()) else parse_seconds(value)
    return seconds if _ends(asked.words) else 0.0


def _objective(value: str, asked: Reading) -> tuple[object, ...]:
    """Read an objective; ``expected`` is the usual one on average over scenarios of capacity."""
    if value == EXPECTED:
        return default_objective(asked.words), True
    if value not in OBJECTIVES:
        raise unknown("objective", value, OBJECTIVES)
    return _cost(asked.words) if value == "cost" else value, False


def _shares(value: str | Iterable[str], asked: Reading) -> tuple[ShareLimit, ...]:
    limits = []
    for word in words(value, "max-share") if value else ():
        share, slash, area = word.partition("/")
        if slash and area not in AREAS:
            raise unknown("area", area, AREAS)
        part = parse_fraction(share, "max-share", 1.0)
        limits.append(ShareLimit(share=part, area=area or "region"))
    return tuple(limits)


READERS: Mapping[str, Reader] = {
    "aggregator": _aggregator,
    "batch": _batch,
    "budget": lambda value, asked: read_budget(
        value, asked.words.get("samples") or asked.words.get("tokens")
    ),
    "bytes": lambda value, asked: parse_bytes(value),
    "carbon": lambda value, asked: parse_carbon(value),
    "confidence": lambda value, asked: parse_fraction(value, asked.wish.word, MOST_SURE),
    "count": lambda value, asked: parse_count(value, asked.wish.word),
    "data": _data,
    "deadline": lambda value, asked: read_deadline(value),
    "exchange": _exchange,
    "flag": _flag,
    "mixed": _mixed,
    "floor": lambda value, asked: parse_fraction(value, asked.wish.word, 1.0),
    "gpus": lambda value, asked: devices_of(value, asked.catalog),
    "island_machines": lambda value, asked: parse_range(value, asked.wish.word, LARGEST_ISLAND),
    "kept": lambda value, asked: parse_kept(words(value, "keep"), asked.catalog) if value else (),
    "local_steps": _local_steps,
    "market": lambda value, asked: value.replace("-", "_"),
    "multipliers": lambda value, asked: (
        parse_multipliers(words(value, "samples to target")) if value else ()
    ),
    "number": _number,
    "objective": _objective,
    "oldest_price": _oldest_price,
    "places": lambda value, asked: patterns_of(value, asked.catalog),
    "quotas": _quotas,
    "rate": lambda value, asked: parse_rate(value),
    "regions": lambda value, asked: parse_range(value, "regions", ALL_REGIONS),
    "seconds": lambda value, asked: parse_seconds(value),
    "startup": _startup,
    "shares": _shares,
    "share": lambda value, asked: parse_fraction(value, asked.wish.word, MOST_SHARE),
    "store": lambda value, asked: store_named(value, asked.catalog).place,
    "supply": _supply,
    "source": lambda value, asked: (
        value if value == NO_COPY else store_named(value, asked.catalog).place
    ),
    "text": lambda value, asked: value,
    "tokens": lambda value, asked: parse_tokens(value, asked.wish.word),
    "used": lambda value, asked: (
        parse_used(words(value, "use"), asked.catalog) if value != () else ()
    ),
    "workers": lambda value, asked: parse_range(value),
    "zones": _zones,
}
"""Readers by the name that the rows of the table give."""


TOTAL = re.compile(
    r"(?P<amount>[0-9,]*\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?)\s*(?:usd)?\s*(?:total|in total)?",
    re.IGNORECASE,
)


def read_budget(
    text: str, samples: str | int | None
) -> tuple[float | None, float | None, str | None]:
    """Read a budget as (USD per hour, USD in total, exchange rate), one of the first two None: a
    rate such as ``5/h`` or ``5EUR/h``; or, beside a number of samples, a total such as ``$200`` or
    ``200 total``. Without samples an amount alone could be either, and is refused.

    >>> read_budget("$1,200 total", "10M"), read_budget("200", "10M"), read_budget("5/h", "10M")
    ((None, 1200.0, None), (None, 200.0, None), (5.0, None, None))
    """
    written, rate = in_dollars(text)
    said = None if rate is None else f"{text.strip()} at {rate.words}"
    return (*_read_dollars(written, samples), said)


def _read_dollars(text: str, samples: str | int | None) -> tuple[float | None, float | None]:
    match = TOTAL.fullmatch(text.strip().removeprefix("$").strip())
    if (
        samples is None
        or match is None
        or not re.fullmatch(
            r"[0-9]{1,3}(,[0-9]{3})*(\.[0-9]*)?|[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?",
            match["amount"],
        )
    ):
        return parse_budget(text), None
    if float(match["amount"].replace(",", "")) <= 0:
        raise PlacerError(f"budget '{text}' must be above zero", "give a positive amount")
    return None, parse_budget(f"{match['amount'].replace(',', '')}/h")


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
LEAST_S = 60.0
"""Seconds of a deadline that is less than a minute away."""


def read_deadline(text: str, now: datetime | None = None) -> float:
    """Read a time such as ``12h``, or the day by whose end it is over (a day of the week or a date;
    it ends at midnight UTC), as seconds from now. `PlacerError` if that is over.

    >>> wednesday = datetime(2026, 11, 25, 18, tzinfo=UTC)
    >>> [read_deadline(text, wednesday) / 3600 for text in ("12h", "friday", "2026-11-25")]
    [12.0, 54.0, 6.0]
    >>> read_deadline("wednesday", datetime(2026, 11, 25, 23, 59, 59, tzinfo=UTC))  # at least
    60.0
    """
    day = text.strip().lower()
    moment = now or datetime.now(UTC)
    if day in WEEKDAYS:
        last = moment.date() + timedelta(days=(WEEKDAYS.index(day) - moment.weekday()) % 7)
    elif re.fullmatch(r"\d{4}-\d{2}-\d{2}", day):
        last = parse_date(day, "deadline")
    else:
        return parse_seconds(text)
    # The day after 9999-12-31 is none, but the time until its end is one.
    left = (datetime.combine(last, time(), UTC) - moment + timedelta(days=1)).total_seconds()
    if left <= 0:
        raise PlacerError(f"deadline {day} is over", "give a day to come, or a time such as 36h")
    return max(LEAST_S, left - left % 60)
