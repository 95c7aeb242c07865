"""Data that is copied once, before the run, to the store that workers read from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import ceil

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.catalog import Catalog, StoreOffer
from placer.market.network.graph import Network
from placer.problem.datasets import COPY_STREAMS, passes_of
from placer.problem.requirements import Requirements
from placer.units import GIB, HOURS_PER_MONTH, SECONDS_PER_HOUR


class Copy(Struct, frozen=True, kw_only=True):
    """A copy of all data from one store to another: bytes, seconds, USD of the way and of keeping
    it, and the USD of both for each sample that is trained on.
    """

    source: StoreOffer
    store: StoreOffer
    bytes: float
    seconds: float
    egress_usd: float
    kept_usd: float
    usd_per_sample: float

    @property
    def usd(self) -> float:
        """USD of the way and of keeping the copy."""
        return self.egress_usd + self.kept_usd


def copies_of(
    wish: Requirements, catalog: Catalog, network: Network, bytes_per_sample: float | None
) -> tuple[Copy, ...]:
    """Return the copy that a request asks for, or without a store to copy to all that it allows;
    none where data is read where it lies. A month of storage is paid, or as many as the deadline
    has begun: nobody deletes a copy on the day. Its price is spread over the samples of the run,
    and without their number over one pass. Samples that slow exchanges add are not counted, so that
    the price of each errs high. ``bytes_per_sample``: of the model's profile. `PlacerError` if
    nobody says how much data there is, or it is where it is to be copied to.
    """
    if not wish.copies_data:
        return ()
    assert wish.data_source is not None
    if wish.data_bytes is None or not bytes_per_sample:
        raise PlacerError(
            f"data-source '{wish.data_source}', but nobody says how much data there is",
            "give its size, such as --data 2TB@s3://us-east-1",
        )
    source = catalog.store(wish.data_source)
    if wish.data_store is not None:
        store = catalog.store(wish.data_store)
        if source.place == store.place:
            raise PlacerError(
                f"data-source '{wish.data_source}' is where the data is read",
                "name another store, or leave --data-source out",
            )
        return (_copy(source, store, wish, network, bytes_per_sample),)
    kept = [rule.places for rule in wish.kept if rule.kind == "raw-data"]
    held = [places for places in kept if source.place in places]
    copies = []
    for store in catalog.stores:
        if store.place != source.place and all(store.place in places for places in held):
            with suppress(PlacerError):  # no link or no price of egress: nothing is copied there
                copies.append(_copy(source, store, wish, network, bytes_per_sample))
    return tuple(copies)


def least_usd_per_sample(
    copies: Sequence[Copy], place: str, network: Network, bytes_per_sample: float, passes: float
) -> tuple[float, Copy]:
    """Return the least USD of a sample for a worker in a place, and the copy that it is read from.
    For each copy what it costs, and one pass over the way from its store: disks may keep the rest,
    so that no plan with any of these copies pays less.
    """
    read = bytes_per_sample / passes
    paid = (
        (copy.usd_per_sample + read * network.usd_per_byte(copy.store.place, place), copy)
        for copy in copies
    )
    return min(paid, key=lambda pair: pair[0])


def _copy(
    source: StoreOffer,
    store: StoreOffer,
    wish: Requirements,
    network: Network,
    bytes_per_sample: float,
) -> Copy:
    assert wish.data_bytes is not None
    size = wish.data_bytes
    egress = size * network.usd_per_byte(source.place, store.place)
    retrieved = size / GIB * source.usd_per_gib_retrieved
    months = max(1, ceil((wish.deadline_s or 0.0) / SECONDS_PER_HOUR / HOURS_PER_MONTH))
    kept = size / GIB * store.usd_per_gib_month * months
    passes = passes_of(wish.passes, wish.samples, size, bytes_per_sample)
    return Copy(
        source=source,
        store=store,
        bytes=size,
        seconds=size / network.link(source.place, store.place).speed(COPY_STREAMS),
        egress_usd=egress + retrieved,
        kept_usd=kept,
        usd_per_sample=(egress + retrieved + kept) / (passes * size / bytes_per_sample),
    )
