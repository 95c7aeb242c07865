"""Averaging among peers: inside a zone, then the slowest pair between regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placer.cost_model.timing.lanes import Links
from placer.cost_model.timing.transfer import load_seconds, transfer_seconds
from placer.problem.exchange import Phase
from placer.workload.constants import HIVEMIND, Calibration
from placer.workload.peer import peer_of

GB = 1e9
ASSUMED_TENSORS = 300
"""Tensor count of a model whose profile does not say."""


def averaging_seconds(
    hosts: Iterable[str],
    gradient_bytes: float,
    workers: int,
    tensors: int | None,
    calibration: Calibration,
) -> float:
    """Return the seconds of an average inside one zone, by the slowest class. ``hosts``: names of
    classes: of ``calibration.hosts``, whose seconds to serialise, average and deserialise are l0 +
    l1 S + l2 N + l3 T + l4 2 (N - 1) / N S, or of `placer.workload.peer`, rings over a network.
    ``gradient_bytes``: S, compressed. ``workers``: N; one worker has nothing to average.
    ``tensors``: T; None takes `ASSUMED_TENSORS`.

    >>> from placer.workload.constants import PUBLISHED
    >>> # 4.96 x 1.75 x 1.12 + 0.279 x 8 + 0.0064 x 394
    >>> round(averaging_seconds(["a10"], 1.12e9, 8, 394, PUBLISHED), 2)
    14.48
    """
    if workers < 2:
        return 0.0
    count = ASSUMED_TENSORS if tensors is None else tensors
    return max(_class_seconds(name, gradient_bytes, workers, count, calibration) for name in hosts)


def _class_seconds(
    name: str, gradient_bytes: float, workers: int, tensors: int, calibration: Calibration
) -> float:
    peer, host = peer_of(name), calibration.hosts.get(name)
    if peer is not None and host is None:  # what a user's own runs say wins
        return peer.seconds(gradient_bytes, workers)
    host = calibration.hosts[name]
    return (
        host.base_s
        + (host.s_per_gb + host.s_per_gb_sent * 2 * (workers - 1) / workers) * gradient_bytes / GB
        + host.s_per_peer * workers
        + host.s_per_tensor * tensors
    )


def wan_seconds(
    phases: Sequence[Phase],
    network: Links,
    calibration: Calibration,
    streams: int = 1,
    case: int = 0,
    *,
    peers: int = 2,
    software: str = HIVEMIND,
) -> float:
    """Return the slowest pair between regions, phase after phase, times its factor; not faster than
    the busiest machine can send. ``streams``: TCP streams side by side on each pair. ``case``: 0
    expected, 1 slow, 2 fast. ``peers``: workers that exchange; two bound the seconds from below.
    ``software``: what averages: hivemind's factors on links are its own.
    """
    total = 0.0
    for phase in phases:
        between = [
            calibration.line_factor(
                software, t.src, t.dst, rtt_s=link.rtt_s, peers=peers, case=case
            )
            * transfer_seconds(t.bytes, link, streams, case)
            for t in phase.transfers
            if t.src != t.dst
            for link in [network.link(t.src, t.dst)]
        ]
        if between:
            total += max(*between, load_seconds(phase, network, inside=False))
    return total
