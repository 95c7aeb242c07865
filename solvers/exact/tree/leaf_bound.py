"""Trees that take turns, and the thresholds of a leaf, whose regions and workers are known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from copy import copy

import numpy as np

from placer.problem.exchange import pair_bytes
from placer.problem.placement import WorkerGroup

from ..._market.arrays import Array, Indices
from ..bounds.region_rounds import RegionRounds
from ..bounds.relaxation import Family, Node, Relaxation

Groups = tuple[WorkerGroup, ...]
Tree = Iterator[Groups | None]
"""Machines that may improve; None at a pause, after which other trees of the mode have their turn;
`BREATH` where another mode may have its turn.
"""
BREATH: Groups = ()


def interleave(
    trees: Iterable[Callable[[], Tree]], offer: Callable[[Groups], None]
) -> Iterator[None]:
    """Search every tree to its end, the first for one pause each, then for twice as many in every
    turn; yield at each pause.

    ``trees``: begin a tree when its first turn comes, the most promising first. ``offer``: called
    with groups that may improve.
    """
    left: list[Tree] = []
    for begin in trees:
        tree = begin()
        if not (yield from _ended(tree, 1, offer)):
            left.append(tree)
        yield
    pauses = 2
    while left:
        under_way, left = left, []
        for tree in under_way:
            if not (yield from _ended(tree, pauses, offer)):
                left.append(tree)
            yield
        pauses *= 2


def _ended(tree: Tree, pauses: int, offer: Callable[[Groups], None]) -> Generator[None, None, bool]:
    """Search a tree until its end or so many pauses; return whether it has ended."""
    for groups in tree:
        if groups:
            offer(groups)
            continue
        yield
        if groups is BREATH:
            continue
        pauses -= 1
        if pauses == 0:
            return False
    return True


class LeafBound:
    """Thresholds of a leaf where all workers meet, of one class of hosts."""

    def __init__(self, relaxation: Relaxation, node: Node, family: Family) -> None:
        self.relaxation, self.node, self.family = relaxation, node, family
        self.market, self.target = relaxation.market, relaxation.target
        self.workers = int(node.workers[0])
        self._kept: tuple[bytes, tuple[Array, Array, float, Array]] | None = None
        self._paid: dict[bytes, Array] = {}  # the same for all families

    def of_family(self, family: Family) -> LeafBound:
        """Return the bound of the same leaf with other hosts."""
        if family is self.family:
            return self
        built = copy(self)
        built.family, built._kept = family, None
        return built

    def shares(self, split: Indices) -> Array | None:
        """Return what share of its speed each region does at most; None: all of it."""
        return None

    def needed_speeds(self, split: Indices) -> list[float]:
        """Return the samples/s that the data which stays in each region needs there."""
        none = np.zeros(1)
        return [float(self.relaxation.needed_speed(at, none)[0]) for at in self.node.used]

    def thresholds(self, splits: Indices, weights: Array | None = None) -> Array:
        """Return the thresholds at known workers of the first regions; shape (rows, splits)."""
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
        workers = self.workers
        least_s, most_s = self.between_s()
        communication = np.full(len(splits), self.family.averaging_s[workers] + least_s)
        # The slowest hosts and the slowest network: a speed that every placement of the leaf has,
        # so that egress is charged for no more than is certain.
        longest = np.full(len(splits), self.family.slowest_averaging_s[workers] + most_s)
        built = (
            communication,
            self.paid_usd(splits),
            min(self.market.data_usd[p] for p in self.node.used),
            self.relaxation.slowest(self.node, np.full(len(splits), workers), longest),
        )
        self._kept = None if asked is None else (asked, built)
        return built

    def between_s(self) -> tuple[float, float]:
        """Return the least and the most seconds between the regions."""
        seconds = self.node.wan_s_per_pair_byte * self.relaxation.pair_bytes(self.workers)
        growth = float(self.relaxation.most_growth(np.array([self.workers]))[0])
        return seconds, seconds * growth + self.relaxation.most_load_s

    def host_runs(self, split: Indices) -> list[tuple[frozenset[str], ...]]:
        """List the hosts by region such that in each run the slowest of them decides."""
        return [
            (hosts,) * split.shape[1]
            for hosts in self.relaxation.host_steps(self.family, self.workers)
        ]

    def averages_s(
        self, hosts: tuple[frozenset[str], ...], split: Indices
    ) -> list[dict[str, float]]:
        """List the seconds of an average by the hosts of each region, as the slowest decides."""
        times = self.family.averaging_by_host
        return [
            {host: float(times[host][n]) for host in sorted(own)}
            for own, n in zip(hosts, self._averaging(split), strict=True)
        ]

    def _averaging(self, split: Indices) -> list[int]:
        """List the workers of each region's average: all of them."""
        return [self.workers] * split.shape[1]

    def paid_usd(self, splits: Indices) -> Array:
        """Return `egress_usd`, which is kept."""
        key = splits.tobytes()
        if key not in self._paid:
            self._paid[key] = self.egress_usd(splits)
        return self._paid[key]

    def egress_usd(self, splits: Indices) -> Array:
        """Return the egress of one exchange; shape (splits,)."""
        price = self.market.prices[np.ix_(self.node.used, self.node.used)]
        pairs = np.einsum("si,ij,sj->s", splits, price, splits) - splits @ np.diag(price)
        return pair_bytes(self.relaxation.problem.gradient_bytes, self.workers) * pairs


class RegionLeafBound(LeafBound):
    """Thresholds of a leaf whose regions meet through one machine each."""

    def __init__(self, rounds: RegionRounds, node: Node, family: Family) -> None:
        super().__init__(rounds.relaxation, node, family)
        self.rounds = rounds

    def host_runs(self, split: Indices) -> list[tuple[frozenset[str], ...]]:
        """List the hosts by region for each time that the slowest average may take."""
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

    def _averaging(self, split: Indices) -> list[int]:
        """List the workers of each region's average: its own."""
        return [int(n) for n in split[0]]

    def needed_speeds(self, split: Indices) -> list[float]:
        """Return the samples/s that the data which stays in each region needs there."""
        between_s, _ = self.rounds.leader_pairs.exact(self.node.used)
        needed = []
        for k, place in enumerate(self.node.used):
            waiting = self.rounds.waiting_s(place, split[0, k : k + 1], between_s, self.family)
            needed.append(float(self.relaxation.needed_speed(place, waiting)[0]))
        return needed

    def egress_usd(self, splits: Indices) -> Array:
        """Return the egress of one exchange at known workers; shape (splits,)."""
        used = np.array(self.node.used, dtype=np.intp)
        _, usd = self.rounds.leader_pairs.exact(self.node.used)
        return usd + np.full(len(splits), self.rounds.home_usd(used, self.workers - len(used)))

    def thresholds(self, splits: Indices, weights: Array | None = None) -> Array:
        """Return the thresholds at known workers of the regions; shape (rows, splits)."""
        averaging = np.maximum.reduce(
            [
                self.rounds.fastest_averaging((place,), self.family)[splits[:, k]]
                for k, place in enumerate(self.node.used)
            ]
        )
        workers, largest = np.full(len(splits), self.workers), splits.max(axis=1)
        return self.rounds.thresholds(
            self.node.used, workers, largest, averaging, self.family, weights
        )
