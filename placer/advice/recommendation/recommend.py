"""The verb `recommend`: solve, then add considered options, baselines, near misses and notes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from placer.advice.recommendation.bottlenecks import MORE_WORKERS, default_limits
from placer.advice.recommendation.equal_machines import (
    Considered,
    Fitting,
    better_equal_machines,
    considered_machines,
    machines_of_a_worker,
    near_misses,
)
from placer.advice.recommendation.notes import (
    WORTH_A_WORD,
    leave_verdict,
    local_verdict,
    notes_of,
    stay_verdict,
    warnings_of,
)
from placer.advice.recommendation.other_answers import (
    BASELINE_NODES,
    nearest,
    preferred,
    short_search,
    solve_changed,
    wanting,
)
from placer.advice.recommendation.own_machines import check_own_pools, own_notes, with_renting
from placer.advice.recommendation.price_risk import bold_option, outlier_sentences, price_risk
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.documents.schemas.proofs import tail_share
from placer.errors import PlacerError
from placer.market.scaled_market import with_scaled_egress
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import OutOfTimeError
from placer.solving.answer import SolveOptions, Status, Warn
from placer.solving.result import ConfidentPlan, Option, Result
from placer.solving.solve import knowing, solve
from placer.solving.wider_proofs import WiderProofs
from placer.units import format_plain, format_usd

Alternatives = bool | Literal["short"]
"""What is looked for beside an answer: all, nothing, or what the short screen shows of it."""
SPREAD_NODES = 10
"""Nodes of the search for unlike machines over two regions to compare with: 50 take three times the
CPU and found up to 12 % more for one of nine questions."""
LOCAL_NODES = 50
"""Nodes of the search for unlike machines with local steps."""
BLIND_NODES = 200
"""Nodes of the search without egress beside an answer in one region: 50 miss what some of the
frozen questions find, 1,000 find no more and take up to 2.7 s.
"""
CONSIDERED_S = 0.22
"""Seconds after the end of the request in which equal machines are still evaluated."""
MIXING = 0.02
"""Relative gain of unlike machines from which it is worth a word."""
LOCAL_STEPS = 16
"""Steps between exchanges that a request without local steps is compared with."""
FIRST_SHARE, DRAFT_SHARE = 1 / 8, 1 / 16
"""Shares of the time after which a search with the usual most workers is left for drafts with more,
and that each of these may take: most questions are proved long before."""


def recommend(
    problem: Problem,
    solver: str = "exact",
    options: SolveOptions | None = None,
    top: int = 8,
    *,
    alternatives: Alternatives = True,
    proofs: WiderProofs | None = None,
    more_workers: bool = False,
) -> Result:
    """Find the best placement and what there is to say about it.

    top: Rows of the considered table.
    alternatives: Whether to look for anything beside the answer. Without, options, baselines, near
        misses, nearest and verdict are empty, and nothing is said of unlike machines; answer,
        proof, warnings and all other notes are the same.
        ``"short"`` leaves two searches out: no verdict on local steps, and no cases of the price
        risk.
    proofs: Answers of earlier questions, one of which may be the answer here or of a question
        beside it; what is proved is added.
    more_workers: Whether the most workers are a default, which grows where it is in the way.
    """
    check_own_pools(problem)
    options = options or SolveOptions()
    with (
        allowance.opened(options.time_limit_s, options.memory_limit_bytes, options.cancel),
        knowing(proofs),
    ):
        if more_workers and _may_grow(problem):
            result = _grown(_started(problem, solver, options), solver, options)
        else:
            result = solve(problem, solver, options)
        result = preferred(result, solver, options)
        return _recommended(result, solver, options, top, alternatives=alternatives)


def _recommended(
    result: Result, solver: str, options: SolveOptions, top: int, *, alternatives: Alternatives
) -> Result:
    problem = result.problem
    if result.placement is None or result.estimate is None:
        near = nearest(problem, solver, options) if alternatives else ()
        warnings = {warning.code: warning for warning in warnings_of(problem, None, None)}
        for fastest in (each for each in near if each.label in ("throughput", "deadline")):
            warnings |= {w.code: w for w in default_limits(problem, fastest.placement)}
        return replace(result, nearest=near, warnings=tuple(warnings.values()))
    placement, figures = result.placement, result.estimate
    stopped = result.status.stopped
    considered: list[Considered] = []
    if alternatives or stopped:
        with allowance.closing(CONSIDERED_S), suppress(OutOfTimeError, MemoryError):
            considered.extend(considered_machines(result, top))
    considered.sort(key=machines_of_a_worker)  # of equals the smaller workers are the plainer
    fitting = [(p, got) for p, got, broken in considered if got is not None and not broken]
    if stopped:
        placement, figures = better_equal_machines(result, fitting) or (placement, figures)
    if problem.requirements.confidence is not None or problem.requirements.expected:
        from placer.advice.confidence.choice import confident  # few questions need it

        plan = confident(result, solver, options)
        if allowance.current().spent:  # the best so far, which says what it reaches
            result = replace(result, status=Status.TIME_LIMIT)
        else:
            _check_confidence(plan, problem)
        first = plan.ranks[0]
        if first.placement != placement:  # it is surer than the proved one: the bound holds
            optimal = result.status is Status.OPTIMAL
            status = Status.FEASIBLE if optimal else result.status
            result = replace(result, status=status, proof=())
        result = replace(result, confidence=plan)
        placement, figures = first.placement, first.estimate
    notes = (*own_notes(problem), *notes_of(problem, placement, figures))
    result = replace(
        result,
        placement=placement,
        estimate=figures,
        notes=(*(result.notes if result.confidence is None else ()), *notes),
        warnings=warnings_of(problem, placement, figures),
    )
    if not alternatives:
        return result
    result = _with_alternatives(
        result, fitting, solver, options, top, short=alternatives == "short"
    )
    misses = near_misses(problem, figures, considered)
    return replace(result, near_misses=(*result.near_misses, *misses))


def _started(problem: Problem, solver: str, options: SolveOptions) -> Result:
    """Search with the usual most workers; where a share of the time proves nothing, spend the rest
    with as many as drafts have use for.
    """
    if options.proof != "full" or options.node_limit is not None:
        return solve(problem, solver, options)
    first = replace(options, time_limit_s=FIRST_SHARE * options.time_limit_s)
    best = replace(solve(problem, solver, first), limits=options.asked)
    if not best.status.stopped or allowance.current().spent:
        return best
    drafting = replace(options.deaf, proof="quick", time_limit_s=DRAFT_SHARE * options.time_limit_s)
    for most in MORE_WORKERS:
        more = wanting(problem, max_workers=most)
        draft = solve(more, solver, replace(drafting, start=best.placement))
        if draft.value is None:  # with even more there may be an answer
            continue
        if best.value is not None and not draft.objective.better(
            draft.value, best.value, options.gap
        ):
            break
        best = draft
    return solve(best.problem, solver, replace(options, start=best.placement))


def _grown(result: Result, solver: str, options: SolveOptions) -> Result:
    """Ask again with more workers while the answer has all that are allowed, or none suffices."""
    best = result
    for most in MORE_WORKERS:
        if most <= best.problem.requirements.max_workers:
            continue
        if not _lacks_workers(result) or allowance.current().spent:
            break
        asked = wanting(result.problem, max_workers=most)
        result = solve(asked, solver, replace(options, start=best.placement))
        if result.placement is None and best.placement is not None:
            break
        best = result
    return best


def _may_grow(problem: Problem) -> bool:
    """Tell whether more workers may be better, and money or time says how many: else the most
    machines are always the fastest.
    """
    wish = problem.requirements
    floor, million = wish.floor_samples_per_second, wish.max_usd_per_million_samples
    limited = (wish.budget_usd_per_hour, million, floor) != (None, None, None)
    return limited and problem.batch > wish.max_workers


def _lacks_workers(result: Result) -> bool:
    """Tell whether an answer has all workers that are allowed, or none suffices for a floor."""
    problem, wish = result.problem, result.problem.requirements
    if not _may_grow(problem):
        return False
    if result.placement is None:
        open_ = result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return open_ and wish.floor_samples_per_second is not None
    return result.placement.workers == wish.max_workers


def _check_confidence(plan: ConfidentPlan, problem: Problem) -> None:
    """Refuse a plan that misses the asked confidence: say what was reached, what to change."""
    wish = problem.requirements
    status = plan.status(wish.budget_usd)
    if status in ("holds", "not-assured"):
        return
    ends = "the deadline" if plan.deadline_hours is not None else "the floor"
    words = f"{ends} in {100 * plan.reached:.1f} % of {plan.scenarios:,} scenarios of spot capacity"
    if status == "over-budget":
        assert plan.tail_usd is not None
        raise PlacerError(
            f"the best of {plan.ladders_tried} plans keeps {words}, but costs "
            f"{format_usd(plan.tail_usd)} in its most expensive "
            f"{format_plain(100 * tail_share(plan.asked))} %, above the budget of "
            f"{format_usd(wish.budget_usd or 0.0)}",
            f"give --budget {plan.tail_usd * 1.0005 + 0.005:.2f}usd, or a lower --confidence",
            exit_code=3,
        )
    market = "" if wish.market == "any" else ", --market any"
    raise PlacerError(
        f"the best of {plan.ladders_tried} plans keeps {words}, below {100 * plan.asked:g} %",
        f"give --confidence {math.floor(1000 * plan.reached) / 10:g}%{market}, or a later deadline "
        f"or lower floor",
        exit_code=3,
    )


def _with_alternatives(
    result: Result, fitting: Fitting, solver: str, options: SolveOptions, top: int, *, short: bool
) -> Result:
    """Add what was considered beside a placement, and what is said about it; see `recommend`."""
    (chosen, _), problem, score = result.found, result.problem, result.objective.score
    stopped = not result.proved
    bold = bold_option(result, solver, options)
    leaves = len(chosen.places) > 1 or stopped or problem.requirements.max_regions == 1
    spread: Option | None = None
    if not leaves:
        asked = wanting(problem, min_regions=max(2, problem.requirements.min_regions))
        shortly = _shortly(problem, solver, options, SPREAD_NODES)
        spread = solve_changed(problem, asked.requirements, *shortly, "spread")
    kinds: dict[tuple[str, str], Placement] = {}
    scores = {placement: score(outcome) for placement, outcome in fitting}
    for placement in sorted(scores, key=scores.__getitem__):
        kinds.setdefault((placement.groups[0].device, placement.groups[0].market), placement)
    ranks = {chosen.canonical(): score(evaluate(chosen, problem))}
    for placement in kinds.values():
        ranks.setdefault(placement.canonical(), scores[placement])
    best = sorted(ranks, key=ranks.__getitem__)[:top]
    renting = with_renting(result, solver, options)
    local = None if stopped or short else best_local(result, solver, options)
    told = [*mixing_notes(result, options)]
    if bold is not None:
        told.append(Warn("bold", f"{bold.placement.in_words} would be {bold.note}"))
    return replace(
        replace(renting, notes=(*renting.notes, *told)),
        price_risk=price_risk(result, fitting, solver, options, cases=not short),
        options=tuple(Option.of(placement, problem) for placement in best),
        baselines=() if stopped else tuple(_baselines(problem, result, solver, options)),
        spread=spread,
        bold=bold,
        verdict=(
            *stay_verdict(result, spread),
            *leave_verdict(result, best_staying(problem, solver, options)),
            *local_verdict(result, local),
            *outlier_sentences(result),
        ),
    )


def best_local(result: Result, solver: str, options: SolveOptions) -> Placement | None:
    """Return the best placement with local steps, if these are open, that is worth a word."""
    wish, value = result.problem.requirements, result.value
    if wish.exchange != "auto" or wish.max_local_steps is not None or wish.max_workers < 2:
        return None
    if value is None or value <= 0 or allowance.current().spent:
        return None
    local = wanting(result.problem, min_local_steps=LOCAL_STEPS, max_local_steps=LOCAL_STEPS)
    worth = value * WORTH_A_WORD if result.objective.maximised else value / WORTH_A_WORD
    asked, shortly = _shortly(local, solver, options, LOCAL_NODES)
    found = solve(local, asked, replace(shortly, beat=worth))
    if found.value is None or not result.objective.better(found.value, worth):
        return None
    return found.placement


def _shortly(
    problem: Problem, solver: str, options: SolveOptions, nodes: int
) -> tuple[str, SolveOptions]:
    """Return who answers a question beside another, and how: a draft of machines of one kind, which
    is as good as a short search of them, or a search of so many nodes.
    """
    shortly = short_search(options, nodes)
    return ("greedy", replace(shortly, proof="quick")) if _by_kind(problem) else (solver, shortly)


def _by_kind(problem: Problem) -> bool:
    """Return whether all workers are machines of one kind, without plans."""
    return problem.uniform and problem.island_question is None


def mixing_notes(result: Result, options: SolveOptions) -> Iterator[Warn]:
    """Yield how much better a draft of unlike machines is, where that is worth a word."""
    problem, value = result.problem, result.value
    if value is None or not _by_kind(problem):
        return
    drafting = replace(options.deaf, start=result.placement, certificate=False)
    drafted = solve(wanting(problem, uniform=False), "greedy", drafting).value
    if drafted is not None and result.objective.better(drafted, value, MIXING):
        gain = abs(result.objective.gain(drafted, value) / value)
        yield Warn(
            code="mixing",
            message=f"unlike machines would be at least {100 * gain:.0f} % better, where software "
            f"divides a step by their speeds: --mixed",
        )


def best_staying(problem: Problem, solver: str, options: SolveOptions) -> Option | None:
    """Return the best placement that leaves data that may move where it is, by a short search."""
    if not problem.requirements.data_moves:
        return None
    staying = problem.requirements.with_data_staying()
    return solve_changed(problem, staying, solver, short_search(options, BASELINE_NODES), "stay")


def _baselines(
    problem: Problem, result: Result, solver: str, options: SolveOptions
) -> Iterator[Option]:
    """Yield what simpler tools would choose, priced truly."""
    if allowance.current().spent:
        return
    chosen, _ = result.found
    blind = egress_blind(result, solver, options)
    if len(chosen.places) == 1:
        yield Option.of(chosen, problem, label="single-region", note="the same", same=True)
    else:
        within = wanting(problem, min_regions=1, max_regions=1)
        single = solve(within, solver, replace(options.deaf, certificate=False)).placement
        if single is not None:
            yield Option.of(single, problem, label="single-region")
    if blind is not None:
        broken = "; ".join(v.message for v in violations(blind, problem))
        same = blind.canonical() == chosen.canonical()
        note = "the same" if same else broken
        yield Option.of(blind, problem, label="egress-blind", note=note, same=same)


def egress_blind(result: Result, solver: str, options: SolveOptions) -> Placement | None:
    """Return what a tool that ignores egress would choose, as far as a short search finds it."""
    problem, value = result.problem, result.value
    sightless = replace(problem, catalog=with_scaled_egress(problem.catalog, 0.0))
    if not _only_regions_pay(result) or value is None or value <= 0:
        nodes = BLIND_NODES if len(result.found[0].places) == 1 else BASELINE_NODES
        short = short_search(options, nodes, result.placement)
        return solve(sightless, solver, short).placement
    # What stays in one region pays no egress, so free egress can only favour several regions.
    spread = wanting(sightless, min_regions=max(2, problem.requirements.min_regions))
    short = replace(short_search(options, BASELINE_NODES), beat=value)
    return solve(spread, solver, short).placement or result.placement


def _only_regions_pay(result: Result) -> bool:
    """Return whether the answer is proved, in one region, and nothing in one region pays egress."""
    problem, wish = result.problem, result.problem.requirements
    if not result.proved or len(result.found[0].places) > 1:
        return False
    if wish.datasets or wish.data_store is not None or ("all-reduce", 1) not in problem.modes:
        return False
    places = sorted(problem.pools.places[1])
    prices = problem.network.prices(places, same_zone=wish.same_zone)
    return wish.max_regions > 1 and not prices.diagonal().any()
