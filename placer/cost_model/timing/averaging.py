"""Averaging among peers as hivemind does it: the host's work, then the slowest pair between
regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placer.cost_model.timing.transfer import load_seconds, transfer_seconds
from placer.market.network.graph import Network
from placer.problem.exchange.phase import Phase
from placer.workload.constants import Calibration

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
    """Return the seconds to serialise, average and deserialise inside one zone: l0 + l1 S + l2 N +
    l3 T of the slowest host class.

    Parameters
    ----------
    hosts
        Names of classes in ``calibration.hosts``.
    gradient_bytes
        S, compressed.
    workers
        N; one worker has nothing to average.
    tensors
        T; None takes `ASSUMED_TENSORS`.

    Examples
    --------
    >>> from placer.workload.constants import PUBLISHED
    >>> # 7.26 x 1.12 + 0.304 x 8 + 0.00669 x 394
    >>> round(averaging_seconds(["a10"], 1.12e9, 8, 394, PUBLISHED), 2)
    13.2
    """
    if workers < 2:
        return 0.0
    count = ASSUMED_TENSORS if tensors is None else tensors
    constants = (calibration.hosts[host] for host in hosts)
    return max(
        h.base_s
        + h.s_per_gb * gradient_bytes / GB
        + h.s_per_peer * workers
        + h.s_per_tensor * count
        for h in constants
    )


def wan_seconds(
    phases: Sequence[Phase],
    network: Network,
    calibration: Calibration,
    streams: int = 1,
    case: int = 0,
) -> float:
    """Return the slowest pair between regions, phase after phase, times kappa; not faster than the
    busiest machine can send.

    Parameters
    ----------
    streams
        TCP streams side by side on each pair.
    case
        0 expected, 1 slow, 2 fast.
    """
    total = 0.0
    for phase in phases:
        between = [
            transfer_seconds(t.bytes, network.link(t.src, t.dst), streams, case)
            for t in phase.transfers
            if t.src != t.dst
        ]
        if between:
            total += max(
                calibration.kappa[case] * max(between), load_seconds(phase, network, inside=False)
            )
    return total
