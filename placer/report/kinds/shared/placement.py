"""What a placement given or chosen is, does, costs and risks."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.outlook.totals import LEVEL_WORDS
from placer.report.blocks import Facts, Pair
from placer.report.figures import (
    Document,
    chance,
    exchange_words,
    hours_words,
    percent,
    placement_words,
    price_of_work,
    shown_speed,
    speed_of,
    speed_spread,
    spread_words,
)
from placer.report.kinds.shared.parts import PARTS_OF_PRICE, STEP_PARTS_NOT
from placer.units import format_bytes, format_number, format_seconds, format_usd

MOST_LINKS = 4
"""Links that are listed; the table of the map has all."""
SURE = 0.99
"""A chance per month that is higher says less than the losses an hour."""
SAME_MONTH = 0.01
"""A month's egress that differs less from the hourly rate is not mentioned."""


def figures_of(estimate: Document) -> list[tuple[str, str, str]]:
    """List the key figures of a placement: value, unit and interval."""
    unit = speed_of(estimate)[1]
    price, work = price_of_work(estimate)
    usd = estimate["usd_per_hour_interval"]
    carbon = estimate["carbon_g_per_hour"]
    rows = [
        (shown_speed(estimate), unit, f"{speed_spread(estimate)}, {LEVEL_WORDS}"),
        (format_usd(usd["value"]), "per hour", spread_words(usd, usd=True)),
    ]
    if price is not None:
        rows.append((format_usd(price), work, ""))
    rows.append((format_seconds(estimate["step_seconds"]["total"]), "a step", ""))
    if carbon is not None:
        grams = format_number(carbon["value"] / 1000)
        spread = spread_words({k: carbon[k] / 1000 for k in ("low", "high")})
        rows.append((grams, "kg CO2e per hour", spread))
    return rows


def facts_of(placement: Document, estimate: Document, outlook: Document | None) -> list[Pair]:
    """List what a placement is: its workers, the plan inside them, exchange, step and price."""
    count, offers = placement["worker_count"], _offers(placement)
    rows = [("workers", placement_words(placement), f"{count} in all; {offers}")]
    rows += _hub(placement)
    for group in _machines(placement):
        inner = group.get("inner")
        if inner:
            plan = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in inner.items())
            rows.append(("inside a worker", plan, ""))
    sent = sum(link["bytes_per_step"] for link in estimate["links"])
    exchange, every = (
        exchange_words(placement),
        "exchange" if estimate["local_steps"] > 1 else "step",
    )
    more = [f"{format_bytes(sent)} in all each {every}"] if sent else []
    more += [f"by {placement['transport']}"] if placement.get("transport") else []
    rows.append(("exchange", exchange, ", ".join(more)))
    target = estimate["samples_to_target"]
    if target["value"] != 1:
        rows.append(
            (
                "samples to target",
                f"{target['value']:.2f} x those of synchronous steps",
                f"{target['low']:.2f} to {target['high']:.2f}, {target['basis']}",
            )
        )
    rows += [_step(estimate), _price(estimate)]
    return [*rows, *_links(estimate), *_data(estimate), *_month(outlook)]


def _offers(placement: Document) -> str:
    return ", ".join(dict.fromkeys(group["offer"] for group in _machines(placement)))


def _machines(placement: Document) -> list[Document]:
    """List the machines of each offer, those of later stages too."""
    return [row for group in placement["workers"] for row in (group, *group.get("behind", ()))]


def _hub(placement: Document) -> Iterator[Pair]:
    """Yield where gradients or models meet; nothing for an all-reduce."""
    server = placement.get("server")
    if placement.get("aggregator") is None:
        return
    if server is not None:
        market = str(server["market"]).replace("_", "-")
        words = f"{server['offer']} {market} in {placement['aggregator']}"
        yield "server", words, ""
    elif placement.get("storage") is not None:
        yield "aggregator", str(placement["aggregator"]), f"store {placement['storage']}"
    else:
        yield "hub", str(placement["aggregator"]), ""


def _step(estimate: Document) -> Pair:
    seconds, grain = estimate["step_seconds"], estimate["granularity"]
    steps = estimate["local_steps"]
    whole = format_seconds(seconds["total"])
    if grain is None:
        return "step", f"{whole} of calculation, nothing to exchange", ""
    parts = ", ".join(
        f"{key.replace('_', ' ')} {format_seconds(value)}"
        for key, value in seconds.items()
        if key not in STEP_PARTS_NOT and value
    )
    hidden = f", {format_seconds(seconds['hidden'])} of it overlapped" if seconds["hidden"] else ""
    split = f" ({parts})" if parts else ""
    words = (
        f"{whole}: calculation {format_seconds(seconds['calculation'])}, exchange "
        f"{format_seconds(seconds['communication'])}{split}{hidden}"
    )
    name = "step" if steps == 1 else f"round of {steps} steps"
    return name, words, f"granularity {format_number(grain)}"


