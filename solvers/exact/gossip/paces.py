"""What the machines of regions count at most while these wait for their sends, as a tree of regions
comes to know their partners.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._market.arrays import Array, Indices
from ..._market.grid import Grid
from ..bounds.relaxation import priced

TINY = 1e-9
"""Share that regions do which never reach their partners, rather than none."""
PASSES = 3
"""Times that the speed of all machines is raised to what their shares ask for."""


class Paces:
    """Shares of their speed that the machines of so many regions do.

    ``needed``, ``least``: samples/s that count at least, and that all machines do at least, over
    the samples of a round. ``sends``: seconds of a send, row to column; shape (places, places).
    ``averages``: seconds that the averages of a region add to a round, by place and number of
    machines. ``places`` may be used. A round of a region lasts as long as its calculation and
    averages, or its send where that is longer: the mean over its partners.
    """

    def __init__(
        self,
        needed: float,
        least: float,
        sends: Array,
        averages: Array,
        places: Indices,
        regions: int,
    ) -> None:
        self.needed, self.least = needed, max(needed, least)
        self.sends, self.averages = sends.copy(), averages
        self.partners = regions - 1
        np.fill_diagonal(self.sends, np.inf)
        self.nearest = np.sort(self.sends[:, places], axis=1)[:, : self.partners]
        np.fill_diagonal(self.sends, 0.0)

    def speed(self, placed: Sequence[int], joining: Indices) -> float:
        """Return the samples/s of all machines at least, over the samples of a round: more than
        count, as each does a share.
        """
        speed, others = self.least, self.partners - len(placed)
        for _ in range(PASSES):
            known = self._known(speed, placed)
            rest = np.maximum(1.0, speed * self.nearest)
            shortest = (known + rest[:, :others].sum(axis=1))[joining].min(initial=np.inf)
            if placed:  # each of them has one more partner to come
                own = (known + rest[:, : others + 1].sum(axis=1))[list(placed)]
                shortest = min(shortest, own.min())
            if shortest == np.inf:  # none of them ever reaches its partners
                break
            speed = max(speed, self.needed * float(shortest) / self.partners)
        return speed

    def shares(
        self, speed: float, placed: Sequence[int], joining: Indices
    ) -> tuple[Array, list[Array]]:
        """Return the share of each joining region, and those of each placed one if it comes next;
        shapes (joining,).
        """
        known = self._known(speed, placed)
        rest = np.maximum(1.0, speed * self.nearest[:, : self.partners - len(placed)]).sum(axis=1)
        own = [
            self.partners
            / (known[place] + np.maximum(1.0, speed * self.sends[place, joining]) + rest[place])
            for place in placed
        ]
        return self.partners / (known + rest)[joining], own

    def averaging(self, speed: float, places: Indices, counts: Indices) -> Array:
        """Return the shares that averages leave to so many machines; shape (places, counts)."""
        return 1 / (1 + speed * self.averages[places[:, None], counts])

    def _known(self, speed: float, placed: Sequence[int]) -> Array:
        """Return the rounds of the sends of each place to the placed ones; shape (places,)."""
        known: Array = np.maximum(1.0, speed * self.sends[:, list(placed)]).sum(axis=1)
        known[list(placed)] -= 1.0  # none sends to itself
        return known


def shares_of(needed: float, least: float, sends: Array, averages: Array) -> Array:
    """Return the shares of their speed that the machines of known regions do; shape (regions,).

    As `Paces` has them: ``sends`` from region to region, ``averages`` of each region.
    """
    speed, others = max(needed, least), ~np.eye(len(sends), dtype=bool)
    for _ in range(PASSES):
        longer = np.maximum(1 + speed * averages[:, None], speed * sends)
        shares: Array = (len(sends) - 1) / longer.sum(axis=1, where=others)
        speed = max(speed, needed / max(float(shares.max()), TINY))
    return shares


class PacedSums:
    """Best sums of the machines of places which do a share of their speed.

    What machines are worth at a share w of their speed is w times their worth at 1 / w of the price
    of a dollar. It is convex in that price, so that a chord between two rows errs high.
    """

    def __init__(self, grid: Grid, rows: Indices) -> None:
        self.sums, weights = grid.sums, grid.weights
        plain = (weights[:, 0] > 0) & ~np.any(weights[:, 1:] > 0, axis=1)
        chords = priced(weights)
        self.rows, self.plain, self.priced = rows, plain[rows], chords[rows]
        self.first, self.prices = int(chords.argmax()), weights[chords, 1]

    def at(self, places: Indices, shares: Array, counts: Indices) -> Array:
        """Return the best sums of numbers of machines in places, which do ``shares`` of their
        speed; shape (rows, places, counts).
        """
        shares = np.maximum(shares, TINY)
        built: Array = self.sums[self.rows[:, None, None], places[:, None], counts]
        built[self.plain] *= shares[:, None]
        wanted = self.prices[self.rows[self.priced] - self.first][:, None] / shares
        after = np.clip(np.searchsorted(self.prices, wanted), 1, len(self.prices) - 1)
        low, high = self.prices[after - 1], self.prices[after]
        part = np.ones_like(wanted)  # prices may be equal
        np.divide(wanted - low, high - low, out=part, where=high > low)
        part = np.clip(part, 0.0, 1.0)[:, :, None]
        below, above = (
            self.sums[(at + self.first)[:, :, None], places[:, None], counts]
            for at in (after - 1, after)
        )
        with np.errstate(invalid="ignore"):
            chords = shares[:, None] * (below + part * (above - below))
        built[self.priced] = np.where(np.isfinite(below), chords, -np.inf)
        return built
