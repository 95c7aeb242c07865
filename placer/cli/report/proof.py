"""What is proved of an answer, what is not certain, and what a plan with fallbacks reaches."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cli.report.placements import headline, machines_words, rented
from placer.cost_model.outlook.totals import unmeasured
from placer.market.books.defended_figures import PLANNED
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
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
)

BASES = {"list": "quoted", "published": "published", "owned": "own", "estimated": "estimated"}
"""How a price is known, by its basis in the book."""


def price_basis(offer: VmOffer) -> str:
    """Say how a price is known, and of when it is."""
    if offer.source.startswith(PLANNED):
        return f"planned from {offer.as_of[:7]}"
    known = BASES.get(offer.price_basis, offer.price_basis)
    return known if offer.price_basis == "owned" else f"{known} {offer.as_of[:7]}"


def price_words(placement: Placement, problem: Problem) -> str:
    """Say how the prices of the machines of a placement are known, and of when they are."""
    return " and ".join(dict.fromkeys(map(price_basis, rented(placement, problem))))


def speed_basis(provenance: tuple[str, ...]) -> str:
    """Say how the speeds are known that some figures rest on."""
    return " and ".join(dict.fromkeys(unmeasured(provenance).values())) or "measured"


def proof_words(result: Result) -> str:
    """Say in one line what is proved; without its time and basis where a line says the doubt."""
    if result.confidence is not None:
        return _confident_words(result, result.confidence)
    asked, gap = result.problem, result.gap
    if result.older is not None:  # its bound is on prices of every age
        asked = replace(asked, requirements=replace(asked.requirements, oldest_price=None))
    over = f"over {counted(len({id(pool.offer) for pool in asked.pools}), 'offer')}"
    took = "" if result.status.stopped else f" ({format_seconds(result.seconds)})"
    behind = f"; speeds {speed_basis(result.estimate.provenance if result.estimate else ())}"
    if result.status == "optimal" and gap is not None:
        text = f"optimal {over}" if gap == 0 else f"optimal within {_gap(gap)} {over}"
        if any(warning.code == "extrapolated" for warning in result.warnings):
            behind += "; averaging times beyond what was measured"
    elif result.older is not None and gap is not None:
        text = f"at most {_gap(gap)} from the best {over}, which is {result.older.note}"
    elif result.status == "feasible":
        staged = any(note.code == "staged" for note in result.notes)
        if gap is None or not (staged or result.proof_wish == "quick"):
            tried, proves = f"best of {result.candidates:,} that were tried", "--solver exact"
            if result.proof_wish != "full":
                tried, proves = "a draft", "--proof full"
            return f"not proved: {tried}{took}; {proves} proves it or finds a better one"
        if result.proof_wish == "quick":
            over = f"at most {_gap(gap)} from the best {over}"
            return f"not proved: a quick answer, {over}{took}; --proof full proves it"
        text = f"at most {_gap(gap)} from the best {over}, with the data in any store"
    else:
        limit = "memory limit" if result.status == "memory_limit" else "time limit"
        limit = "interruption" if result.interrupted else limit
        open_ = "gap not known" if gap is None else f"gap {_gap(gap)}"
        text = f"not proved: best until the {limit}, {open_} {over}"
    return text if doubt_words(result) else f"{text}{took}{behind}"


def _confident_words(result: Result, plan: ConfidentPlan) -> str:
    early = "stopped early: " if result.status.stopped else ""
    best = f"{early}best of {counted(plan.ladders_tried, 'plan')}"
    if plan.least_usd is None:
        return best
    return f"{best}; proved: no finished run costs less than {format_usd(plan.least_usd)}"


def standing_words(result: Result) -> str:
    """Say in one word whether the answer stands, and why it may not: it is open where a speed or a
    price that decides it was not read, likely where a price moves by itself.
    """
    placement, got = result.placement, result.estimate
    assert placement is not None
    assert got is not None
    offers = [*rented(placement, result.problem)]
    known = doubt_words(result)
    if not known and unmeasured(got.provenance):
        known = f"speed {speed_basis(got.provenance)}"
    why = [known] if result.proved else ["not proved", known]
    if any(offer.price_basis == "estimated" for offer in offers):
        why.append(f"the price is {price_words(placement, result.problem)}")
    if any(why):
        return f"open: {'; '.join(filter(None, why))}"
    if any(offer.moves for offer in offers):
        return "likely: prices that were read, but move"
    return "firm: prices and speeds were read, and none moves"


def doubt_words(result: Result) -> str:
    """Say in few words what may change a proved ranking; empty where nothing that is known does."""
    got = result.estimate
    if got is None or result.confidence is not None or not result.proved:
        return ""
    speed, unknown = got.effective_samples_per_second, unmeasured(got.provenance)
    if not _wide(speed):
        rival = _rival(result, speed.value) if result.objective.by_speed else None
        return "" if rival is None else f"{machines_words(rival.placement)} may be faster"
    if not unknown:
        return "the speed of its links is not known well"
    if result.objective.by_speed:
        gpus = unknown if len(unknown) == 1 else {name.partition(":")[0]: "" for name in unknown}
        return f"the speed of {', '.join(gpus)} is {speed_basis(got.provenance)}"
    floor = result.problem.requirements.floor_samples_per_second or 0.0
    short = "the floor may be missed" if speed.low < floor else "the price of a sample may vary"
    return f"speed {speed_basis(got.provenance)}: {short}"


def _rival(result: Result, speed: float) -> Option | None:
    """Return the best placement that may be faster than a speed by its interval."""
    for option in result.options:
        other = option.estimate.effective_samples_per_second
        if option.placement != result.placement and other.high > speed and _wide(other):
            return option
    return None


def _wide(interval: Interval) -> bool:
    return is_wide(interval.low, interval.high)


def _gap(gap: float) -> str:
    return f"{format_plain(100 * gap, 2)} %" if gap < 0.1 else f"{100 * gap:.0f} %"


def confidence_lines(plan: ConfidentPlan) -> Iterator[tuple[str, str]]:
    """Yield at most three lines: what the plan reaches, what it costs, and its first fallback."""
    label = "confidence" if plan.asked else "expected"
    reached, fresh = (
        format_plain(100 * share) for share in (plan.reached, plan.reached_in_fresh_scenarios)
    )
    shares = f"in {reached} % of scenarios, {fresh} % of fresh ones"
    if plan.asked and not plan.holds:
        shares += f" (not the {100 * plan.asked:g} % asked for)"
    if plan.deadline_hours is not None:
        yield label, f"done within {hours_words(plan.deadline_hours)} {shares}"
    else:
        assert plan.mean_samples_per_second is not None
        speed = format_speed(plan.mean_samples_per_second, plan.ranks[0].estimate.tokens_per_sample)
        mean = "" if plan.asked else f"{speed} on average; "
        yield label, f"{mean}machines are available {shares}"
    if plan.usd is not None and plan.tail_usd is not None:
        took = "" if plan.mean_hours is None else f"; {hours_words(plan.mean_hours)} if finished"
        tail = f"{format_usd(plan.tail_usd)} in the most expensive"
        share = format_plain(100 * tail_share(plan.asked))
        yield "run", f"{_cost_words(plan)}, {tail} {share} %{took}"
    if plan.ranks[1:]:
        more = f" ({len(plan.ranks) - 2} more: -v)" if plan.ranks[2:] else ""
        yield "fallback", f"{_fallback(plan.ranks[1])}{more}"


def _cost_words(plan: ConfidentPlan) -> str:
    """Give the dollars of a run that finishes: those of runs that fail are paid as well."""
    if plan.usd_per_finished is None:
        return f"{format_usd(plan.usd or 0.0)} on average, and none finishes"
    each = "on average" if plan.reached == 1 else "per finished run"
    return f"{format_usd(plan.usd_per_finished)} {each}"


def _fallback(rank: Rank) -> str:
    when, got = ", if time runs out" if rank.certain else "", rank.estimate
    speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
    usd = format_usd(got.usd_per_hour.total)
    return f"{headline(rank.placement, types=False)}{when}: {speed} for {usd}/h"
