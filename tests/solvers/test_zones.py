"""The search by zones: its rounds are those of the model, its plans keep every limit, and it finds
what drafts alone do not.
"""

import importlib
import math
import random
import time
from typing import Any

import numpy as np
import pytest

from instances import of_workers, question, wishing
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.market.catalog import Catalog
from placer.problem.exchange import traits
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from proofs import WHOLE

ascent, candidates, construction, draft, fleet, zones = (
    importlib.import_module(f"placer.solvers._drafts.{name}")
    for name in ("ascent", "candidates", "construction", "draft", "fleet", "zones")
)
market_of = importlib.import_module("placer.solvers._market.market").Market.of
Mode = importlib.import_module("placer.solvers._mode").Mode
OutOfTimeError = importlib.import_module("placer.solvers._target").OutOfTimeError
Changes, Fleet, Stock, EFFORT = fleet.Changes, fleet.Fleet, fleet.Stock, zones.EFFORT
FOUND = {
    "random": (6, 4.370, 8.149),
    "wide": (6, 26.479, 15.261),
    "exchange": (5, 15.885, 10.006),
    "carbon": (2, -5.679, 5.612),
    "joint": (3, 11.976, 5.171),
    "sized": (16, 15.040, 18.285),
    "used": (0, -0.001, 0.001),
    "server": (11, 47.082, 13.350),
    "island": (16, -11.806, 26.039),
}
"""Answers to 16 draws of each generator, the sum of their logarithms, those of prices below 0, and
a million pairs of slots that are looked at.
"""
FREE = 1e-9
"""Price that stands for none."""
KNOWN = ("local-sgd", "diloco", "streaming-diloco", "model-averaging", "asgd-ga", "all-reduce")


def with_local_steps(problem: Problem, **wishes: object) -> Problem:
    """The same question with local steps 1 to 16 and every strategy open."""
    open_ = {"exchange": "auto", "max_local_steps": 16, "min_local_steps": None, **wishes}
    return wishing(problem, **open_)


def judge(problem: Problem, seconds: float = 600.0) -> Any:
    """A judge that has seen nothing."""
    return construction.judge_of(market_of(problem), SolveOptions(time_limit_s=seconds))


def drawn_fleet(draw: random.Random, market: Any) -> dict[int, int]:
    """One to six places with one or two kinds of machines each."""
    counts: dict[int, int] = {}
    places = draw.sample(range(len(market.places)), draw.randint(1, min(6, len(market.places))))
    for place in places:
        pools = np.flatnonzero(market.place_of == place).tolist()
        for pool in draw.sample(pools, min(len(pools), draw.randint(1, 2))):
            counts[pool] = draw.randint(1, 5)
    return counts


def timed(some_fleet: Any, mode: Any, changes: Any) -> tuple[float, float, str | None]:
    """Samples/s, USD/h and hub of one candidate."""
    some = some_fleet.candidates(changes)
    rounds = some_fleet.stock.rounds.of(mode, some)
    place = some_fleet.stock.market.places[int(some.place[0, rounds.hub[0]])]
    hub = place if traits(mode.strategy).hub else None
    return float(rounds.speed[0]), float(rounds.usd[0]), hub


def default_question(default: Catalog, model: str, **wishes: object) -> Problem:
    """A question on the default book with local steps."""
    return question(model, default, max_local_steps=64, **wishes)