def _price(estimate: Document) -> Pair:
    usd = estimate["usd_per_hour"]
    split = ", ".join(f"{name} {format_usd(usd[key])}" for key, name in PARTS_OF_PRICE if usd[key])
    price, work = price_of_work(estimate)
    spread = spread_words(estimate["usd_per_hour_interval"], usd=True)
    words = f"{format_usd(usd['total'])}/h{f' ({spread})' if spread else ''}: {split or 'nothing'}"
    return "price", words, "" if price is None else f"{format_usd(price)} {work}"


def _links(estimate: Document) -> Iterator[Pair]:
    """Yield the links that cost most, and what they carry."""
    paid = [row for row in estimate["links"] if row["from"] != row["to"] or row["usd_per_hour"]]
    for row in sorted(paid, key=lambda row: -row["usd_per_hour"])[:MOST_LINKS]:
        size, cost = format_bytes(row["bytes_per_step"]), f"{format_usd(row['usd_per_hour'])}/h"
        words = f"{row['from']} to {row['to']}: {size} each time, {cost}"
        yield "link", words, f"{row['streams']} streams, {row['basis']}"
    if len(paid) > MOST_LINKS:
        yield "link", f"and {len(paid) - MOST_LINKS} more", ""


def _data(estimate: Document) -> Iterator[Pair]:
    """Yield what has to move once, and what each place does of a step."""
    moves, shares = estimate.get("moves", ()), estimate.get("shares", {})
    for row in moves:
        samples = f"{format_number(row['samples'])} samples from {row['from']} to {row['to']}"
        words = f"{samples}, once: {format_bytes(row['bytes'])}, {format_usd(row['usd'])}"
        yield "moves", words, f"about {format_seconds(row['seconds'])}"
    if moves and len(shares) > 1:
        words = ", ".join(f"{place} {100 * share:.1f} %" for place, share in shares.items())
        yield "shares of a step", words, ""


def _month(outlook: Document | None) -> Iterator[Pair]:
    """Yield a month's egress where volume tiers or free allowances matter."""
    month = (outlook or {}).get("month")
    if month:
        rate, tiers = month["egress_usd_at_rate"], month["egress_usd_with_tiers"]
        if rate - tiers > SAME_MONTH * rate:
            words = f"{format_usd(tiers)} with volume tiers and free allowances"
            yield "egress of 730 hours", words, f"{format_usd(rate)} at the rate of an hour"


def risk_words(spot: Document | None) -> str:
    """Say in few words how spot machines are lost, and how often they launch."""
    if not spot:
        return "none of it spot"
    risk, lost = spot["risk"], 1 - spot["share"]["value"]
    words = f"{percent(spot['chance_per_month'])} of machines reclaimed a month"
    if risk and spot["chance_per_month"] > SURE:
        words = f"a reclaim every {hours_words(1 / risk['losses_per_hour'])}"
    words += f" ({spot['chance_basis']}), speed lost {percent(lost)}"
    if not risk or risk["chance_all"] is None:
        return f"{words}; no capacity {percent(spot['all_lost'])} of the time (assumed)"
    return (
        f"{words}; all {risk['machines']} launch {chance(risk['chance_all']['value'])} of the time"
    )


def spot_facts(document: Document) -> Facts | None:
    """Show what is known of spot machines that are taken away."""
    spot = (document.get("outlook") or {}).get("spot")
    if not spot:
        return None
    expected, unit = _in_tokens(spot["expected_samples_per_second"], document["estimate"])
    rows = [
        (
            "spot machines reclaimed",
            f"{percent(spot['chance_per_month'])} a month",
            str(spot.get("chance_basis", "")),
        ),
        (
            "speed with interruptions",
            f"{format_number(expected['value'])} {unit}",
            speed_spread(document["estimate"], expected),
        ),
        (
            "no spot capacity",
            f"{percent(spot['unavailable'])} of the time in a zone",
            f"all places at once {percent(spot['all_lost'])}",
        ),
    ]
    return Facts(rows=(*rows, *_gang(spot.get("risk"), document["estimate"])))


def _gang(risk: Document | None, estimate: Document) -> list[tuple[str, str, str]]:
    """Show how likely all machines launch together, and how long they stay."""
    if not risk:
        return []
    share, machines = risk["chance_all"], risk["machines"]
    rows = [
        (
            f"all {machines} machines launch" if machines > 1 else "the machine launches",
            "not observed" if share is None else f"{chance(share['value'])} of the time",
            "" if share is None else f"{percent(share['low'])} to {percent(share['high'])}",
        )
    ]
    if risk["median_hours"] is not None:
        time = hours_words(risk["median_hours"])
        rows.append(("half of such gangs lose a machine within", time, risk["stay_basis"]))
    mean, unit = _in_tokens(risk["expected_samples_per_second"], estimate)
    words = f"{format_number(mean['value'])} {unit}"
    return [
        *rows,
        ("average speed over scenarios of capacity", words, speed_spread(estimate, mean)),
    ]


def _in_tokens(speed: Document, estimate: Document) -> tuple[Document, str]:
    """Return a speed of the machines as what counts of it, in the unit of the estimate."""
    (shown, unit), raw = speed_of(estimate), estimate["samples_per_second"]
    return {end: speed[end] * shown[end] / raw[end] for end in ("value", "low", "high")}, unit
