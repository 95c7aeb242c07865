"""What this machine itself takes for an exchange: constants of a run without shaped links, for the prediction of the run with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from placer.calibration import Calibration, HostConstants, ServiceConstants
from placer.exchange import traits
from placer.fitting.run_log import round_seconds
from placer.rehearsal.scaled import NOTHING, Scaled

AVERAGES = {"butterfly": 1, "leaders": 2, "region-hub": 1, "region-gossip": 1}
"""Averages inside a zone that the timing of a transport adds up in one step."""
KEPT_ALIVE_ROUND_TRIPS = 1.5
"""Of a request over a connection that is kept: one for a read, two for a write, which asks before it sends."""
LEAST_S = 1e-6
FAST = 1e15
Record = Mapping[str, Any]


def calibrated(small: Scaled, rounds: Sequence[Sequence[Record]]) -> Calibration:
    """Read the times of hosts and services off rounds without shaped links.

    Parameters
    ----------
    small
        What was run.
    rounds
        Step records of whole rounds, warm ones.

    Notes
    -----
    The constants hold for this number of workers and these bytes only. The published form of an average inside a zone knows no
    way between regions; at full size it is nothing beside the bytes, in small it is not: a round trip of the slowest pair is added
    here for each of the two phases, as gloo asks before it sends.
    """
    placement, problem = small.placement, small.problem
    transport = traits(placement.exchange.strategy).transport
    found = round_seconds(rounds, placement.workers)
    between = 0.0 if found is None else max(found.between, LEAST_S)
    if transport == "store":
        return replace(NOTHING, name="this machine", hosts=_hosts(small, 0.0), services=_services(small, rounds, between))
    if transport == "server":
        rate = placement.workers * problem.gradient_bytes / between
        services = replace(NOTHING.services, sum_bytes_per_s=rate)
        return replace(NOTHING, name="this machine", hosts=_hosts(small, 0.0), services=services)
    averages = AVERAGES.get(transport, 1)
    steps = placement.exchange.local_steps if transport.startswith("region-") else 1
    return replace(NOTHING, name="this machine", hosts=_hosts(small, between / averages / steps + _way_s(small, transport)))


def _hosts(small: Scaled, base_s: float) -> dict[str, HostConstants]:
    return {gpu.host: HostConstants(base_s, 0.0, 0.0) for gpu in small.problem.catalog.gpus.values()}


def _way_s(small: Scaled, transport: str) -> float:
    """Two round trips of the slowest pair of regions that average together; averages inside regions have none."""
    places, network = small.placement.places, small.problem.network
    if transport not in ("butterfly", "leaders"):
        return 0.0
    slowest = max((network.link(a, b).rtt_s for a in places for b in places if a != b), default=0.0)
    return 2 * slowest / AVERAGES[transport]


def _services(small: Scaled, rounds: Sequence[Sequence[Record]], between: float) -> ServiceConstants:
    """Starts from uploads and downloads, sums from what is left of the round."""
    start_s = 0.5 * (_slowest(rounds, "upload") + _slowest(rounds, "download"))
    rest = max(LEAST_S, between - 3 * start_s)
    return ServiceConstants(
        start_s=start_s,
        round_trips=KEPT_ALIVE_ROUND_TRIPS,
        stream_bytes_per_s=FAST,
        function_bytes_per_s=FAST,
        sum_bytes_per_s=small.placement.workers * small.problem.gradient_bytes / rest,
    )


def _slowest(rounds: Sequence[Sequence[Record]], phase: str) -> float:
    """Median over rounds of the slowest rank's seconds in a phase."""
    each = []
    for found in rounds:
        by_rank: defaultdict[int, float] = defaultdict(float)
        for record in found:
            by_rank[record["rank"]] += record["exchange_s"].get(phase, 0.0)
        each.append(max(by_rank.values(), default=0.0))
    return median(each) if each else 0.0
