"""Seconds of one step: calculation, and the time each transport needs for the phases of its exchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from placer.exchange.phase import Phase
from placer.network import Link, Network

GB = 1e9


@dataclass(frozen=True, slots=True)
class HostConstants:
    """What averaging costs a host inside one zone: seconds, s/GB, s/peer and s/tensor."""

    base_s: float
    s_per_gb: float
    s_per_peer: float
    s_per_tensor: float = 0.0


HOSTS = {"t4": HostConstants(0.386, 10.53, 0.978), "a10": HostConstants(0.0, 7.26, 0.304, 0.00669)}
"""Calibrated on the logs of Erben et al. (2024): t4 on runs A-2 and A-8 (one zone, 2 and 8 x T4, two models
of like tensor counts, so no term for them), a10 on the 2x and 8x runs of all eight models by non-negative
least squares of the relative error in samples/s. Hosts of devices nobody measured use a10: assumed."""
ASSUMED_TENSORS = 300
"""Tensor count of a model whose profile does not say."""
KAPPA = (1.0, 1.2, 0.74)
"""Factor on the slowest pair between regions: value, slow, fast. 1 is conservative and needs no WAN
run; 0.74 fits the two-continent runs of Erben et al. (2024)."""
AVERAGING_SPREAD = (1.0, 1.15, 0.87)
"""Measured averaging times lie within these multiples of `averaging_seconds`."""

STORE_START_S = 0.5
"""First byte of an object store for a client that connects anew, in region (public S3 measurements)."""
STORE_ROUND_TRIPS = 4
"""TCP and TLS handshakes and the request itself."""
STORE_STREAM_BYTES_PER_S = 90e6
"""One connection to an object store: assumed, as S3's guidance of 85 to 90 MB/s per request."""
FUNCTION_BYTES_PER_S = 75e6
"""Network of a cloud function, about 600 Mb/s: assumed."""
SUM_BYTES_PER_S = 500e6
"""Bytes a function sums per second: assumed."""
POLL_SECONDS = 1.0
"""How often the aggregator lists the store while it waits: assumed."""
STORE_SPREAD = (1.0, 1.5, 0.7)
"""The store's figures are assumed: intervals take these multiples of its delays, and its speeds by as much less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSeconds:
    """One step in seconds.

    Notes
    -----
    ``function`` is how long a cloud function runs (waiting included); ``waiting`` how long it waits
    for the last gradient. ``parts`` names what communication consists of.
    """

    calculation: float
    communication: float
    parts: tuple[tuple[str, float], ...] = ()
    function: float = 0.0
    waiting: float = 0.0

    @property
    def total(self) -> float:
        """From step to step, nothing overlaps.

        Notes
        -----
        Erben et al. (2024), logs: calculation plus communication holds within 0.94 % over 119 runs.
        """
        return self.calculation + self.communication


def averaging_seconds(hosts: Iterable[str], gradient_bytes: float, workers: int, tensors: int | None) -> float:
    """Serialise, average and deserialise inside one zone: l0 + l1 S + l2 N + l3 T of the slowest host class.

    Parameters
    ----------
    hosts
        Names of `HOSTS`.
    gradient_bytes
        S, compressed.
    workers
        N.
    tensors
        T; None takes `ASSUMED_TENSORS`.

    Examples
    --------
    >>> round(averaging_seconds(["a10"], 1.12e9, 8, 394), 2)  # 7.26 x 1.12 + 0.304 x 8 + 0.00669 x 394
    13.2
    """
    count = ASSUMED_TENSORS if tensors is None else tensors
    constants = (HOSTS[host] for host in hosts)
    return max(h.base_s + h.s_per_gb * gradient_bytes / GB + h.s_per_peer * workers + h.s_per_tensor * count for h in constants)


def transfer_seconds(byte_count: float, link: Link, case: int = 0) -> float:
    """Time of one stream over one link; ``case`` 0 takes the value, 1 the low, 2 the high bandwidth."""
    return byte_count / (link.bytes_per_second, link.low, link.high)[case]


def wan_seconds(phases: Sequence[Phase], network: Network, case: int = 0) -> float:
    """Slowest pair between regions, phase after phase, times kappa."""
    slowest = 0.0
    for phase in phases:
        between = [transfer_seconds(t.bytes, network.link(t.src, t.dst), case) for t in phase.transfers if t.src != t.dst]
        slowest += max(between, default=0.0)
    return KAPPA[case] * slowest


def butterfly_step(
    *,
    batch: int,
    rates: Sequence[float],
    hosts: Iterable[str],
    phases: Sequence[Phase],
    gradient_bytes: float,
    tensors: int | None,
    network: Network,
    case: int = 0,
) -> StepSeconds:
    """Step of a hivemind run: B / sum r, then averaging, then the slowest pair of the WAN.

    Parameters
    ----------
    batch
        Samples of a step, all workers together.
    rates
        Samples per second of every worker while it computes.
    hosts
        Averaging class of the hosts (`HOSTS`).
    phases
        Transfers of the all-reduce.
    gradient_bytes
        S, compressed.
    tensors
        T, number of parameter tensors.
    case
        0 expected, 1 slow, 2 fast.
    """
    averaging = AVERAGING_SPREAD[case] * averaging_seconds(hosts, gradient_bytes, len(rates), tensors)
    wan = wan_seconds(phases, network, case)
    return StepSeconds(
        calculation=batch / sum(rates), communication=averaging + wan, parts=(("averaging", averaging), ("between regions", wan))
    )


def store_transfer_seconds(byte_count: float, link: Link, *, start: bool, cap: float, case: int = 0) -> float:
    """Time to put or get one object: affine in its bytes, never bytes over bandwidth alone."""
    speed = min(cap / STORE_SPREAD[case], (link.bytes_per_second, link.low, link.high)[case])
    return STORE_SPREAD[case] * ((STORE_START_S if start else 0.0) + STORE_ROUND_TRIPS * link.rtt_s) + byte_count / speed


def aggregate_seconds(gradient_bytes: float, workers: int, fetch: Link, put: Link, case: int = 0) -> float:
    """Time of the function once all gradients are there: N reads, the sum, one write.

    Notes
    -----
    Phalak et al. (2024), section 5: aggregate = N x (read of S) + sum + (write of S).
    """
    read = store_transfer_seconds(gradient_bytes, fetch, start=False, cap=FUNCTION_BYTES_PER_S, case=case)
    write = store_transfer_seconds(gradient_bytes, put, start=False, cap=FUNCTION_BYTES_PER_S, case=case)
    summing = workers * gradient_bytes / SUM_BYTES_PER_S
    return STORE_SPREAD[case] * (STORE_START_S + summing) + workers * read + write


def store_step(
    *,
    calculation: Sequence[float],
    uplinks: Sequence[Link],
    downlinks: Sequence[Link],
    fetch: Link,
    put: Link,
    gradient_bytes: float,
    case: int = 0,
) -> StepSeconds:
    """Step of a serverless exchange: max(calculation + upload) + aggregate + max(download).

    Parameters
    ----------
    calculation
        Seconds of each worker for its share of the batch.
    uplinks, downlinks
        Link of each worker to the store and back.
    fetch, put
        Links between store and function.
    """
    ready = [
        c + store_transfer_seconds(gradient_bytes, up, start=True, cap=STORE_STREAM_BYTES_PER_S, case=case)
        for c, up in zip(calculation, uplinks, strict=True)
    ]
    downloads = [store_transfer_seconds(gradient_bytes, d, start=True, cap=STORE_STREAM_BYTES_PER_S, case=case) for d in downlinks]
    aggregate = aggregate_seconds(gradient_bytes, len(calculation), fetch, put, case)
    slowest, waiting = max(calculation), max(ready) - min(ready)
    upload, download = max(ready) - slowest, max(downloads)
    return StepSeconds(
        calculation=slowest,
        communication=upload + aggregate + download,
        parts=(("upload", upload), ("aggregate", aggregate), ("download", download)),
        function=waiting + aggregate,
        waiting=waiting,
    )
