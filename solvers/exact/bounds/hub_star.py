"""Least seconds and egress of a round through a hub that may be any of the regions."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.cost_model.timing.transfers import seconds_over
from placer.solving import allowance

from ..._market.arrays import Array
from ..._market.market import Market
from ..._mode import Mode


class HubStar(Struct, frozen=True, dict=True):
    """Links and prices to and from every place that may be the hub."""

    market: Market
    mode: Mode

    @property
    def size(self) -> float:
        """Bytes of one gradient."""
        return self.market.problem.gradient_bytes

    def least(
        self, used: tuple[int, ...], joining: tuple[int, ...], regions: int
    ) -> tuple[float, float]:
        """Return the least seconds and egress of a round of so many regions through a hub that may
        be any of them.

        Parameters
        ----------
        used, joining
            Regions that take part, and those of which the others are.
        regions
            How many take part.
        """
        allowance.check()
        if not used and 0 < regions <= len(joining):
            seconds_of, egress_of = self._of_any(joining)
            return float(seconds_of[regions - 1]), self.size * float(egress_of[regions - 1])
        here, rest = np.array(used, dtype=np.intp), np.array(joining, dtype=np.intp)
        hubs = np.concatenate([here, rest])
        wanted, left = self.market.problem.requirements.aggregator, regions - len(here)
        if wanted is not None:
            hubs = np.array([p for p in hubs if self.market.places[p] == wanted], dtype=np.intp)
        if len(hubs) == 0 or left > len(rest):
            return np.inf, np.inf
        ups, downs, usd = self.direct, self.direct.T, self.market.both_ways
        # For each hub alone: the regions in use, and of the open ones the nearest. Then the best
        # hub for the seconds and the best for the dollars, which need not be the same: both err
        # low.
        seconds = sum(
            np.maximum(
                each[np.ix_(here, hubs)].max(axis=0, initial=0.0),
                _last(each[np.ix_(rest, hubs)], left),
            )
            for each in (ups, downs)
        )
        egress = usd[np.ix_(here, hubs)].sum(axis=0) + _first(usd[np.ix_(rest, hubs)], left).sum(
            axis=0
        )
        return float(np.min(seconds)), self.size * float(egress.min())

    def _of_any(self, joining: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the least seconds, and egress of one byte, over 1, 2, ... of some regions where
        none is known to take part; shape (regions,).
        """
        if joining not in self._kept:
            rest, wanted = (
                np.array(joining, dtype=np.intp),
                self.market.problem.requirements.aggregator,
            )
            hubs = np.array(
                [p for p in joining if wanted is None or self.market.places[p] == wanted],
                dtype=np.intp,
            )
            pairs = np.ix_(rest, hubs)
            seconds = sum(np.sort(each[pairs], axis=0) for each in (self.direct, self.direct.T))
            egress = np.cumsum(np.sort(self.market.both_ways[pairs], axis=0), axis=0)
            self._kept[joining] = (
                np.min(seconds, axis=1, initial=np.inf),
                egress.min(axis=1, initial=np.inf),
            )
        return self._kept[joining]

    @cached_property
    def _kept(self) -> dict[tuple[int, ...], tuple[Array, Array]]:
        return {}

    @cached_property
    def direct(self) -> Array:
        """Seconds of one gradient from place to place, 0 to itself; shape (places, places)."""
        problem, places = self.market.problem, self.market.places
        streams = problem.requirements.streams
        alone = self.size / problem.network.speeds(places, streams, self.mode.lanes)
        built: Array = seconds_over(problem.network.rtts_s(places), alone)
        np.fill_diagonal(built, 0.0)
        return built


def _first(each: Array, count: int) -> Array:
    """Return the smallest of every column, in any order; shape (count, columns)."""
    built: Array = (
        np.partition(each, count - 1, axis=0)[:count] if 0 < count < len(each) else each[:count]
    )
    return built


def _last(each: Array, count: int) -> Array:
    """Return the largest of the ``count`` smallest of every column; shape (columns,)."""
    built: Array = _first(each, count).max(axis=0, initial=0.0)
    return built
