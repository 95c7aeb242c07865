"""Placements in many worlds: rivals of a recommendation, their regret, and what figures decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from placer.advice.recommendation.equal_machines import best_equal_machines
from placer.advice.recommendation.other_answers import wanting
from placer.advice.robustness.uncertainty import Factor, Ranges, changes_of, factors_of, sampled
from placer.advice.worlds.whatif import apply
from placer.cost_model.convergence import multiplier_of, samples_to_target
from placer.cost_model.dollars import compute_usd_per_hour
from placer.cost_model.estimate import Outcome, evaluate, offers_of, workers_of
from placer.cost_model.limits import broken_limits, violations
from placer.cost_model.objective import Objective, objective_of
from placer.cost_model.reduced_problem import used_problem
from placer.documents.schemas.worlds import MeasuringWorth
from placer.errors import PlacerError
from placer.market.scaled_market import with_scaled_links
from placer.problem.exchange import overlaps
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import parse_changes
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

BROKEN = math.nan
"""Value of a placement in a world where it breaks a limit."""
BROKEN_LOSS = 1.0
"""Loss of a placement that breaks a limit in a world: as bad as giving up everything."""
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Where in its range a measured figure may come out, equally likely: middles of five strips."""
INNER = 48
"""Worlds of the other figures: the same for every figure and level, so differences are no noise."""
RIVALS = 12
"""Best kinds of equal machines that are candidates."""
ENRICHED = 3
"""Worlds of the largest regret in which the pool of candidates is asked for better ones."""
BOOK = 0.5
"""Share of the range of a factor at which its figure is the book's."""
Shares = tuple[float, ...]
"""A share of the range of each factor."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A placement with the part of the question that it needs.

    ``uses`` are the positions of the factors that its figures depend on: in worlds that differ in
    others only, it does the same.
    """

    placement: Placement
    problem: Problem = field(repr=False)
    factors: tuple[Factor, ...] = field(repr=False)
    uses: tuple[int, ...]
    known: dict[Shares, tuple[float, bool]] = field(default_factory=dict, repr=False, compare=False)
    parts: dict[tuple[str, Shares], Any] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(
        placement: Placement, problem: Problem, factors: Sequence[Factor], own: Sequence[str]
    ) -> Candidate:
        """Cut the question down to what a placement uses; ``own`` are words of its factors."""
        uses = tuple(i for i, factor in enumerate(factors) if factor.figure in own)
        return Candidate(
            placement=placement,
            problem=used_problem(problem, placement, links_fixed=True),
            factors=tuple(factors[i] for i in uses),
            uses=uses,
        )

    def value(self, world: Sequence[float]) -> float:
        """Return the value in a world of shares, one a factor; NaN if a limit is broken."""
        value, broken = self.judged(world)
        return BROKEN if broken else value

    def judged(self, world: Sequence[float]) -> tuple[float, bool]:
        """Return the value, and whether a limit is broken."""
        shares, wish = tuple(world[i] for i in self.uses), self.problem.requirements
        if shares not in self.known:
            outcome = self._outcome(shares)
            broken: Sequence[object] = broken_limits(outcome, wish)
            if self.placement.exchange.storage is not None:
                # Functions have time limits, which slower links can break.
                broken = violations(self.placement, self._there(shares))
            self.known[shares] = objective_of(wish).value(outcome), bool(broken)
        return self.known[shares]

    def _outcome(self, shares: Shares) -> Outcome:
        """Return what the placement does in a world, from parts that other worlds share: prices of
        machines change what these cost alone, phi what counts as a sample.
        """
        moved, priced, counted = (
            tuple(
                share if factor.kind in kinds else BOOK
                for factor, share in zip(self.factors, shares, strict=True)
            )
            for kinds in (("bandwidth", "rate"), ("price",), ("phi",))
        )
        outcome: Outcome = self._part("moved", moved, evaluate)
        compute = self._part(
            *("priced", priced),
            lambda p, world: compute_usd_per_hour(offers_of(workers_of(p, world), p, world)),
        )
        times = self._part(
            "counted", counted, lambda p, world: multiplier_of(p.exchange, world).value
        )
        return replace(outcome, usd=replace(outcome.usd, compute=compute), multiplier=times)

    def _part(
        self, name: str, shares: Shares, worked_out: Callable[[Placement, Problem], Any]
    ) -> Any:
        if (name, shares) not in self.parts:
            self.parts[name, shares] = worked_out(self.placement, self._there(shares))
        return self.parts[name, shares]

    def _there(self, shares: Shares) -> Problem:
        changed = apply(self.problem, changes_of(self.factors, shares))
        return with_phi(changed, self.placement.exchange, self.factors, shares)


def with_phi(
    problem: Problem, exchange: Exchange, factors: Sequence[Factor], shares: Sequence[float]
) -> Problem:
    """Multiply the samples that an exchange needs by the factor of its strategy."""
    name, wish = exchange.strategy, problem.requirements
    for factor, share in zip(factors, shares, strict=True):
        if factor.figure == f"phi:{name}" and factor.at(share) != 1.0:
            usual = samples_to_target(exchange, wish.samples_to_target, problem.profile).value
            rest = (row for row in wish.samples_to_target if row[0] != name)
            rows = ((name, usual * factor.at(share)), *rest)
            return wanting(problem, samples_to_target=rows)
    return problem


