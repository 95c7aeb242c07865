"""Why something was not chosen, in words: what it loses, through what, and where it would enter."""

from __future__ import annotations

import math
from collections.abc import Iterator

from placer.advice.explanation.break_even import BreakEven
from placer.advice.explanation.why_not import WhyNot
from placer.cli.report.explain.conflict_text import remedy_line
from placer.cli.report.recommend.sentences import brief, signed_percent
from placer.cli.report.values import value_text
from placer.cost_model.estimate import Estimate, LinkUse
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.result import Option, Result
from placer.units import (
    SECONDS_PER_HOUR,
    format_bandwidth,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
)

MUCH = 0.1
"""A share of a step or of the price that is worth naming as a reason."""
MORE = 0.02
"""A share of a step or of the price that exceeds the best placement's own by this is a reason."""
DEARER = 1.02
"""Machines that cost this much more for their speed are called dearer."""
WITHIN = 0.001
"""A loss within the gap of the proof is none."""


def why_not_lines(row: WhyNot, result: Result) -> Iterator[str]:
    """Write sentences about one alternative."""
    if row.status == "chosen":
        yield "It is part of the best placement."
        return
    for sentence in row.excluded[:2]:
        yield f"A wish excludes it: {sentence}."
    if row.option is None:
        yield from _none_lines(row)
    else:
        yield from _found_lines(row, result)
    for break_even in row.break_evens:
        yield _break_even_line(break_even, row, result.problem)
    network = [break_even.factor for break_even in row.break_evens if break_even.what != "price"]
    if row.never_by_network is False and network and not any(network):
        yield "Only both together would: free egress and links between places without limit."
    if row.never_by_network:
        yield (
            "No network would change that: not even free egress and links between places "
            "without limit."
        )


def _none_lines(row: WhyNot) -> Iterator[str]:
    if row.status == "unknown":
        yield (
            "No placement with it was found; it is not proved that there is none within the "
            "limits of the search."
        )
        return
    yield "No placement with it meets the wishes (proved)."
    yield from (remedy_line(remedy) for remedy in row.remedies)


def _found_lines(row: WhyNot, result: Result) -> Iterator[str]:
    """Describe the best answer with it, the loss, and the reasons."""
    option, got, problem = row.option, result.estimate, result.problem
    assert option is not None
    assert got is not None
    other, objective = option.estimate, result.objective
    proof = "proved" if row.proved else "at most; not proved that it cannot do better"
    best = (
        f"The best with it{' and without that wish' if row.excluded else ''} is "
        f"{_with_exchange(option)}"
    )
    length = other.tokens_per_sample
    values = (
        f"{format_speed(other.effective_samples_per_second.value, length)} for "
        f"{format_usd(other.usd_per_hour.total)}/h"
    )
    if row.regret is not None and abs(row.regret) <= WITHIN:
        yield f"{best}: {values}, as good as the best ({_tie(other, got)})."
        return
    difference = row.difference or 0.0
    absolute = f"{'+' if difference > 0 else '-'}{value_text(abs(difference), objective, length)}"
    if row.regret is not None:
        absolute = f"{signed_percent(-objective.sign * row.regret)} or {absolute}"
    yield f"{best}: {values}, {absolute} against the best ({proof})."
    reasons = list(_reasons(option, got, result.placement, problem))
    if reasons and (row.regret is None or row.regret > 0):
        yield f"It loses because {'; '.join(reasons)}."


def _with_exchange(option: Option) -> str:
    exchange = option.placement.exchange
    steps = f", {exchange.local_steps} local steps" if exchange.local_steps > 1 else ""
    return brief(option.placement) + (
        f", {exchange.strategy}{steps}" if exchange.strategy != "none" else ""
    )


def _tie(other: Estimate, got: Estimate) -> str:
    more = other.usd_per_hour.total - got.usd_per_hour.total
    return f"{format_usd(more)}/h dearer" if more > 0 else "within the gap of the proof"


def _reasons(
    option: Option, got: Estimate, placement: Placement | None, problem: Problem
) -> Iterator[str]:
    """Compare the components of two estimates: price of speed, exchange, egress, waiting."""
    other = option.estimate
    step, usd = other.step, other.usd_per_hour
    theirs, ours = _usd_per_million_calculated(other), _usd_per_million_calculated(got)
    unit = "million samples"
    if other.tokens_per_sample is not None:
        each = 1000 / other.tokens_per_sample  # a billion tokens in place of a million samples
        theirs, ours, unit = each * theirs, each * ours, "billion tokens"
    if ours > 0 and theirs > ours * DEARER:
        yield (
            f"its machines cost {format_usd(theirs)} for each {unit} of calculation "
            f"against {format_usd(ours)} "
            f"({format_plain(theirs / ours)} x)"
        )
    elif (
        problem.requirements.budget_usd_per_hour
        and usd.total < got.usd_per_hour.total
        and theirs <= ours * DEARER
    ):
        left = problem.requirements.budget_usd_per_hour - usd.total
        yield f"the next step up with it costs more than the {format_usd(left)}/h that are left"
    exchange = step.total - step.calculation
    if _waiting_share(other) > max(MUCH, _waiting_share(got) + MORE):
        without = other.effective_samples_per_second.value * step.total / step.calculation
        yield (
            f"its exchange takes {format_seconds(exchange)} of each {format_seconds(step.total)} "
            f"(without it these workers would reach "
            f"{format_speed(without, other.tokens_per_sample)})"
        )
        busiest = _busiest(other, problem)
        if busiest is not None:
            speed = problem.network.link(busiest.src, busiest.dst).bytes_per_second
            yield (
                f"its slowest link is {busiest.src} to {busiest.dst} with "
                f"{format_bandwidth(speed)} a stream"
            )
    if step.waiting > MUCH * step.total:
        yield f"the first gradient waits {format_seconds(step.waiting)} for the last"
    for part, name in (
        ("egress", "egress"),
        ("storage", "storage"),
        ("functions", "functions"),
        ("data", "reading data"),
    ):
        amount, own = getattr(usd, part), getattr(got.usd_per_hour, part)
        if (
            amount > MUCH * usd.total
            and amount / usd.total > own / max(got.usd_per_hour.total, amount) + MORE
        ):
            yield f"{format_usd(amount)} of its {format_usd(usd.total)}/h is {name}"


