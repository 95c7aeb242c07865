"""The default answer of ``placer recommend``: about eighteen lines, one fact each."""

from __future__ import annotations

from collections.abc import Iterator

from placer.advice.recommendation.notes import needed_quotas
from placer.advice.recommendation.price_risk import outlier_prices
from placer.cli.report.placements import (
    brief,
    confidence_lines,
    headline,
    inner_words,
    market_words,
    own_lines,
    price_words,
    proof_words,
    software_words,
    standing_words,
)
from placer.cli.report.request import asked_words
from placer.cost_model.dollars import UsdPerHour
from placer.cost_model.estimate import Estimate
from placer.cost_model.limits import joint_use
from placer.cost_model.outlook.outlook import SpotOutlook, spot_outlook
from placer.cost_model.outlook.totals import (
    LEVEL,
    speed_between,
    speed_number,
    totals_of,
    unmeasured,
)
from placer.market.books.defended_figures import Outlier
from placer.market.catalog import VmOffer
from placer.market.words.own_places import own_places
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.report.figures import chance, hours_words
from placer.solving.answer import Warn
from placer.solving.cross_check import verification_words
from placer.solving.result import Option, Result
from placer.units import (
    format_duration,
    format_number,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
    speed_unit,
)
from placer.workload.island import never_tried

Lines = Iterator[tuple[str, str]]
SAID = ("spot", "estimated-rate", "estimated-price")
"""Warnings whose facts the lines above them have already."""
SHOWN_NOTES = ("renting", "one-pass", "mixing", "bold", "staged")
"""Codes of notes that are lines of the answer."""
LABELS = {"one-pass": "data", "bold": "check"}
"""Labels of such lines where they are not the code."""
CENT = 0.005
"""USD/h that are shown as nothing below."""
MOST_GPUS = 2
"""Types of GPUs whose quotas are named one by one."""
ALL = 0.999
"""Share of an exchange that is hidden from which all of it is."""
CENTS_BELOW = 1000
"""USD from which cents are left out of an interval."""
SAME_PRICE, SAME_TOTAL = 1e-3, 1e-4
"""A price, or a total, whose ends are closer together is shown without them."""
COMPRESSION_NAMES = {
    "none": "FP32",
    "fp16": "FP16",
    "int8": "INT8",
    "int4": "INT4",
    "sparse": "1.56 % of the values",
}
SURE = 0.99
"""A chance per month that is higher says less than the losses an hour."""
WORTH_A_WORD = 0.03
"""A share of the speed from which a loss is named."""


def title(result: Result, width: int) -> tuple[str, str]:
    """Return what is rented where, and its price and speed: as an interval first where it is
    estimated. The provider's names of the machines are left out where a line of the width has no
    room for them.
    """
    placement, got = result.placement, result.estimate
    assert placement is not None
    assert got is not None
    where = headline(placement)
    if len(where) > width:
        where = headline(placement, types=False)
    return where, f"{format_usd(got.usd_per_hour.total)}/h   {_speed_level(got)}"


def _speed_level(got: Estimate) -> str:
    """Write the speed that counts: the interval first where not all of it was measured."""
    if not unmeasured(got.provenance):
        return f"{_speed(got)} ({LEVEL}: {speed_between(got)})"
    value = speed_number(got.shown_speed.value, got.provenance)
    unit = speed_unit(got.tokens_per_sample)
    return f"{speed_between(got)} {unit} ({LEVEL}; {value} expected)"


def _speed(got: Estimate) -> str:
    """Write the speed at equal progress, with as many digits as its basis bears."""
    unit = speed_unit(got.tokens_per_sample)
    return f"{speed_number(got.shown_speed.value, got.provenance)} {unit}"


