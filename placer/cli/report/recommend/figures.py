"""One estimate in words: speed, exchange, step, price, links, data, spot, month."""

from __future__ import annotations

from placer.cli.report.recommend.inner_words import inner_lines, software_words
from placer.cli.report.recommend.risk_words import (
    floor_parts,
    interruption_parts,
    market_words,
    risk_words,
)
from placer.cli.report.recommend.sentences import hub_words
from placer.cost_model.estimate import Estimate, LinkUse, pool_of
from placer.cost_model.exchange_bases import sum_words
from placer.cost_model.outlook.outlook import month_outlook, spot_outlook
from placer.cost_model.outlook.shown_speed import LEVEL_WORDS, speed_between, speed_number
from placer.cost_model.outlook.totals import totals_of
from placer.cost_model.timing.lanes import DIRECT
from placer.problem.data.data_shares import Move
from placer.problem.exchange import traits
from placer.problem.exchange.streaming_diloco import fragments
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.units import (
    format_bandwidth,
    format_bytes,
    format_duration,
    format_number,
    format_plain,
    format_seconds,
    format_speed,
    format_tokens,
    format_usd,
)

COMPRESSION_NAMES = {
    "none": "FP32",
    "fp16": "FP16",
    "int8": "INT8",
    "int4": "INT4",
    "sparse": "1.56 % of the values",
}
SAME_PRICE = 1e-4
"""A price whose ends are closer together is shown without them."""
SAME_MONTH = 0.01
"""A month's egress that differs less from the hourly rate is not mentioned."""
MOST_LINKS = 4
"""Links that are listed; --json lists all."""


def figures(placement: Placement, got: Estimate, problem: Problem) -> list[tuple[str, str]]:
    """Build pairs of a name and its words, in the order in which they are read."""
    lines = [("speed", _speed_words(got))]
    if placement.workers > 1:
        lines.append(("exchange", _exchange_words(placement, got, problem)))
    lines += [("inside", text) for text in inner_lines(placement, problem)]
    if round(got.samples_to_target.value, 2) != 1:
        lines.append(("target", target_words(got)))
    lines += [("step", _step_words(got)), ("price", _price_words(got))]
    if problem.requirements.samples is not None:
        total = total_words(got, problem.requirements)
        lines.append(("total", total + in_time_words(placement, got, problem)))
    lines.append(("carbon", _carbon_words(got)))
    paid = [use for use in got.links if use.src != use.dst or use.usd_per_hour > 0]
    lines += [
        ("link", _link_words(use, got.local_steps, problem))
        for use in sorted(paid, key=lambda u: -u.usd_per_hour)[:MOST_LINKS]
    ]
    if len(paid) > MOST_LINKS:
        lines.append(("link", f"and {len(paid) - MOST_LINKS} more (--json lists all)"))
    return lines + _data_lines(placement, got, problem) + _outlook_lines(placement, got, problem)


def _speed_words(got: Estimate) -> str:
    """Give the speed with its interval: in tokens, and in sequences, for a language model."""
    value = speed_number(got.shown_speed.value, got.provenance)
    spread = f"{speed_between(got)}, {LEVEL_WORDS}; "
    if got.tokens_per_sample is None:
        return f"{value} samples/s ({spread}from {_bases(got)} rates)"
    sequences = format_number(got.effective_samples_per_second.value)
    return f"{value} tokens/s ({spread}{sequences} sequences/s; from {_bases(got)} rates)"


def total_words(got: Estimate, wish: Requirements) -> str:
    """Give time and money for all samples, with their intervals."""
    samples = wish.samples or 0
    count = (
        f"{samples:,} samples"
        if got.tokens_per_sample is None
        else f"{format_tokens(samples * got.tokens_per_sample)} ({samples:,} sequences)"
    )
    time, usd = _totals(got, wish)
    return f"{count}: {time}, {usd[0]} in total{usd[1]}{_started(wish)}"


def short_total_words(got: Estimate, wish: Requirements) -> str:
    """Give time and money for all samples, with their intervals, without the samples."""
    time, usd = _totals(got, wish)
    return f"{time}, {''.join(usd)}{_started(wish)}"


def in_time_words(placement: Placement, got: Estimate, problem: Problem) -> str:
    """Say how likely the deadline is kept; nothing where the speed alone decides it."""
    deadline_s = problem.requirements.deadline_s
    if deadline_s is None:
        return ""
    from placer.advice.confidence.choice import chance_in_time  # few questions need it

    chance = chance_in_time(placement, got, problem)
    if chance is None:
        return ""
    return f"; {format_plain(100 * chance, 2)} % within {format_duration(deadline_s)}"


def _started(wish: Requirements) -> str:
    """Say how much of the time machines take to start."""
    return f"; {format_duration(wish.startup_s)} of it start-up" if wish.startup_s else ""


