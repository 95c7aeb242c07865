"""Seconds and dollars of sends between regions, their least means over partners, and classes of
places whose sends are alike.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from placer.cost_model.timing.transfers import seconds_over

from ..._market.arrays import Array, Indices
from ..._market.market import Market
from ..._mode import Mode


class Sends:
    """Sends of one gradient from place to place.

    Parameters
    ----------
    market
        Places, links and prices.
    mode
        Says how many streams a pair has at most.
    """

    def __init__(self, market: Market, mode: Mode) -> None:
        self.market, self.mode, self.problem = market, mode, market.problem
        self.size = market.problem.gradient_bytes

    @cached_property
    def seconds(self) -> Array:
        """Least seconds of a send, row to column, infinite from a place to itself; shape (places,
        places).

        Notes
        -----
        As between workers of as many machines as any has: those of fewer take longer.
        """
        network, places = self.problem.network, self.market.places
        streams, lanes = self.problem.requirements.streams, self.mode.lanes
        machine = np.array([network.machine_bytes_per_s(place, lanes) for place in places])
        slowest = np.minimum(
            network.speeds(places, streams, lanes), np.minimum(machine[:, None], machine)
        )
        with np.errstate(divide="ignore"):
            built: Array = seconds_over(network.rtts_s(places), self.size / slowest)
        np.fill_diagonal(built, np.inf)
        return built

    @cached_property
    def usd(self) -> Array:
        """Price of a send, row to column, infinite from a place to itself; shape (places,
        places).
        """
        built = self.size * self.market.prices
        np.fill_diagonal(built, np.inf)
        return built

    @cached_property
    def home_usd(self) -> Array:
        """Price of what one follower adds to a round inside each place; shape (places,)."""
        built: Array = 2 * self.mode.local_steps * self.size * np.diag(self.market.prices)
        return built


class Partners:
    """Least means over so many partners of each place.

    Parameters
    ----------
    figures
        Of each place with each other, infinite where they cannot be partners; shape (places,
        places).
    """

    def __init__(self, figures: Array) -> None:
        self.ranked = np.sort(figures, axis=1)
        self.sums = np.concatenate(
            [np.zeros((len(figures), 1)), np.cumsum(self.ranked, axis=1)], axis=1
        )

    def means(self, partners: Indices) -> Array:
        """Return the mean of the least figures of each place; shape (cases, places)."""
        built: Array = self.sums[:, partners].T / partners[:, None]
        return built

    def means_above(self, place: int, least: Array, scale: Array, partners: Indices) -> Array:
        """Return the mean of the least max(least, scale x figure) of one place.

        Parameters
        ----------
        least
            Shape (cases, site groups).
        scale, partners
            Above 0; shape (cases,).
        """
        with np.errstate(divide="ignore"):
            below = np.searchsorted(self.ranked[place], least / scale[:, None])
        below = np.minimum(below, partners[:, None])
        sums = self.sums[place]
        with np.errstate(invalid="ignore"):
            above = scale[:, None] * (sums[partners][:, None] - sums[below])
        above = np.where(below == partners[:, None], 0.0, above)
        built: Array = (below * least + above) / partners[:, None]
        return built
