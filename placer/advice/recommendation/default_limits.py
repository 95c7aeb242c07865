"""Limits that nobody asked for, named where an answer reaches them, and reservations it needs."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import offer_of
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import MOST_LAUNCHED, Requirements
from placer.solving.answer import Warn
from placer.units import counted
from placer.workload.island.hardware import MOST_ISLAND_MACHINES

USUAL_WORKERS = Requirements().max_workers
"""Workers of an answer at most, where nobody asks for a number."""
MORE_WORKERS = (4 * USUAL_WORKERS, 16 * USUAL_WORKERS)
"""To these the number grows where it limits an answer: 1,024 take four times the CPU of 64."""
LARGE_MACHINE_GPUS = 8
"""GPUs of the machines that clouds reserve in blocks."""


def default_limits(problem: Problem, placement: Placement) -> Iterator[Warn]:
    """Yield the limits by default that a placement reaches."""
    offers = {part.offer_kind: offer_of(part, problem) for part in placement.parts}
    machines, least = dict.fromkeys(offers, 0), dict[object, int]()
    for part in placement.parts:
        machines[part.offer_kind] += part.machine_count
        least[part.offer_kind] = min(part.machines, least.get(part.offer_kind, part.machines))
    scarce = [
        f"{machines[kind]} of {counted(supply, 'spot machine')} {offer.instance_type} in "
        f"{offer.place}"
        for kind, offer in offers.items()
        for supply in [problem.supply(offer)]
        if supply is not None and machines[kind] + least[kind] > supply
    ]
    if scarce:
        yield Warn(
            "supply",
            f"uses {', '.join(scarce)}: more are not known to launch together (assumed where no "
            "capacity table says it); --supply any plans with more",
        )
    reserved = [
        f"{machines[kind]} on-demand machines of {offer.gpu_count} x {offer.gpu} in {offer.place}"
        for kind, offer in offers.items()
        if needs_reservation(offer, machines[kind])
    ]
    if reserved:
        yield Warn("reservation", f"needs a reservation: {', '.join(reserved)}")
    yield from _workers(problem, placement)


def needs_reservation(offer: VmOffer, machines: int) -> bool:
    """Tell whether so many large machines on demand are more than anybody launches unannounced."""
    rented = offer.market == "on_demand" and offer.price_basis not in ("owned", "reserved")
    return rented and offer.gpu_count >= LARGE_MACHINE_GPUS and machines > MOST_LAUNCHED


def _workers(problem: Problem, placement: Placement) -> Iterator[Warn]:
    """Yield that the number of workers, the size of an island or the batch is a default's most."""
    wish, workers = problem.requirements, placement.workers
    if is_usual(wish) and workers == wish.max_workers:
        yield Warn(
            "default-workers",
            f"{workers:,} workers are the most that were looked at, as nobody asked for "
            f"more: --workers 1..{4 * workers}",
        )
    assumed = any(offer_of(g, problem).max_island_machines is None for g in placement.groups)
    if assumed and any(g.machines == MOST_ISLAND_MACHINES for g in placement.groups):
        yield Warn(
            "default-island",
            f"no island has more than {MOST_ISLAND_MACHINES} machines where the book names "
            f"no limit (assumed)",
        )
    if wish.target_batch_size is None and not wish.open_batches and _has_all(problem, placement):
        yield Warn(
            "default-batch",
            f"the model's usual batch of {problem.batch:,} is divided as far as it can be: "
            f"more machines need a larger --tbs",
        )


def is_usual(wish: Requirements) -> bool:
    """Tell whether the most workers are a default, or what it grew to."""
    usual = wish.max_workers in (USUAL_WORKERS, *MORE_WORKERS)
    return usual and wish.min_workers < wish.max_workers


def _has_all(problem: Problem, placement: Placement) -> bool:
    """Tell whether every rank has one sequence of a step, or every worker one sample."""
    ranks = sum(
        part.count if part.inner is None else part.gpus // part.inner.rank_gpus
        for part in placement.parts
    )
    return ranks >= problem.batch
