"""Limits and wishes that a placement breaks: the check that every answer passes."""

from __future__ import annotations

from dataclasses import dataclass

from placer.estimator import estimate, pool_of
from placer.placement import NO_EXCHANGE, Placement
from placer.problem import Problem
from placer.units import GIB, format_bytes, format_number, format_usd

TOLERANCE = 1e-9
"""Relative slack when a figure is compared with the user's limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A wish or a limit that a placement breaks."""

    code: str
    message: str


def violations(placement: Placement, problem: Problem) -> tuple[Violation, ...]:
    """List every limit and wish that a placement breaks; empty if it may be recommended."""
    found = [*_group_violations(placement, problem), *_quota_violations(placement, problem), *_exchange_violations(placement, problem)]
    wish = problem.requirements
    if not wish.min_workers <= placement.workers <= wish.max_workers:
        found.append(
            Violation(code="workers", message=f"{placement.workers} workers are not within {wish.min_workers}..{wish.max_workers}")
        )
    if not wish.min_regions <= len(placement.places) <= wish.max_regions:
        found.append(
            Violation(code="regions", message=f"{len(placement.places)} regions are not within {wish.min_regions}..{wish.max_regions}")
        )
    if placement.workers > problem.batch:
        found.append(Violation(code="batch", message=f"a step of {problem.batch} samples cannot be shared by {placement.workers} workers"))
    if any(v.code in ("function", "exchange") for v in found):
        return tuple(found)
    got = estimate(placement, problem)
    usd, speed = got.usd_per_hour.total, got.samples_per_second.value
    if wish.budget_usd_per_hour is not None and usd > wish.budget_usd_per_hour * (1 + TOLERANCE):
        found.append(
            Violation(code="budget", message=f"{format_usd(usd)}/h is above the budget of {format_usd(wish.budget_usd_per_hour)}/h")
        )
    if wish.min_samples_per_second is not None and speed < wish.min_samples_per_second * (1 - TOLERANCE):
        floor = format_number(wish.min_samples_per_second)
        found.append(Violation(code="throughput", message=f"{format_number(speed)} samples/s is below the floor of {floor} samples/s"))
    return tuple(found)


def _group_violations(placement: Placement, problem: Problem) -> list[Violation]:
    found = []
    for group in placement.groups:
        offer = pool_of(group, problem).offer
        found += [Violation(code=code, message=message) for code, message in problem.offer_problems(offer)]
        where = problem.place_problem(group.place)
        if where:
            found.append(Violation(code="place", message=where))
        if offer.available is not None and group.count > offer.available:
            found.append(Violation(code="quota", message=f"{group.spec}: only {offer.available} of {offer.instance_type} exist"))
    return found


def _quota_violations(placement: Placement, problem: Problem) -> list[Violation]:
    used: dict[tuple[str, str, str], int] = {}
    for group in placement.groups:
        key = (group.place, group.gpu, group.market)
        used[key] = used.get(key, 0) + group.count * group.gpu_count
    return [
        Violation(code="quota", message=f"{gpus} x {gpu} {market} in {place} exceed the quota of {problem.quota(place, gpu, market)} GPUs")
        for (place, gpu, market), gpus in sorted(used.items())
        if gpus > problem.quota(place, gpu, market)
    ]


def _exchange_violations(placement: Placement, problem: Problem) -> list[Violation]:
    exchange, wish = placement.exchange, problem.requirements
    found = []
    if (placement.workers == 1) != (exchange.strategy == NO_EXCHANGE):
        found.append(Violation(code="exchange", message=f"{placement.workers} workers with the exchange '{exchange.strategy}'"))
    if wish.exchange not in ("auto", exchange.strategy) and exchange.strategy != NO_EXCHANGE:
        found.append(Violation(code="exchange", message=f"the exchange {exchange.strategy} is not {wish.exchange}"))
    if exchange.compression != problem.compression:
        found.append(Violation(code="compression", message=f"compression {exchange.compression} is not {problem.compression}"))
    for name, wanted, got in (("aggregator", wish.aggregator, exchange.aggregator), ("storage", wish.storage, exchange.storage)):
        if wanted not in (None, got) and exchange.strategy != NO_EXCHANGE:
            found.append(Violation(code=name, message=f"the {name} is in {got}, not in {wanted}"))
    if exchange.strategy == "central":
        found += _function_violations(placement, problem)
    return found


def _function_violations(placement: Placement, problem: Problem) -> list[Violation]:
    exchange = placement.exchange
    if exchange.aggregator is None or exchange.storage is None or exchange.aggregator_memory_gib is None:
        return [Violation(code="function", message="a central exchange needs an aggregator and a store")]
    function, needed = problem.catalog.function(exchange.aggregator), placement.workers * problem.gradient_bytes
    if exchange.aggregator_memory_gib > function.max_memory_gib:
        text = f"{placement.workers} gradients ({format_bytes(needed)}) need {exchange.aggregator_memory_gib:g} GiB"
        return [Violation(code="function", message=f"{text}; a function in {function.place} has at most {function.max_memory_gib:g} GiB")]
    if needed > exchange.aggregator_memory_gib * GIB:
        return [
            Violation(code="function", message=f"{format_bytes(needed)} of gradients do not fit {exchange.aggregator_memory_gib:g} GiB")
        ]
    seconds = estimate(placement, problem).step.function
    if seconds > function.max_seconds:
        return [
            Violation(code="function", message=f"the function runs {seconds:.0f} s; {function.place} allows {function.max_seconds:g} s")
        ]
    return []
