"""Exchange strategies: phases of transfers, of which seconds and dollars are two readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from placer.errors import unknown
from placer.problem.placement import Exchange
from placer.units import GIB
from placer.workload.island.transports import bucket_count
from placer.workload.profile import fp32_bytes

Workers = Sequence[tuple[str, int]]
"""Place and number of the workers there; each place once."""
MOST_FRAGMENTS = 8
"""Fragments of Douillard et al. (2025) at 1 B parameters: 24 layers, three in a fragment."""


class Transfer(Struct, frozen=True):
    """``count`` equal transfers of ``bytes`` each from ``src`` to ``dst``, side by side.

    ``zonal``: both ends are machines, which may be in different zones of a region; a store or a
    function belongs to the whole region. ``src_hosts`` and ``dst_hosts`` machines share the
    transfers evenly.
    """

    src: str
    dst: str
    bytes: float
    count: int = 1
    zonal: bool = False
    src_hosts: int = 1
    dst_hosts: int = 1


class Phase(Struct, frozen=True):
    """Transfers that run side by side; the phases of an exchange run one after the other.

    ``ring_messages``: so many messages, one after the other, go around a ring: each transfer passes
    on what the one before it brought, part after part, so that the ways of all of them add up for
    each message. 0 where the phase is no ring.
    """

    name: str
    transfers: tuple[Transfer, ...]
    ring_messages: int = 0


Phases = tuple[Phase, ...]


def bytes_by_link(phases: Phases) -> dict[tuple[str, str], float]:
    """Sum the bytes of one exchange for each directed pair of places."""
    total: dict[tuple[str, str], float] = {}
    for phase in phases:
        for t in phase.transfers:
            total[t.src, t.dst] = total.get((t.src, t.dst), 0.0) + t.bytes * t.count
    return total


class Traits(Struct, frozen=True, kw_only=True):
    """What sets a strategy apart beside its bytes, in the words of timing, limits and solvers.

    ``framework`` is ``none`` where workers have nothing to exchange; all others are slowed by the
    software that averages. ``division`` is ``adaptive`` (fast workers do more of the batch) or
    ``equal``. ``transport`` names the timing in `round_seconds`; a butterfly is a ring over several
    regions where the engine averages in one. ``hub`` is what
    ``Exchange.aggregator`` is the place of: a ``function``, a ``server`` machine of its own, the
    server of a ``region`` among the workers, or nothing. ``payload`` is what travels between
    regions: ``gradients``, or the model itself (``checkpoints``). ``local_steps``: whether H
    optimizer steps may pass between exchanges. ``least_regions``: with fewer it is another
    strategy. ``may_overlap``: whether the exchange can run beside the next step;
    ``always_overlaps``: it always does. ``staleness``: exchanges by which a worker's view is late.
    ``outer``: workers exchange the changes of many steps, an outer optimizer takes their mean, and
    what compression loses is added to the next ones. ``bucketed``: whether gradients travel in
    buckets beside the calculation that makes them, where the software does that. ``quorum``:
    whether an exchange can go on with some of the workers.
    """

    framework: str = "hivemind"
    division: str = "adaptive"
    transport: str
    hub: str = ""
    payload: str = "gradients"
    local_steps: bool = False
    least_regions: int = 1
    may_overlap: bool = False
    always_overlaps: bool = False
    staleness: int = 0
    outer: bool = False
    bucketed: bool = False
    quorum: bool = False


class Strategy(Struct, frozen=True):
    """Traits, and phases from one exchange to the next by workers, gradient bytes and exchange."""

    traits: Traits
    phases: Callable[[Workers, float, Exchange], Phases]


def pair_bytes(gradient_bytes: float, workers: Any) -> Any:
    """Return the bytes that one ordered pair of workers carries in one step: 2 S / N; a number or
    an array.

    Erben et al. (2024), artifact logs: a worker sends 2 (N - 1) / N x S within 1 %.
    """
    return 2 * gradient_bytes / workers


def butterfly(workers: Workers, gradient_bytes: float, where: str = "") -> Phases:
    """Return reduce-scatter and all-gather: every ordered pair of workers carries S / N in each."""
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


def edge_bytes(gradient_bytes: float, workers: Any) -> Any:
    """Return the bytes that a worker of a ring passes to the next one in a step: 2 (N - 1) / N S; a
    number or an array.

    Each vector has N parts; all but one of them pass an edge on their way to a sum, and all but one
    again on their way back (Patarasuk and Yuan, 2009).
    """
    return 2 * (workers - 1) * gradient_bytes / workers


def ring_step(transport: str) -> int:
    """Return how many ranks on a worker sends: gloo's ring (gloo/allreduce.cc) goes backwards."""
    return -1 if transport == "gloo" else 1