def answer_lines(result: Result) -> Lines:
    """Yield the lines below the title, in the order in which they are read."""
    placement, got, problem = result.placement, result.estimate, result.problem
    assert placement is not None
    assert got is not None
    plan = result.confidence
    yield "model", asked_words(problem)
    yield from _estimate_lines(placement, got, problem)
    if problem.requirements.samples is not None and plan is None:  # else it has time and money
        in_time = _in_time(placement, got, problem)
        yield "total", f"{_total(got, problem.requirements)}{in_time}"
    yield from _once_lines(got, problem)
    yield "proof", proof_words(result)
    if problem.profile.architecture is not None:
        yield "untried", never_tried(problem.profile.architecture)
    if plan is None:
        yield "doubt", standing_words(result)
    if result.verification is not None:
        yield "verified", verification_words(result.verification)
    if plan is not None:
        yield from confidence_lines(plan)
    spot = spot_outlook(placement, got, problem)
    yield "risk", _risk(spot, placement, _quota(problem, placement))
    yield from _price_risk_lines(result)
    yield from _note_lines(result, placement)
    if result.own_machines is not None:
        yield from own_lines(result.own_machines, problem)
    others = [option for option in result.baselines if not option.same]
    if others:
        yield "compare", _baselines(others)
    yield from (("regions", text) for text in _regions(result, placement, got))
    yield from (("better", text) for text in result.verdict if text.startswith("Better still"))


def _estimate_lines(placement: Placement, got: Estimate, problem: Problem) -> Lines:
    """Yield step, plan of the workers, samples to target and price."""
    yield "step", _step(placement, got, problem)
    inside = inner_words(placement, problem)
    if inside:
        yield "inside", inside
    times = got.samples_to_target
    if round(times.value, 2) != 1:
        between = f"{times.low:.2f} to {times.high:.2f} x, {times.basis}"
        yield "target", f"effective speed {_speed(got)}: needs {times.words} ({between})"
    yield "price", _price(placement, got, problem)


def _once_lines(got: Estimate, problem: Problem) -> Lines:
    """Yield what moves once, and emissions."""
    for move in got.moves:
        size = f"{format_number(move.samples)} samples from {move.src} to {move.dst}"
        yield "moves", f"{size}, once: {format_usd(move.usd)}, {format_seconds(move.seconds)}"
    grams = got.carbon_g_per_hour
    if problem.requirements.counts_carbon and grams is not None:
        value, low, high = map(format_number, (grams.value, grams.low, grams.high))
        yield "carbon", f"{value} ({low} to {high}) g CO2e/h"


def _note_lines(result: Result, placement: Placement) -> Lines:
    idle = not {*own_places(result.problem.catalog.changes)} & {*placement.places}
    beside = result.own_machines
    for note in result.notes:
        if note.code == "renting" and beside and beside.rows[1:] and note.message != beside.idle:
            continue  # its machines have a row of their own
        if note.code in SHOWN_NOTES or (note.code == "own" and not idle):
            yield LABELS.get(note.code, note.code), note.message


def warning_lines(result: Result) -> list[tuple[str, str]]:
    """Return the warnings that no line of the answer says already."""
    left: list[Warn] = [warning for warning in result.warnings if warning.code not in SAID]
    return [("warning", warning.message) for warning in left]


def _step(placement: Placement, got: Estimate, problem: Problem) -> str:
    """Split the seconds of a step, or of a round of local steps."""
    step, exchange = got.step, placement.exchange
    took = format_seconds(step.total)
    if got.granularity is None:
        return f"{took}, all of it compute: one worker exchanges nothing"
    by = COMPRESSION_NAMES[exchange.compression]
    if exchange.aggregator is None:
        by = f"{software_words(placement, problem)}, {by}"
    hidden = f", {format_seconds(step.hidden)} of it overlapped" if step.hidden else ""
    if step.hidden >= ALL * step.communication:
        hidden = ", all overlapped"
    if got.local_steps > 1:
        took = f"{got.local_steps} steps in {took}"
    return (
        f"{took}: {format_seconds(step.calculation)} compute + "
        f"{format_seconds(step.communication)} {exchange.strategy} ({by}){hidden}"
    )


