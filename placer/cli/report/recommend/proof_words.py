"""What is proved of an answer, what is not certain, and what a plan with fallbacks reaches."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cli.report.recommend.sentences import brief, headline, machines_words
from placer.cost_model.outlook.totals import speed_between, unmeasured
from placer.records import replace
from placer.report.figures import hours_words
from placer.solving.confident_plan import ConfidentPlan, Rank, tail_share
from placer.solving.result import Option, Result
from placer.units import (
    Interval,
    counted,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
    is_wide,
    speed_unit,
)


def proof_words(result: Result) -> str:
    """Say in one line what is proved."""
    asked = result.problem
    if result.older is not None:  # its bound is on prices of every age
        asked = replace(asked, requirements=replace(asked.requirements, oldest_price=None))
    admitted = len({id(pool.offer) for pool in asked.pools})
    over = f"over {counted(admitted, 'offer')}"
    took = f"({format_seconds(result.seconds)})"
    known = unmeasured(result.estimate.provenance) if result.estimate is not None else {}
    bases = " and ".join(dict.fromkeys(known.values())) or "measured"
    if result.confidence is not None:
        return _confident_words(result, result.confidence)
    if result.status == "optimal" and result.gap is not None:
        text = f"optimal {over}" if result.gap == 0 else f"optimal within {_gap(result.gap)} {over}"
        beyond = any(warning.code == "extrapolated" for warning in result.warnings)
        doubt = "; averaging times beyond what was measured" if beyond else ""
        return f"{text} {took}; speeds {bases}{doubt}"
    if result.older is not None and result.gap is not None:
        worse = f"at most {_gap(result.gap)} from the best {over}"
        return f"{worse}, which is {result.older.note} {took}; speeds {bases}"
    staged = any(note.code == "staged" for note in result.notes)
    if result.status == "feasible" and staged and result.gap is not None:
        stores = "with the data in any store"
        return f"at most {_gap(result.gap)} from the best {over}, {stores} {took}; speeds {bases}"
    if result.status == "feasible":
        tried = f"best of {result.candidates:,} that were tried"
        return f"not proved: {tried} {took}; --solver exact proves it or finds a better one"
    gap = "gap not known" if result.gap is None else f"gap {_gap(result.gap)}"
    limit = "memory limit" if result.status == "memory_limit" else "time limit"
    if result.interrupted:
        limit = "interruption"
    return f"not proved: best until the {limit}, {gap} {over} {took}; speeds {bases}"


def _confident_words(result: Result, plan: ConfidentPlan) -> str:
    """Say what is known of a plan that was chosen by scenarios."""
    early = "stopped early: " if result.status.stopped else ""
    seeds = f"in {plan.scenarios:,} scenarios of spot capacity (seed {plan.seed})"
    least = "" if plan.least_usd is None else "; for other plans only the least cost is proved"
    return f"{early}best of {counted(plan.tried, 'plan')} {seeds}{least}"


def _short_confident_words(result: Result, plan: ConfidentPlan) -> str:
    """Say in few words what is known of such a plan."""
    early = "stopped early: " if result.status.stopped else ""
    if plan.least_usd is None:
        return f"{early}best of {counted(plan.tried, 'plan')}"
    least = f"proved: no finished run costs less than {format_usd(plan.least_usd)}"
    return f"{early}best of {counted(plan.tried, 'plan')}; {least}"


def short_proof_words(result: Result) -> str:
    """Say in one line what is proved."""
    if result.confidence is not None:
        return _short_confident_words(result, result.confidence)
    if result.estimate is not None and doubt_words(result):
        return proof_words(result).partition(" (")[0]
    took = f" ({format_seconds(result.seconds)})" if result.status.stopped else ""
    return proof_words(result).replace(took, "", 1) if took else proof_words(result)


def short_doubt_words(result: Result) -> str:
    """Say in few words what may change the ranking; empty where nothing that is known does."""
    got, doubt = result.estimate, doubt_words(result)
    if got is None or not doubt:
        return ""
    unknown, rival = unmeasured(got.provenance), _rival(result)
    if _wide(got.effective_samples_per_second) and unknown:
        bases = " and ".join(dict.fromkeys(unknown.values()))
        if not result.objective.by_speed:
            return f"speed {bases}: {doubt.rpartition('; ')[2]}"
        gpus = unknown if len(unknown) == 1 else {name.partition(":")[0]: "" for name in unknown}
        return f"the speed of {', '.join(gpus)} is {bases}"
    if rival is not None and not _wide(got.effective_samples_per_second):
        return f"{machines_words(rival.placement)} may be faster"
    return doubt.removeprefix("ranking not certain: ").partition("; ")[0]


def doubt_words(result: Result) -> str:
    """Say that the ranking is not certain, and which unmeasured speed decides; empty if it is."""
    got = result.estimate
    if got is None or result.confidence is not None or not result.proved:
        return ""
    speed, unknown = got.effective_samples_per_second, unmeasured(got.provenance)
    why = (
        "nobody measured the speed of " + ", ".join(unknown)
        if unknown
        else "the speed of its links is not known well"
    )
    if not result.objective.by_speed:
        floor = result.problem.requirements.floor_samples_per_second or 0.0
        short = "the floor may be missed" if speed.low < floor else "the price of a sample may vary"
        return f"ranking not certain: {why}; {short}" if _wide(speed) else ""
    rival = _rival(result)
    if _wide(speed):
        text = f"ranking not certain: {why}"
        if rival is None:
            return text
        return f"{text}; {brief(rival.placement)} may be faster ({_between(rival)})"
    if rival is not None:
        named, between = brief(rival.placement), _between(rival)
        return f"ranking not certain: nobody measured {named}, which may be faster ({between})"
    return ""


def _rival(result: Result) -> Option | None:
    """Return the best placement that may be faster than the answer by its interval; None without
    one.
    """
    assert result.estimate is not None
    speed = result.estimate.effective_samples_per_second
    for option in result.options:
        other = option.estimate.effective_samples_per_second
        beyond = speed.low if _wide(speed) else speed.value
        if (
            option.placement != result.placement
            and other.high > beyond
            and (_wide(speed) or _wide(other))
        ):
            return option
    return None


def _between(option: Option) -> str:
    unit = speed_unit(option.estimate.tokens_per_sample)
    return f"{speed_between(option.estimate)} {unit}"


def _wide(interval: Interval) -> bool:
    return is_wide(interval.low, interval.high)


def _gap(gap: float) -> str:
    return f"{format_plain(100 * gap, 2)} %" if gap < 0.1 else f"{100 * gap:.0f} %"


def short_confidence_lines(plan: ConfidentPlan) -> Iterator[tuple[str, str]]:
    """Yield at most three lines: what the plan reaches, what it costs, and its first fallback."""
    label = "confidence" if plan.asked else "expected"
    reached, fresh = (format_plain(100 * share) for share in (plan.reached, plan.fresh))
    shares = f"in {reached} % of scenarios, {fresh} % of fresh ones"
    if plan.asked and not plan.holds:
        shares += f" (not the {100 * plan.asked:g} % asked for)"
    if plan.deadline_h is not None:
        yield label, f"done within {hours_words(plan.deadline_h)} {shares}"
    else:
        assert plan.samples_per_second is not None
        speed = format_speed(plan.samples_per_second, plan.ranks[0].estimate.tokens_per_sample)
        mean = "" if plan.asked else f"{speed} on average; "
        yield label, f"{mean}machines are available {shares}"
    if plan.usd is not None and plan.tail_usd is not None:
        took = "" if plan.hours is None else f"; {hours_words(plan.hours)} if finished"
        tail = f"{format_usd(plan.tail_usd)} in the most expensive"
        yield (
            "run",
            f"{_cost_words(plan)}, {tail} {format_plain(100 * tail_share(plan.asked))} %{took}",
        )
    fallbacks = plan.ranks[1:]
    if fallbacks:
        more = f" ({len(fallbacks) - 1} more: -v)" if len(fallbacks) > 1 else ""
        yield "fallback", f"{_fallback(fallbacks[0], types=False)}{more}"


def _cost_words(plan: ConfidentPlan) -> str:
    """Give the dollars of a run that finishes: those of runs that fail are paid as well."""
    if plan.usd_per_finished is None:
        return f"{format_usd(plan.usd or 0.0)} on average, and none finishes"
    each = "on average" if plan.reached == 1 else "per finished run"
    return f"{format_usd(plan.usd_per_finished)} {each}"


def _fallback(rank: Rank, *, types: bool = True) -> str:
    when = ", if time runs out" if rank.certain else ""
    speed = format_speed(
        rank.estimate.effective_samples_per_second.value, rank.estimate.tokens_per_sample
    )
    return (
        f"{headline(rank.placement, types=types)}{when}: {speed} for "
        f"{format_usd(rank.estimate.usd_per_hour.total)}/h"
    )
