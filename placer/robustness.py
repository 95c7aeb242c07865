"""The regret of a recommendation: what it may lose against the best placement if prices, links and speeds are not what the book says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from placer.candidates import Candidate, candidates_of
from placer.errors import PlacerError
from placer.estimator import evaluate
from placer.information import Worth, losses_of, values_of, worth_of
from placer.placement import Placement
from placer.problem import Problem
from placer.recommender import BASELINE_NODES, equal_machines
from placer.result import Result, SolveOptions, Status, score
from placer.scenario import apply, parse_changes
from placer.solve import require_pools, solve
from placer.uncertainty import Factor, changes_of, check_count, latin_hypercube
from placer.violations import violations

FRAGILE_REGRET = 0.05
"""Relative regret beyond which a world counts against a recommendation ..."""
FRAGILE_SHARE = 0.10
"""... and the share of such worlds beyond which the recommendation is called fragile."""
FRAGILE_WORST = 0.20
"""Worst relative regret beyond which it is called fragile as well."""
WORLDS = 128
"""Worlds that are drawn unless the user says otherwise."""
MOST_WORLDS = 10_000
RIVALS = 12
"""Best kinds of equal machines that are candidates."""
ENRICHED = 3
"""Worlds of the largest regret in which the pool of candidates is asked for better ones."""
LIMITS = ({"budget"}, {"throughput"}, {"budget", "throughput"}, set())
"""What a candidate may break today: another world may heal it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """One world: a share of the range of each factor, the regret of the recommendation there, and the best placement."""

    shares: tuple[float, ...]
    kind: str
    value: float
    best_value: float
    best: Placement | None
    regret: float
    broken: bool


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """What is known about the regret of one recommendation.

    Notes
    -----
    ``worlds`` are corners of the box and a Latin hypercube sample of it; means and shares are over the sample alone. ``exact``: each
    world was solved and proved, so regrets are exact to the gap; else they are lower bounds, against the best of ``pool``. ``steadiest``
    has the least expected regret in the pool.
    """

    result: Result
    factors: tuple[Factor, ...] = ()
    pool: tuple[Candidate, ...] = field(default=(), repr=False)
    worlds: tuple[World, ...] = field(default=(), repr=False)
    worth: tuple[Worth, ...] = ()
    exact: bool = False
    steadiest: Placement | None = None
    steadiest_regret: float = 0.0

    @property
    def sample(self) -> tuple[World, ...]:
        """Worlds that were drawn."""
        return tuple(world for world in self.worlds if world.kind == "sample")

    @property
    def mean_regret(self) -> float:
        """Mean relative regret over the sampled worlds in which the recommendation keeps its limits."""
        kept = [world.regret for world in self.sample if not world.broken]
        return math.fsum(kept) / len(kept) if kept else 0.0

    @property
    def expected_loss(self) -> float:
        """Mean over all sampled worlds, where a broken limit counts as a regret of 100 %."""
        return math.fsum(world.regret for world in self.sample) / max(1, len(self.sample))

    @property
    def worst(self) -> World | None:
        """World of the largest regret in which the recommendation keeps its limits; None if it keeps them nowhere."""
        return max((world for world in self.worlds if not world.broken), key=lambda world: world.regret, default=None)

    def share(self, of: str) -> float:
        """Share of the sampled worlds where it is ``broken``, ``bad`` (broken, or regret above 5 %) or still ``best``."""
        admits = {
            "broken": lambda w: w.broken,
            "bad": lambda w: w.broken or w.regret > FRAGILE_REGRET,
            "best": lambda w: not w.broken and w.regret <= self.result_gap,
        }[of]
        return sum(1 for world in self.sample if admits(world)) / max(1, len(self.sample))

    @property
    def result_gap(self) -> float:
        """Regret below which a placement counts as best: the gap to which answers are proved."""
        return max(1e-9, self.result.gap or 0.0)

    @property
    def fragile(self) -> bool:
        """Whether it loses more than 5 % in more than 10 % of the worlds, or more than 20 % in the worst."""
        worst = self.worst
        return self.share("bad") > FRAGILE_SHARE or (worst is not None and worst.regret > FRAGILE_WORST)

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.robust/v1`` document: plain types, ready for JSON."""
        from placer.report.robust import robust_document

        return robust_document(self)


def assess(
    problem: Problem,
    boxes: Mapping[str, tuple[float, float]],
    *,
    worlds: int = WORLDS,
    exact: bool = False,
    solver: str = "exact",
    options: SolveOptions | None = None,
) -> Robustness:
    """Solve a question, and ask what its answer loses in other worlds.

    Parameters
    ----------
    problem
        The question.
    boxes
        Ranges by kind, of `placer.uncertainty.parse_boxes`.
    worlds
        Worlds that are drawn, beside the corners.
    exact
        Solve each world anew; else the best of a pool of candidates stands for its best placement.
    solver, options
        As in `placer.solve.solve`; the seed is also that of the sample.

    Raises
    ------
    PlacerError
        If the request admits no machine, or each world is to be solved for samples to target that vary.
    """
    require_pools(problem)
    check_count("worlds", worlds, MOST_WORLDS)
    options = replace(options or SolveOptions(), on_better=None)
    result = solve(problem, solver, options)
    if result.placement is None:
        return Robustness(result=result)
    brief = replace(options, node_limit=BASELINE_NODES, bound_if_stopped=False)
    ranges = dict(boxes)
    pool = candidates_of(problem, _pool(problem, result.placement, ranges, solver, brief), ranges)
    drawn = _worlds(pool, worlds, options.seed)
    if not exact:  # better candidates for the worlds where the regret seems largest
        found = _enriched(problem, pool, drawn, solver, brief)
        if len(found) > len(pool):
            pool = candidates_of(problem, found, ranges)
            drawn = _worlds(pool, worlds, options.seed)
    return _judged(result, pool, drawn, exact, solver, options)


def _judged(
    result: Result, pool: tuple[Candidate, ...], drawn: list[tuple[str, list[float]]], exact: bool, solver: str, options: SolveOptions
) -> Robustness:
    """Put the values of all candidates in all worlds together."""
    problem, factors = result.problem, _factors(pool)
    objective, shares = problem.requirements.objective, [row for _, row in drawn]
    values = values_of(pool, shares)
    answers = [_solved(problem, factors, row, solver, options, result.placement) for row in shares] if exact else []
    solved = [math.nan if answer.value is None else answer.value for answer in answers]
    losses = losses_of(values, objective, solved)
    found = []
    for w, (kind, row) in enumerate(drawn):
        best = int(losses[w].argmin())
        better = bool(answers) and answers[w].value is not None and losses[w, best] > 0
        found.append(
            World(
                shares=tuple(row),
                kind=kind,
                value=pool[0].raw_value(row),
                best_value=solved[w] if better else float(values[w, best]),
                best=answers[w].placement if better else None if math.isnan(values[w, best]) else pool[best].placement,
                regret=float(losses[w, 0]),
                broken=math.isnan(values[w, 0]),
            )
        )
    sampled = [w for w, (kind, _) in enumerate(drawn) if kind == "sample"]
    means = losses[sampled].mean(axis=0)
    steadiest = int(means.argmin()) if means.min() < means[0] - 1e-12 else 0
    return Robustness(
        result=result,
        factors=factors,
        pool=pool,
        worlds=tuple(found),
        worth=worth_of(pool, factors, [shares[w] for w in sampled], objective),
        exact=bool(answers) and all(answer.status in (Status.OPTIMAL, Status.INFEASIBLE) for answer in answers),
        steadiest=pool[steadiest].placement,
        steadiest_regret=float(means[steadiest]),
    )


def _factors(pool: Sequence[Candidate]) -> tuple[Factor, ...]:
    """Factors of a pool, in their order."""
    found = {i: factor for candidate in pool for i, factor in zip(candidate.uses, candidate.factors, strict=True)}
    return tuple(found[i] for i in sorted(found))


def _pool(problem: Problem, chosen: Placement, boxes: dict[str, tuple[float, float]], solver: str, options: SolveOptions) -> list[Placement]:
    """The recommendation, the best of each kind of machine, what local search finds, and answers of worlds that are bad for those before."""
    kinds: dict[tuple[str, str], Placement] = {}
    near = [p for p in equal_machines(problem) if {violation.code for violation in violations(p, problem)} in LIMITS]
    for placement in sorted(near, key=lambda p: score(problem.requirements.objective, evaluate(p, problem))):
        kinds.setdefault((placement.groups[0].device, placement.groups[0].market), placement)
    quick = solve(problem, "local_search", options).placement
    found = [chosen, *list(kinds.values())[:RIVALS], *([] if quick is None else [quick])]
    for kind in ("price", "bandwidth"):  # the whole market at either end
        words = {"price": "price:*:*:spot", "bandwidth": "bandwidth:*:*"}[kind]
        if kind == "price" or problem.requirements.max_regions > 1:
            found += _answers(problem, [f"{words}=x{times}" for times in boxes.get(kind, (0.7, 1.6) if kind == "price" else (0.5, 1.5))], solver, options)
    for _ in range(ENRICHED):  # in the world that is bad for all answers so far, another one is best
        factors = _factors(candidates_of(problem, [found[0], *found[-2:]], boxes))
        bad = _solved(problem, factors, [factor.bad for factor in factors], solver, options, None).placement
        found += [bad] if bad is not None else []
    return list({placement.canonical(): placement for placement in found}.values())


def _answers(problem: Problem, words: Sequence[str], solver: str, options: SolveOptions) -> Iterator[Placement]:
    """Answers in worlds of one change each; a market without what is changed has no such world."""
    for word in words:
        try:
            found = solve(apply(problem, parse_changes([word])), solver, options).placement
        except PlacerError:
            continue
        if found is not None:
            yield found


def _worlds(pool: Sequence[Candidate], worlds: int, seed: int) -> list[tuple[str, list[float]]]:
    """Corners and sample: the book, each figure at either end, each rival at its best while the recommendation is at its worst; then draws."""
    factors = _factors(pool)
    middle = [0.5] * len(factors)
    found = [("book", middle)]
    for i in range(len(factors)):
        found += [("corner", [*middle[:i], end, *middle[i + 1 :]]) for end in (0.0, 1.0)]
    mine = set(pool[0].uses)
    for rival in pool[1:]:
        theirs = set(rival.uses)
        for shared in (0.0, 0.5, 1.0):
            row = []
            for i, factor in enumerate(factors):
                welcome = 1 - factor.bad
                both, neither = i in mine and i in theirs, i not in mine and i not in theirs
                row.append(0.5 if neither else shared if both else welcome if i in theirs else factor.bad)
            found.append(("corner", row))
    found += [("corner", [abs(end - factor.bad) for factor in factors]) for end in (0.0, 1.0)]
    unique = {tuple(row): (kind, row) for kind, row in reversed(found)}
    return [*reversed(unique.values()), *(("sample", row) for row in latin_hypercube(worlds, len(factors), seed))]


def _enriched(
    problem: Problem, pool: Sequence[Candidate], drawn: Sequence[tuple[str, list[float]]], solver: str, options: SolveOptions
) -> list[Placement]:
    """The pool, with what is best in the worlds where its recommendation loses most."""
    factors, rows = _factors(pool), [row for _, row in drawn]
    losses = losses_of(values_of(pool, rows), problem.requirements.objective)[:, 0]
    order = sorted(range(len(rows)), key=lambda w: (-float(losses[w]), w))[:ENRICHED]
    answers = [_solved(problem, factors, rows[w], solver, options, None).placement for w in order]
    placements = [candidate.placement for candidate in pool]
    return list({p.canonical(): p for p in [*placements, *(answer for answer in answers if answer is not None)]}.values())


def _solved(
    problem: Problem, factors: Sequence[Factor], row: Sequence[float], solver: str, options: SolveOptions, start: Placement | None
) -> Result:
    """Answer of one world; samples to target stay as they are."""
    return solve(apply(problem, changes_of(factors, row)), solver, replace(options, start=start))
