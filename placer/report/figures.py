"""Figures of documents in words: placements, speeds, prices, ages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from itertools import groupby
from typing import Any

from placer.cost_model.outlook.totals import speed_number
from placer.market.catalog import worker_name
from placer.units import format_number, format_usd, parse_date
from placer.workload.inner_plan import InnerPlan

Document = Mapping[str, Any]
"""A JSON document or a part of one."""
MARKETS = {"on_demand": "on-demand", "spot": "spot", "community": "community"}
GROUP = re.compile(
    r"(?P<place>[\w.-]+/[\w.-]+)=(?P<count>\d+)x(?:(?P<machines>\d+)x)?(?P<gpu>[A-Za-z][\w.-]*)"
    r"(?::(?P<gpus>\d+))?:(?P<market>[a-z][a-z-]+)(?:\+[\w.=+-]*\w)?(?![\w~=])"
)
"""A group as it is given on a command line, but a chain."""
COUNTS = {"count": "count", "machines": "machines", "gpu_count": "gpus"}
"""Fields of a group, and where `GROUP` finds them."""
DEVICE = re.compile(r"(?<![\w:=])(?P<gpu>[A-Z][\w-]*\d[\w-]*):(?P<gpus>\d+)(?![\w:])")
DAYS_PER_YEAR = 365.25
DAYS_PER_MONTH = 30.44
MINUTES = 60
HOURS_PER_DAY = 24
SHORTEST_H, LONGEST_H = 1.0, 72.0
"""Below, a time is given in minutes, above in days."""
COMPRESSIONS = {
    "none": "FP32",
    "fp16": "FP16",
    "int8": "INT8",
    "int4": "INT4",
    "sparse": "1.56 % of the values",
}
OWN = "own machine"
"""Name of the type of machines of one's own, which are of no market."""


def devices_words(group: Document) -> str:
    """Write how many of which device, as in ``8 x (4 x L4)``; islands name their machines."""
    return f"{group['count']} x {_machines_words(group)}"


def _machines_words(group: Document) -> str:
    gpus, machines = group["gpu_count"], group.get("machines", 1)
    one = group["gpu"] if gpus == 1 else f"{gpus} x {group['gpu']}"
    if machines > 1:
        one = f"{machines} machines of {one}"
    return one if one == group["gpu"] else f"({one})"


def market_words(group: Document) -> str:
    """Write the market of a group."""
    return MARKETS.get(group["market"], str(group["market"]))


def placement_words(placement: Document, *, types: bool = False) -> str:
    """Write all workers of a placement, those of one place and market together; ``types``: with the
    provider's names for the machines.

    >>> group = dict(count=8, gpu="L4", gpu_count=4, market="spot", place="aws/ap-south-1")
    >>> placement_words({"workers": [group]})
    '8 x (4 x L4) spot in aws/ap-south-1'
    """
    parts = []
    for (market, place), rows in groupby(
        placement["workers"], lambda group: (market_words(group), group["place"])
    ):
        groups = [*rows]
        each = " + ".join(map(devices_words, groups))
        kind = "" if all(group.get("offer") == OWN for group in groups) else f" {market}"
        named = f" ({', '.join(group['offer'] for group in groups)})" if types else ""
        behind = (
            f", then {_machines_words(part)} {market_words(part)} in {part['place']}"
            for group in groups
            for part in group.get("behind", ())
        )
        parts.append(f"{each}{kind} in {place}{named}{''.join(behind)}")
    return " + ".join(parts)


def headline(placement: Document, *, types: bool = False) -> str:
    """Name the machines of a placement, and where a central exchange runs."""
    return ", ".join(filter(None, (placement_words(placement, types=types), _hub(placement))))


def _hub(placement: Document) -> str:
    """Say where gradients or models meet; empty for an all-reduce."""
    aggregator, storage = placement.get("aggregator"), placement.get("storage")
    server = placement.get("server")
    if aggregator is None:
        return ""
    if storage is not None:
        return f"aggregator in {aggregator['place']}, store in {storage['place']}"
    if server is None:
        return f"hub in {aggregator['place']}"
    return f"server {server['offer']} {market_words(server)} in {aggregator['place']}"


def exchange_words(placement: Document) -> str:
    """Write how gradients are exchanged: name, steps between exchanges, compression."""
    if placement["exchange"] == "none":
        return "no exchange (one worker)"
    steps = placement["local_steps"]
    every = "" if steps == 1 else f" every {steps} steps"
    return f"{placement['exchange']}{every}, {COMPRESSIONS.get(placement['compression'], '')}"


def spoken(text: str) -> str:
    """Put groups and devices that stand in a sentence as on a command line into words; a plan
    inside a worker is left out.

    >>> spoken("gcp/us-west1=11xT4:spot reaches 650 samples/s; RTX3090:8 is not measured.")
    '11 x T4 spot in gcp/us-west1 reaches 650 samples/s; 8 x RTX3090 is not measured.'
    >>> spoken("aws/us-east-1=1x6xA10G:4:spot+zero-3+ckpt=full+mb=11 is dearer.")
    '1 x (6 machines of 4 x A10G) spot in aws/us-east-1 is dearer.'
    """

    def group(found: re.Match[str]) -> str:
        numbers = {name: int(found[key] or 1) for name, key in COUNTS.items()}
        return placement_words({"workers": [{**found.groupdict(), **numbers}]})

    def device(found: re.Match[str]) -> str:
        one = int(found["gpus"]) == 1
        return found["gpu"] if one else f"{found['gpus']} x {found['gpu']}"

    return DEVICE.sub(device, GROUP.sub(group, text))


