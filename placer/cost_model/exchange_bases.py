"""How each time of an exchange is known, and under what software."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

from placer.cost_model.timing.services import summing_vcpus
from placer.problem.admitted_exchanges import server_offer
from placer.problem.exchange import traits
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.workload.constants import HIVEMIND, PUBLISHED, peer_of
from placer.workload.island.transports import transport

RINGS_BETWEEN = ("butterfly", "leaders")
"""Transports whose bytes between regions take a multiple of bytes over bandwidth."""
STREAMS = "transfers between servers: published: 2 to 5 % of runs through emulated links"
STORES = "store and function times: assumed"
HIVEMIND_BASES = {
    "butterfly": "averaging time: measured: runs of Erben et al. (2024) under hivemind inside one "
    "zone; hosts of unmeasured devices: assumed alike",
    "leaders": "averaging time: estimated: measured averages under hivemind inside a zone (Erben "
    "et al., 2024), put together by level",
    "region-hub": f"{STREAMS}; averages inside regions as measured under hivemind",
    "region-gossip": f"{STREAMS}; averages inside regions as measured under hivemind",
}
"""How the time of each transport is known where hivemind averages inside zones."""
RING_BASES = {
    "butterfly": "",
    "leaders": "averages of several levels: estimated: rings put together by level",
    "region-hub": STREAMS,
    "region-gossip": STREAMS,
}
"""How the rest of a transport's time is known where averages inside a zone are rings."""
BASES = {
    "server": "push and pull: published: 1 to 5 % of runs through emulated links; the server's "
    "network: assumed",
    "store": STORES,
    "regional-stores": STORES,
}
"""How the time of the other transports is known."""


def exchange_bases(hosts: Iterable[str], placement: Placement, problem: Problem) -> list[str]:
    """Return a sentence on each time of an exchange. ``hosts``: classes of averaging time of the
    workers.
    """
    used, calibrated = placement.exchange, problem.calibration.name != PUBLISHED.name
    kind = traits(used.strategy).transport
    sentences = []
    if kind in RING_BASES and used.transport == HIVEMIND:
        sentences.append(HIVEMIND_BASES[kind])
    elif kind in RING_BASES:
        bases = {_ring_basis(host, problem) for host in hosts}
        sentences += [*sorted(bases), RING_BASES[kind]]
    elif kind in BASES:
        sentences.append(BASES[kind])
    if kind == "server":
        sentences.append(_sum_basis(used, problem))
    if kind in BASES:
        title = transport(used.transport).title
        sentences.append(f"loss of speed beside the exchange: assumed: as under {title}")
    if kind in RINGS_BETWEEN and calibrated:
        sentences.append(
            f"averaging time and links between regions: calibrated: {problem.calibration.name}"
        )
    elif kind in RINGS_BETWEEN:
        sentences += _line_bases(placement, problem)
    return sentences


def _ring_basis(name: str, problem: Problem) -> str:
    peer = peer_of(name)
    if peer is None:
        return ""
    rate = f"{peer.gbps:g} Gb/s of each worker"
    if name in problem.calibration.hosts:
        return f"averaging time: {peer.via.title} over {rate}: measured: {problem.calibration.name}"
    assumed = ", assumed where a provider promises none" if peer.is_assumed else ""
    return f"averaging time: {peer.via.title} over {rate}{assumed}: published: {peer.via.source}"


def _sum_basis(used: Exchange, problem: Problem) -> str:
    rate = problem.calibration.services.server_sum_bytes_per_s
    if rate is None or used.server is None:
        return "the server's sum: assumed"
    server = server_offer(used.server, problem)
    return (
        f"the server's sum: {rate / 1e9:.2f} GB/s a vCPU, in FP32: {_sum_source(problem)}; times "
        f"{summing_vcpus(server):g} for the {server.vcpus:g} vCPUs of {server.instance_type}: "
        f"assumed"
    )


def _sum_source(problem: Problem) -> str:
    if problem.calibration.services.server_sum_bytes_per_s == (
        PUBLISHED.services.server_sum_bytes_per_s
    ):
        return "measured on 2 vCPUs of another machine, November 2026"
    return f"measured: {problem.calibration.name}"


def _line_bases(placement: Placement, problem: Problem) -> list[str]:
    """Say how the time of bytes between regions is known: hivemind's factors were fitted."""
    software, places = placement.exchange.transport, placement.places
    leaders = traits(placement.exchange.strategy).transport == "leaders"
    factors = {
        problem.calibration.line_factor(
            software,
            a,
            b,
            rtt_s=problem.network.link(a, b).rtt_s,
            peers=len(places) if leaders else placement.workers,
        )
        for a, b in permutations(places, 2)
    }
    known = "measured: runs of Erben et al. (2024)" if software == HIVEMIND else "assumed"
    title = transport(software).title
    return [
        f"between regions: {factor:.3g} x bytes over bandwidth under {title}: {known}"
        for factor in sorted(factors)
    ]
