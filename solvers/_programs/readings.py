"""Readings that rounds share: averages and egress as numbers, calculation as an expression."""

from __future__ import annotations

from collections.abc import Sequence

from placer.cost_model import dollars as cost
from placer.cost_model.timing.transfers import averaging_seconds
from placer.problem.datasets import needs_place
from placer.problem.exchange import Phase

from .linear import Terms
from .site_groups import SiteGroup


def averaging(site_group: SiteGroup, host: str, workers: int) -> float:
    problem = site_group.problem
    spread = problem.calibration.spread({host}, 0)
    site_group.exact = site_group.exact and not problem.calibration.spreads
    return spread * averaging_seconds(
        {host}, problem.gradient_bytes, workers, problem.profile.tensors, problem.calibration
    )


def egress(site_group: SiteGroup, phases: Sequence[Phase]) -> float:
    return cost.egress_usd(
        phases, site_group.problem.network, same_zone=site_group.problem.requirements.same_zone
    )


def calculation(site_group: SiteGroup) -> dict[int, float]:
    """Return the seconds of calculation of the batch where fast workers do more: B / V, or as the
    data lies.
    """
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
    site_group.exact = site_group.exact and not problem.requirements.data_moves
    return (
        dict(items[0])
        if len(items) == 1
        else model.largest(items, exact=site_group.part.least_s > 0)
    )


def staying(site_group: SiteGroup, place: str) -> float:
    return float(
        sum(
            d.samples
            for d in site_group.problem.requirements.datasets
            if d.place == place and not d.may_move
        )
    )
