"""The risk of a placement in one line."""

from __future__ import annotations

from placer.cost_model.outlook.outlook import SpotOutlook
from placer.cost_model.outlook.risk import Risk, StockRisk
from placer.problem.placement import Placement
from placer.units import Interval, format_number, format_plain, format_speed

MOST_STOCKS = 3
"""Places with spot machines that are named."""
MINUTES = 60
HOURS_PER_DAY = 24
SHORTEST_H, LONGEST_H = 1.0, 72.0
"""Below, a time is given in minutes, above in days."""
BASIS_WORDS = {
    "given": "given",
    "assumed": "assumed",
    "published": "the provider's band",
    "mixed": "the providers' bands, assumed where there is none",
    "measured": "measured",
    "estimated": "estimated",
}
"""Who knows how often spot machines are taken away."""
SURE = 0.99
"""A chance per month that is higher says less than the losses an hour."""
WORTH_A_WORD = 0.03
"""A share of the speed from which a loss is named in few words."""
LITTLE = 1e-4
"""A share of the speed below which nothing is lost that matters."""


def risk_line(spot: SpotOutlook | None, placement: Placement, tokens_per_sample: int | None) -> str:
    """Say in one line how spot machines are lost, what that costs, and how often they launch.

    Parameters
    ----------
    spot
        None without spot machines.
    placement
        Names the markets that its machines are of.
    tokens_per_sample
        Sequence length of a language model; None: speeds are in samples/s.
    """
    if spot is None:
        return "none of it spot"
    parts = [*interruption_parts(spot), *floor_parts(spot, tokens_per_sample)]
    if spot.risk is not None:
        parts.append(launch_words(spot.risk))
    else:
        parts.append(f"no capacity {format_plain(100 * spot.all_lost, 2)} % of the time (assumed)")
    return f"{market_words(placement)}: {'; '.join(parts)}"


def short_risk_words(spot: SpotOutlook | None, placement: Placement, quota: str) -> str:
    """Say the same in few words, with the quota that is needed; without intervals, bases and the
    speed of on-demand machines alone.

    Parameters
    ----------
    spot, placement
        As for `risk_line`.
    quota
        Such as ``32 L4``; empty if none is needed.
    """
    market = "none of it spot" if spot is None else market_words(placement)
    head = f"{market}, quota {quota}" if quota else market
    if spot is None:
        return head
    return f"{head}; {_lost_words(spot)}; {_short_launch(spot)}"


def _lost_words(spot: SpotOutlook) -> str:
    """Say how often a machine is reclaimed, and the speed that costs where it is worth a word."""
    often = spot.risk is not None and spot.chance_per_month > SURE
    if spot.risk is not None and often:
        text = f"a reclaim every {hours_words(1 / spot.risk.losses_per_hour)}"
    else:
        text = f"{format_number(100 * spot.chance_per_month)} % reclaimed a month"
    lost = 1 - spot.share.value
    return text if lost < WORTH_A_WORD else f"{text} (-{100 * lost:.0f} % speed)"


def _short_launch(spot: SpotOutlook) -> str:
    """Say how often all machines launch, without an interval."""
    if spot.risk is None:
        return f"no capacity {format_plain(100 * spot.all_lost, 2)} % of the time (assumed)"
    subject, chance = _launch_subject(spot.risk), spot.risk.chance_all
    if chance is None:
        return f"launch of {spot.risk.machines} not observed"
    assumed = " (assumed)" if any(s.basis == "assumed" for s in spot.risk.stocks) else ""
    return f"{subject} {_percent(chance.value)} of the time{assumed}"


def _launch_subject(risk: Risk) -> str:
    few = {1: "it launches", 2: "both launch"}
    return few.get(risk.machines, f"all {risk.machines} launch")


def market_words(placement: Placement) -> str:
    """Name the markets whose machines may be taken away."""
    kinds = sorted({group.market for group in placement.groups} - {"on_demand"}, reverse=True)
    return " and ".join(kinds) or "spot"


