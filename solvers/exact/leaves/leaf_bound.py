"""Thresholds of a leaf: its regions and its number of workers are known."""

from __future__ import annotations

import numpy as np

from placer.problem.exchange import pair_bytes

from ..._market.arrays import Array, Indices
from ..bounds.relaxation import Family, Node, Relaxation

SLACK = 1e-9
"""Relative slack of a bound against rounding."""


class LeafBound:
    """Thresholds of a leaf where all workers meet: its regions and number of workers are fixed.

    Parameters
    ----------
    relaxation
        Bounds of the market.
    node
        The regions, all used, and one number of workers.
    family
        Class of hosts.
    """

    def __init__(self, relaxation: Relaxation, node: Node, family: Family) -> None:
        self.relaxation, self.node, self.family = relaxation, node, family
        self.market, self.target = relaxation.market, relaxation.target
        self.workers = int(node.workers[0])
        self._kept: tuple[bytes, tuple[Array, Array, float, Array]] | None = None

    def of_family(self, family: Family) -> LeafBound:
        """Return the bound of the same leaf with other hosts."""
        return self if family is self.family else LeafBound(self.relaxation, self.node, family)

    def needed_speed(self, region: int) -> float:
        """Return the samples/s that the data which stays in a region needs there for an
        improvement.
        """
        share = float(self.market.stay_share[self.node.used[region]])
        mode = self.relaxation.mode
        return (
            (1 - SLACK) * share * mode.samples / mode.seconds_at(self.target.min_speed)
            if share
            else 0.0
        )

    def thresholds(self, splits: Indices, weights: Array | None = None) -> Array:
        """Return the thresholds at known workers of the first regions, where egress is exact, for
        the rows of the market or other ones; shape (rows, splits).

        Notes
        -----
        Workers that are not placed yet pay at least the cheapest price to and from the placed ones.
        """
        communication, egress_usd, data_usd, slowest = self._round(splits)
        return self.target.thresholds(
            self.relaxation.mode,
            self.market.weights if weights is None else weights,
            communication,
            egress_usd,
            data_usd,
            slowest,
        )

    def _round(self, splits: Indices) -> tuple[Array, Array, float, Array]:
        """Return what `Target.thresholds` takes of the exchanges of some splits, which depends on
        no target; kept for the last one split, which is asked for again and again.
        """
        asked = splits.tobytes() if len(splits) == 1 else None
        if asked is not None and self._kept is not None and self._kept[0] == asked:
            return self._kept[1]
        workers, shard = (
            self.workers,
            pair_bytes(self.relaxation.problem.gradient_bytes, self.workers),
        )
        communication = np.full(
            len(splits), self.family.averaging_s[workers] + self.node.wan_s_per_pair_byte * shard
        )
        # The slowest hosts and the slowest network: a speed that every placement of the leaf has,
        # so that egress is charged for no more than is certain.
        growth = self.relaxation.most_growth(np.full(len(splits), workers))
        longest = (
            self.node.wan_s_per_pair_byte * shard * growth
            + self.family.slowest_averaging_s[workers]
            + self.relaxation.most_load_s
        )
        built = (
            communication,
            self.egress_usd(splits),
            min(self.market.data_usd[p] for p in self.node.used),
            self.relaxation.slowest(self.node, np.full(len(splits), workers), longest),
        )
        self._kept = None if asked is None else (asked, built)
        return built

    def host_runs(self, split: Indices) -> list[tuple[frozenset[str], ...]]:
        """List the hosts by region such that in each run the slowest of them decides."""
        return [
            (hosts,) * split.shape[1]
            for hosts in self.relaxation.host_steps(self.family, self.workers)
        ]

    def egress_usd(self, splits: Indices) -> Array:
        """Return the egress of one exchange at known workers of the first regions, exact if these
        are all; shape (splits,).
        """
        known = splits.shape[1]
        price = self.market.prices[np.ix_(self.node.used, self.node.used)]
        placed = price[:known, :known]
        pairs = np.einsum("si,ij,sj->s", splits, placed, splits) - splits @ np.diag(placed)
        if known < len(self.node.used):
            # Workers to come pay the cheapest price to and from each placed one, and nothing among
            # themselves yet.
            outward = price[:known, known:].min(axis=1) + price[known:, :known].min(axis=0)
            pairs = pairs + (splits @ outward) * (self.workers - splits.sum(axis=1))
        built: Array = pair_bytes(self.relaxation.problem.gradient_bytes, self.workers) * pairs
        return built