def _price(placement: Placement, got: Estimate, problem: Problem) -> str:
    """Split the price, and say how it is known."""
    usd, range_, each = got.usd_per_hour, got.usd_per_hour_interval, got.usd_per_billion_tokens
    names = ("compute", "egress", "storage", "functions", "data")
    paid = [(name, getattr(usd, name)) for name in names]
    only = sum(value for name, value in paid if name != "compute") < CENT
    split = " + ".join(f"{name} {format_usd(value)}" for name, value in paid if value)
    if range_.high > range_.low * (1 + SAME_PRICE):
        between = f"{_usd(range_.low)} to {_usd(range_.high)}/h"
        split = f"{between}, no egress" if only else f"{split} ({between})"
    elif only:
        split += ", no egress"
    work = f"{format_usd(got.usd_per_million_samples)} per million samples"
    if each is not None:
        work = f"{_usd(each)} per billion tokens"
    return f"{split}; {work}; {price_words(placement, problem)}"


def _usd(value: float) -> str:
    """Write an amount of which cents do not count where it is large."""
    return format_usd(value) if value < CENTS_BELOW else f"${value:,.0f}"


def _total(got: Estimate, wish: Requirements) -> str:
    """Give time and money for all samples, with their intervals, and the start-up."""
    totals = totals_of(got, wish)
    time, usd = totals.seconds, totals.usd
    text, (low, high) = format_duration(time.value), map(format_duration, (time.low, time.high))
    if low != high:
        text += f" ({low} to {high})"
    text += f", {format_usd(usd.value)}"
    if usd.high > usd.low * (1 + SAME_TOTAL):
        text += f" ({format_usd(usd.low)} to {format_usd(usd.high)})"
    return text + (f"; {format_duration(wish.startup_s)} of it start-up" if wish.startup_s else "")


def _in_time(placement: Placement, got: Estimate, problem: Problem) -> str:
    """Say how likely the deadline is kept; nothing where the speed alone decides it."""
    deadline_s = problem.requirements.deadline_s
    if deadline_s is None:
        return ""
    from placer.advice.confidence.choice import chance_in_time  # few questions need it

    share = chance_in_time(placement, got, problem)
    if share is None:
        return ""
    return f"; {format_plain(100 * share, 2)} % within {format_duration(deadline_s)}"


def _risk(spot: SpotOutlook | None, placement: Placement, quota: str) -> str:
    """Say how spot machines are lost and launch, with the quota that is needed: ``32 L4``."""
    market = "none of it spot" if spot is None else market_words(placement)
    head = f"{market}, quota {quota}" if quota else market
    if spot is None:
        return head
    risk, lost = spot.risk, 1 - spot.share.value
    often = f"{format_number(100 * spot.chance_per_month)} % reclaimed a month"
    if risk is not None and spot.chance_per_month > SURE:
        often = f"a reclaim every {hours_words(1 / risk.losses_per_hour)}"
    if lost >= WORTH_A_WORD:
        often += f" (-{100 * lost:.0f} % speed)"
    if risk is None:
        gone = f"{format_plain(100 * spot.all_lost, 2)} %"
        return f"{head}; {often}; no capacity {gone} of the time (assumed)"
    if risk.chance_all is None:
        return f"{head}; {often}; launch of {risk.machines} not observed"
    few = {1: "it launches", 2: "both launch"}
    subject = few.get(risk.machines, f"all {risk.machines} launch")
    assumed = " (assumed)" if any(s.basis == "assumed" for s in risk.stocks) else ""
    return f"{head}; {often}; {subject} {chance(risk.chance_all.value)} of the time{assumed}"


def _quota(problem: Problem, placement: Placement) -> str:
    """Count the GPUs for which an account needs a quota, by type; else say how full the fullest
    quota of vCPUs is. Empty if few and none.
    """
    rows = [row for row in problem.requirements.quotas if row.vcpus is not None]
    taken = [(used, row) for row in rows if (used := joint_use(row, placement, problem))]
    gpus: dict[str, int] = {}
    for (_, gpu, _), count in needed_quotas(problem, placement).items():
        gpus[gpu] = gpus.get(gpu, 0) + count
    if len(gpus) > MOST_GPUS:
        return f"{sum(gpus.values()):,} GPUs of {len(gpus)} types"
    if taken and not gpus:
        used, row = max(taken, key=lambda pair: pair[0] / pair[1].most)
        return f"{used} of {row.most} vCPUs"
    return ", ".join(f"{count} {gpu}" for gpu, count in gpus.items())


