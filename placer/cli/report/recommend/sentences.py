"""Placements and refusals in words, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from placer.cost_model.outlook.totals import totals_of
from placer.documents.schemas.proofs import BreakEven
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.requirements import Requirements
from placer.solving.result import Option, Result
from placer.units import format_duration, format_number, format_usd

OWN = "own machine"
"""Name of the type of machines of one's own, which are of no market."""
BRIEF_GROUPS = 3
"""More groups are counted, not listed, inside a sentence."""
DIRECT = ("budget", "throughput", "deadline", "total-budget", "carbon")
"""Limits whose nearest placement has a sentence of its own."""


def headline(placement: Placement, *, types: bool = True) -> str:
    """Name the machines of a placement in one line, and where a central exchange runs; ``types``:
    with the provider's names for them.
    """
    parts = []
    for (market, place), machines in groupby(placement.groups, lambda g: (g.market, g.place)):
        groups = list(machines)
        each = " + ".join(f"{g.count} x {worker_words(g)}" for g in groups)
        named = f" ({', '.join(g.instance_type for g in groups)})" if types else ""
        kind = "" if all(g.instance_type == OWN for g in groups) else f" {market.replace('_', '-')}"
        parts.append(f"{each}{kind} in {place}{named}")
    return " + ".join(parts) + hub_words(placement)


def machines_words(placement: Placement) -> str:
    """Name the machines alone: ``19 x (4 x H100)``."""
    if len(placement.groups) > BRIEF_GROUPS:
        return f"{placement.workers} workers of {len(placement.groups)} kinds"
    return " + ".join(f"{group.count} x {worker_words(group)}" for group in placement.groups)


def hub_words(placement: Placement) -> str:
    """Say where gradients or models meet, as a suffix to the machines; empty for an all-reduce."""
    exchange = placement.exchange
    if exchange.aggregator is None:
        return ""
    if exchange.storage is not None:
        return f", aggregator in {exchange.aggregator}, store in {exchange.storage}"
    if exchange.server is not None:
        return (
            f", server {exchange.server.instance_type} "
            f"{exchange.server.market.replace('_', '-')} in {exchange.aggregator}"
        )
    return f", hub in {exchange.aggregator}"


def brief(placement: Placement, *, types: bool = True) -> str:
    """Return the headline, or with many groups only how many machines where."""
    if len(placement.groups) <= BRIEF_GROUPS:
        return headline(placement, types=types)
    where = (
        placement.places[0] if len(placement.places) == 1 else f"{len(placement.places)} regions"
    )
    return f"{placement.workers} workers of {len(placement.groups)} kinds in {where}"


def break_even_words(even: BreakEven, each: str) -> str:
    """Say up to which price own machines are cheaper for each sample, and below which rented ones
    are.
    """
    most, least = even.most_own_usd_per_machine_hour, even.least_rented_usd_per_hour
    mine = f"up to {format_usd(most)}/h each" if most else "at no price"
    other = f"below {format_usd(least)}/h in all" if least else "at no price"
    return (
        f"own {mine} (now {format_usd(even.own_usd_per_machine_hour)}), {even.rented} {other} "
        f"(now {format_usd(even.rented_usd_per_hour)}), per {each}"
    )


def infeasible_lines(result: Result) -> list[str]:
    """Write sentences that say why nothing fits and what binds."""
    wish = result.problem.requirements
    sentences = []
    for option in result.nearest:
        speed, usd = (
            option.estimate.effective_samples_per_second.value,
            option.estimate.usd_per_hour.total,
        )
        unproved = "" if option.proved else " found (not proved)"
        if option.label == "budget" and wish.budget_usd_per_hour is not None:
            floor = (
                f"reaches {format_number(wish.min_samples_per_second)} samples/s"
                if wish.min_samples_per_second
                else "meets the other wishes"
            )
            sentences.append(
                f"The budget of {format_usd(wish.budget_usd_per_hour)}/h is too low: the cheapest "
                f"placement{unproved} that {floor} is {brief(option.placement)} at "
                f"{format_usd(usd)}/h."
            )
        if option.label == "throughput" and wish.min_samples_per_second is not None:
            limit = (
                f" within {format_usd(wish.budget_usd_per_hour)}/h"
                if wish.budget_usd_per_hour is not None
                else ""
            )
            sentences.append(
                f"The floor of {format_number(wish.min_samples_per_second)} samples/s is too high: "
                f"the fastest placement{unproved}{limit} is {brief(option.placement)} with "
                f"{format_number(speed)} samples/s."
            )
        sentences += _total_sentences(option, wish, unproved)
        if (
            option.label == "carbon"
            and wish.max_carbon_g_per_hour is not None
            and option.estimate.carbon_g_per_hour is not None
        ):
            sentences.append(
                f"The limit of {format_number(wish.max_carbon_g_per_hour)} g CO2e/h is too low: "
                f"the placement{unproved} with the least emissions that meets the other wishes is "
                f"{brief(option.placement)} at "
                f"{format_number(option.estimate.carbon_g_per_hour.value)} g CO2e/h."
            )
    sentences += [
        f"With {option.note} {brief(option.placement)} would fit."
        for option in result.nearest
        if option.label not in DIRECT
    ]
    if not sentences:
        sentences.append(
            "More than one wish stands in the way: changing only one of them, as far as was "
            "tried, is not enough."
        )
    return sentences


def _total_sentences(option: Option, wish: Requirements, found: str) -> Iterator[str]:
    """Say why time or money for all samples is too short."""
    if wish.samples is None or option.label not in ("deadline", "total-budget"):
        return
    totals = totals_of(option.estimate, wish)
    if option.label == "deadline" and wish.deadline_s is not None:
        yield (
            f"The deadline of {format_duration(wish.deadline_s)} is too early: the fastest "
            f"placement{found} that meets the other wishes is {brief(option.placement)}, which "
            f"takes {format_duration(totals.seconds.value)} for {wish.samples:,} samples."
        )
    if option.label == "total-budget" and wish.budget_usd is not None:
        yield (
            f"The budget of {format_usd(wish.budget_usd)} in total is too low: the placement"
            f"{found} with the least dollars in all that meets the other wishes is "
            f"{brief(option.placement)}, which costs {format_usd(totals.usd.value)} for "
            f"{wish.samples:,}."
        )


def signed_percent(share: float) -> str:
    """Format a change as a signed percentage with three digits.

    Examples
    --------
    >>> signed_percent(-0.444), signed_percent(24.31), signed_percent(3.788)
    ('-44.4 %', '+2,431 %', '+379 %')
    """
    percent = abs(100 * share)
    figure = format_number(percent) if percent < 100 else f"{percent:,.0f}"
    return f"{'-' if share < 0 else '+'}{figure} %"


def worker_words(group: WorkerGroup) -> str:
    """Return one worker of a group as the reports write it: ``T4``, ``(8 x H200)`` or ``(4 machines
    of 8 x H100)``.
    """
    if group.machines == 1:
        return device_words(group.gpu, group.gpu_count)
    return f"({group.machines} machines of {group.gpu_count} x {group.gpu})"


def device_words(gpu: str, gpu_count: int) -> str:
    """Name the devices of one machine in a sentence: ``T4`` or ``(8 x V100)``."""
    return gpu if gpu_count == 1 else f"({gpu_count} x {gpu})"
