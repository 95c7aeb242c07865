"""Thresholds of a leaf whose regions meet through one machine each."""

from __future__ import annotations

import numpy as np

from ..._market.arrays import Array, Indices
from ..bounds.hierarchical_rounds import RegionRounds
from ..bounds.relaxation import Family, Node
from .leaf_bound import LeafBound


class RegionLeafBound(LeafBound):
    """Thresholds of a leaf whose regions meet through one machine each: what passes between them is
    known.

    Parameters
    ----------
    rounds
        Bounds of a round inside the regions and between them.
    node, family
        As in `LeafBound`.
    """

    def __init__(self, rounds: RegionRounds, node: Node, family: Family) -> None:
        super().__init__(rounds.relaxation, node, family)
        self.rounds = rounds

    def of_family(self, family: Family) -> RegionLeafBound:
        """Return the bound of the same leaf with other hosts."""
        return self if family is self.family else RegionLeafBound(self.rounds, self.node, family)

    def host_runs(self, split: Indices) -> list[tuple[frozenset[str], ...]]:
        """List the hosts by region such that the slowest average of a region decides: one run for
        each time that it may take.
        """
        runs: dict[tuple[frozenset[str], ...], None] = {}
        times = self.family.averaging_by_host
        counts = split[0].tolist()
        for hosts in self.relaxation.host_steps(self.family, self.workers):
            for longest in sorted({float(times[host][n]) for host in hosts for n in counts}):
                runs[
                    tuple(
                        frozenset(host for host in hosts if times[host][n] <= longest)
                        for n in counts
                    )
                ] = None
        return [run for run in runs if all(run)]

    def egress_usd(self, splits: Indices) -> Array:
        """Return the egress of one exchange at known workers; shape (splits,)."""
        used = np.array(self.node.used, dtype=np.intp)
        _, usd = self.rounds.leader_pairs.least(self.node.used, (), len(used))
        return usd + np.full(len(splits), self.rounds.home_usd(used, self.workers - len(used)))

    def thresholds(self, splits: Indices, weights: Array | None = None) -> Array:
        """Return the thresholds at known workers of the first regions, for the rows of the market
        or other ones; shape (rows, splits).
        """
        regions, known = len(self.node.used), splits.shape[1]
        left = self.workers - splits.sum(axis=1)
        rest = (
            -(-left // (regions - known))
            if known < regions
            else np.zeros(len(splits), dtype=np.intp)
        )
        largest = np.maximum(rest, splits.max(axis=1) if known else 0)
        averaging = np.zeros(len(splits))
        if known < regions:
            averaging = self.rounds.fastest_averaging(
                tuple(sorted(self.node.used[known:])), self.family
            )[rest]
        for k, place in enumerate(self.node.used[:known]):
            averaging = np.maximum(
                averaging, self.rounds.fastest_averaging((place,), self.family)[splits[:, k]]
            )
        workers = np.full(len(splits), self.workers)
        return self.rounds.thresholds(
            self.node.used, (), workers, largest, averaging, regions, self.family, weights
        )
