"""What a placement given or chosen is, does, costs and risks."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.convergence import Multiplier
from placer.cost_model.outlook.totals import LEVEL_WORDS
from placer.report.blocks import Facts, Pair, facts
from placer.report.figures import (
    COMPRESSIONS,
    Document,
    chance,
    exchange_words,
    format_speed_of,
    headline,
    hours_words,
    percent,
    price_of_work,
    shown_speed,
    speed_of,
    speed_spread,
    spread_words,
)
from placer.units import (
    format_bytes,
    format_duration,
    format_number,
    format_plain,
    format_seconds,
    format_usd,
)
from placer.workload.inner_plan import InnerPlan

COMPONENTS = ("compute", "egress", "storage", "functions", "data")
"""What an hour is paid for."""
STEP_PARTS_NOT = ("calculation", "communication", "hidden", "total")
SHARDINGS = {
    "none": "plain data parallelism",
    "zero-1": "ZeRO-1",
    "zero-2": "ZeRO-2",
    "zero-3": "ZeRO-3 / FSDP",
    "hybrid": "FSDP inside a machine, replicas over machines",
}
CENT = 0.005
"""USD/h that are shown as nothing below."""
CENTS_BELOW = 1000
"""USD from which cents are left out of an interval."""
SAME_PRICE, SAME_TOTAL = 1e-3, 1e-4
"""A price, or a total, whose ends are closer together is shown without them."""
ALL = 0.999
"""Share of an exchange that is hidden from which all of it is."""
WORTH_A_WORD = 0.03
"""A share of the speed from which a loss is named."""
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


def facts_of(document: Document) -> list[Pair]:
    """List what a placement is: its workers, the plan inside them, exchange, step and price."""
    placement, estimate = document["placement"], document["estimate"]
    machines = [row for group in placement["workers"] for row in (group, *group.get("behind", ()))]
    offers = ", ".join(dict.fromkeys(group["offer"] for group in machines))
    rows = [("workers", headline(placement), f"{placement['worker_count']} in all; {offers}")]
    rows += [("inside", plan_words(row["inner"]), "") for row in machines if row.get("inner")]
    sent = sum(link["bytes_per_step"] for link in estimate["links"])
    exchange = "exchange" if estimate["local_steps"] > 1 else "step"
    more = [f"{format_bytes(sent)} in all each {exchange}"] if sent else []
    more += [f"by {placement['transport']}"] if placement.get("transport") else []
    rows.append(("exchange", exchange_words(placement), ", ".join(more)))
    rows += [*target_facts(estimate)]
    grain, parts = estimate["granularity"], step_parts(estimate)
    small = [f"{name} {format_seconds(seconds)}" for name, seconds in parts]
    small += [] if grain is None else [f"granularity {format_number(grain)}"]
    rows.append(("step", step_words(placement, estimate), ", ".join(small)))
    rows.append(("price", *price_words(estimate)))
    return [*rows, *_moved(estimate), *_month(document.get("outlook"))]


def plan_words(plan: Document) -> str:
    """Describe the plan inside a worker by the names of its parts."""
    inner = InnerPlan(**plan)
    pieces = f" in {inner.virtual_stages} pieces each" if inner.virtual_stages > 1 else ""
    degrees = (
        (inner.tensor_parallel, f"tensor parallel {inner.tensor_parallel}"),
        (inner.pipeline, f"{inner.pipeline} stages{pieces}"),
        (inner.expert_parallel, f"experts over {inner.expert_parallel} GPUs"),
        (inner.context_parallel, f"sequences over {inner.context_parallel} GPUs"),
    )
    parts = [SHARDINGS[inner.sharding], *(words for degree, words in degrees if degree > 1)]
    if inner.checkpointing != "none":
        parts.append(f"{inner.checkpointing} checkpointing")
    parts += [f"microbatch {inner.microbatch}", inner.precision.upper()]
    return ", ".join([*parts, *([inner.software] if inner.software else [])])


def target_facts(estimate: Document) -> Iterator[Pair]:
    """Yield what counts of a speed where more samples are needed than by synchronous steps."""
    times = Multiplier(**estimate["samples_to_target"])
    if round(times.value, 2) != 1:
        between = f"{times.low:.2f} to {times.high:.2f} x, {times.basis}"
        speed = format_speed_of(estimate)
        yield "target", f"effective speed {speed}: needs {times.words} ({between})", ""


def step_words(placement: Document, estimate: Document, software: str = "") -> str:
    """Split the seconds of a step, or of a round of local steps; ``software``: that averages."""
    seconds, steps = estimate["step_seconds"], estimate["local_steps"]
    took, hidden = format_seconds(seconds["total"]), seconds["hidden"]
    if estimate["granularity"] is None:
        return f"{took}, all of it compute: one worker exchanges nothing"
    by = ", ".join(filter(None, (software, COMPRESSIONS[placement["compression"]])))
    overlap = f", {format_seconds(hidden)} of it overlapped" if hidden else ""
    if hidden >= ALL * seconds["communication"]:
        overlap = ", all overlapped"
    if steps > 1:
        took = f"{steps} steps in {took}"
    return (
        f"{took}: {format_seconds(seconds['calculation'])} compute + "
        f"{format_seconds(seconds['communication'])} {placement['exchange']} ({by}){overlap}"
    )


def step_parts(estimate: Document) -> list[tuple[str, float]]:
    """List the parts of an exchange that take time, with their seconds."""
    return [
        (key.replace("_", " "), float(value))
        for key, value in estimate["step_seconds"].items()
        if key not in STEP_PARTS_NOT and value
    ]


def price_words(estimate: Document) -> tuple[str, str]:
    """Split the price of an hour, with its interval; and write that of the work."""
    usd, spread = estimate["usd_per_hour"], estimate["usd_per_hour_interval"]
    low, high = spread["low"], spread["high"]
    only = sum(usd[name] for name in COMPONENTS if name != "compute") < CENT
    split = " + ".join(f"{name} {format_usd(usd[name])}" for name in COMPONENTS if usd[name])
    if high > low * (1 + SAME_PRICE):
        between = f"{_whole_usd(low)} to {_whole_usd(high)}/h"
        split = f"{between}, no egress" if only else f"{split} ({between})"
    elif only:
        split += ", no egress"
    price, work = price_of_work(estimate)
    write = _whole_usd if "usd_per_billion_tokens" in estimate else format_usd
    return split, "" if price is None else f"{write(price)} {work}"


def _whole_usd(value: float) -> str:
    """Write an amount of which cents do not count where it is large."""
    return format_usd(value) if value < CENTS_BELOW else f"${value:,.0f}"


def total_words(document: Document) -> str:
    """Give time and money for all samples, with their intervals, and the start-up; empty where
    nobody says how many samples.
    """
    totals, startup_s = document["totals"], document["request"].get("startup_seconds")
    if not totals:
        return ""
    usd = totals["usd"]
    time, low, high = (format_duration(totals["seconds"][key]) for key in ("value", "low", "high"))
    text = time if low == high else f"{time} ({low} to {high})"
    text += f", {format_usd(usd['value'])}"
    if usd["high"] > usd["low"] * (1 + SAME_TOTAL):
        text += f" ({format_usd(usd['low'])} to {format_usd(usd['high'])})"
    return text + (f"; {format_duration(startup_s)} of it start-up" if startup_s else "")


def move_words(move: Document) -> str:
    """Say what has to move once, in what time and for how much."""
    samples = f"{format_number(move['samples'])} samples from {move['from']} to {move['to']}"
    return f"{samples}, once: {format_usd(move['usd'])}, {format_seconds(move['seconds'])}"


def _moved(estimate: Document) -> Iterator[Pair]:
    """Yield the links that cost most, what has to move once, and what each place does of a step."""
    paid = [row for row in estimate["links"] if row["from"] != row["to"] or row["usd_per_hour"]]
    for row in sorted(paid, key=lambda row: -row["usd_per_hour"])[:MOST_LINKS]:
        size, cost = format_bytes(row["bytes_per_step"]), f"{format_usd(row['usd_per_hour'])}/h"
        words = f"{row['from']} to {row['to']}: {size} each time, {cost}"
        yield "link", words, f"{row['streams']} streams, {row['basis']}"
    if len(paid) > MOST_LINKS:
        yield "link", f"and {len(paid) - MOST_LINKS} more", ""
    moves, shares = estimate.get("moves", ()), estimate.get("shares", {})
    yield from (("moves", move_words(row), format_bytes(row["bytes"])) for row in moves)
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
    """Say how spot machines are lost and launch; empty without any."""
    if not spot:
        return ""
    risk, lost = spot["risk"], 1 - spot["share"]["value"]
    often = f"{format_number(100 * spot['chance_per_month'])} % reclaimed a month"
    if risk and spot["chance_per_month"] > SURE:
        often = f"a reclaim every {hours_words(1 / risk['losses_per_hour'])}"
    if lost >= WORTH_A_WORD:
        often += f" (-{100 * lost:.0f} % speed)"
    if not risk:
        gone = f"{format_plain(100 * spot['all_lost'], 2)} %"
        return f"{often}; no capacity {gone} of the time (assumed)"
    if risk["chance_all"] is None:
        return f"{often}; launch of {risk['machines']} not observed"
    few = {1: "it launches", 2: "both launch"}
    subject = few.get(risk["machines"], f"all {risk['machines']} launch")
    assumed = " (assumed)" if any(row["basis"] == "assumed" for row in risk["stocks"]) else ""
    return f"{often}; {subject} {chance(risk['chance_all']['value'])} of the time{assumed}"


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
    return facts(*rows, *_gang(spot.get("risk"), document["estimate"]))


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
