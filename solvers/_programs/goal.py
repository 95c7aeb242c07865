"""Readings that rounds share, limits and goal of a program: what every transport adds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from placer.cost_model import dollars as cost
from placer.cost_model.limits import TOLERANCE
from placer.cost_model.timing.transfers import averaging_seconds
from placer.problem.datasets import needs_place
from placer.problem.exchange import Phase
from placer.units import SECONDS_PER_HOUR

from .linear import CONSTANT, Terms, plus, times
from .site_groups import SiteGroup


def averaging(site_group: SiteGroup, host: str, workers: int) -> float:
    problem = site_group.problem
    spread = problem.calibration.spread({host}, 0)
    return spread * averaging_seconds(
        {host}, problem.gradient_bytes, workers, problem.profile.tensors, problem.calibration
    )


def egress(site_group: SiteGroup, phases: Sequence[Phase]) -> float:
    return cost.egress_usd(
        phases, site_group.problem.network, same_zone=site_group.problem.requirements.same_zone
    )


def calculation(site_group: SiteGroup) -> dict[int, float]:
    """Return the seconds of calculation: B / V, or as the data lies."""
    problem, batch, model = site_group.problem, site_group.problem.batch, site_group.model
    datasets = problem.requirements.datasets
    total = float(sum(data.samples for data in datasets))
    items: list[Terms] = []
    if not datasets or problem.requirements.data_moves:
        site_group.shared_s = site_group.hyperbola("all", batch, site_group.speed())
        items.append({site_group.shared_s: 1.0})
    own = {
        p: batch * staying(site_group, p) / total
        for p in needs_place(datasets)
        if p in site_group.places
    }
    items += [
        {site_group.hyperbola(p, amount, site_group.speed(p)): 1.0} for p, amount in own.items()
    ]
    return dict(items[0]) if len(items) == 1 else model.largest(items)


def staying(site_group: SiteGroup, place: str) -> float:
    return float(
        sum(
            d.samples
            for d in site_group.problem.requirements.datasets
            if d.place == place and not d.may_move
        )
    )


PER_SAMPLE = ("cost-per-sample", "total")
"""Objectives that are a price of samples."""


def close(site_group: SiteGroup, round_s: Terms, round_usd: Terms, hourly_usd: float) -> None:
    """Add limits and goal: T, USD/h = machines + 3600 / T x USD of a round, with 3600 / T at the
    end of the part, grams an hour, or C T + 3600 E for the price of a sample, and for all of them C
    (T + s) + 3600 E, where s is the share of a round in the start.
    """
    part, wish, model = site_group.part, site_group.problem.requirements, site_group.model
    if part.least_s > 0:  # rounds may be longer than the program says
        round_s = plus(round_s, {model.variable(0.0, part.least_s): 1.0})
    site_group.round_s = round_s
    _keep_within(site_group, round_s)
    machines = plus(site_group.machines_usd(), {CONSTANT: hourly_usd})
    usd = plus(machines, times(SECONDS_PER_HOUR / part.most_s, round_usd))
    if wish.budget_usd_per_hour is not None:
        model.at_most(usd, wish.budget_usd_per_hour * (1 + TOLERANCE))
    goals = {"throughput": dict(round_s), "cost": usd}
    if wish.counts_carbon:
        goals["carbon"] = site_group.machines_carbon_g()
        if wish.max_carbon_g_per_hour is not None:
            model.at_most(goals["carbon"], wish.max_carbon_g_per_hour * (1 + TOLERANCE))
    most_paid = _most_paid(site_group)
    if most_paid < inf or wish.objective in PER_SAMPLE:
        paid = _paid(site_group, machines, round_s, round_usd, most_paid)
        if most_paid < inf:  # of which the start may be a part
            model.at_most(paid, most_paid)
        startup_s = (
            wish.startup_s_per_sample * site_group.frame.samples / site_group.frame.multiplier
        )
        goals["cost-per-sample"] = paid
        goals["total"] = dict(plus(paid, times(startup_s, machines)))
    model.goal = goals[wish.objective]
    if part.most_goal < inf and wish.objective != "throughput":  # of which `most_s` is the end
        model.at_most(model.goal, part.most_goal)


def _keep_within(site_group: SiteGroup, round_s: Terms) -> None:
    """Keep the round within the seconds of the part, and the workers fast enough for its end."""
    part, model = site_group.part, site_group.model
    if part.most_s < inf:
        model.at_most(round_s, part.most_s)
        # No round is shorter than B / V, however the batch is divided.
        model.at_least(site_group.speed(), site_group.frame.samples / part.most_s * (1 - TOLERANCE))
    if part.least_s > 0:
        model.at_least(round_s, part.least_s)


def _most_paid(site_group: SiteGroup) -> float:
    """Return what C T + 3600 E may be, by the limit or by the incumbent."""
    wish, frame = site_group.problem.requirements, site_group.frame
    limit, most = wish.max_usd_per_million_samples, inf
    if limit is not None:
        counted = frame.samples / frame.multiplier / 1e6
        most = limit * (1 + TOLERANCE) * counted * SECONDS_PER_HOUR
    return min(most, site_group.part.most_goal) if wish.objective in PER_SAMPLE else most


def _paid(
    site_group: SiteGroup, machines: Terms, round_s: Terms, round_usd: Terms, most: float
) -> dict[int, float]:
    """Return C T + 3600 E, whose product is a variable from below; ``most`` is what it may be.

    The product lies above its two McCormick planes, and above B rho + C_0 (T - B / V), where rho is
    the least price of a sample/s and C_0 that of the fewest machines: C B / V is no less than B
    rho. Where C T + 3600 E is at most K, multiplied by V: B C + V_0 (C_0 (T - B / V) + 3600 E) is
    at most K V.
    """
    part, model, samples = site_group.part, site_group.model, site_group.frame.samples
    prices = [pool.usd_per_hour for pool in site_group.pools]
    lowest = part.low * min(prices, default=0.0) + machines.get(CONSTANT, 0.0)
    slowest = part.low * min(site_group.rates, default=0.0)
    rho = min((usd / v for usd, v in zip(prices, site_group.rates, strict=True)), default=0.0)
    least, highest = model.reach(machines)
    least = max(least, lowest)
    budget = site_group.problem.requirements.budget_usd_per_hour
    if budget is not None:
        highest = min(highest, budget * (1 + TOLERANCE))
    longest = min(part.most_s, model.reach(round_s)[1])
    # By B rho it may be more than by the seconds of the program, which are those of a bound.
    product = model.variable(0.0, max(least, highest) * longest + samples * rho)
    planes = [(part.least_s, least)]
    if part.most_s < inf:
        planes.append((part.most_s, highest))
    for t, c in planes:
        model.at_least(plus({product: 1.0}, times(-t, machines), times(-c, round_s)), -t * c)
    waited: Terms = {}  # seconds of a round beside the calculation
    if site_group.shared_s is not None:
        waited = plus(round_s, {site_group.shared_s: -float(site_group.frame.local_steps)})
    model.at_least(plus({product: 1.0}, times(-least, waited)), samples * rho)
    sent = times(SECONDS_PER_HOUR, round_usd)
    if most < inf:
        taken = times(slowest, plus(times(least, waited), sent))
        model.at_most(plus(times(samples, machines), taken, times(-most, site_group.speed())))
    return plus({product: 1.0}, sent)
