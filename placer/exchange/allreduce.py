"""All-reduce as hivemind does it: a flat butterfly over all workers with equal shards."""

from __future__ import annotations

from collections.abc import Sequence

from placer.exchange.phase import Phase, Transfer
from placer.placement import Exchange

FRAMEWORK = "hivemind"
DIVISION = "adaptive"
TRANSPORT = "butterfly"


def pair_bytes(gradient_bytes: float, workers: int) -> float:
    """Bytes that one ordered pair of workers carries in one step: 2 S / N.

    Notes
    -----
    Erben et al. (2024), artifact logs: a worker sends 2 (N - 1) / N x S within 1 %.
    """
    return 2 * gradient_bytes / workers


def phases(workers: Sequence[tuple[str, int]], gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return reduce-scatter and all-gather: every ordered pair carries S / N in each.

    Examples
    --------
    >>> from placer.placement import Exchange
    >>> scatter, gather = phases([("a", 1), ("b", 1)], 100.0, Exchange(strategy="all-reduce", compression="fp16"))
    >>> scatter.transfers
    (Transfer(src='a', dst='b', bytes=50.0, count=1, zonal=True), Transfer(src='b', dst='a', bytes=50.0, count=1, zonal=True))
    """
    total = sum(count for _, count in workers)
    shard = pair_bytes(gradient_bytes, total) / 2
    transfers = []
    for i, (src, n_src) in enumerate(workers):
        for j, (dst, n_dst) in enumerate(workers):
            pairs = n_src * (n_src - 1) if i == j else n_src * n_dst
            if pairs:
                transfers.append(Transfer(src, dst, shard, pairs, zonal=True))
    return Phase("reduce-scatter", tuple(transfers)), Phase("all-gather", tuple(transfers))
