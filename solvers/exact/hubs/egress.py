"""Egress prices of many places at once: the cost model is asked with one place that stands for all
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placer.market.network.graph import Network

from ..._market.arrays import Array, Indices
from .per_place import PerPlace

ANYWHERE = "*"
"""The place that stands for some places; its prices are arrays."""


class ManyPlaces:
    """A network as `placer.cost_model.dollars` sees it, whose place `ANYWHERE` is
    several places side by side.

    Parameters
    ----------
    network
        Prices between two places.
    places
        Names of all places.
    """

    def __init__(self, network: Network, places: Sequence[str]) -> None:
        self._network, self._places = network, places
        self._between: dict[tuple[str, bool], PerPlace] = {}
        self._chosen: Indices = np.arange(len(places))

    def at(self, chosen: Indices) -> Any:
        """Let `ANYWHERE` be some places; for as long as nobody asks for others."""
        self._chosen = chosen
        return self

    def usd_per_byte(self, src: str, dst: str, *, same_zone: bool = True) -> float | Array:
        """Return the egress price in USD per byte; shape (chosen places,) where an end is
        `ANYWHERE`.
        """
        if ANYWHERE not in (src, dst):
            return self._network.usd_per_byte(src, dst, same_zone=same_zone)
        out, back = self._table(dst if src == ANYWHERE else src, same_zone).at(self._chosen)
        return (out if src == ANYWHERE else back)[self._chosen]

    def _table(self, end: str, same_zone: bool) -> PerPlace:
        """Return the prices from each place to another one and back; the other one of `ANYWHERE` is
        the place itself.
        """
        if (end, same_zone) not in self._between:

            def prices(place: str) -> tuple[float, float]:
                other, usd = place if end == ANYWHERE else end, self._network.usd_per_byte
                return usd(place, other, same_zone=same_zone), usd(
                    other, place, same_zone=same_zone
                )

            self._between[end, same_zone] = PerPlace(self._places, prices)
        return self._between[end, same_zone]
