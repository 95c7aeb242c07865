"""The time that this machine itself takes for an exchange: constants of a run without shaped links,
for the prediction of the run with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from placer.documents.manifest.rendezvous import STORE_TRANSPORTS
from placer.launch.rehearsal.scaled_plan import NOTHING, Scaled
from placer.launch.runtime.run_plan import plan_from
from placer.problem.exchange import traits
from placer.records import replace
from placer.workload.constants import Calibration, HostConstants, ServiceConstants

AVERAGES = {"butterfly": 1, "leaders": 2, "region-hub": 1, "region-gossip": 1}
"""Averages inside a zone that the timing of a transport adds up in one step."""
SUMMING = ("fetch in regions", "forward", "fetch", "put")
"""Phases of a function from when all gradients are there to the write of its sum."""
KEPT_ALIVE_ROUND_TRIPS = 1.5
"""Of a request over a connection that is kept: one for a read, two for a write, which asks before
it sends.
"""
LEAST_S = 1e-6
FAST = 1e15
Record = Mapping[str, Any]


def machine_calibration(small: Scaled, rounds: Sequence[Sequence[Record]]) -> Calibration:
    """Read the times of hosts and services off rounds without shaped links.

    Parameters
    ----------
    small
        What was run.
    rounds
        Step records of whole rounds, warm ones.

    Notes
    -----
    The constants hold for this number of workers and these bytes only. Time in which messages are
    under way is left out: with shaped links it passes while the slowest of them is waited for. The
    published form of an average inside a zone knows no way between regions; at full size it is
    nothing beside the bytes, in small it is not: a round trip of the slowest pair is added here for
    each of the two phases, as gloo asks before it sends, and of fragments for each of them.
    """
    placement, problem = small.placement, small.problem
    transport = traits(placement.exchange.strategy).transport
    if transport in STORE_TRANSPORTS:
        return replace(
            NOTHING,
            name="this machine",
            hosts=_hosts(small, 0.0),
            services=_services(small, rounds),
        )
    seconds = _thread_s if small.always_overlaps else _in_turn_s
    beside_s = max(_median(rounds, seconds, max, range(placement.workers)), LEAST_S)
    if transport == "server":
        services = replace(
            NOTHING.services, sum_bytes_per_s=placement.workers * problem.gradient_bytes / beside_s
        )
        return replace(NOTHING, name="this machine", hosts=_hosts(small, 0.0), services=services)
    averages = AVERAGES.get(transport, 1)
    steps = placement.exchange.local_steps if transport.startswith("region-") else 1
    return replace(
        NOTHING,
        name="this machine",
        hosts=_hosts(small, beside_s / averages / steps + _way_s(small, transport)),
    )


def _hosts(small: Scaled, base_s: float) -> dict[str, HostConstants]:
    return {
        gpu.host: HostConstants(base_s, 0.0, 0.0) for gpu in small.problem.catalog.gpus.values()
    }


def _in_turn_s(record: Record) -> float:
    """Return the seconds of a step that are neither calculation nor messages."""
    return float(record["step_s"] - record["calculation_s"] - record["wire_s"])


def _thread_s(record: Record) -> float:
    """Return the seconds of an exchange in a thread of its own that are not messages."""
    beside = record.get("beside", {"exchange_s": 0.0, "flushed_s": 0.0})
    return float(beside["exchange_s"] + beside["flushed_s"] - record["wire_s"])


def _way_s(small: Scaled, transport: str) -> float:
    """Return two round trips of the slowest pair of regions that average together, for each
    exchange of a round; averages inside regions have none.
    """
    places, network = small.placement.places, small.problem.network
    if transport not in ("butterfly", "leaders"):
        return 0.0
    slowest = max((network.link(a, b).rtt_s for a in places for b in places if a != b), default=0.0)
    return 2 * slowest * small.exchanges_per_round / AVERAGES[transport]


def _services(small: Scaled, rounds: Sequence[Sequence[Record]]) -> ServiceConstants:
    """Calibrate the services: the latency of the store from uploads and downloads that had it to
    themselves, sums from the other phases of the functions.

    Notes
    -----
    Behind shaped links workers come one after the other, so the fastest of a round says how long
    the store takes for one. Of functions in several regions the sums are taken together: of all
    gradients and all seconds.
    """
    plan = plan_from(small.manifest(), "rehearsal")
    up, down = (
        _phase_s(rounds, (phase,), min, range(plan.workers)) for phase in ("upload", "download")
    )
    start_s = (up + down) / 2
    summed_s = sum(
        _phase_s(rounds, SUMMING, max, (rank,)) - start_s
        for rank in range(plan.workers, plan.ranks)
    )
    gradients = sum(len(hub.gathers) for hub in plan.hubs)
    return ServiceConstants(
        start_s=start_s,
        round_trips=KEPT_ALIVE_ROUND_TRIPS,
        stream_bytes_per_s=FAST,
        function_bytes_per_s=FAST,
        sum_bytes_per_s=gradients * small.problem.gradient_bytes / max(LEAST_S, summed_s),
        server_sum_bytes_per_s=None,
    )


def _phase_s(
    rounds: Sequence[Sequence[Record]],
    phases: Sequence[str],
    pick: Callable[[Iterable[float]], float],
    ranks: Collection[int],
) -> float:
    """Return the median over rounds of the seconds that the picked rank took for some phases."""
    return _median(
        rounds,
        lambda record: sum(record["exchange_s"].get(phase, 0.0) for phase in phases),
        pick,
        ranks,
    )


def _median(
    rounds: Sequence[Sequence[Record]],
    seconds: Callable[[Record], float],
    pick: Callable[[Iterable[float]], float],
    ranks: Collection[int],
) -> float:
    """Return the median over rounds of the least or most seconds that one of some ranks took."""
    each = []
    for records in rounds:
        by_rank: defaultdict[int, float] = defaultdict(float)
        for record in records:
            if record["rank"] in ranks:
                by_rank[record["rank"]] += seconds(record)
        if by_rank:
            each.append(pick(by_rank.values()))
    return median(each) if each else 0.0
