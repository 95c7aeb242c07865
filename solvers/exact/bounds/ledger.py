"""The ledger of a proof: how the search of each mode ended, the bound that its relaxation proves
alone, and the bound of last resort.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
from msgspec import Struct

from placer.cost_model.convergence import batch_factor
from placer.cost_model.limits import TOLERANCE
from placer.documents.schemas.proofs import Method, ModeProof
from placer.problem.placement import NO_EXCHANGE
from placer.problem.problem import Problem
from placer.solving.allowance import OutOfTimeError
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array
from ..._market.market import Market
from ..._mode import Mode
from ..._target import STRICT, Target

PRICES = 24
"""Prices of a dollar, around what the best machine makes of one, of which the tightest counts."""
LEAST_USD = 1e-6
"""Machines that are paid for anyway count as this much an hour where speed is divided by price."""


def unbeatable_value(market: Market, target: Target) -> float:
    """Return a value that no placement within the limits of a target beats.

    Machines that exchange nothing, as many as may run, of each pool no more than its cap. Quotas
    that pools share are left out. It takes one pass over the pools, so that a search that was
    stopped before any relaxation was worked out has a bound all the same.
    """
    name = target.objective.name
    counted = min(batch_factor(market.problem), least_multiplier(market.problem))
    speed = np.maximum(market.speed, market.alone * batch_factor(market.problem)) / counted
    if name == "throughput":
        return _most_speed(market, speed, target.budget_usd_per_hour)
    if name == "cost":
        return _least_sum(market, speed, market.pools.usd, target.floor_samples_per_second)
    if target.objective.by_sample:
        usd = float((market.pools.usd / speed).min())
        read = SECONDS_PER_HOUR * counted * min(market.data_usd)
        return target.objective.value_at(1.0, usd + read, None)
    return _least_sum(market, speed, market.carbon, target.floor_samples_per_second)


def least_multiplier(problem: Problem) -> float:
    """Return the least samples to target of any mode."""
    return min(
        (Mode(problem, name, steps).multiplier for name, steps in problem.modes), default=1.0
    )


def _most_speed(market: Market, speed: Array, budget_usd: float) -> float:
    """Return the most samples/s that a budget pays for, by the tightest price."""
    usd = market.pools.usd
    if budget_usd == math.inf:
        return float(_worth(market, speed, usd, np.zeros(1))[0])
    prices = _prices(speed, usd)
    return float((prices * budget_usd * (1 + TOLERANCE) + _worth(market, speed, usd, prices)).min())


def _least_sum(market: Market, speed: Array, each: Array, floor: float) -> float:
    """Return the least price, or emissions, of machines that reach a speed, and of as many as must
    be used.
    """
    fewest = market.problem.requirements.min_workers
    taken = np.minimum(market.cap, fewest).astype(np.intp)
    least = float(np.sort(np.repeat(each, taken))[:fewest].sum())
    prices = _prices(speed, each)
    prices = prices[prices > 0]
    if not len(prices):
        return least
    reached = (floor * (1 - TOLERANCE) - _worth(market, speed, each, prices)) / prices
    return max(least, float(reached.max()))


def _worth(market: Market, speed: Array, usd: Array, prices: Array) -> Array:
    """Return the largest sum of v - price x c over as many machines as may run; shape (prices,)."""
    most = market.problem.requirements.max_workers
    left = np.maximum(0.0, speed - prices[:, None] * usd)
    last = min(most, left.shape[1]) - 1  # every pool has a machine, so that no more are needed
    best = np.argpartition(-left, last, axis=1)[:, : last + 1]
    order = np.argsort(-np.take_along_axis(left, best, axis=1), axis=1)
    order = np.take_along_axis(best, order, axis=1)
    taken = np.minimum(np.cumsum(market.cap[order], axis=1), most)
    counts = np.diff(taken, axis=1, prepend=0.0)
    return (np.take_along_axis(left, order, axis=1) * counts).sum(axis=1)


def _prices(speed: Array, usd: Array) -> Array:
    """Return prices of a dollar from nothing to what the best machine makes of one."""
    best = float((speed / np.maximum(usd, LEAST_USD)).max(initial=0.0))
    return np.concatenate([[0.0], best * np.geomspace(1e-3, 1.0, PRICES)])


BISECTIONS = 16
"""Halvings of the logarithm of a bound: to about 0.03 % of it."""
FARTHEST = 1e3
"""A mode whose relaxation is this many times worse than the best is not followed further."""


class Entry(Struct, dict=True):
    """What is known of one mode so far.

    ``closed`` says that nothing of it beats the incumbent by more than the gap that was asked for.
    ``reached`` is a value that no placement of it beats, once some search of it has ended: None
    while nothing keeps the limits. ``root`` is what the relaxation proves, if ``worked_out``;
    ``skipped`` that a part was too large for the search under way.
    """

    closed: bool = False
    ended: bool = False
    skipped: bool = False
    reached: float | None = None
    worked_out: bool = False
    root: float | None = None
    nodes: int = 0
    priced: int = 0


class Ledger:
    """Notes of one run of the searches, mode by mode.

    ``target``: incumbent, nodes and placements are read from it. When the search of a mode ends, no
    placement of it is better than the incumbent of that moment by more than the gap of that moment.
    """

    def __init__(self, target: Target) -> None:
        self._target, self._gap = target, target.gap
        self._entries: dict[tuple[str, int], Entry] = {}

    def of(self, mode: tuple[str, int]) -> Entry:
        """Return what is known of a mode."""
        return self._entries.setdefault(mode, Entry())

    @contextmanager
    def turn(self, mode: tuple[str, int]) -> Iterator[None]:
        """Note the nodes and placements of one turn of a search."""
        target, entry = self._target, self.of(mode)
        ticks, priced, target.skipped = target.ticks, target.candidates, entry.skipped
        try:
            yield
        finally:
            entry.nodes += target.ticks - ticks
            entry.priced += target.candidates - priced
            entry.skipped = target.skipped

    def end(self, mode: tuple[str, int]) -> None:
        """Note that a search has ended; nothing is proved where it skipped a part."""
        entry, target = self.of(mode), self._target
        if not entry.skipped:
            entry.ended, entry.reached = True, self._reached()
            entry.closed = entry.closed or target.gap <= self._gap
        entry.skipped = False

    def root(self, mode: tuple[str, int], value: float | None) -> None:
        """Note a bound that the relaxation of a mode proves; None if it excludes all placements."""
        entry = self.of(mode)
        if value is not None and entry.worked_out:
            value = None if entry.root is None else self._tighter(entry.root, value)
        entry.worked_out, entry.root = True, value

    def bound(self, mode: tuple[str, int]) -> float | None:
        """Return the tightest bound of a mode; None if none is known, or it is empty."""
        entry = self.of(mode)
        known = [entry.reached] if entry.ended else []
        known += [entry.root] if entry.worked_out else []
        values = [value for value in known if value is not None]
        if len(values) < len(known) or not values:
            return None
        return values[0] if len(values) == 1 else self._tighter(*values)

    def known(self, mode: tuple[str, int]) -> bool:
        """Return whether any bound on a mode is known."""
        entry = self.of(mode)
        return entry.ended or entry.worked_out

    def _reached(self) -> float | None:
        """Return what nothing that was ruled out beats; None where no value is known."""
        target = self._target
        known = target.known_value
        return None if known is None else target.objective.ahead(known, target.slack)

    def behind(self, mode: tuple[str, int]) -> bool:
        """Return whether no placement of a mode beats the best by more than the gap."""
        if not self.known(mode):
            return False
        bound, reached = self.bound(mode), self._reached()
        return bound is None or (reached is not None and self._tighter(reached, bound) == bound)

    def proofs(self) -> tuple[ModeProof, ...]:
        """Put the notes together."""
        alone = [(NO_EXCHANGE, 1)] if (NO_EXCHANGE, 1) in self._entries else []
        return tuple(self._proof(mode) for mode in [*alone, *self._target.problem.modes])

    def _proof(self, mode: tuple[str, int]) -> ModeProof:
        entry = self.of(mode)
        # A mode whose search has not ended is closed all the same if its relaxation cannot beat the
        # incumbent.
        if not entry.closed and not self.behind(mode):
            method: Method = "stopped"
        elif mode[0] == NO_EXCHANGE:
            method = "alone"
        else:
            method = "search" if entry.nodes or entry.priced else "root"
        return ModeProof(
            strategy=mode[0],
            local_steps=mode[1],
            method=method,
            bound=self.bound(mode),
            root_bound=entry.root,
            nodes=entry.nodes,
            priced=entry.priced,
        )

    def _tighter(self, one: float, other: float) -> float:
        # Of two bounds that both hold, the worse value is the tighter one.
        return one if self._target.objective.better(other, one) else other


def root_bound(may_improve: Callable[[], bool], trial: Target, outermost: float) -> float | None:
    """Return the best objective value that the relaxation of a mode does not exclude, by bisection;
    None if it excludes all.

    ``may_improve``: whether the relaxation allows a placement that is better than
    ``trial.best_value``. ``trial``: a target of its own with some placement; its value is moved.
    ``outermost``: a value that no placement is better than; it is all that is proved where
    ``trial`` runs out of time.
    """
    try:
        return _bisected(may_improve, trial, outermost)
    except (OutOfTimeError, MemoryError):
        return outermost


def _bisected(may_improve: Callable[[], bool], trial: Target, outermost: float) -> float | None:
    best, value, maximised = trial.best, trial.best_value, trial.objective.maximised
    trial.best = None
    if not may_improve():
        return None
    trial.best = best

    def open_at(at: float) -> bool:
        trial.best_value = at
        return may_improve()

    hard = outermost if maximised else value / FARTHEST**2
    easy = value / FARTHEST if maximised else value * FARTHEST
    # Bisection needs a value that is ruled out at one end; without one the outermost value is all
    # that is proved.
    if hard <= 0 or easy <= 0 or open_at(hard):
        return outermost
    if open_at(easy):
        with suppress(OutOfTimeError):  # what is ruled out so far holds
            for _ in range(BISECTIONS):
                trial.check_time()
                middle = (easy * hard) ** 0.5
                easy, hard = (middle, hard) if open_at(middle) else (easy, middle)
    else:
        hard = easy
    # The last value that was ruled out, and a little more: a tie counts as no improvement.
    return trial.objective.ahead(hard, STRICT)