def _totals(got: Estimate, wish: Requirements) -> tuple[str, tuple[str, str]]:
    """Return the time with its interval, and the money and its interval."""
    totals = totals_of(got, wish)
    time, usd = totals.seconds, totals.usd
    took, between = format_duration(time.value), ""
    if format_duration(time.low) != format_duration(time.high):
        took += f" ({format_duration(time.low)} to {format_duration(time.high)})"
    if usd.high > usd.low * (1 + SAME_PRICE):
        between = f" ({format_usd(usd.low)} to {format_usd(usd.high)})"
    return took, (format_usd(usd.value), between)


def _carbon_words(got: Estimate) -> str:
    """Say what the machines emit, by the grid of their places."""
    carbon = got.carbon_g_per_hour
    if carbon is None:
        return "not known: the grid of a place or the power of a device is not published"
    spread = f"{format_number(carbon.low)} to {format_number(carbon.high)}"
    return (
        f"{format_number(carbon.value)} g CO2e/h ({spread}; grid of the place, load and host "
        f"assumed; network and making left out)"
    )


def _data_lines(placement: Placement, got: Estimate, problem: Problem) -> list[tuple[str, str]]:
    """Say where the data is read, what each region does of it, and what has to move."""
    lines = [("moves", _move_words(move, problem.requirements.passes)) for move in got.moves]
    if problem.requirements.datasets:
        lines.append(
            (
                "shares",
                ", ".join(f"{place} {100 * share:.1f} %" for place, share in got.shares)
                + " of each step",
            )
        )
    store, size = problem.requirements.data_store, problem.profile.bytes_per_sample
    if store is not None and size is not None:
        passes = got.data_passes
        reads = size * (
            got.samples_per_second.value if passes is None else passes.first_samples_per_second
        )
        hourly = f"{format_bytes(reads * 3600)} an hour ({format_bandwidth(reads)})"
        when = _pass_words(placement, got, problem)
        lines.append(("data", f"{format_bytes(size)} a sample, {hourly} from {store}, {when}"))
    return lines


def _pass_words(placement: Placement, got: Estimate, problem: Problem) -> str:
    """Say how often the data is read from its store, and what is assumed of later passes."""
    assert problem.data_reads is not None
    _, times, size, cache = problem.data_reads
    passes, length = got.data_passes, got.tokens_per_sample
    if passes is not None:
        first, later = (
            format_speed(speed, length)
            for speed in (passes.first_samples_per_second, passes.later_samples_per_second)
        )
        others = any(not pool_of(group, problem).keeps_data for group in placement.groups)
        anew = ", while the others read anew" if others else ""
        return (
            f"in the first of {times:,.3g} passes: {first}; then {later} from the local disks of "
            f"{', '.join(passes.kept_by)}{anew} (assumed; other figures average all passes)"
        )
    if times <= 1:
        wish = problem.requirements
        known = wish.samples is not None and wish.data_bytes is not None
        more = "--passes says" if wish.data_bytes else "--passes and --data-size say"
        return "in one pass" if known else f"in one pass, or anew in each (assumed: {more} more)"
    held = "" if size is None else f" of {format_bytes(size)}"
    why = "as asked" if cache == "none" else f"assumed: no local disk{held} is known to be faster"
    return f"read anew in each of {times:,.3g} passes ({why})"


def _link_words(use: LinkUse, local_steps: int, problem: Problem) -> str:
    """Give bytes, streams, bandwidth and price of one directed pair of places."""
    link = problem.network.link(use.src, use.dst)
    where = f"between zones of {use.src}" if use.src == use.dst else f"{use.src} to {use.dst}"
    streams = (
        f"{use.streams} stream{'s' if use.streams > 1 else ''} of "
        f"{format_bandwidth(link.bytes_per_second)}"
    )
    every = f"every {local_steps} steps" if local_steps > 1 else "a step"
    return (
        f"{where}: {format_bytes(use.bytes_per_step)} {every} over {streams} ({use.basis}), "
        f"{format_usd(use.usd_per_hour)}/h"
    )


def target_words(got: Estimate) -> str:
    """Say what speed is left at equal progress, where more samples are needed than in synchronous
    FP32.
    """
    times = got.samples_to_target
    unit = "samples/s" if got.tokens_per_sample is None else "tokens/s"
    speed = f"{speed_number(got.shown_speed.value, got.provenance)} {unit} ({speed_between(got)})"
    return (
        f"effective speed {speed}: needs {times.words} "
        f"({times.low:.2f} to {times.high:.2f} x, {times.basis})"
    )


