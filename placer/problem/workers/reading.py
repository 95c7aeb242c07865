"""How workers read from the dataset's store, and what store and lines give to all of them."""

from __future__ import annotations

import math
from functools import cached_property

from placer.market.catalog import VmOffer
from placer.market.words.own_places import SITES
from placer.problem.copies import Copy, least_usd_per_sample
from placer.problem.datasets import bytes_of, passes_of
from placer.problem.workers.quotas import WithQuotas
from placer.workload.data_loading import (
    CACHES,
    LOADER_STREAMS,
    Loader,
    loader_of,
    machine_bytes_per_s,
    samples_per_s,
    site_line,
)
from placer.workload.profile import Rate


class WithReading(WithQuotas, frozen=True, kw_only=True, dict=True):
    """A question, with how fast the machines of an offer read its data."""

    @cached_property
    def data_reads(self) -> tuple[str | None, float, float | None, str] | None:
        """The dataset's store (None: the best of all copies), how often a run reads its data, the
        size of the data, and where later passes read from; None: the data is with the workers.
        """
        wish, size = self.requirements, self.profile.bytes_per_sample
        if wish.data_store is None and not self.data_copies:
            return None
        known = wish.passes, wish.samples, wish.data_bytes
        passes, data_bytes = (
            (1.0, None) if size is None else (passes_of(*known, size), bytes_of(*known, size))
        )
        # Read once, it does not matter what a disk holds: such questions share their machines.
        cache = "none" if passes <= 1 else wish.data_cache or CACHES[0]
        return wish.data_store, passes, data_bytes if cache == "auto" else None, cache

    def loader(self, offer: VmOffer, machines: int) -> Loader | None:
        """Return how a worker reads from the store; None where the data is with the workers."""
        size = self.profile.bytes_per_sample
        if self.data_reads is None or size is None:
            return None
        _, passes, data_bytes, cache = self.data_reads
        return loader_of(
            self.read_bytes_per_s(offer),
            offer,
            machines,
            bytes_per_sample=size,
            data_bytes=data_bytes,
            passes=passes,
            cache=cache,
        )

    def read_bytes_per_s(self, offer: VmOffer) -> Rate:
        """Return the bytes/s that one machine of an offer reads from the dataset's store."""
        kind = offer.place, offer.gpu, offer.gpu_count, offer.network_gbps
        return self._once("reads", kind, lambda: self._read_bytes_per_s(offer))

    def _read_bytes_per_s(self, offer: VmOffer) -> Rate:
        store = self.data_store or self.fastest_copy(offer.place).store
        return machine_bytes_per_s(store, offer, self.network)

    def fastest_copy(self, place: str) -> Copy:
        """Return the copy that machines of a place read the fastest."""
        link = self.network.link
        return max(
            self.data_copies,
            key=lambda copy: (
                copy.store.place == place,
                link(copy.store.place, place).speed(LOADER_STREAMS),
            ),
        )

    def least_copy(self, place: str) -> tuple[float, Copy]:
        """Return the USD of a sample for a worker in a place from the copy that takes least."""
        wish, size = self.requirements, self.profile.bytes_per_sample or 0.0
        passes = passes_of(wish.passes, wish.samples, wish.data_bytes, size)
        copies, network = self.data_copies, self.network
        return self._once(
            "copies", place, lambda: least_usd_per_sample(copies, place, network, size, passes)
        )

    def line_samples_per_s(self, place: str, case: int = 0) -> float:
        """Return the samples/s of the dataset's store that all workers of a place get together:
        what the line of a site of one's own carries; infinite in clouds. ``case``: 0, 1 or 2:
        expected, slow or fast.
        """
        store, size = self.data_store, self.profile.bytes_per_sample
        if store is None or size is None or not place.startswith(SITES) or store.place == place:
            return math.inf
        return site_line(self.network, place)[case] / size

    @cached_property
    def most_loaded_samples_per_s(self) -> float:
        """Samples/s that the dataset's store gives to all workers together, at most."""
        return samples_per_s(self.data_store, self.profile.bytes_per_sample)