@pytest.mark.parametrize("model", ["roberta-xlm", "llama-3.1-8b"])
@pytest.mark.parametrize("transport", [None, "hivemind", "nccl", "gloo"])
def test_rounds_of_candidates_are_those_of_the_model(
    default: Catalog, model: str, transport: str | None
) -> None:
    """60 fleets, each made from another one by taking machines away and adding some: samples/s and
    USD/h equal `evaluate` to rounding, for every strategy with local steps.
    """
    problem = default_question(default, model, budget_usd_per_hour=500.0, transport=transport)
    if problem.island_question is not None:
        problem = of_workers(problem, 8)
    if not problem.pools:
        pytest.skip("hivemind has no worker that holds this model")
    ask, draw = judge(problem), random.Random(7)
    stock = Stock(ask)
    modes = [mode for mode in problem.modes if mode[0] in KNOWN]
    seen = set()
    for _ in range(60):
        counts = drawn_fleet(draw, ask.market)
        first, last = min(counts), max(counts)
        before = {**counts, last: counts[last] + 2}
        if first != last:
            del before[first]
        name, steps = draw.choice(modes)
        changes = Changes(
            np.array([[last, first]]), np.array([[-2, counts[first] if first != last else 0]])
        )
        mode = Mode(problem, name, steps)
        speed, usd, hub = timed(Fleet(stock, before), mode, changes)
        drafted = draft.Draft.of(counts, (name, steps), (hub, None))
        placement = ask.placement(drafted) if sum(counts.values()) > 1 else None
        if placement is None:  # a single worker exchanges nothing, and some strategies need two
            assert speed == 0  # regions
            continue
        outcome = evaluate(placement, problem)
        assert speed == pytest.approx(outcome.samples_per_second, rel=1e-9), (name, counts)
        assert usd == pytest.approx(outcome.usd.total, rel=1e-9), (name, counts)
        seen.add(name)
    assert len(seen) >= 3


@pytest.mark.parametrize("market", FOUND)
def test_what_is_found_keeps_every_limit(market: str) -> None:
    """With local steps: whatever the search offers breaks no limit, and is worth what the model
    says. It is as good as it was, for no more work.
    """
    answers, worth, work = 0, 0.0, 0.0
    for seed in range(31_000, 31_016):
        problem = with_local_steps(WHOLE[market](seed))
        ask = judge(problem)
        if not ask.market.pools:
            continue
        search = zones.ZoneSearch(ask, replace(EFFORT, work=3e6))
        search.run()
        found, objective, work = ask.target.best, ask.target.objective, work + search.ascent.work
        if found is not None:
            assert violations(found, problem) == (), seed
            value = objective.value(evaluate(found, problem))
            assert value == pytest.approx(ask.target.best_value, rel=1e-12), seed
            answers, worth = answers + 1, worth + objective.sign * math.log(max(value, FREE))
    same, least, most = FOUND[market]
    assert answers == same
    assert worth >= least
    assert work <= most * 1e6


@pytest.mark.parametrize(
    "wishes",
    [
        {"objective": "cost", "min_samples_per_second": 20_000.0},
        {"objective": "cost-per-sample", "min_samples_per_second": 20_000.0},
        {"objective": "carbon", "min_samples_per_second": 20_000.0},
        {"budget_usd_per_hour": 200.0, "min_regions": 5, "max_regions": 6, "max_workers": 8},
        {"max_workers": 12},
    ],
)
def test_every_objective_keeps_or_betters_its_draft(
    default: Catalog, wishes: dict[str, object]
) -> None:
    """The search starts from the best draft, so that no objective loses by it."""
    ask = judge(default_question(default, "resnet50", quota_gpus=8, **wishes))
    construction.construct(ask, construction.NearPlaces(ask))
    before = ask.target.best_key
    zones.ZoneSearch(ask, replace(EFFORT, work=5e6)).run()
    assert ask.target.best_key <= before
    assert ask.target.best is not None
    assert violations(ask.target.best, ask.problem) == ()


def test_the_clock_is_asked_and_nothing_is_lost(default: Catalog) -> None:
    """Stopped after a fifth of a second, the best plan so far is offered all the same."""
    problem = default_question(
        default, "roberta-xlm", budget_usd_per_hour=500.0, quota_gpus=8, transport="hivemind"
    )
    ask = judge(problem)
    search = zones.ZoneSearch(ask, replace(EFFORT, work=1e9, zones=30, deepened=1_000))
    construction.construct(ask, construction.NearPlaces(ask))
    drafted, started = ask.target.best_value, time.monotonic()
    ask.target.deadline = started + 0.5
    with pytest.raises(OutOfTimeError):
        search.run()
    assert time.monotonic() - started < 1.5
    assert ask.target.best_value >= drafted
