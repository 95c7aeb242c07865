"""All-reduce as hivemind does it: a flat butterfly over all workers with equal shards."""

from __future__ import annotations

from placer.problem.exchange.phase import Phase, Transfer, Workers
from placer.problem.exchange.traits import Traits
from placer.problem.placement import Exchange

TRAITS = Traits(transport="butterfly", may_overlap=True, bucketed=True)


def pair_bytes(gradient_bytes: float, workers: int) -> float:
    """Return the bytes that one ordered pair of workers carries in one step: 2 S / N. Erben et al.
    (2024), artifact logs: a worker sends 2 (N - 1) / N x S within 1 %.
    """
    return 2 * gradient_bytes / workers


def butterfly(workers: Workers, gradient_bytes: float, where: str = "") -> tuple[Phase, ...]:
    """Return reduce-scatter and all-gather among some workers: every ordered pair carries S / N in
    each.
    """
    total = sum(count for _, count in workers)
    shard = pair_bytes(gradient_bytes, total) / 2
    transfers = []
    for i, (src, n_src) in enumerate(workers):
        for j, (dst, n_dst) in enumerate(workers):
            pairs = n_src * (n_src - 1) if i == j else n_src * n_dst
            if pairs:
                transfers.append(
                    Transfer(src, dst, shard, pairs, zonal=True, src_hosts=n_src, dst_hosts=n_dst)
                )
    return tuple(
        Phase(f"{name}{where}", tuple(transfers)) for name in ("reduce-scatter", "all-gather")
    )


def inside_regions(workers: Workers, gradient_bytes: float, times: int = 1) -> tuple[Phase, ...]:
    """Return the same inside each region, the regions side by side, for a number of steps; none
    where all are alone.
    """
    each = [
        butterfly([(place, count)], gradient_bytes * times, " inside regions")
        for place, count in workers
        if count > 1
    ]
    return tuple(
        Phase(parts[0].name, tuple(t for part in parts for t in part.transfers))
        for parts in zip(*each, strict=True)
    )


def broadcast(workers: Workers, gradient_bytes: float) -> tuple[Phase, ...]:
    """Return the phase in which one leader of each region hands S to the others there; none where
    all are alone.
    """
    transfers = [
        Transfer(p, p, gradient_bytes, n - 1, zonal=True, dst_hosts=n - 1)
        for p, n in workers
        if n > 1
    ]
    return (Phase("broadcast inside regions", tuple(transfers)),) if transfers else ()


def phases(workers: Workers, gradient_bytes: float, exchange: Exchange) -> tuple[Phase, ...]:
    """Return reduce-scatter and all-gather over all workers.

    >>> from placer.problem.placement import Exchange
    >>> exchange = Exchange(strategy="all-reduce", compression="fp16")
    >>> scatter, gather = phases([("a", 1), ("b", 1)], 100.0, exchange)
    >>> [(t.src, t.dst, t.bytes) for t in scatter.transfers]
    [('a', 'b', 50.0), ('b', 'a', 50.0)]
    """
    return butterfly(workers, gradient_bytes)
