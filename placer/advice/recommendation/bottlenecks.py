"""What holds an answer back: links, stores, and limits that nobody asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator

from placer.cost_model.estimate import Estimate, exchange_phases, offer_of, pool_of
from placer.cost_model.timing.site_groups import worker_rate
from placer.cost_model.timing.transfers import machine_loads
from placer.market.catalog import VmOffer
from placer.market.network.tables import GBPS
from placer.problem.admitted_exchanges import server_offer
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import MOST_LAUNCHED, Requirements
from placer.records import replace
from placer.solving.answer import Warn
from placer.units import counted, format_bandwidth, format_seconds, format_speed
from placer.workload.island.hardware import MOST_ISLAND_MACHINES

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
    # Every rank has one sequence of a step, or every worker one sample.
    ranks = sum(
        part.count if part.inner is None else part.gpus // part.inner.rank_gpus
        for part in placement.parts
    )
    if wish.target_batch_size is None and not wish.open_batches and ranks >= problem.batch:
        yield Warn(
            "default-batch",
            f"the model's usual batch of {problem.batch:,} is divided as far as it can be: "
            f"more machines need a larger --tbs",
        )


def is_usual(wish: Requirements) -> bool:
    """Tell whether the most workers are a default, or what it grew to."""
    usual = wish.max_workers in (USUAL_WORKERS, *MORE_WORKERS)
    return usual and wish.min_workers < wish.max_workers
