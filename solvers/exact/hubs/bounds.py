"""Bounds of placements around hubs, for many hubs and numbers of workers at once: without links,
then by the machines that each may have.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from placer.solving import allowance
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask, Rows
from ..._mode import Mode
from ..._target import Target
from .workers import HubRows, HubWorkers


def could_improve(
    target: Target,
    mode: Mode,
    seconds: Any,
    usd_per_hour: Any,
    usd_per_round: Any,
    slowest: float = 0.0,
    *,
    usd_seconds: Any = None,
) -> Any:
    """Return whether rounds this short at these prices could be an improvement; numbers, or arrays
    of one shape.

    Seconds, prices and ``usd_seconds``, price per hour times seconds unless more is known, are
    lower bounds; ``slowest`` is the least samples/s, for which rounds are paid.
    """
    # All three tests are necessary for an improvement. Seconds and prices err low, so none of them
    # fails for a real one.
    counted = mode.samples / mode.multiplier
    speed = target.min_speed
    most = target.max_usd_per_sample
    # Rounds are paid for at the least samples/s of an improvement: more would cost more.
    paid = usd_per_hour + usd_per_round * SECONDS_PER_HOUR * max(speed, slowest) / counted
    kept = (seconds < math.inf) & (counted / seconds >= speed) & (paid <= target.max_usd_per_hour)
    if most < math.inf:
        usd_seconds = usd_per_hour * seconds if usd_seconds is None else usd_seconds
        kept = kept & ((usd_seconds / SECONDS_PER_HOUR + usd_per_round) / counted <= most)
    return kept


class HubBounds:
    """Bounds by the fastest machine, the mean machine and the best for its price."""

    def __init__(self, workers: HubWorkers) -> None:
        self.workers, self.market, self.mode = workers, workers.market, workers.mode
        self._ends: tuple[float, tuple[Array, Array]] | None = None
        self._steps: dict[int, tuple[tuple[Array, Array], ...]] = {}

    def open(self, target: Target, rows: HubRows) -> tuple[Mask, Array]:
        """Return which rows could be an improvement, and their least rounds; shape (rows,)."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            usd = self.workers.cheapest[rows.workers] + rows.usd
            mean = self._mean_seconds(target, rows)
            kept: Mask = could_improve(target, self.mode, mean, usd, 0.0)
            if not np.any(kept):  # the other bound takes longer
                return kept, mean
            least = self.least_seconds(target, rows)
            # Two lower bounds of the same round: the larger one holds.
            seconds = np.maximum(least, mean)
            product = usd * seconds
            if target.max_usd_per_sample < math.inf:
                product = np.maximum(product, self._least_product(rows))
            kept = could_improve(target, self.mode, seconds, usd, 0.0, usd_seconds=product) & (
                usd < math.inf
            )
        return kept, least

    def least_seconds(self, target: Target, rows: HubRows) -> Array:
        """Return the least rounds with ideal links and payable machines; shape (rows,)."""
        if self._ends is None or self._ends[0] != target.max_usd_per_hour:
            self._ends = target.max_usd_per_hour, self._fastest(target.max_usd_per_hour)
        ready, back = self._ends[1]
        there = np.maximum(back[rows.workers], ready[rows.workers] + rows.shared)
        return np.maximum(there + rows.aggregate, self.workers.passing(rows))

    def _fastest(self, most_usd: float) -> tuple[Array, Array]:
        """Return the least calculation with one way and both; shape (workers + 1,)."""
        least, pools = np.full((2, self.workers.most + 1), math.inf), self.workers.leading
        for counts in self.workers.chunks():
            beside = self.workers.usd_beside(counts, pools)
            # A machine is out only if it cannot be paid even beside the cheapest others.
            payable = (beside <= most_usd) & np.isfinite(beside)
            for each, seconds in zip(least, self.workers.ideal_seconds(counts, pools), strict=True):
                each[counts] = np.where(payable, seconds, math.inf).min(axis=1)
        return least[0], least[1]

    def _mean_seconds(self, target: Target, rows: HubRows) -> Array:
        """Return the least rounds of workers whose speeds together are at most what the limit pays
        for; shape (rows,).

        Equal parts take B / V on average, and the k-th of n gradients has n - k + 1 to wait for,
        half of them on average; where data has its place, only the slowest part is known to take B
        / V.
        """
        weights, n, usd = self.market.weights, rows.workers, target.max_usd_per_hour - rows.usd
        limited = target.max_usd_per_hour < math.inf
        fit = (
            (weights[:, 0] > 0)
            & ~np.any(weights[:, 2:] > 0, axis=1)
            & ((weights[:, 1] == 0) | limited)
        )
        # Largest V that the limit pays for: v <= (v - lambda c) + lambda USD/h for each lambda.
        speed = (self._sums[fit][:, n] + weights[fit, 1:2] * (usd if limited else 0.0)).min(axis=0)
        up, down = (float(way.min()) for way in self.workers.ideal.ways())
        # Mean of the waits in the queue; the last gradient waits at least as long as the mean.
        queue = rows.shared * (0.0 if self.market.problem.requirements.datasets else 0.5 + 0.5 / n)
        mean = (
            self.market.problem.batch / speed
            + queue
            + rows.aggregate
            + up
            + np.maximum(down, rows.shared)
        )
        return np.where(speed > 0, mean, math.inf)

    @cached_property
    def _sums(self) -> Array:
        """Largest weighted sums of n machines anywhere; shape (rows, workers + 1)."""
        return self.market.best_sums.of(
            np.arange(len(self.market.places)), self.market.hosts, self.workers.most
        )

    def _least_product(self, rows: HubRows) -> Array:
        """Return the least price per hour times seconds of rounds; shape (rows,).

        A slow worker makes the round longer for all: each worker pays its price for at least the
        round that it alone would need, so n times the least such product bounds the whole.
        """
        product = np.zeros(len(rows))
        for n in np.unique(rows.workers).tolist():
            allowance.check()
            mine = np.flatnonzero(rows.workers == n)
            product[mine] = n * self._least_own_product(rows.at(mine), n)
        return product

    def _least_own_product(self, rows: HubRows, n: int) -> Array:
        """Return the least price x own round of a pool; shape (rows,)."""
        if n not in self._steps:
            self._steps[n] = tuple(
                _steps(self.market.usd, each[0])
                for each in self.workers.ideal_seconds(np.array([n]))
            )
        passing, least = self.workers.passing(rows)[:, None], np.zeros(len(rows))
        for (usd, seconds), lag in zip(
            self._steps[n], (rows.aggregate + rows.shared, rows.aggregate), strict=True
        ):
            own = np.maximum(seconds + lag[:, None], passing)
            least = np.maximum(least, (usd * own).min(axis=1, initial=math.inf))
        return least


