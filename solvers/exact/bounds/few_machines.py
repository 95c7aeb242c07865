"""What few machines reach at most for some dollars, wherever they are: whole machines."""

from __future__ import annotations

import numpy as np

from ..._market.arrays import Array, Mask
from ..._market.market import Market

FEW = 10
"""Most machines that are counted whole: the more there are, the less fractions of them err."""
MOST_POINTS = 2_000
"""Points of a front; where more are needed, neighbours are put together on the better side."""


class FewMachines:
    """Fronts of dollars and speed of n whole machines of some hosts, in any places.

    Parameters
    ----------
    market
        Pools.
    inside
        Those that count; shape (pools,).

    Notes
    -----
    Quotas and places are left out, so no placement does better. Other bounds take fractions of
    machines; of two or three machines they promise speeds between those that exist.
    """

    def __init__(self, market: Market, inside: Mask) -> None:
        usd, speed = _front(market.usd[inside], market.speed[inside])
        self._usd, self._speed = usd, speed
        self._fronts: list[tuple[Array, Array]] = [(np.zeros(1), np.zeros(1))]
        self._most_usd = -np.inf

    def reach(self, machines: int, *, usd: float, speed: float) -> bool:
        """Return whether so many machines may reach a speed (samples/s) for so much (USD/h)."""
        if usd > self._most_usd:
            self._most_usd, self._fronts = usd, self._fronts[:1]
        while len(self._fronts) <= machines:
            self._fronts.append(self._one_more(*self._fronts[-1]))
        paid, reached = self._fronts[machines]
        at = int(np.searchsorted(paid, usd, side="right")) - 1
        return at >= 0 and bool(reached[at] >= speed)

    def _one_more(self, usd: Array, speed: Array) -> tuple[Array, Array]:
        """Return the front with another machine."""
        paid = (usd[:, None] + self._usd).ravel()
        reached = (speed[:, None] + self._speed).ravel()
        kept = paid <= self._most_usd
        return _thinned(*_front(paid[kept], reached[kept]))


def _front(usd: Array, speed: Array) -> tuple[Array, Array]:
    """Return the points of which no other one is cheaper and as fast, the cheapest first."""
    order = np.lexsort((-speed, usd))
    usd, speed = usd[order], speed[order]
    before = np.concatenate([[-np.inf], np.maximum.accumulate(speed)])[:-1]
    return usd[speed > before], speed[speed > before]


def _thinned(usd: Array, speed: Array) -> tuple[Array, Array]:
    """Put neighbours together where there are too many: the cheapest with the speed of the last."""
    if len(usd) <= MOST_POINTS:
        return usd, speed
    cells = np.linspace(0, len(usd), MOST_POINTS + 1).astype(np.intp)
    return usd[cells[:-1]], speed[cells[1:] - 1]
