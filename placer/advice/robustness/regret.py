"""The regret of a recommendation: what it may lose if prices, links and speeds are others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from placer.advice.recommendation.other_answers import BASELINE_NODES, preferred
from placer.advice.robustness.candidates import (
    Candidate,
    Rivals,
    SolvedWorld,
    check_phi,
    losses_of,
    shared_factors,
    solved_world,
    values_of,
    worlds_of,
    worth_of,
)
from placer.advice.robustness.uncertainty import (
    TOGETHER,
    Factor,
    changes_of,
    check_count,
    move_together,
)
from placer.advice.runner.runner import Opener, answers, here, stopping
from placer.documents.result_parts import data_document, request_document, written
from placer.documents.schemas import worlds
from placer.documents.schemas.worlds import MeasuringWorth
from placer.errors import PlacerError
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.report.shown import Shown
from placer.solving.answer import SolveOptions
from placer.solving.result import Result, answer_document
from placer.solving.solve import require_pools, solve

SCHEMA = "placer.robust/v1"
FRAGILE = worlds.RegretLimits(regret=0.05, share=0.10, worst=0.20)
"""Relative regret beyond which a world counts against a recommendation, the share of such worlds
beyond which it is called fragile, and the worst regret beyond which it is called so as well.
"""
WORLDS = 128
"""Worlds that are drawn unless the user says otherwise."""
MOST_WORLDS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """One world: a share of the range of each factor, the regret there, and the best, if any."""

    shares: tuple[float, ...]
    kind: str
    value: float
    best_value: float | None
    best: Placement | None
    regret: float
    broken: bool


@dataclass(frozen=True, kw_only=True)
class Robustness(Shown):
    """What is known about the regret of one recommendation.

    ``worlds`` are corners of the box and a Latin hypercube sample of it; means and shares are over
    the sample alone. ``exact``: each world was solved and proved, so regrets are exact to the gap;
    else they are lower bounds, against the best of ``pool``. ``steadiest`` has the least expected
    regret in the pool.
    """

    result: Result
    factors: tuple[Factor, ...] = ()
    pool: tuple[Candidate, ...] = field(default=(), repr=False)
    worlds: tuple[World, ...] = field(default=(), repr=False)
    worth: tuple[MeasuringWorth, ...] = ()
    exact: bool = False
    steadiest: Placement | None = None
    steadiest_regret: float = 0.0

    def __repr__(self) -> str:
        lost = f"mean regret {100 * self.mean_regret:.2g} % in {len(self.sample)} worlds"
        return f"<Robustness of {self.result.headline}: {lost}>"

    @property
    def sample(self) -> tuple[World, ...]:
        """Worlds that were drawn."""
        return tuple(world for world in self.worlds if world.kind == "sample")

    @property
    def mean_regret(self) -> float:
        """Mean relative regret over the sampled worlds in which the limits are kept."""
        kept = [world.regret for world in self.sample if not world.broken]
        return math.fsum(kept) / len(kept) if kept else 0.0

    @property
    def expected_loss(self) -> float:
        """Mean over all sampled worlds, where a broken limit counts as a regret of 100 %."""
        return math.fsum(world.regret for world in self.sample) / max(1, len(self.sample))

    @property
    def worst(self) -> World | None:
        """World of the largest regret in which the limits are kept; None if nowhere."""
        kept = (world for world in self.worlds if not world.broken)
        return max(kept, key=lambda world: world.regret, default=None)

    def share(self, of: str) -> float:
        """Share of sampled worlds where it is ``broken``, ``bad`` (regret > 5 %) or ``best``."""
        counts = {
            "broken": [w.broken for w in self.sample],
            "bad": [w.broken or w.regret > FRAGILE.regret for w in self.sample],
            "best": [not w.broken and w.regret <= self.result_gap for w in self.sample],
        }[of]
        return sum(counts) / max(1, len(counts))

    @property
    def result_gap(self) -> float:
        """Regret below which a placement counts as best: the gap to which answers are proved."""
        return max(1e-9, self.result.gap or 0.0)

    @property
    def fragile(self) -> bool:
        """Whether it loses more than 5 % in over 10 % of the worlds, or over 20 % in the worst."""
        worst = 0.0 if self.worst is None else self.worst.regret
        return self.share("bad") > FRAGILE.share or worst > FRAGILE.worst

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.robust/v1`` document."""
        problem, worst = self.result.problem, self.worst
        head = {
            "schema": SCHEMA,
            "request": request_document(problem),
            "data": data_document(problem),
            **answer_document(self.result),
        }
        if self.result.placement is None:
            nothing = dict.fromkeys(("regret", "worst", "steadiest"))
            return {**head, "factors": [], **nothing, "worth": []}
        names = worlds.Factor.__struct_fields__
        return {
            **head,
            "factors": [{name: getattr(each, name) for name in names} for each in self.factors],
            "spot_price_correlation": TOGETHER if move_together(self.factors) else None,
            "regret": {
                "kind": "exact" if self.exact else "lower bound",
                "candidates": len(self.pool),
                "worlds": len(self.sample),
                "corners": len(self.worlds) - len(self.sample),
                "mean": self.mean_regret,
                "worst": None if worst is None else worst.regret,
                "expected_loss": self.expected_loss,
                **{f"share_{of}": self.share(of) for of in ("best", "bad", "broken")},
                "fragile": self.fragile,
                "limits": to_builtins(FRAGILE),
            },
            "worst": worst
            and {
                "set": [change.text for change in changes_of(self.factors, worst.shares)],
                "value": worst.value,
                "best_value": worst.best_value,
                "relative_regret": worst.regret,
                "best_placement": written(worst.best, problem),
            },
            "steadiest": {
                "placement": written(self.steadiest, problem),
                "expected_loss": self.steadiest_regret,
            },
            "worth": to_builtins(list(self.worth)),
        }