def crossings(places: Sequence[str], transport: str) -> list[tuple[str, str]]:
    """List the edges between regions of a ring through places in the order of the mesh.

    >>> crossings(["a", "b", "c"], "nccl"), crossings(["a", "b", "c"], "gloo")
    ([('a', 'b'), ('b', 'c'), ('c', 'a')], [('a', 'c'), ('b', 'a'), ('c', 'b')])
    """
    step = ring_step(transport)
    following = [places[(at + step) % len(places)] for at in range(len(places))]
    return [(src, dst) for src, dst in zip(places, following, strict=True) if src != dst]


def ring_messages(gradient_bytes: float, exchange: Exchange) -> int:
    """Return the messages that go around a ring one after the other: the buckets of DDP, or one
    model as torchft sends it. ``gradient_bytes``: as compressed.
    """
    if not traits(exchange.strategy).bucketed:
        return 1
    return bucket_count(fp32_bytes(gradient_bytes, exchange.compression))


def ring(workers: Workers, gradient_bytes: float, transport: str, messages: int = 1) -> Phases:
    """Return reduce-scatter and all-gather in a ring: each worker passes (N - 1) / N S to the next
    in each, and the last of a region to the first of the next one.

    Of two regions with 8 workers each two edges of 16 lie between them, which carry 2 x 15 / 16 S
    each: 3.75 S, where 2 x 64 pairs of a butterfly carry S / 8 each, 16 S.

    >>> two = ring([("a", 8), ("b", 8)], 1.0, "nccl")
    >>> sum(size for (src, dst), size in bytes_by_link(two).items() if src != dst)
    3.75
    """
    total = sum(count for _, count in workers)
    half = edge_bytes(gradient_bytes, total) / 2
    between = crossings([place for place, _ in workers], transport)
    inside = (
        Transfer(place, place, half, edges, zonal=True, src_hosts=edges, dst_hosts=edges)
        for place, count in workers
        for edges in [count - 1 if between else count]
        if edges
    )
    across = (Transfer(src, dst, half, zonal=True) for src, dst in between)
    transfers = (*inside, *across)
    return tuple(
        Phase(f"{name} in a ring", transfers, ring_messages=messages)
        for name in ("reduce-scatter", "all-gather")
    )


def inside_regions(workers: Workers, gradient_bytes: float, times: int = 1) -> Phases:
    """Return butterflies of the regions side by side for some steps; none where all are alone."""
    each = [
        butterfly([(place, count)], gradient_bytes * times, " inside regions")
        for place, count in workers
        if count > 1
    ]
    return tuple(
        Phase(parts[0].name, tuple(t for part in parts for t in part.transfers))
        for parts in zip(*each, strict=True)
    )


def broadcast(workers: Workers, gradient_bytes: float) -> Phases:
    """Return how a leader of each region hands S to the others there; none where all are alone."""
    transfers = [
        Transfer(p, p, gradient_bytes, n - 1, zonal=True, dst_hosts=n - 1)
        for p, n in workers
        if n > 1
    ]
    return (Phase("broadcast inside regions", tuple(transfers)),) if transfers else ()