def _price_risk_lines(result: Result) -> Lines:
    """Yield the outlier among prices that decides the answer, or that a plan begins with."""
    risk = result.price_risk
    if risk is None and result.confidence is not None and result.placement is not None:
        for offer, off in outlier_prices(result.placement, result.problem)[:1]:
            yield "outlier", _outlier(offer, off)
    elif risk is not None and risk.outlier is not None and risk.outlier.score < 0:
        words = _outlier(risk.row, risk.outlier)
        yield "outlier", f"{words}; above {format_usd(risk.changes_at_usd_per_hour)}/h another wins"


def _outlier(offer: VmOffer, off: Outlier) -> str:
    below, usually = (f"{100 * (1 - share):.0f} %" for share in (off.share, off.usual.share))
    usd = format_usd(offer.usd_per_hour)
    return f"spot {offer.device} at {usd}/h: {below} below on-demand, usually {usually}"


def _baselines(options: list[Option]) -> str:
    parts: list[str] = []
    for option in options:
        name = option.label if parts else option.label[:1].upper() + option.label[1:]
        usd = option.estimate.usd_per_hour
        note = f" ({option.note})" if option.note else ""
        parts.append(
            f"{name} tool: {brief(option.placement)}, {_speed(option.estimate)} at a "
            f"true cost of {format_usd(usd.total)}/h{_egress(usd)}{note}"
        )
    return "; ".join(parts)


def _regions(result: Result, placement: Placement, got: Estimate) -> Iterator[str]:
    """Say whether one region is best, beside the best spread over several."""
    other, objective, usd = result.spread, result.objective, got.usd_per_hour
    if len(placement.places) > 1:
        if result.problem.requirements.min_regions <= 1:  # else as asked: the price has the egress
            paid = f"{format_usd(usd.egress)}/h of {format_usd(usd.total)}/h"
            yield f"{len(placement.places)} regions are best; egress is {paid}"
        return
    if other is None:
        return
    count = {2: "two"}.get(len(other.placement.places), str(len(other.placement.places)))
    least, most = ("", "") if other.proved else ("at least ", "at most ")  # a short search
    if objective.name in ("carbon", "total"):
        here, there = objective.value(got), objective.value(other.estimate)
    if objective.name == "carbon":
        more = f" ({_signed(there / here - 1)})" if here else ""
        yield f"one is best: {count} emit {most}{format_number(there)} g CO2e/h{more}"
        return
    if objective.name == "total":
        more = f" ({100 * (there / here - 1):+.0f} %)" if here else ""
        yield f"one is best: {count} cost {most}{format_usd(there)} in all{more}"
        return
    theirs, faster, dearer = other.estimate.usd_per_hour, "", ""
    if objective.by_speed:
        speed = other.estimate.effective_samples_per_second.value
        faster = f" ({100 * (speed / got.effective_samples_per_second.value - 1):+.0f} %)"
        most = ""
    else:
        least = ""
        if usd.total:  # 0 for machines that are paid for anyway
            dearer = f" ({100 * (theirs.total / usd.total - 1):+.0f} %)"
    yield (
        f"one is best: {count} reach {least}{_speed(other.estimate)}{faster} for "
        f"{most}{format_usd(theirs.total)}/h{dearer}{_egress(theirs)}"
    )


def _egress(usd: UsdPerHour) -> str:
    """Say what egress takes of a price where it takes a cent."""
    return "" if usd.egress < CENT else f", {format_usd(usd.egress)}/h of it egress"


def _signed(share: float) -> str:
    """Write a change as a signed percentage with three digits."""
    percent = abs(100 * share)
    figure = format_number(percent) if percent < 100 else f"{percent:,.0f}"
    return f"{'-' if share < 0 else '+'}{figure} %"


def change_words(option: Option) -> str:
    """Say what fits after one change of a question that nothing meets."""
    got = option.estimate
    speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
    sure = "" if option.proved else " (not proved)"
    price = f"{format_usd(got.usd_per_hour.total)}/h"
    return f"With {option.note}: {brief(option.placement, types=True)}, {speed} for {price}{sure}."
