"""Admitted offers as workers: arrays for what looks at all, a record of each that is looked at."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np

from placer.market.catalog import VmOffer
from placer.market.network.link_model import Array
from placer.market.table import Records, Table, grouped, occurring
from placer.problem.workers.pool import Pool


class Pools(Records[Pool]):
    """Workers of which those of one kind differ in their offer alone.

    ``kinds`` are one worker of each kind, and ``kind_of`` the kind of each worker; ``rows`` are the
    rows of their offers in the table of ``offers``. Both arrays have the shape (pools,).
    """

    def __init__(
        self, kinds: Sequence[Pool], kind_of: Array, offers: Table[VmOffer], rows: Array
    ) -> None:
        super().__init__([None] * len(rows))
        self.kinds, self.kind_of, self.offers, self.rows = kinds, kind_of, offers, rows

    @classmethod
    def of(cls, pools: Iterable[Pool]) -> Pools:
        """Gather some workers, each a kind of its own."""
        if isinstance(pools, Pools):
            return pools
        kinds = tuple(pools)
        offers = {id(kind.offer): kind.offer for kind in kinds}
        at = {key: row for row, key in enumerate(offers)}
        rows = np.array([at[id(kind.offer)] for kind in kinds], dtype=np.intp)
        return cls(kinds, np.arange(len(kinds)), Table.of(VmOffer, offers.values()), rows)

    def at(self, chosen: Array) -> Pools:
        """Return some workers, of a mask or of positions."""
        kinds, kind_of = occurring(self.kinds, self.kind_of[chosen])
        return Pools(kinds, kind_of, self.offers, self.rows[chosen])

    def over(self, offers: Table[VmOffer], without: int | None = None) -> Pools:
        """Return the workers at the prices of another table of the same machines, or of all but
        those of one row.
        """
        if without is None:
            return Pools(self.kinds, self.kind_of, offers, self.rows)
        left = self.at(self.rows != without)
        return Pools(left.kinds, left.kind_of, offers, left.rows - (left.rows > without))

    @property
    def offer_count(self) -> int:
        """Count the offers whose machines the workers are."""
        return int(np.count_nonzero(np.bincount(self.rows)))

    def figures(self, of: Callable[[Pool], float]) -> Array:
        """Return a figure of each worker that those of one kind share; shape (pools,)."""
        figures: Array = np.array([of(kind) for kind in self.kinds], dtype=np.float64)
        return figures.take(self.kind_of)

    @cached_property
    def usd(self) -> Array:
        """USD/h of each worker; shape (pools,)."""
        prices = self.offers.column("usd_per_hour").numbers[self.rows]
        behind = self.figures(lambda k: sum(p.machines * p.offer.usd_per_hour for p in k.behind))
        built: Array = self.figures(lambda kind: kind.machines) * prices + behind
        return built

    @cached_property
    def bucket_of(self) -> Array:
        """Number of the quota of each worker, see `Pool.bucket`; shape (pools,)."""
        of, first = self.offers.groups(("provider", "region", "gpu", "market"), self.rows)
        types, each = self.offers.groups(("instance_type", "gpu_count"), self.rows)
        apart = np.where(self.figures(lambda kind: kind.supplied) > 0, types + 1, 0)
        built: Array = grouped(of * (len(each) + 1) + apart, len(first) * (len(each) + 1)).of
        return built

    def by_kind(self, key: Callable[[Pool], Hashable]) -> tuple[Array, int]:
        """Divide the workers by what those of one kind share: the group of each worker, and the
        number of groups.
        """
        known: dict[Hashable, int] = {}
        of = [known.setdefault(key(kind), len(known)) for kind in self.kinds]
        return np.array(of, dtype=np.intp)[self.kind_of], len(known)

    def cheapest(self, of: Array, count: int) -> Array:
        """Return the cheapest worker of each group, the first of equal ones, by the first worker of
        the group. ``of`` is the group of each worker below ``count``.
        """
        alike, first = grouped(of, count)
        least = np.full(len(first), np.inf)
        np.minimum.at(least, alike, self.usd)
        best = (self.usd == least[alike]).nonzero()[0][::-1]
        chosen = first.copy()
        chosen[alike[best]] = best  # of equal ones the one that is written last stays
        ordered: Array = chosen[np.argsort(first)]
        return ordered

    @cached_property
    def places(self) -> tuple[Array, tuple[str, ...]]:
        """Which place each worker is at, shape (pools,), and the names of all places."""
        of, first = self.offers.groups(("provider", "region"), self.rows)
        return of, tuple(self.offers[row].place for row in self.rows[first].tolist())

    def _made(self, at: int) -> Pool:
        return _of_offer(self.kinds[self.kind_of[at]], self.offers[self.rows[at]])

    def _every(self) -> Iterator[Pool]:
        kinds = map(self.kinds.__getitem__, self.kind_of.tolist())
        return map(_of_offer, kinds, map(self.offers.__getitem__, self.rows.tolist()))


def _of_offer(kind: Pool, offer: VmOffer) -> Pool:
    return kind if kind.offer is offer else msgspec.structs.replace(kind, offer=offer)
