"""Every verb with every objective and every limit, on a market of two machines.

What is expected is worked out here by hand: `by_hand` prices an estimate, `HIGHEST` says which way
is up, and `keeps` compares with the limits.
"""

import copy
import importlib
import json
import sys
from collections.abc import Mapping
from functools import partial
from itertools import pairwise, product
from typing import Any

import pytest
from certain import certain
from drawn import drawn

from instances import two_places, wishing
from placer.advice.explanation.explain import Explanation, explain
from placer.advice.frontier import frontier
from placer.advice.recommendation.recommend import recommend
from placer.advice.robustness.candidates import with_phi
from placer.advice.robustness.regret import assess
from placer.advice.robustness.uncertainty import changes_of, parse_boxes
from placer.advice.sweep import parse_axis, run_sweep
from placer.advice.worlds.replan import replan
from placer.advice.worlds.whatif import apply, what_if
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.limits import violations
from placer.documents.manifest.manifest_reader import read_manifest
from placer.documents.schemas.worlds import Observed
from placer.documents.validate import examine_document
from placer.errors import PlacerError
from placer.market.carbon import figure
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import OBJECTIVES
from placer.problem.words.changes import parse_changes
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.cross_check import solved_again, verified
from placer.solving.solve import solve

placements = importlib.import_module("placer.solvers.exhaustive").placements
SAMPLES = 1_000_000
HIGHEST = "throughput"
"""The objective whose highest value is the best; the least is the best of all others."""
GRIDS = {"aws/a": 400.0, "gcp/b": 100.0}
"""g CO2e per kWh."""
LIMITS: dict[str, dict[str, Any]] = {
    "none": {},
    "budget": {"budget_usd_per_hour": 1.2},
    "total-budget": {"budget_usd": 2.0},
    "floor": {"min_samples_per_second": 105.0},
    "deadline": {"deadline_s": SAMPLES / 105.0},
    "carbon": {"max_carbon_g_per_hour": 20.0},
    "budget and floor": {"budget_usd_per_hour": 1.8, "min_samples_per_second": 110.0},
    "deadline and total budget": {"deadline_s": SAMPLES / 110.0, "budget_usd": 5.0},
    "all": {
        "budget_usd_per_hour": 1.5,
        "budget_usd": 3.0,
        "min_samples_per_second": 50.0,
        "deadline_s": SAMPLES / 60.0,
        "max_carbon_g_per_hour": 30.0,
    },
}
TWICE: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"min_samples_per_second": 105.0}, {"deadline_s": SAMPLES / 105.0}),
    ({"most_usd_per_million_samples": 2.0}, {"budget_usd": 2.0}),
)
"""One limit in two spellings: samples/s as a deadline for all, USD for a million as a budget."""
BOXES = parse_boxes(["price=0.5..2", "rate=0.5..2", "bandwidth=0.5..2"])
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
some_objectives = pytest.mark.parametrize("objective", OBJECTIVES[::2])
ALIKE = {"uniform": True, "transport": "nccl"}
every_limit = pytest.mark.parametrize("limit", LIMITS)
twice = pytest.mark.parametrize(("one", "other"), TWICE)
QUESTIONS = [
    pytest.param(({}, ALIKE)[(i + j) // 3 % 2], objective, limit, id=f"{objective}-{limit}")
    for (i, objective), (j, limit) in product(enumerate(OBJECTIVES), enumerate(LIMITS))
    if (i + j) % 3 == 0
]
"""Each objective with three limits, and each limit with two objectives: one mixed, one alike."""
questions = partial(
    pytest.mark.parametrize, ("_software", "objective", "limit"), indirect=["_software"]
)
every_question = questions(argvalues=QUESTIONS)


SOFTWARE: dict[str, Any] = {}
"""Wishes of all questions of a test: machines may be mixed, or are of one kind under NCCL."""


@pytest.fixture(autouse=True, params=[{}, ALIKE], ids=["mixed", "alike"])
def _software(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOFTWARE", request.param)


def market(**wishes: Any) -> Problem:
    """`two_places` for a million samples on up to two machines: T4s of 70 W, grids of `GRIDS`."""
    problem = two_places(**{"max_workers": 2, "samples": SAMPLES, **SOFTWARE, **wishes})
    book = problem.catalog
    regions = {p: replace(r, grid_carbon_g_per_kwh=GRIDS[p]) for p, r in book.regions.items()}
    gpus = {name: replace(gpu, power_w=70.0) for name, gpu in book.gpus.items()}
    return replace(problem, catalog=replace(book, regions=regions, gpus=gpus))


def asked(objective: str, limit: str) -> Problem:
    """The market with an objective and limits."""
    return market(objective=objective, **LIMITS[limit])


def grams(placement: Placement) -> float:
    """G CO2e/h: board power under load, 8 vCPUs a machine, data centre, grid."""
    watts = 70.0 * figure("load", "*").value + 8 * figure("vcpu_w", "gpu").value
    return sum(
        g.count * watts * figure("pue", g.place.split("/")[0]).value * GRIDS[g.place] / 1000
        for g in placement.groups
    )


def by_hand(objective: str, placement: Placement, got: Estimate) -> float:
    """Value of an objective from speed, price and machines alone."""
    speed, usd = got.effective_samples_per_second.value, got.usd_per_hour.total
    return {
        "throughput": speed,
        "cost": usd,
        "cost-per-sample": usd / 3600 / speed * 1e6,
        "total": usd / 3600 / speed * SAMPLES,
        "time": SAMPLES / speed,
        "carbon": grams(placement),
    }[objective]


def worse_by(objective: str, value: float, best: float) -> float:
    """Share of the best value by which another one is worse; negative if it is better."""
    return (best - value if objective == HIGHEST else value - best) / best


def keeps(placement: Placement, got: Estimate, problem: Problem) -> bool:
    """Whether a placement keeps the limits of the request, by plain comparison."""
    wish, speed = problem.requirements, got.effective_samples_per_second.value
    usd, hours = got.usd_per_hour.total, SAMPLES / speed / 3600
    pairs = (
        (usd, wish.budget_usd_per_hour),
        (usd * hours, wish.budget_usd),
        (usd * hours * 1e6 / SAMPLES, wish.most_usd_per_million_samples),
        (3600 * hours, wish.deadline_s),
        (grams(placement), wish.max_carbon_g_per_hour),
        (-speed, None if wish.min_samples_per_second is None else -wish.min_samples_per_second),
    )
    return all(limit is None or used <= limit + 1e-9 * abs(limit) for used, limit in pairs)


def best_by_hand(problem: Problem) -> float | None:
    """Best value over every placement that can be had; None if none keeps the limits."""
    objective = problem.requirements.objective
    priced = [(p, estimate(p, problem)) for p in placements(problem)]
    values = [by_hand(objective, p, got) for p, got in priced if keeps(p, got, problem)]
    return (max if objective == HIGHEST else min)(values, default=None)


def assert_finite(document: Mapping[str, Any]) -> None:
    """No figure of a document is infinite or not a number."""
    json.dumps(document, allow_nan=False)


@every_question
def test_recommend_finds_the_best_value_in_the_unit_of_the_objective(
    objective: str, limit: str
) -> None:
    """The value is plain arithmetic; no placement that keeps the limits is better."""
    problem = asked(objective, limit)
    got = recommend(problem, "exact", SolveOptions(gap=0.0), 4)
    best = best_by_hand(problem)
    assert (got.value is None) == (best is None)
    if got.placement is None or got.estimate is None or best is None:
        assert got.nearest or limit != "none"
    else:
        assert got.value == pytest.approx(by_hand(objective, got.placement, got.estimate))
        assert got.value == pytest.approx(best)
        assert keeps(got.placement, got.estimate, problem)
        assert got.value is not None
        assert got.bound is not None
        assert worse_by(objective, got.value, got.bound) >= -1e-9
    assert_finite(got.to_dict())


def test_the_limits_bind_and_leave_something() -> None:
    """Each limit but none changes the best value of some objective, and each has an answer."""
    if SOFTWARE:
        pytest.skip("machines of one kind leave less to be limited")
    free = {objective: best_by_hand(asked(objective, "none")) for objective in OBJECTIVES}
    for limit in LIMITS:
        values = {objective: best_by_hand(asked(objective, limit)) for objective in OBJECTIVES}
        assert None not in values.values(), limit
        assert (values != free) == (limit != "none"), limit


@some_objectives
@twice
def test_one_limit_in_two_spellings_has_one_answer(
    objective: str, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Recommend, pareto and robust say the same of both; so does explain of what binds."""
    problems = [market(objective=objective, **limit) for limit in (one, other)]
    first, second = (solve(problem) for problem in problems)
    assert first.placement == second.placement
    assert first.value == second.value
    shares = [assess(problem, BOXES, worlds=8) for problem in problems]
    assert [w.broken for w in shares[0].worlds] == [w.broken for w in shares[1].worlds]
    assert [w.regret for w in shares[0].worlds] == [w.regret for w in shares[1].worlds]
    lines = [frontier(problem, points=4).points for problem in problems]
    assert [p.placement for p in lines[0]] == [p.placement for p in lines[1]]
    bound = [explain(problem).binding for problem in problems]
    codes = ("throughput", "deadline", "per-sample", "total-budget")
    rows = [[r for r in b.limits if r.code in codes] for b in bound if b is not None]
    assert [(r.binds, r.gain) for r in rows[0]] == [(r.binds, r.gain) for r in rows[1]]
    assert [r.without and r.without.placement for r in rows[0]] == [
        r.without and r.without.placement for r in rows[1]
    ]


def test_a_limit_that_is_broken_in_some_worlds_is_broken_in_both_spellings() -> None:
    """100 samples/s, halved or doubled, must reach 90; a price may double, and must not."""
    floors = {"min_samples_per_second": 90.0}, {"deadline_s": SAMPLES / 90.0}
    for box, pair in (("rate=0.5..2", floors), ("price=0.5..2", TWICE[1])):
        shares = []
        for limit in pair:
            problem = market(max_workers=1, **limit)
            shares.append(assess(problem, parse_boxes([box]), worlds=64).share("broken"))
        assert shares[0] == shares[1] > 0.1


@every_question
def test_a_world_without_change_has_equal_values_and_no_regret(objective: str, limit: str) -> None:
    """Every price times 1: the kept choice has the value of both answers."""
    got = what_if(asked(objective, limit), parse_changes(["price:*:*=x1"]))
    assert got.before.value == got.after.value == certain(got.kept).value
    assert got.regret == 0.0
    assert_finite(got.to_dict())
    assert "stays the same" in drawn(got)


@every_question
def test_a_better_world_has_no_worse_value_and_a_worse_one_no_better(
    objective: str, limit: str
) -> None:
    """Half the price and double the speed, and the other way round, by plain arithmetic."""
    problem = asked(objective, limit)
    good = what_if(problem, parse_changes(["price:*:*=x0.5", "rate:*=x2"]))
    assert good.before.value is not None
    assert good.after.value is not None
    assert worse_by(objective, good.after.value, good.before.value) <= 1e-9
    bad = what_if(problem, parse_changes(["price:gcp/*:T4=x1.9", "rate:*=x0.9"]))
    kept, world = certain(bad.kept), bad.after.problem
    value = by_hand(objective, kept.placement, certain(kept.estimate))
    assert kept.value == pytest.approx(value)
    assert bool(kept.broken) != keeps(kept.placement, certain(kept.estimate), world)
    if bad.after.value is not None:
        assert worse_by(objective, bad.after.value, good.before.value) >= -1e-9
        if not kept.broken:
            assert bad.regret == pytest.approx(
                max(0.0, worse_by(objective, value, bad.after.value)), abs=2e-3
            )
    for got in (good, bad):
        assert_finite(got.to_dict())
        assert drawn(got)


@every_question
def test_robust_breaks_and_values_as_each_world_says(objective: str, limit: str) -> None:
    """In each world: broken as `violations` say; value and regret by plain arithmetic."""
    problem = asked(objective, limit)
    got = assess(problem, BOXES, worlds=6)
    placement = got.result.placement
    assert placement is not None
    assert len(got.sample) == 6
    for world in got.worlds:
        there = apply(problem, changes_of(got.factors, world.shares))
        values: list[float | None] = []
        for candidate in got.pool:
            exchange = candidate.placement.exchange
            own = with_phi(there, exchange, got.factors, world.shares)
            fits = not violations(candidate.placement, own)
            there_priced = estimate(candidate.placement, own)
            assert fits == keeps(candidate.placement, there_priced, own)
            value = by_hand(objective, candidate.placement, there_priced)
            values.append(value if fits else None)
            if candidate is got.pool[0]:
                assert world.value == pytest.approx(value)
        known = [value for value in values if value is not None]
        assert world.broken == (values[0] is None)
        if values[0] is not None:
            best = max(known) if objective == HIGHEST else min(known)
            assert world.regret == pytest.approx(worse_by(objective, values[0], best), abs=1e-9)
            assert world.best_value == pytest.approx(best)
    assert got.share("broken") == sum(w.broken for w in got.sample) / 6
    assert_finite(got.to_dict())
    text = drawn(got)
    assert ("breaks a limit" in text) == bool(got.share("broken"))


@every_objective
def test_robust_calls_an_answer_fragile_for_every_objective(objective: str) -> None:
    """The budget is one cent above the price, which may double: broken in half of the worlds."""
    free = solve(market(objective=objective, max_workers=1))
    budget = certain(free.estimate).usd_per_hour.total + 0.01
    wishes = {"objective": objective, "max_workers": 1, "budget_usd_per_hour": budget}
    got = assess(market(**wishes), parse_boxes(["price=0.5..2"]), worlds=32)
    assert got.share("broken") == pytest.approx(0.5, abs=0.05)
    assert got.fragile


@every_question
def test_explain_measures_every_gain_by_the_objective_that_was_asked(
    objective: str, limit: str
) -> None:
    """What binds has something better without it; why-not loses; more is worth nothing or more. Of
    each limit the amount that is used stands beside it.
    """
    got = explain(asked(objective, limit), ["gcp/b", "aws/a", "all-reduce"])
    assert got.result.value is not None
    value, (placement, priced), wish = got.result.value, got.result.found, got.problem.requirements
    amounts: dict[str, tuple[float, float | None]] = {
        code: (by_hand(name, placement, priced), getattr(wish, field))
        for name, (field, code) in zip(MEASURES, CODES.items(), strict=True)
    }
    amounts["most-workers"] = placement.workers, wish.max_workers
    for row in certain(got.binding).limits:
        if row.code in amounts:
            assert (row.used, row.limit) == pytest.approx(amounts[row.code])
    for row in certain(got.binding).limits:
        if row.without is not None:
            better = by_hand(objective, row.without.placement, row.without.estimate)
            assert row.gain is not None
            assert row.gain == pytest.approx(-worse_by(objective, better, value))
            assert row.gain > 0
    assert {row.code for row in certain(got.binding).limits} >= codes_of(LIMITS[limit])
    for answer in got.why_not:
        if answer.best_with_it is not None:
            other = by_hand(objective, answer.best_with_it.placement, answer.best_with_it.estimate)
            assert answer.regret is not None
            assert answer.difference == pytest.approx(other - value)
            assert answer.regret == pytest.approx(worse_by(objective, other, value))
            assert answer.regret >= -1e-9
    for worth in got.worth:
        assert worth.gain is None or worth.gain >= 0
    assert_finite(got.to_dict())
    assert_readable(got)


CODES = {
    "budget_usd_per_hour": "budget",
    "budget_usd": "total-budget",
    "min_samples_per_second": "throughput",
    "deadline_s": "deadline",
    "max_carbon_g_per_hour": "carbon",
}
"""Codes of limits in an explanation."""
MEASURES = ("cost", "total", "throughput", "time", "carbon")
"""Objectives that measure what these limit."""


def codes_of(limits: Mapping[str, Any]) -> set[str]:
    """Codes of limits in an explanation."""
    return {CODES[name] for name in limits}


def assert_readable(got: Explanation) -> None:
    """Every section has a sentence, and none names a figure that is none."""
    text = drawn(got)
    assert text
    assert "inf" not in text.replace("infinite", "")
    assert "nan" not in text.split()


@questions(argvalues=[q for q in QUESTIONS if q.values[2] != "none"])
def test_what_nothing_fits_into_is_explained_by_its_least_change(
    objective: str, limit: str
) -> None:
    """Limits a thousand times as tight: each remedy fits without the limits that it names."""
    tight = {
        name: value * 1000 if name.startswith("min_") else value / 1000
        for name, value in LIMITS[limit].items()
    }
    problem = market(objective=objective, **tight)
    got = explain(problem)
    assert got.result.status is Status.INFEASIBLE
    conflict = certain(got.conflict)
    assert {wish.code for wish in conflict.wishes} & codes_of(tight)
    options = [r.best for r in conflict.remedies] + [conflict.together]
    nearest = recommend(problem, "exact", SolveOptions(), 4).nearest
    free = market(objective=objective)
    for option in (*options, *nearest):
        if option is not None:
            assert violations(option.placement, free) == ()
    assert any(option is not None for option in options) or conflict.further is not None
    assert_finite(got.to_dict())
    assert_readable(got)


def test_what_would_fit_has_known_emissions_where_the_least_are_wanted() -> None:
    """Nobody publishes the grid of gcp/b, the cheaper place: no limit given up admits it."""
    for limits in ({"budget_usd_per_hour": 0.01}, {"min_samples_per_second": 1e6}):
        problem = market(objective="carbon", **limits)
        regions = dict(problem.catalog.regions)
        regions["gcp/b"] = replace(regions["gcp/b"], grid_carbon_g_per_kwh=None)
        problem = replace(problem, catalog=replace(problem.catalog, regions=regions))
        nearest = recommend(problem, "exact", SolveOptions(), 4).nearest
        assert nearest
        assert {option.placement.places for option in nearest} == {("aws/a",)}


@every_limit
def test_pareto_keeps_every_limit_and_ends_at_both_optima(limit: str) -> None:
    """Each point keeps the limits; the ends are the cheapest and the fastest placement."""
    problem = asked("throughput", limit)
    got = frontier(problem, points=6)
    assert got.points
    for point in got.points:
        assert keeps(point.placement, point.estimate, problem)
    assert got.points[0].usd_per_hour == pytest.approx(best_by_hand(asked("cost", limit)), 1e-3)
    assert got.points[-1].samples_per_second == pytest.approx(best_by_hand(problem), 1e-3)
    assert_finite(got.to_dict())


@every_question
def test_sweep_solves_each_point_and_gets_no_better_with_the_price(
    objective: str, limit: str
) -> None:
    """Three prices: the one in the middle is today's, and the value never improves with it."""
    problem = asked(objective, limit)
    got = run_sweep(problem, [parse_axis("price:*:*=x0.9,x1,x1.1")])
    values: list[float | None] = [row.get("value") for row in got.rows]
    assert values[1] == solve(problem).value
    for cheap, dear in pairwise(values):
        assert cheap is not None or dear is None
        assert cheap is None or dear is None or worse_by(objective, dear, cheap) >= -1e-9
    assert {row["objective"] for row in got.rows} == {objective}
    assert drawn(got)


NOTHING_SEEN = Observed(
    links="real", rounds=0, speeds=[], samples_per_second=None, exchange_s=None, lost=[]
)


@every_question
def test_replan_keeps_what_is_best_and_moves_by_the_gain_of_the_objective(
    objective: str, limit: str
) -> None:
    """Nothing seen: keep. Price or speed of what runs changes: the gain is what is saved."""
    problem = asked(objective, limit)
    result = solve(problem)
    chosen, _ = result.found
    plan = read_manifest(result.to_manifest(), "plan")
    same = replan(plan, chosen, problem, NOTHING_SEEN)
    assert (same.verdict, same.gain) == ("keep", 0.0)
    assert certain(same.running).value == same.answer.value == result.value
    words = [f"price:{place}:*=x1.5" for place in chosen.places]
    moved = replan(plan, chosen, problem, NOTHING_SEEN, changes=parse_changes(words))
    running = certain(moved.running)
    old = by_hand(objective, chosen, certain(running.estimate))
    assert running.value == pytest.approx(old)
    if moved.gain is not None and moved.answer.value is not None:
        new = moved.answer.value
        saved = (new - old) / new if objective == HIGHEST else (old - new) / old
        assert moved.gain == pytest.approx(saved, abs=1e-9)
        assert moved.gain >= -1e-9
    if moved.answer.value is not None and moved.answer.bound is not None:
        assert worse_by(objective, moved.answer.value, moved.answer.bound) >= -1e-9
    for got in (same, moved):
        assert_finite(got.to_dict())
        assert drawn(got)


@every_question
def test_a_saved_result_is_valid_and_a_bound_that_its_value_beats_is_not(
    objective: str, limit: str
) -> None:
    """Priced again from the file, and confirmed in the unit of the objective. A bound that is worse
    than the value by a tenth is refused, by `validate` and where it is solved again.
    """
    result = solve(asked(objective, limit))
    document = json.loads(json.dumps(result.to_saved(whole=True), allow_nan=False))
    _, checked = examine_document(document, "file")
    units = {
        "throughput": "samples/s",
        "cost": "USD/h",
        "cost-per-sample": "USD per million samples",
        "total": "USD in all",
        "time": "seconds",
        "carbon": "g CO2e/h",
    }
    assert any(units[objective] in text for text in certain(checked).confirmed)
    assert "solved it again" in solved_again(document, "file", "exhaustive")
    forged, value = copy.deepcopy(document), document["objective"]["value"]
    forged["objective"]["bound"] = value * (0.9 if objective == HIGHEST else 1.1)
    with pytest.raises(PlacerError, match="bound"):
        examine_document(forged, "file")
    with pytest.raises(PlacerError, match="is beaten by"):
        solved_again(forged, "file", "exhaustive")


@every_objective
def test_a_second_solver_agrees_and_a_forged_bound_is_contradicted(objective: str) -> None:
    """Enumeration agrees; a bound that its value beats by a tenth is a contradiction."""
    result = solve(asked(objective, "all"))
    verdicts = []
    assert result.value is not None
    for factor in (None, 0.9, 1.1):
        told = result if factor is None else replace(result, bound=result.value * factor)
        second = verified(told, "exhaustive", SolveOptions()).verification
        verdicts.append(certain(second).verdict)
    contradicted = ["agree", "disagree", "agree"]
    assert verdicts == (contradicted if objective == HIGHEST else ["agree", "agree", "disagree"])


@some_objectives
def test_the_best_batch_of_a_range_is_the_best_of_its_batches(objective: str) -> None:
    """Solved for the range, and for each batch alone; the bound holds for all of them. The default
    gap is the tolerance: to the last digit, see tests/solving/test_batch_range.py.
    """
    problem = market(objective=objective, min_workers=2, batch_range=(1024, 4096))
    got = solve(problem)
    values = [
        solve(wishing(problem, target_batch_size=batch)).value
        for batch in problem.requirements.open_batches
    ]
    assert None not in values
    best = (max if objective == HIGHEST else min)(v for v in values if v is not None)
    assert got.value == pytest.approx(best, rel=1e-3)
    assert got.bound is not None
    assert worse_by(objective, best, got.bound) >= -1e-9


@pytest.mark.parametrize("wish", list(product(OBJECTIVES[::2], ("free", "unknown"))))
def test_machines_that_cost_nothing_or_emit_an_unknown_amount_leave_no_infinity(
    wish: tuple[str, str],
) -> None:
    """An owned machine costs nothing, so a loss has no share; one grid's emissions are unknown."""
    objective, kind = wish
    problem = market(objective=objective)
    book = problem.catalog
    if kind == "free":
        offers = tuple(
            replace(o, usd_per_hour=o.usd_per_hour * (o.place != "gcp/b")) for o in book.offers
        )
        changed = replace(problem, catalog=replace(book, offers=offers))
    else:
        regions = dict(book.regions)
        regions["gcp/b"] = replace(regions["gcp/b"], grid_carbon_g_per_kwh=None)
        changed = replace(problem, catalog=replace(book, regions=regions))
    explained = explain(changed, ["aws/a", "gcp/b", "all-reduce"])
    assert_finite(explained.to_dict())
    assert_readable(explained)
    for got in (
        recommend(changed, "exact", SolveOptions(), 4),
        what_if(changed, parse_changes(["objective=carbon"])),
        what_if(changed, parse_changes(["price:aws/*:T4=x0.5"])),
        assess(changed, BOXES, worlds=4),
    ):
        assert_finite(got.to_dict())
