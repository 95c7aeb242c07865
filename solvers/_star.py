"""What a round through a hub among the regions takes and costs at least, whichever region the hub is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.timing.direct import seconds_over

from ._market import Array, Market
from ._mode import Mode
from ._tables import rtt_table, speed_table


@dataclass(frozen=True)
class Star:
    """Links and prices to and from every place that may be the hub."""

    market: Market
    mode: Mode

    @property
    def size(self) -> float:
        """Bytes of one gradient."""
        return self.market.problem.gradient_bytes

    def least(self, used: tuple[int, ...], joining: tuple[int, ...]) -> tuple[float, float]:
        """Least seconds and egress of a round through a hub that may be any of the regions."""
        here, open_ = np.array(used, dtype=np.intp), np.array((*used, *joining), dtype=np.intp)
        wanted = self.market.problem.requirements.aggregator
        if wanted is not None:
            open_ = np.array([p for p in open_ if self.market.places[p] == wanted], dtype=np.intp)
            if len(open_) == 0:
                return np.inf, np.inf
        if len(here) == 0:
            return 0.0, 0.0
        up, down = self._direct[np.ix_(here, open_)], self._direct[np.ix_(open_, here)].T
        seconds = float((up.max(axis=0) + down.max(axis=0)).min())
        return seconds, self.size * float(self.market.both_ways[np.ix_(here, open_)].sum(axis=0).min())

    @cached_property
    def _direct(self) -> Array:
        """Seconds in which S goes from one place to another, 0 to itself; shape (places, places)."""
        problem, places = self.market.problem, self.market.places
        alone = self.size / speed_table(problem, places, self.mode.streams)
        built: Array = seconds_over(rtt_table(problem, places), alone)
        np.fill_diagonal(built, 0.0)
        return built
