"""What a plan with fallbacks reaches, and its fallbacks, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cli.report.recommend.risk_words import hours_words
from placer.cli.report.recommend.sentences import headline
from placer.solving.confident_plan import ConfidentPlan, Rank, tail_share
from placer.units import format_plain, format_speed, format_usd


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


def confidence_lines(plan: ConfidentPlan) -> Iterator[tuple[str, str]]:
    """Yield the lines of a plan: what it reaches, what it costs, and its fallbacks."""
    share = (
        f"in {format_plain(100 * plan.reached)} % of {plan.scenarios:,} scenarios of spot capacity"
    )
    fresh = f"{format_plain(100 * plan.fresh)} % of fresh ones"
    if plan.asked:
        short = {"not-reached": ", which is not reached", "not-assured": ", which may be chance"}
        fresh += f"; {100 * plan.asked:g} % asked for{short.get(plan.status(None), '')}"
    label = "confidence" if plan.asked else "expected"
    if plan.deadline_h is None:
        assert plan.samples_per_second is not None
        speed = format_speed(plan.samples_per_second, plan.ranks[0].estimate.tokens_per_sample)
        mean = "" if plan.asked else f"{speed} on average; "
        yield label, f"{mean}one of its placements is available {share} ({fresh})"
    else:
        taken = "" if plan.hours is None else f"; on average after {hours_words(plan.hours)}"
        begun = "" if plan.starts is None else f", with {plan.starts:.1f} starts"
        yield (
            label,
            f"done within {hours_words(plan.deadline_h)} {share} ({fresh}){taken}{begun}",
        )
    if plan.usd is not None and plan.tail_usd is not None:
        least = (
            ""
            if plan.least_usd is None
            else f"; proved: no finished run costs less than {format_usd(plan.least_usd)}"
        )
        mean = "" if plan.reached == 1 else f" ({format_usd(plan.usd)} a run, finished or not)"
        yield (
            "run",
            f"{_cost_words(plan)}{mean}, {format_usd(plan.tail_usd)} in the most expensive "
            f"{format_plain(100 * tail_share(plan.asked))} %{least}",
        )
    for number, rank in enumerate(plan.ranks[1:]):
        yield "fallback" if number == 0 else "", _fallback(rank)


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