def _waiting_share(got: Estimate) -> float:
    """Return the share of a step that the exchange adds."""
    return (got.step.total - got.step.calculation) / got.step.total


def _usd_per_million_calculated(got: Estimate) -> float:
    """Price of the machines for a million samples if nothing had to be exchanged."""
    per_second = got.effective_samples_per_second.value * got.step.total / got.step.calculation
    return got.usd_per_hour.compute / SECONDS_PER_HOUR / per_second * 1e6


def _busiest(got: Estimate, problem: Problem) -> LinkUse | None:
    """Find the link between places that takes longest for its bytes."""
    between = [use for use in got.links if use.src != use.dst]
    return max(
        between,
        key=lambda use: (
            use.bytes_per_step / problem.network.link(use.src, use.dst).bytes_per_second
        ),
        default=None,
    )


def _break_even_line(found: BreakEven, row: WhyNot, problem: Problem) -> str:
    """Say where it would enter, or that it would nowhere."""
    names = {"price": "price", "egress": "egress price", "bandwidth": "bandwidth"}
    if found.factor is None:
        if not found.proved:
            return f"No {names[found.what]} at which it would enter was found (not proved)."
        return {
            "price": "It would lose even at $0.",
            "egress": "Free egress alone would not make it enter.",
            "bandwidth": (
                "More bandwidth alone (2, 8, 64 times and without limit) would not make "
                "it enter at today's egress prices."
            ),
        }[found.what]
    if math.isinf(found.factor):
        return "No price keeps it out: no budget is set, so prices do not decide."
    sure = "" if found.proved else " at least, not proved that not earlier"
    if found.what == "price":
        return (
            f"Break-even: it enters when its machines cost {format_plain(found.factor)} x today's "
            f"price{sure}{_price_words(found, row, problem)}."
        )
    if found.what == "egress":
        return (
            f"Break-even: it enters when egress costs {format_plain(found.factor)} x today's "
            f"price{sure}{_link_words(found, problem)}."
        )
    sure = "" if found.proved else " at most, not proved that not earlier"
    return (
        f"Break-even: it enters when links between places carry {format_plain(found.factor)} "
        f"x{sure}{_link_words(found, problem)}."
    )


def _price_words(found: BreakEven, row: WhyNot, problem: Problem) -> str:
    """Price of a machine at the break-even, beside today's."""
    assert found.option is not None
    assert found.factor is not None
    sentences = []
    for group in found.option.placement.groups:
        offers = [
            o
            for o in problem.catalog.offers_at(group.place)
            if (o.instance_type, o.market, o.gpu) == (group.instance_type, group.market, group.gpu)
        ]
        scaled = [o for o in offers if row.matches(o)]
        if scaled:
            now = scaled[0].usd_per_hour
            market = group.market.replace("_", "-")
            sentences.append(
                f"{group.device} {market} in {group.place} at {format_usd(now * found.factor)}/h "
                f"instead of {format_usd(now)}/h"
            )
    return f": {', '.join(sentences)} ({brief(found.option.placement)})" if sentences else ""


def _link_words(found: BreakEven, problem: Problem) -> str:
    """Give bandwidth and egress price of the busiest link at the break-even, beside today's."""
    assert found.option is not None
    assert found.factor is not None
    use = _busiest(found.option.estimate, problem)
    if use is None:
        return ""
    if found.what == "egress":
        now = problem.network.egress_price(use.src, use.dst).usd_per_gib
        prices = (
            f"{format_usd(now * found.factor)} instead of {format_usd(now)} per GiB from "
            f"{use.src} to {use.dst}"
        )
        return f": {prices} ({brief(found.option.placement)})"
    speed = problem.network.link(use.src, use.dst).bytes_per_second
    ways = (
        f"{format_bandwidth(speed * found.factor)} instead of {format_bandwidth(speed)} a "
        f"stream from {use.src} to {use.dst}"
    )
    return f": {ways} ({brief(found.option.placement)})"
