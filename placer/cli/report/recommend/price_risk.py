"""What is printed of the price that an answer rests on most."""

from __future__ import annotations

from placer.cli.report.recommend.sentences import headline
from placer.market.catalog import VmOffer
from placer.solving.price_risk import HIGH, PriceCase, PriceRisk
from placer.solving.result import Result
from placer.units import format_speed, format_usd

MUCH = 1.05
"""Another region whose price differs by a smaller factor is not mentioned."""


def price_risk_words(result: Result, risk: PriceRisk) -> str:
    """Say on which price the answer rests, from where on it changes, and what is best then."""
    offer, wish = risk.offer, result.problem.requirements
    limits = (wish.budget_usd_per_hour, wish.budget_usd, wish.most_usd_per_million_samples)
    change = "it no longer fits" if any(x is not None for x in limits) else "another one is better"
    market = offer.market.replace("_", "-")
    text = (
        f"rests on one {market} price: {offer.device} in {offer.place} "
        f"at {format_usd(offer.usd_per_hour)}/h{_context(risk)}; "
        f"above {format_usd(risk.changes_at)}/h {change}"
    )
    case = risk.case(HIGH)
    return text if case is None else f"{text}, and {_case_words(result, offer, case)}"


def _context(risk: PriceRisk) -> str:
    """Set the price beside on-demand and the next region."""
    offer, parts = risk.offer, []
    if risk.on_demand and risk.on_demand > offer.usd_per_hour:
        parts.append(f"{100 * (1 - offer.usd_per_hour / risk.on_demand):.0f} % below on-demand")
    if risk.elsewhere is not None and risk.elsewhere[1] > MUCH * offer.usd_per_hour:
        parts.append(f"next region {risk.elsewhere[1] / offer.usd_per_hour:.1f} x dearer")
    return f" ({', '.join(parts)})" if parts else ""


def _case_words(result: Result, offer: VmOffer, case: PriceCase) -> str:
    price = "" if case.usd_per_hour is None else f"at {format_usd(case.usd_per_hour)}/h "
    if case.placement is None or case.estimate is None:
        return f"{price}nothing fits" if case.proved else f"{price}a short search finds nothing"
    got, value = case.estimate, result.value
    speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
    found = "the answer is" if case.proved else "a short search finds"
    other, quantity = result.objective.value(got), result.objective.quantity
    if got.tokens_per_sample is not None:
        quantity = quantity.replace("samples", "tokens")
    change = "" if not value else f" ({100 * (other / value - 1):+.0f} % {quantity})"
    cost = format_usd(got.usd_per_hour.total)
    outlier = "; it rests on an outlier too" if case.on_outlier else ""
    return f"{price}{found} {headline(case.placement)}: {speed} for {cost}/h{change}{outlier}"
