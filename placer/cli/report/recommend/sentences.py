"""Placements and refusals in words, for the terminal."""

from __future__ import annotations

from itertools import groupby

from placer.documents.schemas.proofs import BreakEven
from placer.problem.placement import Placement, WorkerGroup
from placer.solving.result import Option
from placer.units import format_number, format_speed, format_usd

OWN = "own machine"
"""Name of the type of machines of one's own, which are of no market."""
BRIEF_GROUPS = 3
"""More groups are counted, not listed, inside a sentence."""


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


def change_words(option: Option) -> str:
    """Say what fits after one change of a question that nothing meets."""
    got = option.estimate
    speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
    sure = "" if option.proved else " (not proved)"
    price = f"{format_usd(got.usd_per_hour.total)}/h"
    return f"With {option.note}: {brief(option.placement)}, {speed} for {price}{sure}."


def signed_percent(share: float) -> str:
    """Format a change as a signed percentage with three digits.

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
