"""Placements and refusals in words, for the terminal."""

from __future__ import annotations

from placer.placement import Placement
from placer.result import Result
from placer.units import format_number, format_usd

BRIEF_GROUPS = 3
"""More groups are counted, not listed, inside a sentence."""
DIRECT = ("budget", "throughput")
"""Limits whose nearest placement has a sentence of its own."""


def headline(placement: Placement) -> str:
    """One line that names the machines of a placement, and where a central exchange runs."""
    parts = [
        f"{g.count} x {device_words(g.gpu, g.gpu_count)} {g.market.replace('_', '-')} in {g.place} ({g.instance_type})"
        for g in placement.groups
    ]
    return " + ".join(parts) + hub_words(placement)


def hub_words(placement: Placement) -> str:
    """Where gradients or models meet, to be put behind the machines; empty for an all-reduce."""
    exchange = placement.exchange
    if exchange.aggregator is None:
        return ""
    if exchange.storage is not None:
        return f", aggregator in {exchange.aggregator}, store in {exchange.storage}"
    if exchange.server is not None:
        return f", server {exchange.server.instance_type} {exchange.server.market.replace('_', '-')} in {exchange.aggregator}"
    return f", hub in {exchange.aggregator}"


def brief(placement: Placement) -> str:
    """The headline, or with many groups only how many machines where."""
    if len(placement.groups) <= BRIEF_GROUPS:
        return headline(placement)
    where = placement.places[0] if len(placement.places) == 1 else f"{len(placement.places)} regions"
    return f"{placement.workers} workers of {len(placement.groups)} kinds in {where}"


def infeasible_lines(result: Result) -> list[str]:
    """Sentences that say why nothing fits and what binds."""
    wish = result.problem.requirements
    said = []
    for option in result.nearest:
        speed, usd = option.estimate.effective_samples_per_second.value, option.estimate.usd_per_hour.total
        found = "" if option.proved else " found (not proved)"
        if option.label == "budget" and wish.budget_usd_per_hour is not None:
            floor = (
                f"reaches {format_number(wish.min_samples_per_second)} samples/s"
                if wish.min_samples_per_second
                else "meets the other wishes"
            )
            said.append(
                f"Because the cheapest placement{found} that {floor} is {brief(option.placement)} at {format_usd(usd)}/h, "
                f"a budget of {format_usd(wish.budget_usd_per_hour)}/h cannot hold."
            )
        if option.label == "throughput" and wish.min_samples_per_second is not None:
            limit = f" within {format_usd(wish.budget_usd_per_hour)}/h" if wish.budget_usd_per_hour is not None else ""
            said.append(
                f"Because the fastest placement{found}{limit} is {brief(option.placement)} with {format_number(speed)} samples/s, "
                f"a floor of {format_number(wish.min_samples_per_second)} samples/s cannot hold."
            )
    said += [f"With {option.note}, {brief(option.placement)} would fit." for option in result.nearest if option.label not in DIRECT]
    if not said:
        said.append("More than one wish stands in the way: no change of a single one that was tried makes anything fit.")
    return said


def device_words(gpu: str, gpu_count: int) -> str:
    """Devices of one machine in a sentence: ``T4`` or ``(8 x V100)``."""
    return gpu if gpu_count == 1 else f"({gpu_count} x {gpu})"