def _move_words(move: Move, passes: float) -> str:
    """Say what the move of a dataset costs, once, and how that enters the price per hour."""
    size, took = format_bytes(move.bytes), format_seconds(move.seconds)
    text = (
        f"{format_number(move.samples)} samples from {move.src} to {move.dst}, once: {size}, "
        f"{format_usd(move.usd)}, about {took}"
    )
    over = "one pass" if passes == 1 else f"{passes:g} passes"
    return f"{text}; in the price per hour spread over {over} of the data (--passes)"


def _outlook_lines(placement: Placement, got: Estimate, problem: Problem) -> list[tuple[str, str]]:
    """List spot interruptions and the month's egress, where they matter."""
    spot, month, lines = (
        spot_outlook(placement, got, problem),
        month_outlook(placement, got, problem),
        [],
    )
    if spot is not None:
        length = got.tokens_per_sample
        if spot.risk is not None:
            lines.append(("risk", risk_words(spot.risk, length)))
        lost = [*interruption_parts(spot), *floor_parts(spot, length)]
        if spot.risk is None:
            lost.append(
                f"no capacity {format_plain(100 * spot.all_lost, 2)} % of the time, "
                f"{100 * spot.unavailable:g} % in each zone (assumed)"
            )
        elif problem.requirements.unavailable is not None:
            lost.append(
                f"no capacity {100 * spot.unavailable:g} % of the time in each zone (given)"
            )
        lines.append(("losses", f"{market_words(placement)}: {'; '.join(lost)}"))
    if (
        month.egress_usd_at_rate - month.egress_usd_with_tiers
        > SAME_MONTH * month.egress_usd_at_rate
    ):
        tiers, plain = format_usd(month.egress_usd_with_tiers), format_usd(month.egress_usd_at_rate)
        lines.append(
            (
                "month",
                (
                    f"730 hours of egress come to {tiers} with volume tiers and free allowances, "
                    f"{plain} at the rate above"
                ),
            )
        )
    return lines


def _exchange_words(placement: Placement, got: Estimate, problem: Problem) -> str:
    exchange, sent = placement.exchange, sum(use.bytes_per_step for use in got.links)
    every = f"every {exchange.local_steps} steps" if exchange.local_steps > 1 else "a step"
    text = (
        f"{exchange.strategy}, {COMPRESSION_NAMES[exchange.compression]}, {format_bytes(sent)} "
        f"{every} in all"
    )
    if traits(exchange.strategy).transport in DIRECT:
        text += f", by {software_words(placement, problem)} inside a zone"
    if exchange.streams > 1:
        text += f", {exchange.streams} streams a pair"
    if traits(exchange.strategy).always_overlaps:
        text += f", in {fragments(exchange.local_steps)} fragments during the steps"
    elif exchange.overlap:
        text += ", overlapping the next step"
    if exchange.aggregator is None or exchange.storage is None:
        text += hub_words(placement).replace(",", ";", 1)
        summing = sum_words(exchange, problem)
        return f"{text}, {summing}" if summing else text
    function, store = problem.function(exchange.aggregator), problem.catalog.store(exchange.storage)
    text += (
        f"; aggregator {function.function} in {function.place} "
        f"({exchange.aggregator_memory_gib:g} GiB)"
    )
    return text + f", store {store.store} in {store.place}"


def _step_words(got: Estimate) -> str:
    step = got.step
    if got.granularity is None:
        return f"{format_seconds(step.total)} of calculation, no exchange"
    parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in step.parts)
    hidden = f" - overlap {format_seconds(step.hidden)}" if step.hidden else ""
    rounds = f" for a round of {got.local_steps} steps" if got.local_steps > 1 else ""
    return (
        f"{format_seconds(step.total)}{rounds} = calculation {format_seconds(step.calculation)} + "
        f"communication "
        f"{format_seconds(step.communication)} ({parts}){hidden}; granularity "
        f"{got.granularity:.2f}"
    )


def _price_words(got: Estimate) -> str:
    usd = got.usd_per_hour
    parts = [(n, getattr(usd, n)) for n in ("compute", "egress", "storage", "functions", "data")]
    text = ", ".join(
        f"{name} {format_usd(value)}"
        for name, value in parts
        if value or name in ("compute", "egress")
    )
    range_ = got.usd_per_hour_interval
    spread = (
        f" ({format_usd(range_.low)} to {format_usd(range_.high)})"
        if range_.high > range_.low * (1 + SAME_PRICE)
        else ""
    )
    price = got.usd_per_billion_tokens
    each = (
        f"{format_usd(got.usd_per_million_samples)} per million samples"
        if price is None
        else f"{format_usd(price)} per billion tokens"
    )
    return f"{format_usd(usd.total)}/h{spread} = {text}; {each}"


def _bases(got: Estimate) -> str:
    """List how the speeds are known; the worst basis comes last."""
    speeds = [line.split(": ")[1] for line in got.provenance if line.startswith("speed on ")]
    return " and ".join(dict.fromkeys(speeds))
