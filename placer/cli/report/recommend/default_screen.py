"""The default answer of ``placer recommend``: about eighteen lines, one fact each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from placer.advice.recommendation.notes import needed_quotas
from placer.advice.recommendation.price_risk import outlier_prices
from placer.cli.report.recommend.choices import price_words, rented
from placer.cli.report.recommend.figures import (
    COMPRESSION_NAMES,
    in_time_words,
    short_inner_words,
    short_risk_words,
    short_total_words,
    software_words,
)
from placer.cli.report.recommend.proof_words import (
    short_confidence_lines,
    short_doubt_words,
    short_proof_words,
)
from placer.cli.report.recommend.request_words import (
    limits_of,
    model_words,
    objective_words,
    short_batch_words,
)
from placer.cli.report.recommend.sentences import break_even_words, brief, headline, signed_percent
from placer.cost_model.dollars.components import UsdPerHour
from placer.cost_model.estimate import Estimate
from placer.cost_model.limits import joint_use
from placer.cost_model.outlook.outlook import spot_outlook
from placer.cost_model.outlook.totals import (
    LEVEL,
    speed_between,
    speed_number,
    totals_of,
    unmeasured,
)
from placer.market.catalog import VmOffer
from placer.market.checks.outliers import Outlier
from placer.market.words.own_places import own_places
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.report.draw.wrapping import aligned
from placer.solving.answer import Warn
from placer.solving.cross_check import verification_words
from placer.solving.result import Option, OwnOrRented, Result
from placer.units import (
    Interval,
    format_bytes,
    format_duration,
    format_number,
    format_seconds,
    format_usd,
    speed_unit,
)
from placer.workload.island import never_tried

Lines = Iterator[tuple[str, str]]
SAID = ("spot", "estimated-rate", "estimated-price")
"""Warnings whose facts the lines above them have already."""
CENT = 0.005
"""USD/h that are shown as nothing below."""
MOST_GPUS = 2
"""Types of GPUs whose quotas are named one by one."""
ALL = 0.999
"""Share of an exchange that is hidden from which all of it is."""
CENTS_BELOW = 1000
"""USD from which cents are left out of an interval."""
SAME_PRICE = 1e-3
"""A price whose ends are closer together is shown without them."""


def title(result: Result, width: int | None = None) -> tuple[str, str, str]:
    """Return what is rented where, its price, and its speed: as an interval first where it is
    estimated. The provider's names of the machines are left out where a line of the width has no
    room for them.
    """
    placement, got = result.placement, result.estimate
    assert placement is not None
    assert got is not None
    price = f"{format_usd(got.usd_per_hour.total)}/h"
    where = headline(placement)
    if width is not None and len(where) > width:
        where = headline(placement, types=False)
    return where, price, speed_words(got)


def speed_words(got: Estimate) -> str:
    """Write the speed that counts, and the level of its interval: the expected one first where all
    of it was measured, else the interval.

    A language model's is in tokens/s.
    """
    unit = speed_unit(got.tokens_per_sample)
    if unmeasured(got.provenance):
        value = speed_number(got.shown_speed.value, got.provenance)
        return f"{speed_between(got)} {unit} ({LEVEL}; {value} expected)"
    return f"{_speed(got)} ({LEVEL}: {speed_between(got)})"


def _speed(got: Estimate) -> str:
    """Write the speed at equal progress, with as many digits as its basis bears."""
    unit = speed_unit(got.tokens_per_sample)
    return f"{speed_number(got.shown_speed.value, got.provenance)} {unit}"


SHOWN_NOTES = ("renting", "one-pass", "mixing", "bold", "staged")
"""Codes of notes that are lines of the answer."""
LABELS = {"one-pass": "data", "bold": "check"}
"""Labels of such lines where they are not the code."""


def answer_lines(result: Result) -> Lines:
    """Yield the lines below the title, in the order in which they are read."""
    placement, got, problem = result.placement, result.estimate, result.problem
    assert placement is not None
    assert got is not None
    yield "model", asked_words(problem)
    in_time = "" if result.confidence is not None else in_time_words(placement, got, problem)
    for label, text in _estimate_lines(placement, got, problem, in_time):
        if label != "total" or result.confidence is None:  # its plan has time and money of the run
            yield label, text
    yield from _proof_lines(result)
    if result.confidence is not None:
        yield from short_confidence_lines(result.confidence)
    spot = spot_outlook(placement, got, problem)
    yield "risk", short_risk_words(spot, placement, _quota_words(problem, placement))
    yield from _price_risk_lines(result)
    idle = not {*own_places(problem.catalog.changes)} & {*placement.places}
    beside = result.own_machines
    for note in result.notes:
        if note.code == "renting" and beside and beside.rows[1:] and note.message != beside.idle:
            continue  # its machines have a row of their own
        if note.code in SHOWN_NOTES or (note.code == "own" and not idle):
            yield LABELS.get(note.code, note.code), note.message
    if beside is not None:
        yield from _own_lines(beside, problem)


def _proof_lines(result: Result) -> Lines:
    """Yield what is proved, about which plans nothing is, and what a second solver found."""
    yield "proof", short_proof_words(result)
    if result.problem.profile.architecture is not None:
        yield "untried", never_tried(result.problem.profile.architecture)
    if result.confidence is None:
        yield "doubt", standing_words(result)
    if result.verification is not None:
        yield "verified", verification_words(result.verification)


def _own_lines(beside: OwnOrRented, problem: Problem) -> Lines:
    """Yield a table of own machines, own with spot ones and spot ones alone, and the prices at
    which own machines and rented ones cost the same.
    """
    wish = problem.requirements
    each = "sample" if problem.profile.architecture is None else "token"
    head = ("", "USD/h", f"{each}s/s", "total", "machines")
    rows = [head, *(_own_row(row, wish) for row in beside.rows)]
    if wish.samples is None:
        rows = [(*row[:3], row[4]) for row in rows]
    for number, line in enumerate(aligned(rows)):
        yield "" if number else "options", line
    if beside.break_even is not None:
        yield "cheaper", break_even_words(beside.break_even, each)


def _own_row(row: Option, wish: Requirements) -> tuple[str, ...]:
    total = ""
    if wish.samples is not None:
        whole = totals_of(row.estimate, wish)
        total = f"{format_usd(whole.usd.value)} in {format_duration(whole.seconds.value)}"
    return (
        row.label,
        format_usd(row.estimate.usd_per_hour.total),
        speed_between(row.estimate),
        total,
        brief(row.placement, types=False),
    )


def standing_words(result: Result) -> str:
    """Say in one word whether the answer stands, and why it may not: it is open where a speed or a
    price that decides it was not read, likely where a price moves by itself.
    """
    placement, got, problem = result.placement, result.estimate, result.problem
    assert placement is not None
    assert got is not None
    offers = [*rented(placement, problem)]
    known = short_doubt_words(result)
    if not known and (unknown := unmeasured(got.provenance)):
        known = f"speed {' and '.join(dict.fromkeys(unknown.values()))}"
    why = [known] if result.proved else ["not proved", known]
    if any(offer.price_basis == "estimated" for offer in offers):
        prices = price_words(placement, problem)
        why.append(f"the price is {prices}")
    if any(why):
        return f"open: {'; '.join(filter(None, why))}"
    if any(offer.moves for offer in offers):
        return "likely: prices that were read, but move"
    return "firm: prices and speeds were read, and none moves"


def _quota_words(problem: Problem, placement: Placement) -> str:
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


def _estimate_lines(
    placement: Placement, got: Estimate, problem: Problem, in_time: str = ""
) -> Lines:
    """Yield step, plan of the workers, price, and what is due once or in all; ``in_time`` is the
    chance that a deadline is kept, in words.
    """
    yield "step", _step_words(placement, got, problem)
    inside = short_inner_words(placement, problem)
    if inside:
        yield "inside", inside
    if round(got.samples_to_target.value, 2) != 1:
        yield "target", _target_words(got)
    yield "price", _price_words(placement, got, problem)
    if problem.requirements.samples is not None:
        yield "total", short_total_words(got, problem.requirements) + in_time
    for move in got.moves:
        size = f"{format_number(move.samples)} samples from {move.src} to {move.dst}"
        yield "moves", f"{size}, once: {format_usd(move.usd)}, {format_seconds(move.seconds)}"
    if problem.requirements.counts_carbon and got.carbon_g_per_hour is not None:
        yield "carbon", f"{_interval(got.carbon_g_per_hour)} g CO2e/h"


def _target_words(got: Estimate) -> str:
    """Say why the speed that counts is not that of the machines."""
    times = got.samples_to_target
    between = f"{times.low:.2f} to {times.high:.2f} x, {times.basis}"
    return f"effective speed {_speed(got)}: needs {times.words} ({between})"


def advice_lines(result: Result) -> Lines:
    """Yield what else was looked at: simpler tools, several regions, a near miss."""
    others = [option for option in result.baselines if not option.same]
    if others:
        yield "compare", baseline_words(others)
    yield from (("regions", text) for text in _region_words(result))
    yield from (("better", text) for text in result.verdict if text.startswith("Better still"))


def warnings_left(warnings: Iterable[Warn]) -> list[Warn]:
    """Return the warnings that no line of the answer says already."""
    return [warning for warning in warnings if warning.code not in SAID]


def asked_words(problem: Problem) -> str:
    """Echo the request, so that a misread wish is seen."""
    wish = problem.requirements
    parts = [f"{model_words(problem)}, {short_batch_words(problem)}", objective_words(problem)]
    parts += limits_of(problem)
    if wish.data_store:
        size = "data" if wish.data_bytes is None else f"{format_bytes(wish.data_bytes)} of data"
        lies = wish.data_source if wish.copies_data else wish.data_store
        parts.append(f"{size} in {lies}")
    parts += [f"data in {d.place}" for d in wish.datasets]
    if wish.quotas or wish.quota_gpus is not None:
        parts.append(
            "quota file" if wish.quotas else f"quota {wish.quota_gpus} GPUs per region and type"
        )
    return "; ".join(parts)


def _step_words(placement: Placement, got: Estimate, problem: Problem) -> str:
    """Split the seconds of a step, or of a round of local steps."""
    step, exchange = got.step, placement.exchange
    if got.granularity is None:
        return f"{format_seconds(step.total)}, all of it compute: one worker exchanges nothing"
    name = exchange.strategy
    by = [COMPRESSION_NAMES[exchange.compression]]
    if exchange.aggregator is None:
        by.insert(0, software_words(placement, problem))
    hidden = f", {format_seconds(step.hidden)} of it overlapped" if step.hidden else ""
    if step.hidden >= ALL * step.communication:
        hidden = ", all overlapped"
    took = format_seconds(step.total)
    if got.local_steps > 1:
        took = f"{got.local_steps} steps in {took}"
    return (
        f"{took}: {format_seconds(step.calculation)} compute + "
        f"{format_seconds(step.communication)} {name} ({', '.join(by)}){hidden}"
    )


def _price_words(placement: Placement, got: Estimate, problem: Problem) -> str:
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
    parts = [split]
    parts.append(
        f"{format_usd(got.usd_per_million_samples)} per million samples"
        if each is None
        else f"{_usd(each)} per billion tokens"
    )
    return "; ".join([*parts, price_words(placement, problem)])


def _usd(value: float) -> str:
    """Write an amount of which cents do not count where it is large."""
    return format_usd(value) if value < CENTS_BELOW else f"${value:,.0f}"


def _price_risk_lines(result: Result) -> Lines:
    """Yield the price that decides the answer although it is an outlier, or that a plan with
    fallbacks begins with.
    """
    risk = result.price_risk
    if risk is None and result.confidence is not None and result.placement is not None:
        for offer, off in outlier_prices(result.placement, result.problem)[:1]:
            yield "outlier", _outlier_words(offer, off)
    elif risk is not None and risk.outlier is not None and risk.outlier.score < 0:
        words = _outlier_words(risk.offer, risk.outlier)
        yield "outlier", f"{words}; above {format_usd(risk.changes_at)}/h another wins"


def _outlier_words(offer: VmOffer, off: Outlier) -> str:
    below, usually = (f"{100 * (1 - share):.0f} %" for share in (off.share, off.usual.share))
    usd = format_usd(offer.usd_per_hour)
    return f"spot {offer.device} at {usd}/h: {below} below on-demand, usually {usually}"


def baseline_words(options: Sequence[Option]) -> str:
    """Say what simpler tools would choose, the same choice in few words."""
    parts: list[str] = []
    for option in options:
        name = option.label if parts else option.label[:1].upper() + option.label[1:]
        if option.same:
            parts.append(f"{name} tool: the same")
            continue
        usd = option.estimate.usd_per_hour
        note = f" ({option.note})" if option.note else ""
        parts.append(
            f"{name} tool: {brief(option.placement, types=False)}, {_speed(option.estimate)} at a "
            f"true cost of {format_usd(usd.total)}/h{_egress_words(usd)}{note}"
        )
    return "; ".join(parts)


def _region_words(result: Result) -> Iterator[str]:
    """Say whether one region is best, beside the best spread over several."""
    placement, got, other = result.placement, result.estimate, result.spread
    assert placement is not None
    assert got is not None
    if len(placement.places) > 1:
        if result.problem.requirements.min_regions > 1:
            return  # as was asked; the line of the price has the egress
        usd = got.usd_per_hour
        yield (
            f"{len(placement.places)} regions are best; egress is {format_usd(usd.egress)}/h of "
            f"{format_usd(usd.total)}/h"
        )
    elif other is not None:
        usd, speed = other.estimate.usd_per_hour, other.estimate.effective_samples_per_second.value
        faster = f" ({100 * (speed / got.effective_samples_per_second.value - 1):+.0f} %)"
        paid = got.usd_per_hour.total  # 0 for machines that are paid for anyway
        dearer = f" ({100 * (usd.total / paid - 1):+.0f} %)" if paid else ""
        if result.objective.by_speed:
            dearer = ""
        else:
            faster = ""
        count = {2: "two"}.get(len(other.placement.places), str(len(other.placement.places)))
        least, most = ("", "") if other.proved else ("at least ", "at most ")  # a short search
        if result.objective.name == "carbon":
            here, there = result.objective.value(got), result.objective.value(other.estimate)
            more = f" ({signed_percent(there / here - 1)})" if here else ""
            yield f"one is best: {count} emit {most}{format_number(there)} g CO2e/h{more}"
            return
        if result.objective.name == "total":
            here, there = result.objective.value(got), result.objective.value(other.estimate)
            more = f" ({100 * (there / here - 1):+.0f} %)" if here else ""
            yield f"one is best: {count} cost {most}{format_usd(there)} in all{more}"
            return
        speed_least, usd_most = (least, "") if result.objective.by_speed else ("", most)
        yield (
            f"one is best: {count} reach {speed_least}{_speed(other.estimate)}{faster} for "
            f"{usd_most}{format_usd(usd.total)}/h{dearer}{_egress_words(usd)}"
        )


def _egress_words(usd: UsdPerHour) -> str:
    """Say what egress takes of a price where it takes a cent."""
    return "" if usd.egress < CENT else f", {format_usd(usd.egress)}/h of it egress"


def _interval(value: Interval) -> str:
    return (
        f"{format_number(value.value)} ({format_number(value.low)} to {format_number(value.high)})"
    )