def spec(group: Document) -> str:
    """Write a group as it is given on a command line, an island with its machines and plan."""
    behind = "".join(f"~{row['place']}={_machines_spec(row)}" for row in group.get("behind", ()))
    return f"{group['place']}={group['count']}x{_machines_spec(group)}{behind}"


def _machines_spec(group: Document) -> str:
    plan = group.get("inner")
    inner = "" if plan is None else InnerPlan(**plan).spec
    name = worker_name(group["gpu"], group["gpu_count"], group.get("machines", 1))
    return f"{name}:{market_words(group)}{inner}"


def speed_of(estimate: Document) -> tuple[Document, str]:
    """Return the speed that counts towards the target, with its interval, and its unit: tokens of a
    language model.
    """
    speed = estimate["effective_samples_per_second"]
    each = tokens_per_sample(estimate)
    if each is None:
        return speed, "samples/s"
    return {end: each * speed[end] for end in ("value", "low", "high")}, "tokens/s"


def speed_spread(estimate: Document, speed: Document | None = None) -> str:
    """Write the ends of the speed of an estimate, or of one that follows from it, with as many
    digits as the terminal: three where nobody measured it; empty where they are the same.
    """
    ends, known = speed or speed_of(estimate)[0], estimate.get("provenance", ())
    low, high = (speed_number(ends[end], known) for end in ("low", "high"))
    return "" if low == high else f"{low} to {high}"


def tokens_per_sample(estimate: Document) -> float | None:
    """Return the tokens of a sequence of a language model; None for other models."""
    if "tokens_per_second" not in estimate:
        return None
    return float(
        round(estimate["tokens_per_second"]["value"] / estimate["samples_per_second"]["value"])
    )


def shown_speed(estimate: Document) -> str:
    """Write the speed that counts, with as many digits as its basis bears."""
    return speed_number(speed_of(estimate)[0]["value"], estimate.get("provenance", ()))


def format_speed_of(estimate: Document) -> str:
    """Write the speed that counts, with its unit."""
    return f"{shown_speed(estimate)} {speed_of(estimate)[1]}"


def price_of_work(estimate: Document) -> tuple[float | None, str]:
    """Return what a million samples or a billion tokens cost, and the words of that unit."""
    if "usd_per_billion_tokens" in estimate:
        return estimate["usd_per_billion_tokens"], "per billion tokens"
    return estimate["usd_per_million_samples"], "per million samples"


def spread_words(interval: Document, *, usd: bool = False) -> str:
    """Write the ends of an interval; empty where they round to the same.

    >>> spread_words({"low": 3272.6, "high": 13878.2})
    '3,273 to 13,878'
    """
    write = format_usd if usd else format_number
    low, high = write(interval["low"]), write(interval["high"])
    return "" if low == high else f"{low} to {high}"


def percent(share: float, *, signed: bool = False) -> str:
    """Write a share in per cent with the digits that count.

    >>> percent(0.001), percent(0.4567), percent(0.123, signed=True)
    ('0.1 %', '46 %', '+12 %')
    """
    value = 100 * share
    size = abs(value)
    digits = 0 if size >= 10 or value == 0 else 1 if size >= 0.095 else 2
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    return ("0" if text in {"+0.00", "-0.00", "0.00", "+0", "-0"} else text) + " %"


def age_words(as_of: str, today: date) -> str:
    """Write how old a figure is; empty without a date.

    >>> age_words("2023-05-12", date(2026, 11, 23)), age_words("2026-11-20", date(2026, 11, 23))
    ('3.5 years', '3 days')
    """
    if not as_of:
        return ""
    days = max(0, (today - parse_date(as_of, "as_of")).days)
    if days < 2 * DAYS_PER_MONTH:
        return f"{days} day{'' if days == 1 else 's'}"
    if days < 2 * DAYS_PER_YEAR:
        return f"{days / DAYS_PER_MONTH:.0f} months"
    return f"{days / DAYS_PER_YEAR:.1f} years"


def hours_words(hours: float) -> str:
    """Write a time, such as ``28 min``, ``4 h`` or ``34 days``."""
    if hours > LONGEST_H:
        return f"{hours / HOURS_PER_DAY:,.0f} days"
    if hours < SHORTEST_H:
        return f"{hours * MINUTES:.0f} min"
    return f"{hours:,.0f} h" if hours >= 3 else f"{hours:.1f} h"


def chance(share: float) -> str:
    """Write a chance in whole percent; none is certain."""
    return "> 99 %" if share > 0.995 else "< 1 %" if share < 0.005 else f"{100 * share:.0f} %"
