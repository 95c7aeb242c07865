"""What quotas, stock and supply leave of each offer, and how its machines read the data."""

from __future__ import annotations

import math
from functools import cached_property

from placer.market.capacity_table import CapacityRow, most_launched
from placer.market.catalog import VmOffer
from placer.market.words.own_places import SITES
from placer.problem.copies import Copy, least_usd_per_sample
from placer.problem.datasets import bytes_of, passes_of
from placer.problem.question import Question
from placer.problem.requirements import Quota
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

NO_QUOTA_GPUS = 10**9
"""GPUs where there is no quota: more than any quota can say."""


class WithQuotas(Question, frozen=True, kw_only=True, dict=True):
    """A question, with how many machines of an offer it leaves."""

    def quota(self, place: str, gpu: str, market: str) -> int:
        """Return the GPUs allowed for a place, type and market: the last matching row of the quota
        file, and no more than any joint quota; `NO_QUOTA_GPUS` where there is none.
        """
        quotas = self.requirements.quotas
        rows = [row for row in quotas if not row.of_machines and row.covers(place, gpu, market)]
        own = next((row.most for row in reversed(rows) if row.scope == "each"), self._other_quota)
        return min([own, *(row.most for row in rows if row.scope == "together")])

    @property
    def _other_quota(self) -> int:
        gpus = self.requirements.quota_gpus
        return NO_QUOTA_GPUS if gpus is None else gpus

    @cached_property
    def _machine_quotas(self) -> tuple[Quota, ...]:
        return tuple(row for row in self.requirements.quotas if row.of_machines)

    def supply(self, offer: VmOffer) -> int | None:
        """Return how many machines of an offer launch together at most: of spot machines that no
        quota covers, those that the capacity table has seen, else as many as the wishes say; None:
        nothing is said.
        """
        wish = self.requirements
        most = wish.other_supply
        if most is None or offer.market != "spot" or offer.price_basis == "owned":
            return None
        if any(row.counts(offer) for row in wish.quotas):
            return None
        kind = offer.provider, offer.region, offer.gpu, offer.market
        seen = most_launched(self._launch_rows, *kind) if self._launch_rows else None
        return most if seen is None else seen

    @cached_property
    def _launch_rows(self) -> tuple[CapacityRow, ...]:
        return tuple(row for row in self.catalog.capacity if row.region and row.share is not None)

    def _gpus_together(self, offer: VmOffer, supply: int | None) -> int:
        """Return the GPUs of an offer that count together, by supply or quota."""
        if supply is not None:
            return supply * offer.gpu_count
        if not self.requirements.quotas:  # asked of every row of a book
            return self._other_quota
        return self.quota(offer.place, offer.gpu, offer.market)

    def machines_there(self, offer: VmOffer) -> int:
        """Return the machines of an offer that quotas, stock and supply leave, each by itself."""
        return self._machines_of(offer, self._gpus_together(offer, self.supply(offer)))

    def _machines_of(self, offer: VmOffer, gpus: int) -> int:
        most = gpus // offer.gpu_count
        if offer.available is not None:
            most = min(most, offer.available)
        for row in self._machine_quotas:
            if taken := row.taken(offer):
                most = min(most, row.most // taken)
        return most

    def quota_problem(self, offer: VmOffer, machines: int = 1) -> str:
        """Return which quota has no room for a worker; empty if there is room."""
        bucket, needed = (offer.place, offer.gpu, offer.market), machines * offer.gpu_count
        most = self.quota(*bucket)
        if most < needed:
            split = any(r.market != "*" for r in self.requirements.quotas if r.covers(*bucket))
            name = f"{offer.gpu} {offer.market.replace('_', '-')}" if split else offer.gpu
            return f"the quota allows {most} {name} in {offer.place}; raise it to {needed}"
        machine = f"{offer.instance_type} in {offer.place}"
        for row in self._machine_quotas:
            if row.lacks_vcpus(offer):
                return (
                    f"the quota of {row.words} counts {machine}, whose vCPUs nobody knows; name "
                    f"the places of the cloud in the quota"
                )
            if row.taken(offer, machines) > row.most:
                return (
                    f"the quota allows {row.most} {row.words}; raise it to "
                    f"{row.taken(offer, machines)} for {machines} x {machine}"
                )
        return ""

    def _speed_cap(self, offer: VmOffer) -> int | None:
        caps = self.requirements.speed_caps
        if not caps:  # asked of every row of a book
            return None
        found = [cap.most for cap in caps if cap.covers(offer.place, offer.market)]
        return min(found, default=None)


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
