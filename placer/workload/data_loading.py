"""How fast samples reach their workers from a store: no worker calculates faster than it reads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from placer.market.catalog import StoreOffer, VmOffer
from placer.market.network.graph import Network
from placer.market.network.link_grid import GBPS
from placer.workload.profile import Rate

LOADER_STREAMS = 16
"""TCP streams side by side in which one machine reads: assumed, several loader processes with
several requests each.
"""


def machine_bytes_per_s(store: StoreOffer, offer: VmOffer, network: Network) -> Rate:
    """Return the bytes/s that one machine reads from a store, with an interval and where it comes
    from.

    Notes
    -----
    Over the network of the machine inside the store's region; from elsewhere also over its link
    with `LOADER_STREAMS` streams. A machine whose network no book names reaches inside a region
    what one stream does. Each machine reads by itself; what a store gives to all of them together
    is `samples_per_s`.
    """
    card = math.inf if offer.network_gbps is None else offer.network_gbps * GBPS
    link = network.link(store.place, offer.place)
    inside = store.place == offer.place and card < math.inf
    value, low, high = (
        card if inside else min(card, link.speed(LOADER_STREAMS, case)) for case in range(3)
    )
    return Rate(
        gpu=offer.gpu,
        gpu_count=offer.gpu_count,
        framework="none",
        value=value,
        low=min(low, value),
        high=max(high, value),
        basis="estimated" if inside else link.basis,
        source="network of the machine" if inside else link.source,
    )


def loaded(rate: Rate, bytes_per_s: Rate, machines: int, bytes_per_sample: float) -> Rate:
    """Return the speed of a worker that calculates no faster than its machines read.

    Examples
    --------
    >>> fast = Rate(gpu="T4", gpu_count=1, framework="none", value=200.0, low=150.0, high=300.0,
    ...     basis="measured", source="")
    >>> slower = loaded(fast, replace(fast, value=4e6, low=2e6, high=5e6), 1, 25_000.0)
    >>> slower.low, slower.value, slower.high
    (80.0, 160.0, 200.0)
    """
    value, low, high = (
        min(own, machines * read / bytes_per_sample)
        for own, read in (
            (rate.value, bytes_per_s.value),
            (rate.low, bytes_per_s.low),
            (rate.high, bytes_per_s.high),
        )
    )
    return replace(rate, value=value, low=low, high=high)


def samples_per_s(store: StoreOffer | None, bytes_per_sample: float | None) -> float:
    """Return the samples/s that a store gives to all workers together; infinite where no book names
    its limit.
    """
    if store is None or store.read_gbps is None or bytes_per_sample is None:
        return math.inf
    return store.read_gbps * GBPS / bytes_per_sample


def loaded_share(speeds: Iterable[float], most: float) -> float:
    """Return the share of their speeds that workers keep where a store gives so many samples/s at
    most.

    Examples
    --------
    >>> loaded_share([100.0, 300.0], 200.0), loaded_share([100.0], 200.0)
    (0.5, 1.0)
    """
    return min(1.0, most / math.fsum(speeds)) if most < math.inf else 1.0
