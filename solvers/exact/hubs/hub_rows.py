"""Many hubs with their numbers of workers as arrays: one pair of hub and number a row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct

from placer.problem.exchange import memory_gib

from ..._market.arrays import Array, Indices, Mask
from .hub import Hub


class HubRows(Struct, frozen=True, eq=False, dict=True):
    """Figures of some hubs with their numbers of workers; all of shape (rows,).

    Parameters
    ----------
    hubs, workers
        Position of each hub in its list, and how many workers it has.
    aggregate, shared
        Seconds between the last gradient and the result; seconds in which all gradients pass
        through the hub, one way.
    usd
        USD/h of the server, infinite where there is none.
    """

    hubs: Indices
    workers: Indices
    aggregate: Array
    shared: Array
    usd: Array

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.workers)

    def __getitem__(self, wanted: Any) -> HubRows:
        """Return the rows of a mask, a slice or some positions."""
        return HubRows(
            self.hubs[wanted],
            self.workers[wanted],
            self.aggregate[wanted],
            self.shared[wanted],
            self.usd[wanted],
        )

    @staticmethod
    def of(hub: Hub, workers: Indices, position: int = 0) -> HubRows:
        """Build the rows of one hub with several numbers of workers."""
        aggregate, shared = (
            np.broadcast_to(np.asarray(each), workers.shape)
            for each in (hub.aggregate(workers), hub.shared(workers))
        )
        return HubRows(
            np.full(workers.shape, position), workers, aggregate, shared, hub.usd_per_hour(workers)
        )


class HubTable:
    """Every hub with every number of workers, none of which depends on a target.

    Parameters
    ----------
    hubs
        The hubs of a mode; at least one.
    most
        Largest number of workers.
    """

    def __init__(self, hubs: Sequence[Hub], most: int) -> None:
        self._hubs, self._workers = hubs, np.arange(most + 1)

    @cached_property
    def _every(self) -> list[HubRows]:
        return [HubRows.of(hub, self._workers, k) for k, hub in enumerate(self._hubs)]

    @cached_property
    def _columns(self) -> tuple[Array, Array, Array]:
        """Aggregate, shared and price; each of shape (hubs, workers + 1)."""
        rows = self._every
        return (
            np.array([r.aggregate for r in rows]),
            np.array([r.shared for r in rows]),
            np.array([r.usd for r in rows]),
        )

    @cached_property
    def _able(self) -> Mask:
        """Which hubs have memory, time and a machine for so many workers; shape (hubs, workers +
        1).
        """
        memory = np.array(
            [
                memory_gib(self._hubs[0].size, self._hubs[0].gradients(n))
                for n in self._workers.tolist()
            ]
        )
        able = [
            hub.able(memory, rows.aggregate) & np.isfinite(rows.usd)
            for hub, rows in zip(self._hubs, self._every, strict=True)
        ]
        return np.array(able, dtype=bool)

    def best(self, workers: Indices) -> HubRows:
        """Return for each of some numbers of workers a hub that is in each figure as good as any;
        infinite where there is none.
        """
        # Each figure from another hub if need be: no real hub is better in any of them.
        least = [np.where(self._able, each, np.inf).min(axis=0)[workers] for each in self._columns]
        return HubRows(np.zeros(workers.shape, dtype=np.intp), workers, *least)

    def each(self, workers: Indices) -> HubRows:
        """List every hub that can have each of some numbers of workers, hub by hub."""
        hubs, at = np.nonzero(self._able[:, workers])
        counts = workers[at]
        return HubRows(hubs, counts, *(each[hubs, counts] for each in self._columns))
