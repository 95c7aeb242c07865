"""What further machines of the quota buckets of one place add, for all buckets at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placer.problem.workers.pool import Pool

from .arrays import Array, Indices
from .increments import add_alike, increments, machines_of, step_machines

Kinds = tuple[tuple[int, ...], tuple[int, ...], int]
"""Devices of a machine and most machines of each pool of a bucket, and its quota."""


class PlaceUnits:
    """Increments of the quota buckets of one place.

    Parameters
    ----------
    buckets
        Indices of the pools of each quota.
    pools, cap
        All pools of the market, and the most machines of each.
    most
        Machines that are ever asked for.

    Notes
    -----
    Where the best machine of a bucket may be taken each time, its increments are one value: the
    largest of its pools. That holds for fewer machines too if it holds for the most. ``enough`` is
    how many machines any mix of the pools may have at least, whatever their caps and quotas.
    """

    def __init__(
        self, buckets: Sequence[list[int]], pools: Sequence[Pool], cap: Array, most: int
    ) -> None:
        self.buckets = buckets
        self._size = {i: pools[i].gpus for bucket in buckets for i in bucket}
        self._cap = {i: int(cap[i]) for i in self._size}
        self._quota = {i: pools[i].gpu_quota for i in self._size}
        machines = [machines_of(*self._kinds(bucket), most) for bucket in buckets]
        alike = [add_alike(*self._kinds(bucket), most) for bucket in buckets]
        first = [b for b, n, one in zip(buckets, machines, alike, strict=True) if n and one]
        others = [b for b, one in zip(buckets, alike, strict=True) if not one]
        self._starts = np.cumsum([0, *(len(bucket) for bucket in first)])
        self._machines = np.array(
            [n for n, one in zip(machines, alike, strict=True) if n and one], dtype=np.intp
        )
        self.enough = min(
            (min(self._cap[i], self._quota[i] // self._size[i]) for i in self._size), default=0
        )
        ordered = [i for bucket in (*first, *others) for i in bucket]
        ordered += [i for i in self._size if i not in {*ordered}]  # of buckets without machines
        self.pools: Indices = np.array(ordered, dtype=np.intp)
        self.column = {pool: at for at, pool in enumerate(ordered)}
        self._others = self._by_kinds(others)
        self._steps: dict[int, Indices] = {}

    def increments(self, values: Array, most: int) -> tuple[Array, Indices]:
        """Return the increments of all buckets, and how many machines each step stands for.

        Parameters
        ----------
        values
            What one machine of each of ``pools`` is worth; shape (rows, pools).
        most
            Machines of one bucket that count at most.

        Returns
        -------
        Array
            Shape (rows, steps).
        Indices
            Shape (steps,).
        """
        blocks = [values[:, :0]]
        if len(self._machines):
            together = values[:, : self._starts[-1]]
            blocks.append(np.maximum.reduceat(together, self._starts[:-1], axis=1))
        for kinds, at in self._others:
            built = increments(values[:, at], *kinds, most)
            blocks.append(built.reshape(len(values), -1))
        return np.concatenate(blocks, axis=1), self._machines_of_steps(most)

    def _machines_of_steps(self, most: int) -> Indices:
        """Return how many machines each step stands for."""
        if most not in self._steps:
            steps = [np.minimum(self._machines, most)]
            for kinds, at in self._others:
                each = np.array(step_machines(*kinds, most), dtype=np.intp)
                steps.append(np.tile(each, len(at)))
            self._steps[most] = np.concatenate(steps)
        return self._steps[most]

    def of_pools(self, values: Array, pools: list[int], most: int) -> Array:
        """Return the increments of some pools of one quota, machine by machine; shape (rows,
        machines).
        """
        kinds = self._kinds(pools)
        built = increments(values[:, None, [self.column[i] for i in pools]], *kinds, most)[:, 0]
        return np.repeat(built, step_machines(*kinds, most), axis=1)

    def _by_kinds(self, buckets: Sequence[list[int]]) -> list[tuple[Kinds, Indices]]:
        """Put buckets together that are alike in size and quota, with the columns of their pools;
        shape (buckets, pools) each.
        """
        alike: dict[Kinds, list[list[int]]] = {}
        for bucket in buckets:
            alike.setdefault(self._kinds(bucket), []).append([self.column[i] for i in bucket])
        return [(kinds, np.array(at, dtype=np.intp)) for kinds, at in alike.items()]

    def _kinds(self, pools: list[int]) -> Kinds:
        """Return devices of a machine and most machines of each pool, and their quota."""
        sizes, caps = (tuple(of[i] for i in pools) for of in (self._size, self._cap))
        return sizes, caps, self._quota[pools[0]]
