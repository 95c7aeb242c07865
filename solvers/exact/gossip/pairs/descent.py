"""Steps of all prices of a node at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._market.arrays import Array, Indices
from ..crews import Crews
from ..pricing import SPEED
from ..work import LOWEST, Work
from .lines import NARROW, Sends, lines_of
from .rules import Rules, cheapest_of, least_of

STEPS = 80
"""Steps of one descent at most."""
KEPT = 0.7
"""Share of the last direction that the next one keeps."""
AIM = 0.96
"""Share of the best bound that steps aim at, at least."""
PATIENCE = 6
"""Steps in a row without gain after which they are halved."""
SHORTEST = 0.05
"""Share of a whole step below which they end."""
CHECKED, GAINED = 20, 0.1
"""Steps after which those end that gained less than this of what the bound is above what is needed.
"""
NOTHING = 1e-6
"""Relative gain that is none."""
BELOW, AIMED = 0.997, 0.99
"""Shares of what is needed below which steps end, as lines that are not looked at may add a
little, and that they aim at.
"""
TINY = 1e-12
"""Disagreement that is none."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Lines of crews that are looked at, those of one place side by side; ``ends`` are the means
    between which they are drawn, shape (2, rows).
    """

    crews: Crews
    sends: Sends
    rules: tuple[Rules, ...]
    ends: Array


@dataclass(frozen=True, kw_only=True)
class Direction:
    """A step of what places pay each other, of the price of a dollar and of a samples/s."""

    apart: Array
    dollar: float
    speed: float

    @property
    def norm(self) -> float:
        """Its square; what two places pay each other counts once."""
        return float((self.apart**2).sum()) / 2 + self.dollar**2 + self.speed**2

    def bent(self, last: Direction) -> Direction:
        """Return the direction with a part of the one before."""
        return Direction(
            apart=self.apart + KEPT * last.apart,
            dollar=self.dollar + KEPT * last.dollar,
            speed=self.speed + KEPT * last.speed,
        )


class Descent:
    """Steps of all prices of a node at once, along what a choice disagrees on.

    Parameters
    ----------
    work
        The node, with the prices to begin at.
    rows
        What is looked at: less than the bound, but quick to try.
    transfers
        What places pay each other to begin with.

    Notes
    -----
    Subgradient steps with the length of Polyak, each with a part of the direction before
    (Camerini, Fratta & Maffioli, 1975). Prices of pairs are taken as they are, that of a samples/s
    over the most of the slice, that of a dollar over the budget, so that all are alike.
    """

    def __init__(self, work: Work, rows: Rows, transfers: Array) -> None:
        self.work, self.rows = work, rows
        self.transfers, self.prices, self.reached = transfers, work.prices, np.inf
        self.place = rows.crews.place
        self.starts = np.flatnonzero(np.diff(self.place, prepend=-1))
        self.rank = np.searchsorted(self.place[self.starts], self.place)
        self.scale = work.most_usd, work.node.speeds[1]
        self.most = max(float(work.weight.max(initial=0.0)), 1e-9)

    def run(self, needed: float) -> None:
        """Take steps until the bound is below what is needed, or they gain little."""
        share, vain, last = 1.0, 0, np.inf
        best = self.transfers, self.prices
        direction: Direction | None = None
        for step in range(1, STEPS + 1):
            reached, found = self._look()
            if reached < self.reached * (1 - NOTHING):
                self.reached, best, vain = reached, (self.transfers, self.prices), 0
                if reached < BELOW * needed:
                    break
            else:
                vain += 1
            if step % CHECKED == 0:
                if last - self.reached < GAINED * (self.reached - needed):
                    break
                last = self.reached
            if vain == PATIENCE:
                share, vain, direction = share / 2, 0, None
                self.transfers, self.prices = best
                if share < SHORTEST:
                    break
                continue
            direction = found if direction is None else found.bent(direction)
            if direction.norm < TINY:
                break
            aim = max(needed * AIMED, AIM * self.reached)
            self._move(share * max(0.0, reached - aim) / direction.norm, direction)
        self.transfers, self.prices = best

    def _move(self, length: float, direction: Direction) -> None:
        dollar, speed = self.prices
        dollar += length * direction.dollar / self.scale[0]
        speed += length * direction.speed / self.scale[1]
        self.transfers = self.transfers + length * direction.apart
        self.prices = max(0.0, dollar), float(np.clip(speed, LOWEST * self.most, SPEED * self.most))

    def _look(self) -> tuple[float, Direction]:
        """Return the bound by the lines at hand, and the direction in which it falls."""
        (dollar, speed), rows = self.prices, self.rows
        lines = lines_of(rows.crews, rows.ends, dollar, speed)
        cost = lines.slope[0][:, None] * rows.sends.waits
        cost += dollar * rows.sends.usd
        cost += self.transfers[self.place]
        values = lines.worth[0] - least_of(rows.rules, cost) - dollar * rows.sends.home_usd
        by_place = np.maximum.reduceat(values, self.starts)
        reached = self.work.within(by_place[None, :], np.array([dollar]), np.array([speed]))
        used = self._used(values, by_place)
        partners = cheapest_of(tuple(each.among(used) for each in rows.rules), cost[used])
        has = np.zeros_like(self.transfers)
        has[self.place[used][:, None], partners] = 1 / partners.shape[1]
        total, paid = self._totals(used, partners)
        fewest, most = self.work.node.speeds
        free = np.isinf(self.scale[0])
        return float(reached[0]), Direction(
            apart=has - has.T,
            dollar=0.0 if free else (paid - self.work.most_usd) / self.scale[0],
            speed=(total - (fewest if speed < 0 else most)) / self.scale[1],
        )

    def _used(self, values: Array, by_place: Array) -> Indices:
        """Return the best row of each of the best places."""
        first, last = self.work.node.regions
        count = int(np.clip((by_place > 0).sum(), first, last))
        order = np.argsort(-np.where(self.work.forced, np.inf, by_place), kind="stable")[:count]
        tops = np.flatnonzero(values == by_place[self.rank])[::-1]
        best = np.empty(len(by_place), dtype=np.intp)
        best[self.rank[tops]] = tops  # the first one where several are equal
        chosen: Indices = best[order]
        return chosen

    def _totals(self, used: Indices, partners: Indices) -> tuple[float, float]:
        """Return samples/s and USD/h of some rows with their partners."""
        (dollar, speed), sends = self.prices, self.rows.sends
        crews, (low, high) = self.rows.crews.among(used), self.rows.ends[:, used]
        mean = sends.waits[used[:, None], partners].mean(axis=1)
        wide = high - low > NARROW
        share = np.where(wide, (high - mean) / np.where(wide, high - low, 1.0), 0.0)
        fast, dear = crews.best(np.maximum(0.0, 1 / low - speed), dollar)
        slow, cheap = crews.best(np.maximum(0.0, 1 / high - speed), dollar)
        usd = share * dear + (1 - share) * cheap + sends.home_usd[used]
        usd += sends.usd[used[:, None], partners].mean(axis=1)
        return float((share * fast + (1 - share) * slow).sum()), float(usd.sum())
