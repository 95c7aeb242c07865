"""Readings that rounds share: averages and egress as numbers, calculation as an expression."""

from __future__ import annotations

from collections.abc import Sequence

from placer.cost_model.dollars import components as cost
from placer.cost_model.timing.averaging import averaging_seconds
from placer.problem.data.datasets import needs_place
from placer.problem.exchange.phase import Phase

from .crew import Crew
from .linear import Terms


def averaging(crew: Crew, host: str, workers: int) -> float:
    problem = crew.problem
    spread = problem.calibration.spread({host}, 0)
    crew.exact = crew.exact and not problem.calibration.spreads
    return spread * averaging_seconds(
        {host}, problem.gradient_bytes, workers, problem.profile.tensors, problem.calibration
    )


def egress(crew: Crew, phases: Sequence[Phase]) -> float:
    return cost.egress_usd(
        phases, crew.problem.network, same_zone=crew.problem.requirements.same_zone
    )


def calculation(crew: Crew) -> dict[int, float]:
    """Return the seconds of calculation of the batch where fast workers do more: B / V, or as the
    data lies.
    """
    problem, batch, model = crew.problem, crew.problem.batch, crew.model
    datasets = problem.requirements.datasets
    total = float(sum(data.samples for data in datasets))
    items: list[Terms] = []
    if not datasets or problem.requirements.data_moves:
        crew.shared_s = crew.hyperbola("all", batch, crew.speed())
        items.append({crew.shared_s: 1.0})
    own = {p: batch * staying(crew, p) / total for p in needs_place(datasets) if p in crew.places}
    items += [{crew.hyperbola(p, amount, crew.speed(p)): 1.0} for p, amount in own.items()]
    crew.exact = crew.exact and not problem.requirements.data_moves
    return dict(items[0]) if len(items) == 1 else model.largest(items, exact=crew.part.least_s > 0)


def staying(crew: Crew, place: str) -> float:
    return float(
        sum(
            d.samples
            for d in crew.problem.requirements.datasets
            if d.place == place and not d.may_move
        )
    )
