"""The screen of hubs: which machines each may have at the limits of a target, and the price of the
n cheapest.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from msgspec import Struct

from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask
from ..._target import Target
from .bounds import could_improve
from .hub_rows import HubRows
from .workers import HubWorkers


class AdmittedMachines(Struct, frozen=True, eq=False, dict=True):
    """Machines that rows may have, over pools sorted by price.

    Parameters
    ----------
    allowed
        Which pools may be used; shape (rows, pools).
    seconds
        Least round with one of each pool; shape (rows, pools).
    shortest, usd
        Shortest round that is allowed, and USD/h of the n cheapest with the server, infinite where
        there are too few; shape (rows,).
    """

    allowed: Mask
    seconds: Array
    shortest: Array
    usd: Array

    def row(self, at: int) -> AdmittedMachines:
        """Return the machines of one row, with one dimension less."""
        return AdmittedMachines(self.allowed[at], self.seconds[at], self.shortest[at], self.usd[at])


class HubScreen:
    """Rules hubs out by the machines that are fast and cheap enough for them.

    Parameters
    ----------
    workers
        Least prices and seconds of one worker.
    """

    def __init__(self, workers: HubWorkers) -> None:
        self.workers, self.market, self.mode = workers, workers.market, workers.mode

    @cached_property
    def by_price(self) -> Indices:
        """Pools that may be used, cheapest first; with stores in the regions, a worker needs a
        function and a store beside it.
        """
        order = np.argsort(self.market.usd, kind="stable")
        if self.workers.ideal.transport == "regional-stores":
            able = np.array(
                [place in self.market.problem.serverless_places for place in self.market.places],
                dtype=bool,
            )
            order = order[able[self.market.place_of[order]]]
        return order

    def machines(self, target: Target, rows: HubRows, up: Array, down: Array) -> AdmittedMachines:
        """Find out which machines rows may have, and what the n cheapest of them cost.

        Parameters
        ----------
        target
            Limits.
        rows
            Hubs and numbers of workers.
        up, down
            Seconds from each place to the hub and back; shape (rows, places) or (1, places).

        Returns
        -------
        AdmittedMachines
            Over the pools of `by_price`.
        """
        pools, n, server = self.by_price, rows.workers, rows.usd[:, None]
        place = self.market.place_of[pools]
        # A round with this machine in it lasts at least as long as the machine alone makes it.
        ready = self.workers.calculation(n, pools) + up[:, place]
        seconds = np.maximum(
            ready + rows.aggregate[:, None] + np.maximum(down[:, place], rows.shared[:, None]),
            self.workers.passing(rows)[:, None],
        )
        # What n machines cost at least if one of them is of this pool.
        beside = self.workers.usd_beside(n, pools)
        allowed = (beside + server <= target.max_usd_per_hour) & (
            seconds <= self.mode.seconds_at(target.min_speed)
        )
        allowed &= np.isfinite(beside) & np.isfinite(seconds)
        if target.max_carbon_g_per_hour < math.inf:
            cleanest = self.workers.cleanest[n - 1][:, None]
            allowed &= self.market.carbon[pools] + cleanest <= target.max_carbon_g_per_hour
        if target.max_usd_per_sample < math.inf:
            usd_per_round = (beside + server) * seconds / SECONDS_PER_HOUR
            allowed &= (
                usd_per_round / (self.mode.samples / self.mode.multiplier)
                <= target.max_usd_per_sample
            )
        # The n cheapest that are allowed, without regard to quotas that they share: errs low.
        taken = np.minimum(
            np.cumsum(np.where(allowed, self.market.cap[pools], 0.0), axis=1), n[:, None]
        )
        usd = np.diff(taken, axis=1, prepend=0.0) @ self.market.usd[pools] + rows.usd
        enough = taken[:, -1] >= n if len(pools) else np.full(len(rows), False)
        shortest = np.where(allowed, seconds, math.inf).min(axis=1, initial=math.inf)
        return AdmittedMachines(allowed, seconds, shortest, np.where(enough, usd, math.inf))

    def worth(
        self,
        target: Target,
        rows: HubRows,
        up: Array,
        down: Array,
        usd_per_round: Array | float = 0.0,
    ) -> tuple[Mask, AdmittedMachines]:
        """Return which rows could be an improvement with the n cheapest machines that they may
        have, and these machines; shape (rows,).
        """
        with np.errstate(invalid="ignore", over="ignore"):
            admitted = self.machines(target, rows, up, down)
            kept: Mask = could_improve(
                target,
                self.mode,
                admitted.shortest,
                admitted.usd,
                usd_per_round,
                admitted.usd * admitted.shortest,
            )
        return kept & (admitted.usd < math.inf), admitted

    def ideal_worth(self, target: Target, rows: HubRows) -> tuple[Mask, Mask]:
        """Return `worth` with ideal links: which rows, and which places have a machine for one of
        them; shapes (rows,), (places,).
        """
        up, down = self.workers.ideal.ways()
        kept, admitted = self.worth(target, rows, up[None], down[None])
        places = np.zeros(len(self.market.places), dtype=bool)
        places[self.market.place_of[self.by_price[admitted.allowed[kept].any(axis=0)]]] = True
        return kept, places
