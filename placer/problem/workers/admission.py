"""Which offers and places a question admits, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placer.market.carbon import NO_GRID, NO_POWER, carbon_unknown
from placer.market.catalog import VmOffer
from placer.market.network.link_model import Array
from placer.market.words.own_places import own_places
from placer.market.words.selection import asks_for, is_named
from placer.problem.workers.speeds import ISLAND_FIELDS, WithSpeeds
from placer.units import GIB
from placer.workload.island import Refusal

STALE = "stale"
"""Code of an offer whose price is older than the request allows."""
MEMORY_CODES = {"memory": "device-memory"}
"""Codes of refused plans that have another name among the problems of offers."""


class WithAdmission(WithSpeeds, frozen=True, kw_only=True, dict=True):
    """A question, with what it admits of a book."""

    def admitted_offers(self) -> Iterator[VmOffer]:
        """Yield admitted offers in the order of the book, whether or not a plan fits."""
        return map(self.catalog.offers.__getitem__, self.admitted_rows().tolist())

    def admitted_rows(self) -> Array:
        """Return the rows of admitted offers in the order of the book, whether or not a plan fits;
        shape (rows,). Of offers that no reason to refuse one tells apart, one is looked at.
        """
        table, wish = self.catalog.table, self.requirements
        place, first = table.groups(("provider", "region", "price_basis"))
        admitted = [self._place_admitted(table[row]) for row in first.tolist()]
        rows = np.array(admitted, dtype=bool)[place].nonzero()[0]
        dated = () if wish.oldest_price is None else ("as_of",)
        planned = () if self.island_question is None else ISLAND_FIELDS
        names = ("gpu", "gpu_count", "market", "memory_gib", *dated, *planned)
        kind, first = table.groups(names, rows)  # all that `offer_problems` looks at
        offers = [table[row] for row in rows[first].tolist()]
        usable = [not any(self._unwanted(o)) and not any(self._unfit(o)) for o in offers]
        chosen: Array = rows[np.array(usable, dtype=bool)[kind]]
        return chosen

    def offer_problems(self, offer: VmOffer) -> list[tuple[str, str]]:
        """Return why an offer may not be used, as (code, message); empty if it may."""
        return [*self._unwanted(offer), *self._unplanned(offer), *self._unfit(offer)]

    def _unwanted(self, offer: VmOffer) -> Iterator[tuple[str, str]]:
        wish = self.requirements
        if not asks_for(wish.gpus, offer.gpu, offer.gpu_count):
            name = offer.device if any(":" in gpu for gpu in wish.gpus) else offer.gpu
            yield "gpu", f"{name} is not among --gpu {','.join(wish.gpus)}"
        if wish.market not in ("any", offer.market):
            what = f"{offer.instance_type} in {offer.place}"
            yield "market", f"{what} is {offer.market}, not {wish.market}"
        if wish.oldest_price is not None and offer.as_of < wish.oldest_price:
            newest = f"the newest price is of {offer.as_of}"
            yield STALE, f"{newest}, older than --max-price-age allows ({wish.oldest_price})"
        if wish.counts_carbon and carbon_unknown(offer, self.catalog) == NO_POWER:
            yield "carbon", f"{offer.gpu}: {NO_POWER}"
        if wish.require_measured and not self._measured(offer):
            yield "estimated", f"nobody measured {self.profile.name} on {offer.device}"

    def _unplanned(self, offer: VmOffer) -> list[tuple[str, str]]:
        built = self.island(offer)
        if isinstance(built, Refusal) and not self.pools_of(offer):
            _, nearest = self.nearest_island(offer) or (1, built)
            # Where an island fits that is not offered, one machine says why.
            refused = nearest if isinstance(nearest, Refusal) else built
            return [(MEMORY_CODES.get(refused.code, refused.code), refused.reason)]
        return []

    def _unfit(self, offer: VmOffer) -> Iterator[tuple[str, str]]:
        if self.island_question is not None:
            return
        device_gib, profile = self.catalog.gpu(offer.gpu).memory_gib, self.profile
        need = profile.device_memory_bytes / GIB
        if need > device_gib:
            text = f"{profile.name} needs {need:.1f} GiB on each device"
            yield "device-memory", f"{text}; {offer.gpu} has {device_gib:g} GiB"
        failed = profile.ran_out_of_memory(offer.gpu, offer.gpu_count)
        if failed is not None:
            text = f"{profile.name} ran out of memory on a machine of {failed.gpu_count} x"
            yield "device-memory", f"{text} {failed.gpu}: {failed.source}"
        need = profile.host_memory_bytes / GIB
        if need > offer.memory_gib:
            text = f"{profile.name} needs {need:.1f} GiB of host memory"
            yield "host-memory", f"{text}; {offer.instance_type} has {offer.memory_gib:g} GiB"

    def _measured(self, offer: VmOffer) -> bool:
        pool = self.pool(offer)
        return pool is not None and pool.alone.basis in ("measured", "published")

    def place_problem(self, place: str) -> str:
        """Return why workers may not be in a place; empty if they may."""
        wish = self.requirements
        if wish.places_in and not is_named(place, wish.places_in):
            return f"{place} is not in --in {','.join(wish.places_in)}"
        if is_named(place, wish.places_not_in):
            return f"{place} is excluded by --not-in {','.join(wish.places_not_in)}"
        if (
            wish.counts_carbon
            and place in self.catalog.regions
            and self.catalog.regions[place].grid_carbon_g_per_kwh is None
        ):
            return f"{place}: {NO_GRID}"
        return ""

    def _place_admitted(self, offer: VmOffer) -> bool:
        """Return whether a place is admitted; owned machines count only at sites the user names."""
        if self.place_problem(offer.place):
            return False
        if offer.price_basis != "owned":
            return True
        wish = self.requirements
        used, own = (rule.place for rule in wish.used), own_places(self.catalog.changes)
        named = (*wish.places_in, *used, *own)
        return is_named(offer.place, [word for word in named if not word.startswith("*")])
