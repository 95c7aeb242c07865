"""Bounds of a ring over several regions: which edges it has depends on all of its regions, so two
of them count by the fastest ways between them, and each by its cheapest neighbours.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from placer.problem.exchange import crossings, edge_bytes
from placer.problem.kept_answers import Recent

from ..._market.arrays import Array, Indices
from ..._market.market import Market
from ..._mode import Mode
from ..._target import Target
from .relaxation import SLACK, Family, Node, Relaxation

PAIR = 2
"""A ring over two regions has both directions of their one pair, so that all is known."""
MOST_EDGES = 6
"""Ways of more edges than this are taken as those of any number."""
KEPT_WAYS = 4
"""Sets of places whose ways a network keeps, of some MB each."""
ANY_WAYS = 2 * MOST_EDGES + 1
"""In rings over more regions than this both ways may be of any number of edges."""


class RingRelaxation(Relaxation):
    """Bounds of rings over ``regions`` regions, or over at least two where that is None. What is
    called a pair byte elsewhere is a byte of an edge here.

    ``most_regions``: they may be over more regions too, up to so many; None: over no more.
    """

    def __init__(
        self,
        market: Market,
        target: Target,
        mode: Mode,
        first: int,
        most: int,
        regions: int | None = None,
        most_regions: int | None = None,
    ) -> None:
        super().__init__(market, target, mode, first, most)
        self.ring_regions, self.most_regions = regions, most_regions or regions

    def of_regions(self, regions: int, most_regions: int) -> RingRelaxation:
        """Return the bounds of rings over so many regions, up to so many."""
        market, target, mode = self.market, self.target, self.mode
        built = RingRelaxation(market, target, mode, self.first, self.most, regions, most_regions)
        built.one_way, built.machine_wan = self.one_way, self.machine_wan  # the same for all
        return built

    def pair_bytes(self, workers: int) -> float:
        """Return the bytes that an edge carries in a round."""
        return edge_bytes(self.problem.gradient_bytes, workers)

    @cached_property
    def wan_matrix(self) -> Array:
        """Seconds per edge byte of the slowest edge if both places are used, at least; shape
        (places, places). Two places part a ring of R edges into a way of h edges and one of R - h
        back, which are no faster than the fastest of so many edges or fewer.
        """
        return self._ways.wan_matrix(self.most_regions or len(self.market.places))

    @property
    def _ways(self) -> RingWays:
        """Return the ways between the places, which the network keeps for other prices too."""
        problem, fitted = self.problem, self.problem.calibration
        key = (
            *(self.market.places, problem.requirements.streams, problem.transport),
            *((self._lanes.tobytes() if self.mode.lanes > 1 else b""), id(fitted)),
        )
        # While the calibration is held, its id is its own.
        ways: RingWays
        held = problem.network.memo.setdefault("ring ways", Recent(KEPT_WAYS))
        ways, _ = held.get(key, lambda: (RingWays(self.one_way), fitted))
        return ways

    @cached_property
    def pair_usd(self) -> Array:
        """USD of an edge byte, as a sum over all pairs of regions, at least: each region has one
        edge that leaves it and one that comes to it, and is in so many pairs; shape (places,
        places). Of three regions or more the two lead to different ones.
        """
        if self.ring_regions == PAIR or len(self.market.places) <= PAIR:
            return self.market.both_ways
        assert self.ring_regions is not None
        prices = self.market.prices.copy()
        np.fill_diagonal(prices, np.inf)
        ranked = np.sort(np.minimum(prices, prices.T), axis=1)
        own = np.maximum(prices.min(axis=1) + prices.min(axis=0), ranked[:, 0] + ranked[:, 1]) / 2
        built: Array = (own[:, None] + own) / (self.ring_regions - 1)
        np.fill_diagonal(built, 0.0)
        return built

    def least_pair_usd(self, node: Node, family: Family) -> Array:
        """Return the least sum of egress prices over the edges, for each open worker count."""
        n, used = node.workers, node.used
        if not used and node.regions < PAIR:
            return np.zeros(len(n))
        if node.regions == 1 and not node.joining:
            return n * float(self.market.prices[used[0], used[0]])
        places = np.array((*used, *node.joining), dtype=np.intp)
        if len(places) < PAIR or node.regions < PAIR:
            return np.zeros(len(n))
        prices = self.market.prices[np.ix_(places, places)]
        across = prices[~np.eye(len(places), dtype=bool)].min()
        # As many edges as regions cross at least; any other one costs no less than the cheapest.
        crossing = max(node.regions, PAIR)
        least: Array = crossing * float(across) + np.maximum(n - crossing, 0) * float(prices.min())
        return least

    def home_usd(self, places: tuple[int, ...], edges: int) -> float:
        """Return the USD per edge byte of the edges inside regions, at least."""
        return edges * min(float(self.market.prices[place, place]) for place in places)

    def slowest(self, node: Node, workers: Indices, communication_s: Array) -> Array:
        """Return the samples/s of the slowest machines and exchange; 0 if unknown, as it is before
        all regions are.
        """
        if len(node.used) + len(node.joining) > 1 and node.joining:
            return np.zeros(len(workers))
        return super().slowest(node, workers, communication_s)

    def load_wan(self, places: Indices, workers: Indices, regions: int) -> Array:
        """Return the seconds per edge byte of the busiest worker at least; shape (workers,)."""
        if regions < PAIR:
            return np.zeros(len(workers))
        return np.full(len(workers), float(self.machine_wan[places].min()))

    def edges(self, used: tuple[int, ...]) -> tuple[Indices, Indices]:
        """Return the ends of the edges between known regions; shape (regions,) each."""
        places = self.market.places
        at = {places[k]: k for k in used}
        between = crossings([places[k] for k in sorted(used)], self.problem.transport)
        there, back = zip(*((at[src], at[dst]) for src, dst in between), strict=True)
        return np.array(there, dtype=np.intp), np.array(back, dtype=np.intp)

    def between_s(self, used: tuple[int, ...], workers: int) -> float:
        """Return the seconds between known regions, at least where machines of a worker send side
        by side, else as they are.
        """
        there, back = self.edges(used)
        pace = max(float(self.one_way[there, back].max()), float(self.machine_wan[there].max()))
        waits = self.mode.ring_messages * float(self._rtts_s[there, back].sum())
        return pace * self.pair_bytes(workers) + waits

    @cached_property
    def _rtts_s(self) -> Array:
        return self.problem.network.rtts_s(self.market.places)

    def ring_usd(self, used: tuple[int, ...], splits: Indices) -> Array:
        """Return the egress of a round over known regions; shape (splits,)."""
        prices, (there, back) = self.market.prices, self.edges(used)
        home = np.array([prices[place, place] for place in used])
        workers = int(splits[0].sum())
        usd: Array = float(prices[there, back].sum()) + (splits - 1) @ home
        return self.pair_bytes(workers) * usd


class RingWays:
    """Fastest ways between places, and the edges of rings over so many regions, once asked for.
    ``one_way``: seconds of an edge, 0 from a place to itself; shape (places, places).
    """

    def __init__(self, one_way: Array) -> None:
        self._one_way = one_way
        self._wan: dict[int, Array] = {}

    def wan_matrix(self, regions: int) -> Array:
        """Return `RingRelaxation.wan_matrix` of rings over so many regions."""
        most = min(regions, ANY_WAYS + 1)  # beyond, both ways may be of any number of edges
        if most not in self._wan:
            self._wan[most] = self._slowest_edges(most)
        return self._wan[most]

    def _slowest_edges(self, regions: int) -> Array:
        if regions > ANY_WAYS:  # which bounds all others
            return np.maximum(self.any_way, self.any_way.T)
        ways, last = [*self.short_ways, self.any_way], MOST_EDGES
        parts = [
            np.maximum(ways[min(h - 1, last)], ways[min(max(regions - h, 1) - 1, last)].T)
            for h in range(1, max(1, regions // 2) + 1)
        ]
        built: Array = np.minimum.reduce(parts)
        return np.minimum(built, built.T)  # the other way round, h edges back

    @cached_property
    def short_ways(self) -> list[Array]:
        """Slowest edge of the fastest way of one edge, of up to two ... up to `MOST_EDGES`.

        >>> apart = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 2.0], [9.0, 2.0, 0.0]])
        >>> # straight, and by the second place
        >>> [float(ways[0, 2]) for ways in RingWays(apart).short_ways[:2]]
        [9.0, 2.0]
        """
        built = [self._one_way]
        while len(built) < MOST_EDGES:
            longer = np.empty_like(self._one_way)
            for src, row in enumerate(built[-1]):
                longer[src] = np.maximum(row[:, None], self._one_way).min(axis=0)
            built.append(longer)
        return built

    @cached_property
    def any_way(self) -> Array:
        """Slowest edge of the fastest way of any number of edges, by Floyd and Warshall."""
        built = self._one_way.copy()
        for by in range(len(built)):
            np.minimum(built, np.maximum(built[:, by, None], built[by]), out=built)
        return built


def longer(seconds: float) -> float:
    """Return seconds that are no less than some, whatever was rounded."""
    return seconds * (1 + SLACK)
