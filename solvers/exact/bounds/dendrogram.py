"""Best sums of so many workers over places whose pairs pay by a dendrogram of prices."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.solving import allowance

from ..._market.arrays import Array, Indices

DEAREST_USD_PER_BYTE = 1.0
"""Price of a pair that nothing can pass: any price below the true one bounds it."""


class Merge(Struct, frozen=True, kw_only=True):
    """Two groups of places that become one; ``usd`` is the price of a byte each way between any
    place of the one and any of the other, at least.
    """

    one: int
    other: int
    usd: float


class Dendrogram:
    """Places that are merged by the price of a byte each way, the cheapest pairs first.

    Parameters
    ----------
    usd
        Price of a byte each way between the places, symmetric; shape (places, places).

    Notes
    -----
    Single linkage: the price at which two places come together is the smallest p such that a chain
    of pairs at most as dear joins them. It is no more than the price of the pair itself, and no
    larger price of a dendrogram is. Groups 0 to places - 1 are the places, then one a merge, the
    last one all of them.

    With such prices the best sums of N workers are exact by dynamic programming: a group of w
    workers is i in one part and w - i in the other, which pay i (w - i) times the price of the
    merge, and what happens inside a part depends on its own number alone. Egress between regions is
    quadratic in their workers, so that a sort by the cheapest partner takes the best machines of
    everywhere, as if all of them were near all others in price; here they pay for being apart.
    """

    def __init__(self, usd: Array) -> None:
        self.usd = np.minimum(usd, DEAREST_USD_PER_BYTE)
        self.places = len(usd)
        self.merges = _merges(self.usd)

    @cached_property
    def prices(self) -> Array:
        """Price of each pair at which its groups are merged; shape (places, places)."""
        built, members = np.zeros((self.places, self.places)), [[at] for at in range(self.places)]
        for merge in self.merges:
            one, other = members[merge.one], members[merge.other]
            built[np.ix_(one, other)] = built[np.ix_(other, one)] = merge.usd
            members.append(one + other)
        return built

    def best(self, leaves: list[Array], charge: Array, most: int) -> list[Array]:
        """Return the best sums of every group, by its number of workers.

        Parameters
        ----------
        leaves
            Best sums of 0, 1, ... workers of each place; shape (..., counts) each.
        charge
            What a byte each way between all pairs of two workers takes off; shape (...).
        most
            Most workers of a group.

        Returns
        -------
        list of Array
            Shape (..., counts) each, minus infinity where a group cannot have so many.
        """
        groups = list(leaves)
        for merge in self.merges:
            groups.append(_joined(groups[merge.one], groups[merge.other], charge * merge.usd, most))
        return groups

    def all_together(self, leaves: list[Array], charge: Array, most: int) -> Array:
        """Return the last of `best`, and keep no other."""
        groups: list[Array | None] = list(leaves)
        for merge in self.merges:
            one, other = groups[merge.one], groups[merge.other]
            groups[merge.one] = groups[merge.other] = None
            assert one is not None
            assert other is not None
            groups.append(_joined(one, other, charge * merge.usd, most))
        built = groups[-1]
        assert built is not None
        return built

    def outside(self, groups: list[Array], charge: Array, heads: int) -> list[Array]:
        """Return the best sums of all that is not in a group, by the group's own number.

        Parameters
        ----------
        groups
            What `best` has returned.
        charge
            As in `best`; shape (rows,).
        heads
            Workers of all places together.

        Returns
        -------
        list of Array
            Shape (rows, heads + 1) each, minus infinity where the others cannot have the rest.
        """
        built = [np.full((len(charge), heads + 1), -np.inf) for _ in groups]
        built[-1][:, heads] = 0.0
        counts = np.arange(heads + 1)
        for number in reversed(range(self.places, len(groups))):
            allowance.check()
            merge = self.merges[number - self.places]
            for group, sibling in ((merge.one, merge.other), (merge.other, merge.one)):
                own = groups[sibling]
                more = np.arange(min(own.shape[-1], heads + 1))
                total = counts[:, None] + more
                reached = np.where(
                    total <= heads, built[number][:, np.minimum(total, heads)], -np.inf
                )
                reached = reached + own[:, None, : len(more)]
                reached -= (charge * merge.usd)[:, None, None] * (counts[:, None] * more)
                built[group] = reached.max(axis=2)
        return built


def _joined(one: Array, other: Array, charge: Array, most: int) -> Array:
    """Return the best sums of two groups together, of which every pair of workers takes off a
    charge.
    """
    if one.shape[-1] < other.shape[-1]:
        one, other = other, one
    total = min(most, one.shape[-1] + other.shape[-1] - 2)
    built = np.full((*one.shape[:-1], total + 1), -np.inf)
    apart = charge[..., None] * np.arange(one.shape[-1])
    for count in range(min(other.shape[-1], total + 1)):
        allowance.check()
        last = min(one.shape[-1], total + 1 - count)
        reached = one[..., :last] - count * apart[..., :last]
        reached += other[..., count : count + 1]
        there = built[..., count : count + last]
        np.maximum(there, reached, out=there)
    return built


def _merges(usd: Array) -> list[Merge]:
    """Merge the two nearest groups until one is left; of equally near ones the smallest, so that
    places of one price make a flat tree.
    """
    places = len(usd)
    between = np.array(usd, dtype=float)
    np.fill_diagonal(between, np.inf)
    name, size = np.arange(places), np.ones(places)
    built: list[Merge] = []
    for number in range(places, 2 * places - 1):
        least = between.min()
        ones, others = np.nonzero(between <= least)
        first = int(np.argmin(size[ones] + size[others]))
        one, other = int(ones[first]), int(others[first])
        built.append(Merge(one=int(name[one]), other=int(name[other]), usd=float(least)))
        name[one], size[one] = number, size[one] + size[other]
        nearest = np.minimum(between[one], between[other])
        between[one], between[:, one] = nearest, nearest
        between[one, one] = np.inf
        between[other], between[:, other] = np.inf, np.inf
    return built


class Dendrograms:
    """Dendrograms of some of many places, each made once.

    Parameters
    ----------
    usd
        Price of a byte each way between all places of a market; shape (places, places).
    places
        Which of these may be chosen; indices.
    """

    def __init__(self, usd: Array, places: Indices) -> None:
        self.usd, self.places = usd, places
        self._made: dict[bytes, Dendrogram] = {}

    def of(self, chosen: Indices) -> Dendrogram:
        """Return some places by the price of their pairs: the fewer they are, the dearer."""
        key = chosen.tobytes()
        if key not in self._made:
            at = self.places[chosen]
            self._made[key] = Dendrogram(self.usd[np.ix_(at, at)])
        return self._made[key]
