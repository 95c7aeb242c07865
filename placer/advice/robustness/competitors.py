"""Rivals of a recommendation and the worlds in which they meet it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from placer.advice.recommendation.recommend import equal_machines
from placer.advice.robustness.candidates import Candidate, candidates_of, with_phi
from placer.advice.robustness.uncertainty import Factor, changes_of, sampled
from placer.advice.robustness.value_of_information import losses_of, values_of
from placer.advice.worlds.scenario import apply
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import LIMIT_CODES, violations
from placer.cost_model.objective import objective_of
from placer.errors import PlacerError
from placer.problem.exchange import overlaps
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import parse_changes
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve

RIVALS = 12
"""Best kinds of equal machines that are candidates."""
ENRICHED = 3
"""Worlds of the largest regret in which the pool of candidates is asked for better ones."""


def pool_of_rivals(
    problem: Problem,
    chosen: Placement,
    boxes: dict[str, tuple[float, float]],
    solver: str,
    options: SolveOptions,
) -> list[Placement]:
    """Return the candidates: the recommendation first, the best of each kind of machine, what local
    search finds, answers of bad worlds.
    """
    kinds: dict[tuple[str, str], Placement] = {}
    near = [
        p
        for p in equal_machines(problem)
        if {violation.code for violation in violations(p, problem)} <= LIMIT_CODES
    ]
    objective = objective_of(problem.requirements)
    for placement in sorted(near, key=lambda p: objective.score(evaluate(p, problem))):
        kinds.setdefault((placement.groups[0].device, placement.groups[0].market), placement)
    quick = solve(problem, "local_search", options).placement
    placements = [chosen, *list(kinds.values())[:RIVALS], *([] if quick is None else [quick])]
    ends = [f"price:*:*:spot=x{times}" for times in boxes.get("price", (0.7, 1.6))]
    if problem.requirements.max_regions > 1:
        ends += [f"bandwidth:*:*=x{times}" for times in boxes.get("bandwidth", (0.5, 1.5))]
    placements += _answers(problem, ends, solver, options)  # the whole market at either end
    for _ in range(ENRICHED):  # in the world that is bad for all so far, another one is best
        factors = shared_factors(candidates_of(problem, [placements[0], *placements[-2:]], boxes))
        shared = (problem, factors, solver, options, None)
        bad = solved_world(shared, [factor.bad for factor in factors]).placement
        placements += [bad] if bad is not None else []
    return _unlike(placements)


def _unlike(placements: Iterable[Placement]) -> list[Placement]:
    """Return each placement once."""
    return list({placement.canonical(): placement for placement in placements}.values())


def _answers(
    problem: Problem, words: Sequence[str], solver: str, options: SolveOptions
) -> Iterator[Placement]:
    """Yield the answers in worlds of one change each; a market without what is changed has none."""
    for word in words:
        try:
            answer = solve(apply(problem, parse_changes([word])), solver, options).placement
        except PlacerError:
            continue
        if answer is not None:
            yield answer


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
    middle = [0.5] * len(factors)
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
                    0.5 if neither else shared if both else welcome if i in theirs else factor.bad
                )
            drawn.append(("corner", row))
    drawn += [("corner", [abs(end - factor.bad) for factor in factors]) for end in (0.0, 1.0)]
    unique = {tuple(row): (kind, row) for kind, row in reversed(drawn)}
    return [
        *reversed(unique.values()),
        *(("sample", row) for row in sampled(factors, worlds, seed)),
    ]


def enriched(
    problem: Problem,
    pool: Sequence[Candidate],
    drawn: Sequence[tuple[str, list[float]]],
    solver: str,
    options: SolveOptions,
) -> list[Placement]:
    """Return the pool, with what is best in the worlds where its recommendation loses most."""
    factors, rows = shared_factors(pool), [row for _, row in drawn]
    losses = losses_of(values_of(pool, rows), objective_of(problem.requirements))[:, 0]
    order = sorted(range(len(rows)), key=lambda w: (-float(losses[w]), w))[:ENRICHED]
    shared = (problem, factors, solver, options, None)
    answers = [solved_world(shared, rows[w]).placement for w in order]
    found = [answer for answer in answers if answer is not None]
    return _unlike([*(candidate.placement for candidate in pool), *found])


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
        factor.words.partition(":")[2] for factor in shared_factors(pool) if factor.kind == "phi"
    ]
    several = [name for name in varied if names.count(name) > 1]
    if several:
        raise PlacerError(
            f"samples to target of {several[0]} vary with its local steps, so worlds cannot be "
            f"solved one by one",
            "add --box phi=1..1, name one number with --local-steps, or leave out --exact",
        )