def values_of(candidates: Sequence[Candidate], worlds: Sequence[Sequence[float]]) -> Matrix:
    """Return the value of each candidate in each world: worlds x candidates, NaN if broken."""
    import numpy as np

    rows = [[candidate.value(world) for candidate in candidates] for world in worlds]
    return np.array(rows, dtype=float).reshape(len(worlds), len(candidates))


def losses_of(values: Matrix, objective: Objective, solved: Sequence[float] = ()) -> Matrix:
    """Return relative regrets: worlds x candidates, `BROKEN_LOSS` where a limit is broken, 0 in a
    world where nothing fits. ``solved`` are the best values of worlds, NaN where not known; without
    any, the best candidate stands for them, and the regret is a lower bound.
    """
    import numpy as np

    gains = np.where(np.isnan(values), -np.inf, objective.sign * values)
    best = gains.max(axis=1, keepdims=True)
    if len(solved):
        column = np.array(solved, dtype=float)[:, None]
        best = np.maximum(best, np.where(np.isnan(column), -np.inf, objective.sign * column))
    nothing = np.isneginf(best)
    scale = np.where(nothing | (best == 0), 1.0, np.abs(best))
    shares = (np.where(nothing, 0.0, best) - np.where(np.isneginf(gains), 0.0, gains)) / scale
    losses: Matrix = np.where(
        nothing, 0.0, np.where(np.isneginf(gains), BROKEN_LOSS, np.maximum(0.0, shares))
    )
    return losses


def worth_of(
    candidates: Sequence[Candidate],
    factors: Sequence[Factor],
    worlds: Sequence[Sequence[float]],
    objective: Objective,
) -> tuple[MeasuringWorth, ...]:
    """Return what measuring each figure alone is worth, most first.

    The expected value of partial perfect information (Raiffa and Schlaifer, 1961; Felli and Hazen,
    1998, Medical Decision Making 18): with c the candidates, x the figure and y all others, min_c
    E[loss(c)] - E_x[min_c E[loss(c) | x]]. Both expectations are worked out by conditional
    resampling, two nested levels with common random numbers (Strong, Oakley and Brennan, 2014,
    Medical Decision Making 34, describe and compare such estimators): x at `LEVELS`, y as in the
    first `INNER` worlds. The first term is the mean over the same worlds, so the difference is
    exact for this sample and never below 0. The choice is one of the candidates. Other prices that
    move with a figure stay as they were drawn: what it says of them is not counted.
    """
    import numpy as np

    inner = [list(world) for world in worlds[:INNER]]
    base = values_of(candidates, inner)
    worths = []
    for i, factor in enumerate(factors):
        touched = [c for c, candidate in enumerate(candidates) if i in candidate.uses]
        levels = []
        for share in LEVELS:
            values = base.copy()
            for w, world in enumerate(inner):
                there = [*world[:i], share, *world[i + 1 :]]
                values[w, touched] = [candidates[c].value(there) for c in touched]
            levels.append(losses_of(values, objective).mean(axis=0))
        means = np.array(levels)
        before, after = float(means.mean(axis=0).min()), float(means.min(axis=1).mean())
        saved = max(0.0, before - after)
        worths.append(MeasuringWorth(**asdict(factor), expected_loss_saved=saved))
    return tuple(sorted(worths, key=lambda worth: (-worth.expected_loss_saved, worth.figure)))