def floor_parts(spot: SpotOutlook, tokens_per_sample: int | None) -> list[str]:
    """Say what speed is left without spot machines, if any is."""
    if not spot.floor_samples_per_second:
        return []
    floor = format_speed(spot.floor_samples_per_second, tokens_per_sample)
    return [f"on-demand machines alone: {floor}"]


def risk_words(risk: Risk, tokens_per_sample: int | None) -> str:
    """Say how often the spot machines launch, how long they stay, and the speed to expect.

    Parameters
    ----------
    risk
        Of the placement.
    tokens_per_sample
        Sequence length of a language model; None: speeds are in samples/s.
    """
    expected = risk.expected_samples_per_second.value
    return (
        f"{_machines(risk)}: {launch_words(risk)}; {_stay(risk)}; "
        f"expected {format_speed(expected, tokens_per_sample)}"
    )


def interruption_parts(spot: SpotOutlook) -> list[str]:
    """Say how often spot machines are reclaimed, and what speed that costs."""
    often = spot.risk is not None and spot.chance_per_month > SURE
    reclaimed = (
        f"{format_number(spot.risk.losses_per_hour)} machines reclaimed an hour"
        if spot.risk is not None and often
        else f"{format_number(100 * spot.chance_per_month)} % of machines reclaimed a month"
    )
    lost = 1 - spot.share.value
    words = "under 0.01" if lost < LITTLE else format_plain(100 * lost, 2)
    return [f"{reclaimed} ({BASIS_WORDS[spot.chance_basis]})", f"speed lost {words} %"]


def _machines(risk: Risk) -> str:
    named = [
        f"{stock.machines} {_machine(stock)} {stock.market} in {stock.place}"
        for stock in risk.stocks[:MOST_STOCKS]
    ]
    more = len(risk.stocks) - MOST_STOCKS
    if more > 0:
        named.append(f"{more} more")
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


def _machine(stock: StockRisk) -> str:
    if stock.gpus == 1:
        return stock.device
    return (
        f"machines with {stock.device}"
        if stock.gpus is None
        else f"x ({stock.gpus} x {stock.device})"
    )


def launch_words(risk: Risk) -> str:
    """Say how often all of the machines launch."""
    subject, chance = _launch_subject(risk), risk.chance_all
    if chance is None:
        most = min(stock.observed for stock in risk.stocks if stock.machines > stock.observed)
        return f"whether {subject} is not observed (at most {most} were asked for)"
    assumed = ", assumed" if any(stock.basis == "assumed" for stock in risk.stocks) else ""
    return f"{subject} {_percent(chance.value)} of the time ({_range(chance)}{assumed})"


def _stay(risk: Risk) -> str:
    if risk.median_hours is None:
        return "none is ever lost" if risk.stay else "how long they stay is not observed"
    lost = "such machines are lost" if risk.machines == 1 else "such gangs lose machines"
    band = " by the provider's band" if risk.stay_basis == "published" else ""
    return f"half of {lost} within {hours_words(risk.median_hours)}{band}"


def hours_words(hours: float) -> str:
    """Write a time, such as ``28 min``, ``4 h`` or ``34 days``."""
    if hours > LONGEST_H:
        return f"{hours / HOURS_PER_DAY:,.0f} days"
    if hours < SHORTEST_H:
        return f"{hours * MINUTES:.0f} min"
    return f"{hours:,.0f} h" if hours >= 3 else f"{hours:.1f} h"


def _percent(share: float) -> str:
    """Write a chance in whole percent; none is certain."""
    return "> 99 %" if share > 0.995 else "< 1 %" if share < 0.005 else f"{100 * share:.0f} %"


def _range(chance: Interval) -> str:
    return f"{100 * chance.low:.0f} to {100 * chance.high:.0f} %"
