"""What further machines of the quota buckets of one place add, for all buckets at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placer.problem.problem import Pool

from .arrays import Array, Indices
from .increments import add_alike, increments, machines_of, step_machines


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
        self._others = [b for b, one in zip(buckets, alike, strict=True) if not one]
        self._starts = np.cumsum([0, *(len(bucket) for bucket in first)])
        self._machines = np.array(
            [n for n, one in zip(machines, alike, strict=True) if n and one], dtype=np.intp
        )
        self.enough = min(
            (min(self._cap[i], self._quota[i] // self._size[i]) for i in self._size), default=0
        )
        ordered = [i for bucket in (*first, *self._others) for i in bucket]
        ordered += [i for i in self._size if i not in {*ordered}]  # of buckets without machines
        self.pools: Indices = np.array(ordered, dtype=np.intp)
        self.column = {pool: at for at, pool in enumerate(ordered)}

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
        blocks, machines = [values[:, :0]], [self._machines[:0]]
        if len(self._machines):
            together = values[:, : self._starts[-1]]
            blocks.append(np.maximum.reduceat(together, self._starts[:-1], axis=1))
            machines.append(np.minimum(self._machines, most))
        for bucket in self._others:
            kinds = self._kinds(bucket)
            at = [self.column[i] for i in bucket]
            blocks.append(increments(values[:, None, at], *kinds, most)[:, 0])
            machines.append(np.array(step_machines(*kinds, most), dtype=np.intp))
        return np.concatenate(blocks, axis=1), np.concatenate(machines)

    def of_pools(self, values: Array, pools: list[int], most: int) -> Array:
        """Return the increments of some pools of one quota, machine by machine; shape (rows,
        machines).
        """
        kinds = self._kinds(pools)
        built = increments(values[:, None, [self.column[i] for i in pools]], *kinds, most)[:, 0]
        return np.repeat(built, step_machines(*kinds, most), axis=1)

    def _kinds(self, pools: list[int]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Return devices of a machine and most machines of each pool, and their quota."""
        sizes, caps = (tuple(of[i] for i in pools) for of in (self._size, self._cap))
        return sizes, caps, self._quota[pools[0]]
