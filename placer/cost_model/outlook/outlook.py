"""The outlook of a run beyond its rate: interruptions of spot machines, and the bill of a month."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from placer.cost_model.capacity.supply import MOST_ZONES, chance_of
from placer.cost_model.dollars import egress_usd_by_link, monthly_egress_usd
from placer.cost_model.estimate import Estimate, activations, evaluate, exchange_phases
from placer.cost_model.outlook.losses import (
    ASSUMED_INTERRUPTION,
    Interruption,
    Losses,
    banded,
    chance_all_lost,
    chance_any_lost,
    chance_per_month,
    expected_share,
    kept_share,
    of_island,
    rates_per_month,
    together,
)
from placer.cost_model.outlook.risk import Gang, Risk, gang_of, machine_groups, risk_of
from placer.problem.admitted_exchanges import exchanges, server_offer
from placer.problem.datasets import needs_place
from placer.problem.placement import Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.records import replace
from placer.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, Interval

KNOWN = ("given", "published")
"""Bases of a chance of interruptions that somebody answers for."""
FORMER_UNAVAILABLE = 0.1
"""Share of the time in which a zone has no spot capacity, in a question that was saved before there
was a table of capacity: assumed.
"""


class SpotOutlook(Struct, frozen=True, kw_only=True):
    """What spot machines do to a run. ``expected_samples_per_second`` counts interruptions,
    restarts and rejoins; ``share`` is what they leave. ``floor`` is the throughput of the on-demand
    machines alone, 0 without any. ``any_lost`` and ``all_lost`` are the chances that at least one
    region, or every one, has no spot capacity at a time. ``chance_basis`` says who knows
    ``chance_per_month``: given, published, measured, assumed or mixed. ``unavailable`` is the share
    of the time in which the worst zone launches no machine. ``risk`` is None in a question that was
    saved before there was a table of capacity.
    """

    expected_samples_per_second: Interval
    share: Interval
    floor_samples_per_second: float
    any_lost: float
    all_lost: float
    chance_per_month: float
    chance_basis: str
    unavailable: float
    risk: Risk | None = None


class MonthOutlook(Struct, frozen=True, kw_only=True):
    """Egress of a calendar month of 730 hours: at the rate per hour, and with volume tiers and free
    allowances; USD.
    """

    egress_usd_at_rate: float
    egress_usd_with_tiers: float


def spot_outlook(placement: Placement, got: Estimate, problem: Problem) -> SpotOutlook | None:
    """Say what a placement has to expect of its spot machines; None without any."""
    machines = machine_groups(placement)
    spot = [group for group in machines if _spot_parts(group)]
    if not spot:
        return None
    parts = [part for group in spot for part in _spot_parts(group)]
    wish, speed = problem.requirements, got.samples_per_second
    interruption = together([(_of_worker(group, problem), group.count) for group in spot])
    step_s, workers = got.step.total / got.local_steps, sum(group.count for group in machines)
    gang = gang_of(placement, problem) if problem.catalog.capacity else None
    losses = () if gang is None else _losses(parts, workers, gang, problem)
    basis, count = interruption.basis, sum(group.count for group in spot)
    share = expected_share(count, workers, step_s, interruption)
    chance = interruption.chance_per_month
    losses_per_h = math.fsum(
        part.machine_count * _interruption(part, problem).per_hour.value for part in parts
    )
    if gang is not None and losses:
        basis, chance = _basis(gang, interruption), chance_per_month(losses)
        share = kept_share(losses, step_s)
        losses_per_h = math.fsum(each.times * each.per_hour.value for each in losses)
    unavailable = FORMER_UNAVAILABLE if wish.unavailable is None else wish.unavailable
    lost = {
        place: sum(part.count for part in parts if part.place == place)
        for place in sorted({part.place for part in parts})
    }
    zones = [1 if wish.same_zone else min(MOST_ZONES, each) for each in lost.values()]
    outlook = SpotOutlook(
        expected_samples_per_second=Interval(
            value=speed.value * share.value, low=speed.low * share.low, high=speed.high * share.high
        ),
        share=share,
        floor_samples_per_second=_floor(placement, problem),
        any_lost=chance_any_lost(zones, unavailable),
        all_lost=chance_all_lost(zones, unavailable),
        chance_per_month=chance,
        chance_basis=basis,
        unavailable=unavailable,
    )
    if gang is None:
        return outlook
    risk = risk_of(
        placement,
        problem,
        gang,
        samples_per_second=speed,
        kept=share,
        losses_per_h=losses_per_h,
        constant=not losses and basis in KNOWN,
        losses_basis=basis,
    )
    if wish.unavailable is not None:
        return replace(outlook, risk=risk)
    return replace(
        outlook,
        risk=risk,
        any_lost=risk.any_lost,
        all_lost=risk.all_lost,
        unavailable=max(1 - (chance_of(each.known[0], 1) or 0.0) for each in gang.stocks),
    )


def _losses(
    spot: Sequence[WorkerGroup], workers: int, gang: Gang, problem: Problem
) -> tuple[Losses, ...]:
    """Return losses of spot machines by the capacity table; none if the user knows better."""
    if problem.requirements.interruption is not None or not any(gang.least_losses):
        return ()
    found: list[Losses] = []
    for at, (stock, stay) in enumerate(zip(gang.stocks, gang.least_losses, strict=True)):
        groups = [group for group in spot if gang.index(group) == at]
        if stay is not None:
            rate, zones = stay.losses_per_h, len(stock.zones)
            part = sum(group.count for group in groups) / workers / zones
            per_hour = Interval(value=rate, low=rate, high=rate)
            found.append(Losses(per_hour=per_hour, part=part, times=zones))
            continue
        for group in groups:
            per_hour = of_island(_interruption(group, problem), group.machines).per_hour
            found.append(Losses(per_hour=per_hour, part=1 / workers, times=group.count))
    return tuple(found)


def _basis(gang: Gang, interruption: Interruption) -> str:
    bases = {
        interruption.basis if stay is None else stock.known[0].stays[0].basis
        for stock, stay in zip(gang.stocks, gang.least_losses, strict=True)
    }
    return bases.pop() if len(bases) == 1 else "mixed"


def _spot_parts(group: WorkerGroup) -> list[WorkerGroup]:
    return [part for part in group.parts if part.market != "on_demand"]


def _of_worker(group: WorkerGroup, problem: Problem) -> Interruption:
    """Return how often a worker stops, of whose spot machines one goes."""
    parts = [(_interruption(part, problem), part.machines) for part in _spot_parts(group)]
    return of_island(together(parts), sum(machines for _, machines in parts))


def _interruption(group: WorkerGroup, problem: Problem) -> Interruption:
    """Return how often a spot machine goes: given, else published, else assumed."""
    chance = problem.requirements.interruption
    if chance is not None:
        return replace(
            ASSUMED_INTERRUPTION,
            per_month=rates_per_month(chance, low=chance, high=chance),
            basis="given",
            source="given with --interruption",
        )
    offer = server_offer(replace(group, count=1, machines=1, inner=None), problem)
    if offer.interruption_low is None or offer.interruption_high is None:
        return ASSUMED_INTERRUPTION
    return banded(offer.interruption_low, offer.interruption_high)


def _floor(placement: Placement, problem: Problem) -> float:
    """Return the samples/s of the on-demand machines alone, with an exchange that can run."""
    server = placement.exchange.server
    groups = tuple(group for group in placement.groups if not _spot_parts(group))
    if server is not None and server.market != "on_demand":
        return 0.0
    rest = replace(placement, groups=groups)
    if not groups or not {*needs_place(problem.requirements.datasets)} <= {*rest.places}:
        return 0.0
    plain = replace(
        problem.requirements,
        exchange="auto",
        min_local_steps=None,
        max_local_steps=None,
        aggregator=None,
        storage=None,
    )
    wishes = (problem, replace(problem, requirements=plain))
    admitted = [
        exchange for asked in wishes for exchange in exchanges(asked, rest.workers_by_place)
    ]
    kind = (placement.exchange.strategy, placement.exchange.local_steps)
    same = [exchange for exchange in admitted if (exchange.strategy, exchange.local_steps) == kind]
    return max(
        evaluate(replace(rest, exchange=exchange), problem).processed_per_second
        for exchange in same or admitted
    )


def month_outlook(placement: Placement, got: Estimate, problem: Problem) -> MonthOutlook:
    """Price the egress of a month at this rate, with the tiers of the price list."""
    same_zone = problem.requirements.same_zone
    phases = (*exchange_phases(placement, problem), *activations(placement, problem))
    rounds = HOURS_PER_MONTH * SECONDS_PER_HOUR / got.step.total
    paid = egress_usd_by_link(phases, problem.network, same_zone=same_zone)
    links = {
        (use.src, use.dst): use.bytes_per_step * rounds
        for use in got.links
        if paid[use.src, use.dst] > 0
    }
    return MonthOutlook(
        egress_usd_at_rate=got.usd_per_hour.egress * HOURS_PER_MONTH,
        egress_usd_with_tiers=monthly_egress_usd(links, problem.network, same_zone=same_zone),
    )