def _alone(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    return ()


def _over_all(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    if len(workers) > 1 and exchange.in_ring:
        messages = ring_messages(gradient_bytes, exchange)
        return ring(sorted(workers), gradient_bytes, exchange.transport, messages)
    return butterfly(workers, gradient_bytes)


def _by_leaders(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    leaders = butterfly([(place, 1) for place, _ in workers], gradient_bytes, " between leaders")
    return (*inside_regions(workers, gradient_bytes), *leaders, *broadcast(workers, gradient_bytes))


def memory_gib(gradient_bytes: float, gradients: int) -> float:
    """Return the function memory that holds the gradients it sums: whole GiB, at least one.

    >>> memory_gib(17e6, 4), memory_gib(1.12e9, 8)
    (1.0, 9.0)
    """
    return float(max(1, math.ceil(gradients * gradient_bytes / GIB)))


def gradients_held(counts: Collection[int], *, regional: bool) -> int:
    """Return the gradients that one function holds at most: those of all workers, or with a
    function in each region those of the largest one.

    Three regions: the global function sums three, the largest regional one two.

    >>> gradients_held([2, 1, 1], regional=False), gradients_held([2, 1, 1], regional=True)
    (4, 3)
    """
    return max(*counts, len(counts)) if regional else sum(counts)


def _serverless(exchange: Exchange) -> tuple[str, str]:
    assert exchange.storage is not None
    assert exchange.aggregator is not None
    return exchange.storage, exchange.aggregator


def _central(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    """Exchange through one store and one cloud function.

    Phalak et al. (2024), eq. 7-9: S from each worker to the store, N x S from the store to the
    function, S back, S from the store to each worker.
    """
    (store, function), size = _serverless(exchange), gradient_bytes
    total = sum(count for _, count in workers)
    return (
        Phase("upload", tuple(Transfer(p, store, size, n, src_hosts=n) for p, n in workers)),
        Phase("fetch", (Transfer(store, function, size, total),)),
        Phase("put", (Transfer(function, store, size),)),
        Phase("download", tuple(Transfer(store, p, size, n, dst_hosts=n) for p, n in workers)),
    )


def _hierarchical(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    """Exchange through a store and a function in each region, then one global pair (Phalak et al.,
    2024).

    Workers never leave their region: S each to its store and back. The region's function reads
    them, writes one sum to the global store, and later copies the mean from there to the region's
    store: 2 S per region over the WAN instead of 2 S per worker.
    """
    (store, function), size = _serverless(exchange), gradient_bytes
    return (
        Phase("upload", tuple(Transfer(p, p, size, n, src_hosts=n) for p, n in workers)),
        Phase("fetch in regions", tuple(Transfer(p, p, size, n) for p, n in workers)),
        Phase("forward", tuple(Transfer(p, store, size) for p, _ in workers)),
        Phase("fetch", (Transfer(store, function, size, len(workers)),)),
        Phase("put", (Transfer(function, store, size),)),
        Phase("copy", tuple(Transfer(store, p, size) for p, _ in workers)),
        Phase("put in regions", tuple(Transfer(p, p, size) for p, _ in workers)),
        Phase("download", tuple(Transfer(p, p, size, n, dst_hosts=n) for p, n in workers)),
    )


def _through_server(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    """Push S from each worker to one machine, and pull S back."""
    assert exchange.aggregator is not None
    hub, size = exchange.aggregator, gradient_bytes
    push = (Transfer(p, hub, size, n, zonal=True, src_hosts=n) for p, n in workers)
    pull = (Transfer(hub, p, size, n, zonal=True, dst_hosts=n) for p, n in workers)
    return (Phase("push", tuple(push)), Phase("pull", tuple(pull)))


def _to_hub(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    """Average inside the regions H times, then send S up to the hub and down for each other region.

    MA of Cloudless-Training: every H steps, with a barrier. The server of a region runs beside its
    first worker; one of them, the hub, averages.
    """
    hub, size = str(exchange.aggregator), gradient_bytes
    others = [place for place, _ in workers if place != hub]
    return (
        *inside_regions(workers, size, exchange.local_steps),
        Phase("up", tuple(Transfer(p, hub, size, zonal=True) for p in others)),
        Phase("down", tuple(Transfer(hub, p, size, zonal=True) for p in others)),
        *broadcast(workers, size),
    )


def _gossip(workers: Workers, gradient_bytes: float, exchange: Exchange) -> Phases:
    """Average inside the regions H times, and send S of each region, spread over its partners.

    ASGD-GA of Cloudless-Training: every H steps the server of a region sends what it accumulated to
    one other server and goes on without waiting. No topology is published for more than two
    clouds: partners rotate (as in GossipGraD, Daily et al., 2018), so that every pair takes its
    turn.
    """
    share = gradient_bytes / max(1, len(workers) - 1)
    pairs = [(a, b) for a, _ in workers for b, _ in workers if a != b]
    return (
        *inside_regions(workers, gradient_bytes, exchange.local_steps),
        Phase("send", tuple(Transfer(a, b, share, zonal=True) for a, b in pairs)),
    )


def fragments(local_steps: int) -> int:
    """Return the number of fragments: no more than there are steps to begin one in.

    >>> fragments(4), fragments(100)
    (4, 8)
    """
    return min(MOST_FRAGMENTS, local_steps)


_local_steps = partial(
    Traits, transport="butterfly", payload="checkpoints", local_steps=True, quorum=True
)
"""Traits where every worker takes H steps alone before models, or their changes, are averaged."""
STRATEGIES: Mapping[str, Strategy] = {
    "none": Strategy(Traits(framework="none", transport="none"), _alone),
    "all-reduce": Strategy(  # a ring, or as hivemind does it: a flat butterfly with equal shards
        Traits(transport="butterfly", may_overlap=True, bucketed=True), _over_all
    ),
    "hierarchical-all-reduce": Strategy(
        Traits(transport="leaders", least_regions=2, may_overlap=True), _by_leaders
    ),
    # Nobody published what a worker loses beside a serverless aggregator: assumed as in an average
    # under the software of the question.
    "central": Strategy(Traits(division="equal", transport="store", hub="function"), _central),
    "hierarchical": Strategy(
        Traits(division="equal", transport="regional-stores", hub="function", least_regions=2),
        _hierarchical,
    ),
    "parameter-server": Strategy(
        Traits(division="equal", transport="server", hub="server"), _through_server
    ),
    # Stich (ICLR 2019): H steps on every worker alone, then one average of the models.
    "local-sgd": Strategy(_local_steps(may_overlap=True), _over_all),
    "model-averaging": Strategy(
        Traits(
            transport="region-hub",
            hub="region",
            payload="checkpoints",
            local_steps=True,
            least_regions=2,
        ),
        _to_hub,
    ),
    "asgd-ga": Strategy(
        Traits(transport="region-gossip", local_steps=True, least_regions=2, staleness=1), _gossip
    ),
    # Douillard et al. (DiLoCo, 2023): the change of a worker's model over H steps is a
    # pseudo-gradient; their mean drives an outer optimizer (Nesterov's momentum), so that all
    # workers go on from the same model. The bytes are those of local SGD.
    "diloco": Strategy(_local_steps(outer=True), _over_all),
    # Douillard et al. (Streaming DiLoCo, 2025): P fragments take turns beside the inner steps, so
    # the bytes under way at a time are those of DiLoCo over P, and the sum of a fragment is applied
    # when the next one begins, H / P steps later. Over H steps every pair carries the same.
    "streaming-diloco": Strategy(
        _local_steps(may_overlap=True, always_overlaps=True, outer=True), _over_all
    ),
}
"""Strategies by their name on the command line; a new one is a row here."""


def strategy(name: str) -> Strategy:
    """Find a strategy by name; `PlacerError` with the nearest name otherwise."""
    found = STRATEGIES.get(name)
    if found is None:
        raise unknown("exchange", name, STRATEGIES)
    return found


def traits(name: str) -> Traits:
    """Return what sets a strategy apart; see `Traits`."""
    return strategy(name).traits


def goes_on_without(name: str, *, overlap: bool) -> bool:
    """Return whether an exchange can go on with a quorum of the workers.

    Not where a late average corrects a worker's own change.
    """
    can = traits(name)
    return can.quorum and (can.always_overlaps or not overlap)


def overlaps(name: str, *, wanted: bool) -> bool:
    """Return whether an exchange runs beside the calculation, where the user wants that or not."""
    can = traits(name)
    return can.always_overlaps or (wanted and can.may_overlap)
