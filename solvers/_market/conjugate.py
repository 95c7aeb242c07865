"""Upper bounds on the weighted sum of so many workers in exactly so many regions: Lagrangian, with
a price for each worker.
"""

from __future__ import annotations

import numpy as np

from placer.solving import allowance

from .arrays import Array, Indices

RANKS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 90, 135, 200)
"""Ranks among all machines whose worth is tried as the price of a worker."""


class Conjugates:
    """Largest worth of each region less a price for each worker, for some prices.

    Parameters
    ----------
    sums
        Best sums of n machines in each place; shape (rows, places, most + 1).
    steps
        What each further machine of a place adds; shape (rows, places, most).

    Notes
    -----
    Lagrangian bound on the number of workers: for every price mu, the best R regions by max over k
    of S(k) - mu k, plus mu times the workers, is at least the best sum. Concave sums make it tight
    where mu fits; the least over the prices counts.
    """

    def __init__(self, sums: Array, steps: Array) -> None:
        self.prices = np.array([_ranked_worths(row.reshape(-1)) for row in steps])
        self.sums = sums
        self._levels: dict[int, Array] = {}

    def _level(self, together: int) -> Array:
        """Return the worth of each place with at most so many workers, rounded up to a power of
        two; shape (rows, prices, places).
        """
        most = min(2 ** (together - 1).bit_length(), self.sums.shape[2] - 1)
        if most not in self._levels:
            worth = self.sums[:, None, :, 1] - self.prices[:, :, None]
            for k in range(2, most + 1):
                allowance.check()
                np.maximum(worth, self.sums[:, None, :, k] - k * self.prices[:, :, None], out=worth)
            self._levels[most] = worth
        return self._levels[most]

    def best(
        self,
        rows: Indices,
        able: Indices,
        regions: int,
        together: int,
        left: Indices,
        charge: Array,
        must: Indices,
    ) -> Array:
        """Return the largest sums of ``left`` workers in exactly ``regions`` of some places.

        Parameters
        ----------
        rows, able
            Rows and places that count.
        together
            Most workers of one place.
        left
            Numbers of workers; shape (counts,).
        charge
            What using each place takes off in each row; shape (rows, places).
        must
            Which of the places are among the regions in any case; shape (required,).

        Returns
        -------
        Array
            Upper bounds; shape (rows, counts).
        """
        if regions == 0 and len(must) == 0:
            return np.where(left == 0, 0.0, -np.inf) * np.ones((len(rows), 1))
        # Every price gives a valid bound; trying fewer of them only makes the least one larger.
        tried = prices_for(int(left.max()))
        worth = self._level(together)[np.ix_(rows, tried, able)] - charge[:, None]
        if worth.shape[2] < regions or len(must) > regions:
            return np.full((len(worth), len(left)), -np.inf)
        # Regions that must be used count with their worth even if it is negative.
        top, more = worth[:, :, must].sum(axis=2), regions - len(must)
        if more:
            others = np.delete(worth, must, axis=2) if len(must) else worth
            top = top - np.partition(-others, more - 1, axis=2)[:, :, :more].sum(axis=2)
        bound: Array = (top[:, :, None] + self.prices[np.ix_(rows, tried)][:, :, None] * left).min(
            axis=1
        )
        # Each region needs a worker, so fewer workers than regions have no placement.
        return np.where(left >= regions, bound, -np.inf)


def _ranked_worths(worths: Array) -> Array:
    """Return the worths of the ranks that are tried, 0 where even the best is none; shape
    (prices,).
    """
    allowance.check()
    first = max(0, len(worths) - RANKS[-1])
    top = np.sort(np.partition(worths, first)[first:])[::-1] if first else np.sort(worths)[::-1]
    finite = max(1, int(np.isfinite(top).sum()))
    at = np.minimum(np.array(RANKS) - 1, finite - 1)
    prices: Array = np.nan_to_num(top[at], neginf=0.0)
    return prices


def prices_for(workers: int) -> Indices:
    """Return which of `RANKS` may fit so many workers: with fewer regions than machines that are
    good, one pays a lower price.
    """
    ranks = np.array(RANKS)
    fitting = np.flatnonzero((ranks >= workers / 2) & (ranks <= 8 * workers))
    return fitting if len(fitting) else np.array([len(RANKS) - 1])
