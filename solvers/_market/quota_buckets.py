"""Buckets of pools that share a quota, as steps of machines that add alike: the concave majorant
of what the quota allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placer.problem.workers.pool import Pool
from placer.solving import allowance

from .arrays import Array, Indices
from .increments import increments, step_machines

AT_ONCE = 500_000
"""Rows x buckets x machines of one step: 4 MB a table."""


class Buckets:
    """Pools of every quota bucket, together where machine sizes, caps and quota are alike.

    Parameters
    ----------
    pools
        Admitted pools.
    cap
        Most machines of each; shape (pools,).
    most
        Most machines of a placement.
    """

    def __init__(self, pools: Sequence[Pool], cap: Array, most: int) -> None:
        self.most = most
        # Apart by class of host, as the searches leave classes out: each has the quota to itself,
        # so the bound errs high.
        buckets: dict[tuple[str, ...], list[int]] = {}
        for i, pool in enumerate(pools):
            buckets.setdefault((*pool.bucket, pool.host), []).append(i)
        self._alike: dict[tuple[tuple[int, ...], tuple[int, ...], int], list[list[int]]] = {}
        for members in buckets.values():
            sizes = tuple(pools[i].gpus for i in members)
            caps = tuple(int(cap[i]) for i in members)
            self._alike.setdefault((sizes, caps, pools[members[0]].gpu_quota), []).append(members)
        self.owners, self.machines = self._steps()

    def _steps(self) -> tuple[Indices, Indices]:
        """Return the first pool of each step's bucket, and the machines that it stands for; shape
        (steps,).
        """
        owners, machines = [], []
        for (sizes, caps, quota), group in self._alike.items():
            each = step_machines(sizes, caps, quota, self.most)
            owners.append(np.repeat([members[0] for members in group], len(each)))
            machines.append(np.tile(np.array(each, dtype=np.intp), len(group)))
        return np.concatenate(owners).astype(np.intp), np.concatenate(machines)

    def increments(self, values: Array) -> Array:
        """Return the concave increments of every quota bucket.

        Parameters
        ----------
        values
            What one machine of each pool is worth; shape (rows, pools).

        Returns
        -------
        Array
            Shape (rows, steps). Taking the n largest increments of a row, each as often as its step
            has machines, bounds the row's sum over any n machines that respect the quotas.
        """
        allowance.reserve(2 * 8 * len(values) * len(self.owners))
        blocks = []
        for (sizes, caps, quota), group in self._alike.items():
            # Some buckets at a time: each is worked out by itself, with several tables of its size.
            step = max(1, int(AT_ONCE // (len(values) * (self.most + 1))))
            for first in range(0, len(group), step):
                allowance.check()
                some = values[:, np.array(group[first : first + step])]
                own = increments(some, sizes, caps, quota, self.most)
                blocks.append(own.reshape(len(values), -1))
        return np.concatenate(blocks, axis=1)