def _steps(usd: Array, seconds: Array) -> tuple[Array, Array]:
    """Return the prices and seconds of machines that are quicker than every cheaper one.

    >>> _steps(np.array([3.0, 1.0, 2.0]), np.array([4.0, 6.0, 7.0]))
    (array([1., 3.]), array([6., 4.]))
    """
    order = np.lexsort((seconds, usd))
    # A machine that is dearer and not quicker than another never has the least product.
    quickest = np.minimum.accumulate(seconds[order])
    kept = order[np.concatenate([[True], quickest[1:] < quickest[:-1]])[: len(order)]]
    return usd[kept], seconds[kept]


class AdmittedMachines(Rows, frozen=True, eq=False):
    """Machines that rows may have, over pools sorted by price.

    ``allowed``: which pools may be used; shape (rows, pools). ``seconds``: least round with one of
    each pool; shape (rows, pools). ``shortest``, ``usd``: shortest round that is allowed, and USD/h
    of the n cheapest with the server, infinite where there are too few; shape (rows,).
    """

    allowed: Mask
    seconds: Array
    shortest: Array
    usd: Array


class HubScreen:
    """Rules hubs out by the machines that are fast and cheap enough for them."""

    def __init__(self, workers: HubWorkers) -> None:
        self.workers, self.market, self.mode = workers, workers.market, workers.mode

    @cached_property
    def by_price(self) -> Indices:
        """Pools that may be used, cheapest first."""
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

        ``rows``: hubs and numbers of workers. ``up``, ``down``: seconds from each place to the hub
        and back; shape (rows, places) or (1, places). Returned: over the pools of `by_price`.
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
        """Return which rows their n cheapest machines leave open; shape (rows,)."""
        with np.errstate(invalid="ignore", over="ignore"):
            admitted = self.machines(target, rows, up, down)
            kept: Mask = could_improve(
                target, self.mode, admitted.shortest, admitted.usd, usd_per_round
            )
        return kept & (admitted.usd < math.inf), admitted

    def ideal_worth(self, target: Target, rows: HubRows) -> tuple[Mask, Mask]:
        """Return `worth` with ideal links, of rows and of places."""
        up, down = self.workers.ideal.ways()
        kept, admitted = self.worth(target, rows, up[None], down[None])
        places = np.zeros(len(self.market.places), dtype=bool)
        places[self.market.place_of[self.by_price[admitted.allowed[kept].any(axis=0)]]] = True
        return kept, places
