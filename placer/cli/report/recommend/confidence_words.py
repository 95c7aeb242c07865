"""What a plan with fallbacks reaches, and its fallbacks, a line each."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cli.report.recommend.risk_words import hours_words
from placer.cli.report.recommend.sentences import headline
from placer.solving.confident_plan import ConfidentPlan, Rank, tail_share
from placer.units import format_plain, format_speed, format_usd


def confidence_lines(plan: ConfidentPlan, most: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the lines of a plan: what it reaches, what it costs, and its fallbacks; None: all."""
    share = (
        f"in {format_plain(100 * plan.reached)} % of {plan.scenarios:,} scenarios of spot capacity"
    )
    fresh = f"{format_plain(100 * plan.fresh)} % of fresh ones"
    if plan.asked:
        short = "" if plan.holds else ", which is not reached"
        fresh += f"; {100 * plan.asked:g} % asked for{short}"
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
        whole = "" if plan.reached == 1 else ", finished or not"
        yield (
            "run",
            f"{format_usd(plan.usd)} on average{whole}, {format_usd(plan.tail_usd)} in the "
            f"most expensive {format_plain(100 * tail_share(plan.asked))} %{least}",
        )
    fallbacks = plan.ranks[1:]
    for number, rank in enumerate(fallbacks[:most]):
        yield "fallback" if number == 0 else "", _fallback(rank)
    if most is not None and len(fallbacks) > most:
        yield "", f"and {len(fallbacks) - most} more with -v"


def _fallback(rank: Rank) -> str:
    when = "if time runs out" if rank.certain else "if those before it are not available"
    speed = format_speed(
        rank.estimate.effective_samples_per_second.value, rank.estimate.tokens_per_sample
    )
    return (
        f"{headline(rank.placement)}, {when}: {speed} for "
        f"{format_usd(rank.estimate.usd_per_hour.total)}/h"
    )