def assess(
    problem: Problem,
    boxes: Mapping[str, tuple[float, float]],
    *,
    worlds: int = WORLDS,
    exact: bool = False,
    solver: str = "exact",
    options: SolveOptions | None = None,
    each: SolveOptions | None = None,
    opened: Opener = here,
) -> Robustness:
    """Solve a question, and ask what its answer loses in other worlds.

    ``worlds`` random ones, drawn by the seed of the options, are added to the corners of the
    ``boxes``. ``exact`` solves each of them anew with options ``each`` where the runner is; else
    the best of a pool of candidates stands for its best placement. Raises PlacerError if the
    request admits no machine, or each world is to be solved for samples to target that vary.
    """
    require_pools(problem)
    check_count("worlds", worlds, MOST_WORLDS)
    options = (options or SolveOptions()).deaf
    result = preferred(solve(problem, solver, options), solver, options)
    if result.older is not None or result.problem.data_copy is not None:
        problem = result.problem  # its rivals have newer prices and the same copy too
    if result.placement is None:
        return Robustness(result=result)
    # Rivals bound the regret from below, whatever is proved of them.
    brief = replace(options, proof="quick", node_limit=BASELINE_NODES, bound_if_stopped=False)
    rivals = Rivals(problem, boxes, solver, brief)
    pool = rivals.pool(rivals.of(result.placement))
    drawn = worlds_of(pool, worlds, options.seed)
    if exact:
        check_phi(problem, pool)
    else:  # better candidates for the worlds where the regret seems largest
        candidates = rivals.enriched(pool, drawn)
        if len(candidates) > len(pool):
            pool = rivals.pool(candidates)
            drawn = worlds_of(pool, worlds, options.seed)
    anew: list[SolvedWorld] = []
    if exact:
        each = each or options
        shared = (result.problem, shared_factors(pool), solver, each, result.placement)
        stop = stopping(each, lambda: False)
        with opened(shared) as runner:
            anew = list(answers(solved_world, [row for _, row in drawn], runner, stop))
    if options.cancel is not None and options.cancel.is_set():  # worlds were not solved
        raise PlacerError("cancelled before the regret was known", exit_code=130)
    return _judged(result, pool, drawn, anew)


def _judged(
    result: Result,
    pool: tuple[Candidate, ...],
    drawn: list[tuple[str, list[float]]],
    anew: list[SolvedWorld],
) -> Robustness:
    """Put the values of all candidates in all worlds together."""
    factors = shared_factors(pool)
    objective, shares = result.objective, [row for _, row in drawn]
    values = values_of(pool, shares)
    solved = [math.nan if answer.value is None else answer.value for answer in anew]
    losses = losses_of(values, objective, solved)
    judged = []
    for w, (kind, row) in enumerate(drawn):
        best = int(losses[w].argmin())
        placement, value = pool[best].placement, float(values[w, best])
        if anew and losses[w, best] > 0:
            placement, value = anew[w].placement or placement, solved[w]
        nothing = math.isnan(value)
        judged.append(
            World(
                shares=tuple(row),
                kind=kind,
                value=pool[0].judged(row)[0],
                best_value=None if nothing else value,
                best=None if nothing else placement,
                regret=float(losses[w, 0]),
                broken=math.isnan(values[w, 0]),
            )
        )
    sampled = [w for w, (kind, _) in enumerate(drawn) if kind == "sample"]
    means = losses[sampled].mean(axis=0)
    steadiest = int(means.argmin()) if means.min() < means[0] - 1e-12 else 0
    proved = all(answer.status.settled for answer in anew)
    return Robustness(
        result=result,
        factors=factors,
        pool=pool,
        worlds=tuple(judged),
        worth=worth_of(pool, factors, [shares[w] for w in sampled], objective),
        exact=bool(anew) and proved,
        steadiest=pool[steadiest].placement,
        steadiest_regret=float(means[steadiest]),
    )
