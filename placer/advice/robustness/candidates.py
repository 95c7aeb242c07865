"""One placement in many worlds: the part of the market that it uses, and its value there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from placer.advice.robustness.uncertainty import Factor, changes_of, factors_of
from placer.advice.worlds.scenario import apply
from placer.cost_model.convergence import samples_to_target
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import broken_limits, violations
from placer.cost_model.objective import objective_of
from placer.cost_model.reduced_problem import used_problem
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.records import replace

BROKEN = math.nan
"""Value of a placement in a world where it breaks a limit."""


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
    known: dict[tuple[float, ...], tuple[float, bool]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @staticmethod
    def of(
        placement: Placement, problem: Problem, factors: Sequence[Factor], own: Sequence[str]
    ) -> Candidate:
        """Cut the question down to what a placement uses; ``own`` are words of its factors."""
        uses = tuple(i for i, factor in enumerate(factors) if factor.words in own)
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
        shares = tuple(world[i] for i in self.uses)
        if shares not in self.known:
            self.known[shares] = self._judge(shares)
        return self.known[shares]

    def _judge(self, shares: tuple[float, ...]) -> tuple[float, bool]:
        exchange = self.placement.exchange
        changed = apply(self.problem, changes_of(self.factors, shares))
        there = with_phi(changed, exchange, self.factors, shares)
        outcome = evaluate(self.placement, there)
        value = objective_of(there.requirements).value(outcome)
        if exchange.storage is not None:
            # Functions have time limits, which slower links can break.
            return value, bool(violations(self.placement, there))
        return value, bool(broken_limits(outcome, there.requirements))


def candidates_of(
    problem: Problem, placements: Sequence[Placement], boxes: dict[str, tuple[float, float]]
) -> tuple[Candidate, ...]:
    """Return the candidates that share one list of factors."""
    factors = factors_of(problem, placements, boxes)
    return tuple(
        Candidate.of(p, problem, factors, [f.words for f in factors_of(problem, [p], boxes)])
        for p in placements
    )


def with_phi(
    problem: Problem, exchange: Exchange, factors: Sequence[Factor], shares: Sequence[float]
) -> Problem:
    """Multiply the samples that an exchange needs by the factor of its strategy."""
    name, wish = exchange.strategy, problem.requirements
    for factor, share in zip(factors, shares, strict=True):
        if factor.words == f"phi:{name}" and factor.at(share) != 1.0:
            usual = samples_to_target(exchange, wish.samples_to_target, problem.profile).value
            rest = (row for row in wish.samples_to_target if row[0] != name)
            rows = ((name, usual * factor.at(share)), *rest)
            return replace(problem, requirements=replace(wish, samples_to_target=rows))
    return problem