class Rivals:
    """Finds placements that a recommendation is compared with. Options are those of a short search;
    ``boxes`` are ranges that the user gives.
    """

    def __init__(self, problem: Problem, boxes: Ranges, solver: str, options: SolveOptions) -> None:
        self.problem, self.boxes, self.solver, self.options = problem, boxes, solver, options

    def pool(self, placements: Sequence[Placement]) -> tuple[Candidate, ...]:
        """Return the candidates that share one list of factors."""
        factors = factors_of(self.problem, placements, self.boxes)
        own = (factors_of(self.problem, [placement], self.boxes) for placement in placements)
        return tuple(
            Candidate.of(placement, self.problem, factors, [factor.figure for factor in each])
            for placement, each in zip(placements, own, strict=True)
        )

    def of(self, chosen: Placement) -> list[Placement]:
        """Return the candidates: the recommendation first, the best of each kind of machine, what
        local search finds, answers of bad worlds.
        """
        problem = self.problem
        answers = [solve(problem, "local_search", self.options).placement]
        rivals = best_equal_machines(problem, RIVALS)
        worlds: list[Problem] = []
        ends = self.boxes.get("price", (0.7, 1.6))  # the whole market at either end
        with suppress(PlacerError):  # without spot machines there is no such world
            spot = (parse_changes([f"price:*:*:spot=x{times}"]) for times in ends)
            worlds += [apply(problem, changes) for changes in spot]
        if problem.requirements.max_regions > 1:
            ends = self.boxes.get("bandwidth", (0.5, 1.5))
            books = (with_scaled_links(problem.catalog, times) for times in ends)
            worlds += [replace(problem, catalog=book) for book in books]
        answers += [solve(world, self.solver, self.options).placement for world in worlds]
        placements = [chosen, *rivals, *(answer for answer in answers if answer is not None)]
        for _ in range(ENRICHED):  # in the world that is bad for all so far, another one is best
            factors = shared_factors(self.pool([placements[0], *placements[-2:]]))
            bad = self._best_in(factors, [factor.bad for factor in factors])
            placements += [bad] if bad is not None else []
        return _unlike(placements)

    def enriched(
        self, pool: Sequence[Candidate], drawn: Sequence[tuple[str, list[float]]]
    ) -> list[Placement]:
        """Return the pool, with what is best in the worlds where its recommendation loses most."""
        factors, rows = shared_factors(pool), [row for _, row in drawn]
        objective = objective_of(self.problem.requirements)
        losses = losses_of(values_of(pool, rows), objective)[:, 0]
        order = sorted(range(len(rows)), key=lambda w: (-float(losses[w]), w))[:ENRICHED]
        answers = [self._best_in(factors, rows[w]) for w in order]
        found = [answer for answer in answers if answer is not None]
        return _unlike([*(candidate.placement for candidate in pool), *found])

    def _best_in(self, factors: Sequence[Factor], row: Sequence[float]) -> Placement | None:
        """Return the best placement of a world."""
        shared = (self.problem, factors, self.solver, self.options, None)
        return solved_world(shared, row).placement


def _unlike(placements: Iterable[Placement]) -> list[Placement]:
    """Return each placement once."""
    return list({placement.canonical(): placement for placement in placements}.values())


def shared_factors(pool: Sequence[Candidate]) -> tuple[Factor, ...]:
    """Return the factors of a pool, in their order."""
    factors = {
        i: factor
        for candidate in pool
        for i, factor in zip(candidate.uses, candidate.factors, strict=True)
    }
    return tuple(factors[i] for i in sorted(factors))


def worlds_of(pool: Sequence[Candidate], worlds: int, seed: int) -> list[tuple[str, list[float]]]:
    """Return the corners and sample: the book, each figure at either end, each rival at its best
    where the choice is at its worst; then draws.
    """
    factors = shared_factors(pool)
    middle = [BOOK] * len(factors)
    drawn = [("book", middle)]
    for i in range(len(factors)):
        drawn += [("corner", [*middle[:i], end, *middle[i + 1 :]]) for end in (0.0, 1.0)]
    mine = set(pool[0].uses)
    for rival in pool[1:]:
        theirs = set(rival.uses)
        for shared in (0.0, 0.5, 1.0):
            row = []
            for i, factor in enumerate(factors):
                welcome = 1 - factor.bad
                both, neither = i in mine and i in theirs, i not in mine and i not in theirs
                row.append(
                    BOOK if neither else shared if both else welcome if i in theirs else factor.bad
                )
            drawn.append(("corner", row))
    drawn += [("corner", [abs(end - factor.bad) for factor in factors]) for end in (0.0, 1.0)]
    unique = {tuple(row): (kind, row) for kind, row in reversed(drawn)}
    return [
        *reversed(unique.values()),
        *(("sample", row) for row in sampled(factors, worlds, seed)),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class SolvedWorld:
    """What one world that was solved anew has at best."""

    status: Status
    value: float | None
    placement: Placement | None


def solved_world(
    shared: tuple[Problem, Sequence[Factor], str, SolveOptions, Placement | None],
    row: Sequence[float],
) -> SolvedWorld:
    """Solve one world; a strategy with several local steps keeps one multiplier for them."""
    problem, factors, solver, options, start = shared
    changed = apply(problem, changes_of(factors, row))
    for name, steps in problem.modes:
        if [mode for mode, _ in problem.modes].count(name) == 1:
            overlap = overlaps(name, wanted=problem.requirements.overlap)
            exchange = Exchange(
                strategy=name, compression=problem.compression, local_steps=steps, overlap=overlap
            )
            changed = with_phi(changed, exchange, factors, row)
    result = solve(changed, solver, replace(options, start=start))
    return SolvedWorld(status=result.status, value=result.value, placement=result.placement)


def check_phi(problem: Problem, pool: Sequence[Candidate]) -> None:
    """Refuse to solve worlds that no request says: samples to target that vary by local steps."""
    names = [name for name, _ in problem.modes]
    varied = [
        factor.figure.partition(":")[2] for factor in shared_factors(pool) if factor.kind == "phi"
    ]
    several = [name for name in varied if names.count(name) > 1]
    if several:
        raise PlacerError(
            f"samples to target of {several[0]} vary with its local steps, so worlds cannot be "
            f"solved one by one",
            "add --box phi=1..1, name one number with --local-steps, or leave out --exact",
        )
