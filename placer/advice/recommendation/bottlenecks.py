"""Warnings about workers that wait: for samples, or for the network they are promised."""

from __future__ import annotations

import math
from collections.abc import Iterator

from placer.cost_model.estimate import Estimate, exchange_phases, pool_of
from placer.cost_model.timing.site_groups import worker_rate
from placer.cost_model.timing.transfers import machine_loads
from placer.market.catalog import VmOffer
from placer.market.network.tables import GBPS
from placer.problem.admitted_exchanges import server_offer
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import Warn
from placer.units import format_bandwidth, format_seconds, format_speed

SLACK = 1e-6
"""What workers ask a line for is as much as it carries up to this share."""
USUAL_LIMIT_BYTES_PER_S = 50e9 / 8
"""What a store gives for sure where no limit of it is known: the least default limit that a large
provider publishes (Azure Storage, 2025-10-31).
"""


def loading_warnings(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield the machines that wait for data, and what a store of unknown limits has to give."""
    store, size = problem.data_store, problem.profile.bytes_per_sample
    if store is None or size is None:
        return
    name = problem.requirements.data_store
    most, passes = problem.most_loaded_samples_per_s, got.data_passes
    reading = got.samples_per_second.value if passes is None else passes.first_samples_per_second
    together = reading * size
    framework = traits(placement.exchange.strategy).framework
    at: dict[str, float] = {}
    for group in placement.groups:
        pool = pool_of(group, problem, placement.workers)
        first = group.count * pool.first(worker_rate(pool, framework).value)
        at[group.place] = at.get(group.place, 0.0) + first
    yield from _waiting(problem, placement, got.tokens_per_sample)
    able = 0.0
    for place, speed in at.items():
        line = problem.line_samples_per_s(place)
        able += min(speed, line)
        if speed > line * (1 + SLACK):
            yield Warn(
                "data-bound",
                f"workers in {place} wait for data: its line carries "
                f"{format_bandwidth(line * size)} to all of them together "
                f"({problem.network.link(place, place).basis})",
            )
    if able > most:
        when = "" if passes is None else f" in the first of {passes.passes:,.3g} passes"
        yield Warn(
            "data-bound",
            f"workers wait for data{when}: {name} gives {format_bandwidth(most * size)} to "
            "all readers together by default",
        )
    elif most == math.inf and together > USUAL_LIMIT_BYTES_PER_S:
        yield Warn(
            "store-limit",
            f"{name} has to give {format_bandwidth(together)} to all readers together; its "
            "limit is not known, so none is assumed: ask the provider, or set read_gbps in a book",
        )


def _waiting(problem: Problem, placement: Placement, length: int | None) -> Iterator[Warn]:
    """Yield the machines that read more slowly than they calculate."""
    store = problem.requirements.data_store
    beside = replace(problem, requirements=replace(problem.requirements, data_store=None))
    framework, told = traits(placement.exchange.strategy).framework, set()
    for group in placement.groups:
        pool = pool_of(group, problem, placement.workers)
        speed = worker_rate(pool, framework).value
        able = worker_rate(pool_of(group, beside, placement.workers), framework).value
        kind = group.place, pool.name
        if speed >= 0.99 * able or kind in told:
            continue
        told.add(kind)
        read, first = problem.read_bytes_per_s(pool.offer), pool.first(speed)
        when = later = ""
        if pool.keeps_data:
            then = format_speed(worker_rate(pool.in_pass(2), framework).value, length)
            when, later = " in the first pass", f"; {then} in later ones, from its local disks"
            later += " (assumed)"
        yield Warn(
            "data-bound",
            f"{pool.name} in {group.place} waits for data{when}: a machine reads "
            f"{format_bandwidth(read.value)} from {store} ({read.basis}), so a worker makes "
            f"{format_speed(first, length)} of {format_speed(able, length)}{later}",
        )


def network_warnings(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Name machines whose promised network takes longer than the exchange takes by the model."""
    named, seconds = set(), got.step.communication
    for offer, moved in _moved_bytes(problem, placement):
        if offer.network_gbps is None or offer.instance_type in named:
            continue
        least_s = moved / (offer.network_gbps * GBPS)
        if least_s > seconds:
            named.add(offer.instance_type)
            yield Warn(
                "promised-network",
                f"{offer.instance_type} is promised {offer.network_gbps:g} Gb/s for long: "
                f"{format_seconds(least_s)} an exchange; the {format_seconds(seconds)} of the "
                "model need its bursts",
            )


def _moved_bytes(problem: Problem, placement: Placement) -> Iterator[tuple[VmOffer, float]]:
    """Yield the machines of a placement with what each sends or receives in all of an exchange."""
    pools = [pool_of(group, problem) for group in placement.groups]
    exchange, each = placement.exchange, 2 * problem.gradient_bytes
    if traits(exchange.strategy).transport == "server" and exchange.server is not None:
        yield server_offer(exchange.server, problem), placement.workers * each
        # The machines of an island send their parts side by side.
        yield from ((p.offer, each / p.machines) for p in pools)
        return
    loads: dict[str, float] = {}
    for phase in exchange_phases(placement, problem):
        for place, size in machine_loads(phase, inside=True).items():
            loads[place] = loads.get(place, 0.0) + size
    yield from ((p.offer, loads.get(p.place, 0.0) / p.machines) for p in pools)
