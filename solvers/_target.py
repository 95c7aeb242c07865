"""The incumbent, and the thresholds of an improvement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from placer.cost_model.estimate import Outcome, evaluate
from placer.cost_model.limits import TOLERANCE, broken_limits, violations
from placer.cost_model.objective import Objective, objective_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import missing
from placer.problem.shares import UNITS_PER_SAMPLE
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import OutOfTimeError, Reason, StoppedError
from placer.units import SECONDS_PER_HOUR

from ._market.arrays import Array
from ._mode import Mode

FINITE = 1e300
"""Slack is taken of no more than this, so that what is infinite stays so."""
STRICT = 1e-9
"""An improvement smaller than this counts as a tie."""


class FirstPlacementError(StoppedError):
    """Raised when a placement keeps every limit and no better one is wanted."""


@dataclass
class Target:
    """Objective, limits and the best placement so far.

    Mutable on purpose: searches call `offer`, and read what an improvement still needs. ``skipped``
    says that some part was too large to enumerate, so nothing is proved; ``first`` that any
    placement within the limits ends the search; ``rough`` that whole modes are asked for the bounds
    alone that take little time; ``beat`` is a value known without a placement. ``ticks`` counts
    nodes.
    """

    problem: Problem
    objective: Objective
    budget_usd_per_hour: float
    floor_samples_per_second: float
    limit_usd_per_sample: float
    limit_carbon_g_per_hour: float
    gap: float
    deadline: float
    node_limit: int | None = None
    pause_nodes: int | None = None
    on_better: Callable[[float], None] | None = None
    on_bound: Callable[[float | None], None] | None = None
    best: Placement | None = None
    best_value: float = math.nan
    best_key: tuple[float, float] = (math.inf, math.inf)
    candidates: int = 0
    skipped: bool = False
    first: bool = False
    rough: bool = False
    beat: float | None = None
    tied: tuple[Objective, float] | None = None
    ticks: int = field(default=0, repr=False)

    @staticmethod
    def of(
        problem: Problem,
        *,
        gap: float,
        deadline: float,
        node_limit: int | None = None,
        on_better: Callable[[float], None] | None = None,
        on_bound: Callable[[float | None], None] | None = None,
        first: bool = False,
        beat: float | None = None,
    ) -> Target:
        """Read objective and limits from the wishes; ``deadline`` is by the monotonic clock."""
        wish = problem.requirements
        per_million = wish.max_usd_per_million_samples
        return Target(
            problem=problem,
            objective=objective_of(wish),
            budget_usd_per_hour=wish.budget_usd_per_hour or math.inf,
            floor_samples_per_second=wish.floor_samples_per_second or 0.0,
            limit_usd_per_sample=math.inf if per_million is None else per_million / 1e6,
            limit_carbon_g_per_hour=wish.max_carbon_g_per_hour or math.inf,
            gap=gap,
            deadline=deadline,
            node_limit=node_limit,
            on_better=on_better,
            on_bound=on_bound,
            first=first,
            beat=beat,
        )

    @property
    def deaf(self) -> Target:
        """Return the same target for a search that nobody listens to."""
        return replace(self, on_better=None, on_bound=None)

    @property
    def short(self) -> bool:
        """Whether so few nodes are searched that tables for better bounds cost more than they save:
        what such a search ends with is compared with, and need not be proved.
        """
        return self.node_limit is not None and self.tied is None

    def demand(self, value: float) -> None:
        """Make a value of the objective a limit, where there is none that is as tight."""
        if self.objective.by_sample:
            usd = self.objective.usd_per_million(value) / 1e6
            self.limit_usd_per_sample = min(usd, self.limit_usd_per_sample)
        elif self.objective.name == "throughput":
            self.floor_samples_per_second = max(value, self.floor_samples_per_second)
        elif self.objective.name == "carbon":
            self.limit_carbon_g_per_hour = min(value, self.limit_carbon_g_per_hour)
        else:
            self.budget_usd_per_hour = min(value, self.budget_usd_per_hour)

    def offer(self, placement: Placement) -> None:
        """Evaluate a placement and keep it if it is within the limits and better.

        Raises FirstPlacementError if the first placement within the limits is all that is wanted,
        and this is one.
        """
        self.candidates += 1
        wish = self.problem.requirements
        if not {*wish.required_places} <= {*placement.places} or any(
            missing(rule, placement.groups) for rule in wish.used
        ):
            return
        outcome = evaluate(placement, self.problem)
        key = self.objective.score(outcome)
        if key >= self.best_key or self._loses_tie(outcome) or broken_limits(outcome, wish):
            return
        if self.beat is not None and not self.objective.better(
            self.objective.value(outcome), self.beat
        ):
            return
        if not violations(placement, self.problem):
            self.best, self.best_key = placement, key
            self.best_value = self.objective.value(outcome)
            if self.on_better is not None:
                self.on_better(self.best_value)
            if self.first:
                raise FirstPlacementError

    def may_beat_best(self, samples_per_second: float, usd_per_hour: float) -> bool:
        """Return whether a placement may be within the limits and better than the best so far,
        where it has at most so many samples/s that count and costs at least so much.
        """
        speed, usd = samples_per_second * (1 + TOLERANCE), usd_per_hour * (1 - TOLERANCE)
        if usd > self.budget_usd_per_hour or speed < self.floor_samples_per_second:
            return False
        objective = self.objective
        value = objective.value_at(speed, usd, 0.0)  # nobody promises emissions
        if self.beat is not None and not objective.better(value, self.beat):
            return False
        return ((-speed, usd) if objective.by_speed else (value, -speed)) < self.best_key

    def _loses_tie(self, outcome: Outcome) -> bool:
        """Return whether a placement is worse by the objective of which this search breaks ties."""
        if self.tied is None:
            return False
        objective, value = self.tied
        return objective.better(value, objective.value(outcome), 2 * TOLERANCE)

    def tick(self) -> None:
        """Count one node of a search; raises OutOfTimeError when all are used up."""
        self.ticks += 1
        for most in (self.node_limit, self.pause_nodes):
            if most is not None and self.ticks > most:
                raise OutOfTimeError(Reason.NODES)
        if self.ticks % 64 == 0:
            self.check_time()

    def check_time(self) -> None:
        """Look at the clock, the memory and the caller; raises OutOfTimeError."""
        if time.monotonic() > self.deadline:
            raise OutOfTimeError
        allowance.check()

    @property
    def slack(self) -> float:
        """Relative improvement that is worth finding."""
        return max(self.gap, STRICT)

    @property
    def known_value(self) -> float | None:
        """Return the value that is to be beaten; None where none is known."""
        return self.beat if self.best is None else self.best_value

    def _improved_value(self, objective: str) -> float | None:
        """Return the least improvement worth finding; None where none is known."""
        known = self.known_value
        if known is None or self.objective.name != objective:
            return None
        return self.objective.ahead(known, self.slack)

    @property
    def min_speed(self) -> float:
        """Samples/s that a better placement has at least; 0 without a limit."""
        floor = self.floor_samples_per_second * (1 - TOLERANCE)
        improved = self._improved_value("throughput")
        return floor if improved is None else max(floor, improved)

    @property
    def max_usd_per_hour(self) -> float:
        """USD/h that a better placement has at most."""
        limit = self.budget_usd_per_hour * (1 + TOLERANCE)
        improved = self._improved_value("cost")
        return limit if improved is None else min(limit, improved)

    @property
    def max_usd_per_sample(self) -> float:
        """USD per sample that a better placement has at most; infinite without a limit."""
        limit = self.limit_usd_per_sample * (1 + TOLERANCE)
        improved = self._improved_value(self.objective.name) if self.objective.by_sample else None
        if improved is None:
            return limit
        return min(limit, self.objective.usd_per_million(improved) / 1e6)

    @property
    def startup_s_per_sample(self) -> float:
        """Seconds of start-up that `max_usd_per_sample` pays for beside each sample; 0 where some
        price of a sample is limited without them, as the other bounds then hold all the same.
        """
        wish = self.problem.requirements
        apart = self.objective.name == "cost-per-sample"
        if apart or wish.most_usd_per_million_samples is not None:
            return 0.0
        return wish.startup_s_per_sample

    @property
    def max_carbon_g_per_hour(self) -> float:
        """Emissions that a better placement has at most; infinite without a limit."""
        limit = self.limit_carbon_g_per_hour * (1 + TOLERANCE)
        improved = self._improved_value("carbon")
        return limit if improved is None else min(limit, improved)

    @property
    def limits(self) -> tuple[float, ...]:
        """What an improvement must keep: bounds stay as they are while it does."""
        return (
            self.min_speed,
            self.max_usd_per_hour,
            self.max_usd_per_sample,
            self.max_carbon_g_per_hour,
        )

    @property
    def most_of_sums(self) -> Array:
        """What a better placement has at most of each sum of `Market.limited`; shape (sums,)."""
        wish = self.problem.requirements
        carbon = [self.max_carbon_g_per_hour] if wish.counts_carbon else []
        joint = (float(row.most) for row in self.problem.joint_limits)
        return np.array([*carbon, *joint, *(-float(rule.count) for rule in wish.used)])

    def thresholds(
        self,
        mode: Mode,
        weights: Array,
        communication_s: Array,
        egress_usd: Array,
        data_usd: float | Array,
        slowest: Array,
    ) -> Array:
        """Return the values that the weighted sums of `BestSums` must reach for an
        improvement; shape (rows, workers).

        ``mode``: samples of a round and samples to target. ``weights``: rows (alpha, beta, gammas).
        ``communication_s``, ``egress_usd``: least seconds and egress of one exchange for each
        number of workers; shape (workers,). ``data_usd``: least price of reading a sample, the same
        for all or for each number of workers. ``slowest``: samples/s that every placement of the
        node has at least; shape (workers,). Egress and data are paid for at least so many samples.

        With T = B / V + communication the limits become linear in the counts: V is at least B / (T
        - communication), and C at most the budget less what X samples/s pay for egress and data.
        Where the exchange overlaps, T is the larger of the two instead of the sum; where gradients
        travel in buckets part of it is hidden (`Mode.round_s`). Cost per sample uses the tangent of
        the concave X(V) whose slope fits the row.
        """
        self.check_time()
        samples, speed = mode.samples, self.min_speed
        usd_per_speed = SECONDS_PER_HOUR * mode.multiplier * (egress_usd / samples + data_usd)
        round_s = mode.seconds_at(speed)
        # Seconds that are left for the calculation, at most: communication is a lower bound, so the
        # speed that is asked for below is never too high.
        calculation_s = mode.most_calculation_s(round_s, communication_s)
        with np.errstate(divide="ignore", invalid="ignore"):
            least_v = np.where(calculation_s > 0, samples / calculation_s, np.inf)
            least_v = self._unheld(least_v)
            if self.problem.requirements.least_speed is not None:
                own = self.problem.requirements.least_speed / UNITS_PER_SAMPLE
                least_v = np.maximum(least_v, own * (1 - TOLERANCE))
            # Egress and data are charged for the least samples/s that an improvement can have, so
            # what is left for machines is never too little.
            most_usd = self.max_usd_per_hour
            most_c = most_usd - usd_per_speed * np.maximum(speed, slowest)
            paid = weights[:, 1:2] * most_c
            if most_usd == math.inf:
                paid = np.where(weights[:, 1:2] > 0, paid, 0.0)
            # An infinite speed in a row without it is no number here, and infinite below.
            built = weights[:, :1] * least_v - paid
            taken: float | Array = 0.0
            if weights.shape[1] > 2:
                each = np.where(weights[:, 2:] > 0, weights[:, 2:] * self.most_of_sums, 0.0)
                taken = each.sum(axis=1, keepdims=True)
            built = built - taken
        # Communication alone takes longer than the round may, or egress alone costs more than the
        # limit: no sum can reach an infinite threshold.
        built = np.where(np.isinf(least_v) | (most_c < 0), np.inf, built)
        if self.max_usd_per_sample < math.inf:
            # Machines are paid for their start as if each round took its share of it longer.
            startup_s = self.startup_s_per_sample * samples / mode.multiplier
            for share, rest_s in mode.straight_rounds(communication_s):
                # The tangent speaks of alpha v - beta c; a row takes gamma g off, which is at most
                # what the limits allow.
                tangent = self._per_sample(
                    mode, weights, share, rest_s + startup_s, usd_per_speed, startup_s
                )
                with np.errstate(invalid="ignore"):
                    within = np.where(np.isfinite(taken), tangent - taken, -np.inf)
                built = np.maximum(built, within)
        # Lower by a little: sums that the search adds in another order must not miss by rounding.
        return built - 1e-9 * np.minimum(np.maximum(np.abs(built), 1.0), FINITE)

    def _unheld(self, least_v: Array) -> Array:
        """Return the speeds of all workers by themselves that a speed asks for where their store
        may hold them back; infinite where it never gives so much.

        With a share f of the samples from a store that gives L, V is at most 1 / (f / L + (1 - f) /
        V'), since the harmonic mean of sums is no less than the sum of harmonic means. V' is the
        sum of the speeds in later passes: at most that of the mean speeds times the largest ratio
        of both. The least f of any pool bounds them all.
        """
        most = self.problem.most_loaded_samples_per_s * (1 + TOLERANCE)
        if most == math.inf:
            return least_v
        streamed, gain = self._passes
        with np.errstate(divide="ignore", invalid="ignore"):
            rest_s = 1 / least_v - streamed / most
            later = np.where(rest_s > 0, (1 - streamed) / rest_s / gain, np.inf)
        built: Array = np.where(np.isfinite(least_v), np.maximum(least_v, later), least_v)
        return np.where(least_v <= 0, least_v, built)

    @cached_property
    def _passes(self) -> tuple[float, float]:
        """Least share of samples from the store, and the largest gain of later passes."""
        pools = self.problem.pools.kinds
        gains = [
            pool.loader.later(rate.value) / rate.value
            for pool in pools
            for rate in (pool.alone, pool.shared)
            if pool.loader is not None
        ]
        return min((pool.streamed for pool in pools), default=1.0), max(gains, default=1.0)

    def _per_sample(
        self,
        mode: Mode,
        weights: Array,
        share: float,
        communication_s: Array,
        usd_per_speed: Array,
        startup_s: float,
    ) -> Array:
        """Return the tangent form of C <= (3600 z - g) X(V), with X = B V / (share B + V
        communication), or the smaller of V and B / communication; of the communication
        ``startup_s`` are never hidden.
        """
        samples = float(mode.samples)
        worth = (SECONDS_PER_HOUR * self.max_usd_per_sample - usd_per_speed) / mode.multiplier
        multiplier = weights[:, 1:2]
        with np.errstate(divide="ignore", invalid="ignore"):
            # X(V) is concave, so it lies below each of its tangents: a limit that the tangent
            # breaks is broken by X(V) too.
            slope = 1 / (multiplier * worth)
            if mode.overlap:
                most = np.where(communication_s > 0, samples / communication_s, np.inf)
                built = np.where(slope >= 1, 0.0, most * (1 - multiplier * worth))
            rest_s = startup_s if mode.overlap else communication_s
            if not mode.overlap or startup_s:
                v_tangent = samples * (np.sqrt(share / slope) - share) / rest_s
                x_tangent = samples * v_tangent / (share * samples + v_tangent * rest_s)
                intercept = np.where(slope * share >= 1, 0.0, x_tangent - slope * v_tangent)
                tangent = -multiplier * worth * intercept
                built = np.maximum(built, tangent) if mode.overlap else tangent
        # Where the tangent says nothing the threshold is minus infinity: nothing is cut.
        usable = (weights[:, :1] > 0) & (multiplier > 0) & np.isfinite(built)
        built = np.where(usable, built, -np.inf)
        return np.where(worth <= 0, np.inf, built)
