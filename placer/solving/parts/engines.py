"""The best placement whose plan an engine executes as it is priced: the best of all where one does,
else one question for each engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import replanned
from placer.problem.admitted_exchanges import exchanges
from placer.problem.placement import Exchange, Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.answer import SolveOptions, Status
from placer.solving.parts.search import Ask
from placer.solving.result import Result
from placer.workload.engines import ENGINES, engines_of
from placer.workload.inner_plan import InnerPlan

ALONE = "pytorch"
"""Engine of a single worker, whatever exchange several would have."""


def best_executed(problem: Problem, ask: Ask, options: SolveOptions) -> Result:
    """Find the best placement that an engine executes, and prove it; that of the whole question
    where an engine executes its answer, or where nothing that is asked for is executed. Where
    nobody asks for a compression, an engine without that of the model's profile sends messages as
    they are, and the problem of the result asks for that.
    """
    with allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel):
        whole = ask(problem, options)
        if whole.placement is None or not whole.placement.unexecuted:
            return whole
        found: list[Result] = []
        for asked in questions(problem):
            left_s = allowance.current().seconds_left
            hint = _hint(whole.placement, asked)
            own = replace(options, time_limit_s=left_s, start=None, hint=hint)
            answer = ask(asked, own)
            # What an engine executes is some of what was asked, unless it sends other messages.
            same = asked.compression == problem.compression
            found.append(_bounded(answer, whole.bound) if same else answer)
    executed = [each for each in found if each.placement and not each.placement.unexecuted]
    if not executed:
        if options.on_better is not None and whole.value is not None:
            options.on_better(whole.value)
        return whole
    best = _best(executed, found)
    same = best.problem.compression == problem.compression
    kept = replace(best.problem, requirements=replace(best.problem.requirements, engine=""))
    return replace(best, problem=problem if same else kept, limits=options.asked)


def questions(problem: Problem) -> Iterator[Problem]:
    """Yield the question for each engine that does some of what is asked."""
    wish = problem.requirements
    wanted = InnerPlan(
        sharding=wish.sharding or "none",
        tensor_parallel=wish.tensor_parallel or 1,
        precision=wish.precision or "bf16",
    )
    able = engines_of(problem.transport)
    for name, engine in ENGINES.items():
        if engine not in able or engine.lack_inside(wanted):
            continue
        usual = wish.compression or problem.compression in engine.compressions
        compression = wish.compression if usual else engine.compressions[0]
        wished = replace(wish, engine=name, compression=compression)
        asked = replace(problem, requirements=wished)
        if asked.modes:
            yield asked
        elif name == ALONE and max(wish.min_workers, wish.min_regions) == 1:
            yield replace(problem, requirements=replace(wished, max_workers=1))


def _hint(placement: Placement, asked: Problem) -> Placement | None:
    """Return the machines of a placement with a plan of an engine that does its exchange, or else
    with the first exchange of this engine.
    """
    exchange: Exchange | None = replace(placement.exchange, compression=asked.compression)
    if (placement.exchange.strategy, placement.exchange.local_steps) not in asked.modes:
        exchange = next(exchanges(asked, placement.workers_by_place), None)
    if exchange is None:
        return None
    return replanned(replace(placement, exchange=exchange), asked)


def _bounded(answer: Result, bound: float | None) -> Result:
    """Return an answer with a bound that is no looser than another one that holds."""
    if bound is None or answer.status is Status.INFEASIBLE:
        return answer
    if answer.bound is not None and answer.objective.better(bound, answer.bound):
        return answer
    return replace(answer, bound=bound)


def _best(executed: list[Result], found: list[Result]) -> Result:
    """Return the best answer with what is proved of all."""
    objective = executed[0].objective
    value = objective.best([each.value for each in executed if each.value is not None])
    best = next(each for each in executed if each.value == value)
    bounds = [each.bound for each in found if each.status is not Status.INFEASIBLE]
    stopped = [each.status for each in found if each.status.stopped]
    settled = all(each.status.settled for each in found)
    proof = {(row.strategy, row.local_steps): row for each in found for row in each.proof}
    return replace(
        best,
        status=stopped[0] if stopped else best.status if settled else Status.FEASIBLE,
        bound=None if None in bounds else objective.best([b for b in bounds if b is not None]),
        proof=() if stopped else tuple(proof.values()),
        candidates=sum(each.candidates for each in found),
        nodes=sum(each.nodes for each in found),
    )
