"""Tables of the egress prices between all places of a book."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from placer.market.catalog import Catalog, EgressPrice, Region
from placer.market.network.geography import Array
from placer.units import GIB

Tiers = tuple[EgressPrice, ...]
"""All volume tiers of one price, lowest mark first."""
NONE = -1
"""Number of the tiers of a pair without a price."""


def first_paid(tiers: Sequence[EgressPrice]) -> EgressPrice:
    """Return the lowest volume tier that costs something; the first one if all are free."""
    return next((tier for tier in tiers if tier.usd_per_gib > 0), tiers[0])


class EgressGrid:
    """The price of bytes from every place to every other: the most specific row of the book wins.

    Parameters
    ----------
    catalog
        Regions and egress prices.
    alike
        Table of a catalog that may have the same regions, and rows that differ in their prices
        alone: which row names which pair is taken from it then.

    Notes
    -----
    A row names its source by region, egress zone or ``*``, and so its destination where both belong
    to one provider; a place of another provider is ``internet``, or in a changed world its own
    name. Machines of one place pay ``intra_zone`` or ``inter_zone``. Of two rows that are equally
    specific together, the one with the more specific source wins.
    """

    def __init__(self, catalog: Catalog, alike: EgressGrid | None = None) -> None:
        self._regions = [*catalog.regions.values()]
        self.index = {region.place: at for at, region in enumerate(self._regions)}
        groups: dict[tuple[str, str, str], list[EgressPrice]] = {}
        for price in catalog.egress:
            groups.setdefault((price.provider, price.src, price.dst), []).append(price)
        self._keys = [*groups]
        self.tiers: list[Tiers] = [
            tuple(sorted(group, key=lambda tier: tier.above_gib_per_month))
            for group in groups.values()
        ]
        self._numbers: dict[bool, Array] = {}
        if alike is not None and self._names_as(alike):
            self._numbers = alike._numbers
            return
        apart = self._apart()
        for same_zone, name in ((True, "intra_zone"), (False, "inter_zone")):
            table = apart.copy()
            np.fill_diagonal(table, self._inside(name))
            self._numbers[same_zone] = table

    def _names_as(self, other: EgressGrid) -> bool:
        """Return whether the rows of another table name the same places, in the same order."""
        return self._keys == other._keys and self._regions == other._regions

    def of(self, src: str, dst: str, *, same_zone: bool) -> Tiers | None:
        """Return the tiers from one place to another; None where the book has none."""
        number = int(self._numbers[same_zone][self.index[src], self.index[dst]])
        return None if number == NONE else self.tiers[number]

    def usd_per_byte(self, same_zone: bool) -> Array:
        """Return the price of a byte in USD of the first paid tiers, NaN where the book has none;
        shape (places, places).
        """
        prices = np.array([*self._first_paid, np.nan])
        built: Array = prices[self._numbers[same_zone]]  # the number of none is the last
        return built

    @cached_property
    def _first_paid(self) -> list[float]:
        return [first_paid(tiers).usd_per_gib / GIB for tiers in self.tiers]

    def _apart(self) -> Array:
        """Return the numbers of the tiers between different places; shape (places, places)."""
        table = np.full((len(self._regions), len(self._regions)), NONE)
        matches = sorted(
            (match for number in range(len(self._keys)) for match in self._matches(number)),
            key=lambda match: match[:2],
            reverse=True,
        )
        for _, _, number, rows, columns in matches:  # the most specific come last
            table[np.ix_(rows, columns)] = number
        return table

    def _matches(self, number: int) -> Iterator[tuple[int, int, int, list[int], list[int]]]:
        """Yield how specific a row is, in all and in its source, its number, and its cells."""
        provider, src, dst = self._keys[number]
        for i, sources in enumerate(self._ends):
            rows = sources.get((provider, src))
            if rows is None:
                continue
            for j, destinations in enumerate(self._ends):
                columns = destinations.get((provider, dst))
                if columns is not None:
                    yield i + j, i, number, rows, columns
            others = self._others(provider, dst)
            if others:
                yield i + (dst == "internet"), i, number, rows, others

    def _others(self, provider: str, dst: str) -> list[int]:
        """List the places of other providers that a row names."""
        if dst != "internet":
            at = self.index.get(dst)
            return [] if at is None or self._regions[at].provider == provider else [at]
        return [at for at, region in enumerate(self._regions) if region.provider != provider]

    def _inside(self, name: str) -> list[int]:
        """Return the number of the tiers inside each place."""
        numbers = {
            (provider, src): number
            for number, (provider, src, dst) in enumerate(self._keys)
            if dst == name
        }
        return [
            next(
                (
                    numbers[region.provider, end]
                    for end in _ends(region)
                    if (region.provider, end) in numbers
                ),
                NONE,
            )
            for region in self._regions
        ]

    @cached_property
    def _ends(self) -> tuple[dict[tuple[str, str], list[int]], ...]:
        """Places by provider and region, by provider and egress zone, and by provider."""
        found: tuple[dict[tuple[str, str], list[int]], ...] = ({}, {}, {})
        for at, region in enumerate(self._regions):
            for level, end in zip(found, _ends(region), strict=True):
                level.setdefault((region.provider, end), []).append(at)
        return found


def _ends(region: Region) -> tuple[str, str, str]:
    """Return the names under which rows mean a place, the most specific first."""
    return region.region, region.egress_zone, "*"
