"""Dollars: one function per component of Phalak et al. (2024), eq. 1-9, and of Erben et al. (2024)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum

from placer.catalog import FunctionOffer, StoreOffer, VmOffer
from placer.exchange.phase import Phase
from placer.network import Network
from placer.units import GIB, HOURS_PER_MONTH, SECONDS_PER_HOUR


@dataclass(frozen=True, kw_only=True, slots=True)
class UsdPerHour:
    """Dollars per hour by component."""

    compute: float
    egress: float
    storage: float
    functions: float
    data: float

    @property
    def total(self) -> float:
        """Sum of the components."""
        return fsum((self.compute, self.egress, self.storage, self.functions, self.data))


def compute_usd_per_hour(machines: Iterable[tuple[VmOffer, int]]) -> float:
    """Price of the workers, billed while they wait as well (Phalak et al., eq. 3).

    Parameters
    ----------
    machines
        Offers and how many of each.
    """
    return fsum(offer.usd_per_hour * count for offer, count in machines)


def egress_usd(phases: Sequence[Phase], network: Network, *, same_zone: bool = True) -> float:
    """Price what one exchange sends, in USD per step.

    Parameters
    ----------
    phases
        Transfers of one exchange; bytes.
    network
        Egress prices in USD per 2**30 bytes.
    same_zone
        Whether the machines of one region share a zone.

    Raises
    ------
    PlacerError
        If a link has no price.

    Notes
    -----
    Phalak et al. (2024), eq. 7-9, summed over the transfers; the provider of the source bills.
    """
    return fsum(egress_usd_by_link(phases, network, same_zone=same_zone).values())


def egress_usd_by_link(phases: Sequence[Phase], network: Network, *, same_zone: bool = True) -> dict[tuple[str, str], float]:
    """Price what one exchange sends for each directed pair of places, in USD per step; see `egress_usd`."""
    total: dict[tuple[str, str], float] = {}
    for phase in phases:
        for t in phase.transfers:
            price = network.usd_per_byte(t.src, t.dst, same_zone=same_zone or not t.zonal)
            total[t.src, t.dst] = total.get((t.src, t.dst), 0.0) + t.bytes * t.count * price
    return total


def function_usd(offer: FunctionOffer, memory_gib: float, seconds: float) -> float:
    """Price of one run of a cloud function in USD (Phalak et al., eq. 4).

    Examples
    --------
    >>> from placer.catalog import FunctionOffer
    >>> f = FunctionOffer(provider="aws", region="r", function="lambda", usd_per_gib_second=1.66667e-05,
    ...     usd_per_million_requests=0.2, max_memory_gib=10, max_seconds=900, billing_step_ms=1, source="", as_of="")
    >>> round(function_usd(f, 1.0, 3.0), 9)  # 3 s x 1 GiB x 1.66667e-5 + 0.2e-6
    5.02e-05
    """
    step_s = offer.billing_step_ms / 1e3
    billed = math.ceil(seconds / step_s - 1e-9) * step_s
    return billed * memory_gib * offer.usd_per_gib_second + offer.usd_per_million_requests / 1e6


def storage_usd(offer: StoreOffer, gradient_bytes: float, workers: int, step_s: float, failed_polls: int) -> float:
    """Price of the store for one step in USD: space and requests; deletes are free.

    Parameters
    ----------
    gradient_bytes
        S.
    workers
        n.
    step_s
        How long the objects are kept.
    failed_polls
        l, reads that found nothing.

    Notes
    -----
    Phalak et al. (2024), eq. 5: S R_st + (2n + l) R_read + (n + 1) R_write + n R_list.
    """
    space = gradient_bytes / GIB * offer.usd_per_gib_month * step_s / (HOURS_PER_MONTH * SECONDS_PER_HOUR)
    reads = (2 * workers + failed_polls) * offer.usd_per_thousand_reads / 1e3
    writes = (workers + 1) * offer.usd_per_thousand_writes / 1e3
    return space + reads + writes + workers * offer.usd_per_thousand_lists / 1e3


def data_usd_per_sample(bytes_per_sample: float, store_place: str, worker_place: str, network: Network) -> float:
    """Price of reading one sample from the dataset's store, in USD (Erben et al., section 3)."""
    return bytes_per_sample * network.usd_per_byte(store_place, worker_place)


def usd_per_million_samples(usd_per_hour: float, samples_per_second: float) -> float:
    """Price of a million samples: USD/h / 3600 / throughput x 1e6.

    Examples
    --------
    >>> round(usd_per_million_samples(3.6, 1000.0), 6)
    1.0
    """
    return usd_per_hour / SECONDS_PER_HOUR / samples_per_second * 1e6
