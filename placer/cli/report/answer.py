"""The default answer of ``placer recommend``: about eighteen lines, one fact each."""

from __future__ import annotations

from collections.abc import Iterator

from placer.advice.recommendation.notes import needed_quotas
from placer.advice.recommendation.price_risk import outlier_prices
from placer.cli.report.placements import (
    brief,
    confidence_lines,
    inner_words,
    market_words,
    price_bases,
    proof_words,
    software_words,
    standing_words,
)
from placer.cli.report.request import asked_words
from placer.cost_model.dollars import UsdPerHour
from placer.cost_model.estimate import Estimate
from placer.cost_model.limits import joint_use
from placer.cost_model.outlook.totals import LEVEL, speed_between, speed_number, unmeasured
from placer.documents.result_parts import placement_document
from placer.market.books.defended_figures import Outlier
from placer.market.catalog import VmOffer
from placer.market.words.own_places import own_places
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.report.figures import Document, headline
from placer.report.kinds.shared.placement import (
    CENT,
    move_words,
    price_words,
    risk_words,
    step_words,
    target_facts,
    total_words,
)
from placer.solving.cross_check import verification_words
from placer.solving.result import Option, Result
from placer.units import (
    format_duration,
    format_number,
    format_plain,
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
MOST_GPUS = 2
"""Types of GPUs whose quotas are named one by one."""


def title(result: Result, width: int) -> tuple[str, str]:
    """Return what is rented where, and its price and speed: as an interval first where it is
    estimated. The provider's names of the machines are left out where a line of the width has no
    room for them.
    """
    placement, got = result.placement, result.estimate
    assert placement is not None
    assert got is not None
    written = placement_document(placement, result.problem)
    where = headline(written, types=True)
    if len(where) > width:
        where = headline(written)
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
    plan, document = result.confidence, result.to_dict()
    yield "model", asked_words(problem)
    yield from _estimate_lines(placement, document, problem)
    if document["totals"] and plan is None:  # else it has time and money
        yield "total", f"{total_words(document)}{_in_time(placement, got, problem)}"
    yield from (("moves", move_words(move)) for move in document["estimate"]["moves"])
    grams = got.carbon_g_per_hour
    if problem.requirements.counts_carbon and grams is not None:
        value, low, high = map(format_number, (grams.value, grams.low, grams.high))
        yield "carbon", f"{value} ({low} to {high}) g CO2e/h"
    yield "proof", proof_words(result)
    if problem.profile.architecture is not None:
        yield "untried", never_tried(problem.profile.architecture)
    if plan is None:
        yield "doubt", standing_words(result)
    if result.verification is not None:
        yield "verified", verification_words(result.verification)
    if plan is not None:
        yield from confidence_lines(document)
    yield "risk", _risk(document, placement, _quota(problem, placement))
    yield from _price_risk_lines(result)
    yield from _note_lines(result, placement)
    if result.own_machines is not None and result.own_machines.break_even is not None:
        from placer.report.kinds.result import break_even_words  # few questions need it

        yield "cheaper", break_even_words(document)
    others = [option for option in result.baselines if not option.same]
    if others:
        yield "compare", _baselines(others, problem)
    yield from (("regions", text) for text in _regions(result, placement, got))
    yield from (("better", text) for text in result.verdict if text.startswith("Better still"))


def _estimate_lines(placement: Placement, document: Document, problem: Problem) -> Lines:
    """Yield step, plan of the workers, samples to target and price."""
    estimate, software = document["estimate"], ""
    if placement.exchange.aggregator is None:
        software = software_words(placement, problem)
    yield "step", step_words(document["placement"], estimate, software)
    inside = inner_words(placement, problem)
    if inside:
        yield "inside", inside
    yield from ((label, words) for label, words, _ in target_facts(estimate))
    yield "price", "; ".join((*price_words(estimate), price_bases(placement, problem)))


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
    return [("warning", one.message) for one in result.warnings if one.code not in SAID]


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


def _risk(document: Document, placement: Placement, quota: str) -> str:
    """Say how spot machines are lost and launch, with the quota that is needed: ``32 L4``."""
    risk = risk_words(document["outlook"]["spot"])
    market = market_words(placement) if risk else "none of it spot"
    head = f"{market}, quota {quota}" if quota else market
    return f"{head}; {risk}" if risk else head


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


def _baselines(options: list[Option], problem: Problem) -> str:
    parts: list[str] = []
    for option in options:
        name = option.label if parts else option.label[:1].upper() + option.label[1:]
        usd = option.estimate.usd_per_hour
        note = f" ({option.note})" if option.note else ""
        parts.append(
            f"{name} tool: {brief(option.placement, problem)}, {_speed(option.estimate)} at a "
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


def change_words(option: Option, problem: Problem) -> str:
    """Say what fits after one change of a question that nothing meets."""
    got = option.estimate
    speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
    sure = "" if option.proved else " (not proved)"
    price = f"{format_usd(got.usd_per_hour.total)}/h"
    machines = brief(option.placement, problem, types=True)
    return f"With {option.note}: {machines}, {speed} for {price}{sure}."
