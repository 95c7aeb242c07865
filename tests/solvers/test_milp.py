"""`milp` and `cpsat`: their formulation equals plain enumeration, solvers that lie or die
are caught, and `--verify` says so.
"""

import importlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import pytest
from certain import certain
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import PROCESS_TIMEOUT_S, ROOT
from instances import (
    function_at,
    island_problem,
    question,
    random_problem,
    store_at,
    total_problem,
    two_places,
    wide_problem,
)
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.errors import PlacerError
from placer.interface.advisor import recommend
from placer.market.catalog import Catalog
from placer.problem.datasets import Dataset
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Kept, Requirements
from placer.records import replace
from placer.solving import cross_check as verify
from placer.solving.answer import Answer, SolveOptions, Status
from placer.solving.solve import solve
from proofs import MARKETS, PROOF

cpsat, milp, child, linear, selftest, split, frames, site_groups, rounds = (
    importlib.import_module(f"placer.solvers.{name}")
    for name in (
        "cpsat",
        "milp",
        "_programs.child_process",
        "_programs.linear",
        "_programs.selftest",
        "_programs.split",
        "_programs.frame",
        "_programs.site_groups",
        "_programs.rounds",
    )
)
ENGINES: dict[str, Any] = {"milp": milp.engine, "cpsat": cpsat.engine}


def total_by_speed(seed: int) -> Problem:
    """Draw limits in total; least time is searched as the most samples/s, as `solve` does."""
    problem = total_problem(seed)
    wish = problem.requirements
    objective = "throughput" if wish.objective == "time" else wish.objective
    return replace(problem, requirements=replace(wish, objective=objective))


def gossiping(seed: int) -> Problem:
    """Draw regions that go at their own pace, every other time of islands."""
    problem = (island_problem if seed % 2 else wide_problem)(seed)
    return replace(problem, requirements=Requirements(exchange="asgd-ga", max_local_steps=8))


ANY = ("random", "wide", "exchange", "ring")
LIMITED = ("total", "carbon")
"""Deadlines, dollars in total and emissions."""
PRICED: dict[str, Callable[[int], Problem]] = {
    name: MARKETS[name] for name in (*ANY, *LIMITED, "used", "server", "vcpus")
}
PRICED |= {"total": total_by_speed, "islands": island_problem, "gossip": gossiping}
WORTH = (49.25, 42.93, 85.19, 59.72, 57.43, 73.72, 49.11, 108.98, 45.29, 55.25, 40.93)
REACHED = dict(zip(PRICED, WORTH, strict=True))
"""Goals of programs over what the placements are worth, summed up: a looser program shows here."""


def assert_same(problem: Problem, engine: Any, seed: int) -> bool:
    """Status and value are those of plain enumeration, the bound is not beaten by the optimum;
    whether there is a placement.
    """
    oracle = solve(problem, "exhaustive")
    answer = split.search(problem, PROOF, engine, draft=False)
    assert answer.status == oracle.status, seed
    assert (answer.placement is None) == (oracle.value is None), seed
    if answer.placement is None or oracle.value is None:
        return False
    assert violations(answer.placement, problem) == (), seed
    value = oracle.objective.value(evaluate(answer.placement, problem))
    assert value == pytest.approx(oracle.value, rel=2 * split.LEAST_GAP, abs=1e-12), seed
    assert answer.bound is not None
    assert oracle.objective.gain(oracle.value, answer.bound) <= 1e-9 * abs(oracle.value), seed
    return True


@pytest.mark.parametrize("market", [*ANY, *LIMITED, "used", "server"])
def test_the_formulation_equals_plain_enumeration(market: str) -> None:
    """15 instances of each kind with `milp`: all strategies, objectives, budgets, floors, quotas,
    local steps, placed data, limits in total, emissions, required machines; 8 with servers of 1 to
    96 vCPUs.
    """
    seeds = range(300, 308 if market == "server" else 315)
    assert sum(assert_same(PRICED[market](seed), milp.engine, seed) for seed in seeds) >= 3


@pytest.mark.parametrize("market", ANY)
def test_cpsat_equals_plain_enumeration(market: str) -> None:
    """4 instances of each kind: the same programs, the other solver."""
    same = [assert_same(PRICED[market](seed), cpsat.engine, seed) for seed in range(400, 404)]
    assert any(same)


def _placed(part: Any, counts: dict[int, int]) -> Placement | None:
    """Return the placement of counts by pool; None if it breaks a limit."""
    site_group, frame = site_groups.SiteGroup(part), part.frame
    own = [counts.get(id(pool), 0) for pool in site_group.pools]
    placement: Placement | None = split.placement_of(site_group, own, frame)
    there = placement is not None and not violations(placement, frame.problem)
    return placement if there else None


def _least_goal(part: Any, counts: dict[int, int], *, coarse: bool = False) -> float:
    """Return the bound of the program of a part where the machines of each pool are given."""
    site_group = site_groups.SiteGroup(part, coarse=coarse)
    (rounds.coarse_program if coarse else rounds.program)(site_group)
    for name, pool in zip(site_group.counts, site_group.pools, strict=True):
        site_group.model.low[name] = site_group.model.high[name] = counts.get(id(pool), 0)
    solved = milp.engine(site_group.model, 10.0)
    assert solved.status == "optimal", (part, counts)
    return float(solved.bound)


@pytest.mark.parametrize("market", PRICED)
def test_no_program_is_above_a_placement_of_its_part(market: str) -> None:
    """Whatever the exchange and the objective: with the machines of a placement given, the program
    of all its hubs, of numbers of workers around its own, of rounds up to 1, 1.2 or 3 times as long
    and of goals as good as its own has a goal no worse than what the model says that the placement
    is worth; so has the coarse program of all places at once. Neither is further below it than it
    was. Sums of servers of many vCPUs are seldom what a round waits for: of these three times as
    many are drawn.
    """
    draw, compared, seeds, reached = random.Random(11), 0, iter(range(500, 1200)), 0.0
    while compared < (120 if market == "server" else 40):
        problem = PRICED[market](seed := next(seeds))
        for frame, _ in product(split.frames(problem), range(4)):
            pools = [pool for pool in problem.pools if pool.place in frame.places]
            chosen = draw.sample(pools, min(draw.randint(1, 3), len(pools)))
            counts = {id(pool): draw.randint(1, min(3, pool.max_count)) for pool in chosen}
            workers = sum(counts.values())
            single = frames.Part(frame=draw.choice(frame.singles), low=workers, high=workers)
            placement = _placed(single, counts)
            if placement is None or frame.regions not in {None, len(placement.places)}:
                continue
            outcome = evaluate(placement, problem)
            if not outcome.samples_per_second:  # some place with data has no worker
                continue
            worth = _goal(objective_of(problem.requirements).value(outcome), frame)
            part = frames.Part(
                frame=frame,
                low=draw.randint(1, workers),
                high=workers + draw.randint(0, 2),
                most_s=outcome.step.total * draw.choice((1 + 1e-9, 1.2, 3.0)),
                most_goal=draw.choice((worth * (1 + 1e-6), inf)),
            )
            for coarse in (False, True):
                least = _least_goal(part, counts, coarse=coarse)
                assert least <= worth * (1 + 1e-6) + 1e-12, (seed, placement, coarse)
                reached += least / worth if worth else 1.0
            compared += 1
    assert reached >= REACHED[market] - 0.01


@pytest.mark.parametrize("transport", ["nccl", "hivemind"])
@pytest.mark.parametrize("machines", [(1, 1), (2, 2), (3, 1), (1, 4)])
def test_averages_of_two_places_have_their_own_price(
    machines: tuple[int, int], transport: str
) -> None:
    """In a ring each place has one edge to the other, and one less than its workers inside; a
    butterfly joins every two workers, and its program covers fewer workers too. With machines and
    seconds of a round given, the least USD/h is what the model says.
    """
    problem = two_places(
        objective="cost", transport=transport, same_zone=False, exchange="all-reduce", min_workers=2
    )
    (frame,) = split.frames(problem)
    assert frame.exchange.in_ring == (transport == "nccl")
    counts = {id(pool): n for pool, n in zip(problem.pools, machines, strict=True)}
    workers = sum(machines)
    part = frames.Part(frame=frame, low=workers if transport == "nccl" else 2, high=workers)
    placement = certain(_placed(part, counts))
    outcome = evaluate(placement, problem)
    part = replace(part, most_s=outcome.step.total * (1 + 1e-6))
    assert outcome.usd.total > outcome.usd.compute * 1.01
    assert _least_goal(part, counts) == pytest.approx(outcome.usd.total, rel=1e-4)


def test_a_store_is_read_by_the_function_and_the_workers_alone() -> None:
    """Two like machines put their gradients at once, so no poll finds nothing: where reads are
    most of the price, the least USD/h is what the model says.
    """
    problem = two_places(objective="cost", exchange="central", min_workers=2)
    home = problem.catalog.regions["gcp/b"]
    dear = replace(store_at(home), usd_per_thousand_reads=100.0)
    catalog = replace(problem.catalog, functions=(function_at(home),), stores=(dear,))
    problem = replace(problem, catalog=catalog)
    (frame,) = split.frames(problem)
    counts = {id(problem.pools[1]): 2}
    part = frames.Part(frame=frame, low=2, high=2)
    outcome = evaluate(certain(_placed(part, counts)), problem)
    part = replace(part, most_s=outcome.step.total * (1 + 1e-6))
    assert outcome.usd.storage > outcome.usd.total / 2
    assert _least_goal(part, counts) == pytest.approx(outcome.usd.total, rel=1e-4)


@pytest.mark.parametrize(
    ("machines", "status"), [((2, 0), "optimal"), ((0, 2), "optimal"), ((1, 1), "infeasible")]
)
def test_what_must_stay_in_a_place_keeps_it_apart(machines: tuple[int, int], status: str) -> None:
    """Gradients that stay in aws/a leave it to itself, and gcp/b too, but not both together."""
    kept = (Kept(kind="gradients", area="a", places=("aws/a",)),)
    problem = two_places(exchange="all-reduce", kept=kept)
    (frame,) = split.frames(problem)
    site_group = site_groups.SiteGroup(frames.Part(frame=frame, low=2, high=2, most_s=3600.0))
    rounds.program(site_group)
    for name, n in zip(site_group.counts, machines, strict=True):
        site_group.model.low[name] = site_group.model.high[name] = n
    assert milp.engine(site_group.model, 10.0).status == status


@pytest.mark.parametrize("steps", [1, 8])
def test_a_hub_waits_for_the_place_with_most_data(steps: int) -> None:
    """Of data that stays 3,000 samples are in aws/a and 1,000 in gcp/b: with a machine in each, the
    least seconds of a round are what the model says, steps of aws/a included.
    """
    problem = two_places(
        exchange="model-averaging", max_local_steps=steps, min_workers=2, datasets=_staying()
    )
    frame = next(frame for frame in split.frames(problem) if frame.local_steps == steps)
    counts = {id(pool): 1 for pool in problem.pools}
    part = frames.Part(frame=frame, low=2, high=2)
    seconds = evaluate(certain(_placed(part, counts)), problem).step
    assert seconds.calculation > seconds.communication
    assert _least_goal(part, counts) == pytest.approx(seconds.total, rel=1e-6)


def test_data_that_may_reach_no_machine_has_no_program() -> None:
    """What lies in a store of aws/a stays there, and the only machine is in gcp/b: no place is
    left, and no speed for a step that its exchange overlaps.
    """
    kept = (Kept(kind="raw-data", area="a", places=("aws/a",)),)
    problem = two_places(exchange="all-reduce", overlap=True, kept=kept, data_store="s")
    book = problem.catalog
    stores = (store_at(book.regions["aws/a"]),)
    problem = replace(
        problem,
        catalog=replace(book, stores=stores, offers=book.offers[1:]),
        profile=replace(problem.profile, bytes_per_sample=1000),
    )
    (frame,) = split.frames(problem)
    site_group = site_groups.SiteGroup(frames.Part(frame=frame, low=2, high=2, most_s=3600.0))
    rounds.program(site_group)
    assert frame.places == ()
    assert site_group.model.hopeless


def _staying() -> tuple[Dataset, ...]:
    return tuple(
        Dataset(place=place, samples=samples, may_move=False)
        for place, samples in (("aws/a", 3000), ("gcp/b", 1000))
    )


def _goal(value: float, frame: Any) -> float:
    """Return the goal of a program at a value of the objective: seconds of a round, USD/h, grams
    an hour, or for prices of samples USD/h times the seconds of a round.
    """
    wish, counted = frame.problem.requirements, frame.samples / frame.multiplier
    if wish.objective == "throughput":
        return float(counted / value)
    priced = {"cost-per-sample": 1e6, "total": wish.samples}.get(wish.objective)
    return value * counted * 3600 / priced if priced else value


def test_a_stopped_search_has_a_true_bound() -> None:
    """After 2 programs of an instance no placement beats the bound, if there is one."""
    bounds = 0
    for seed in range(30):
        problem = random_problem(seed)
        stopped = split.search(problem, SolveOptions(gap=0.0, node_limit=2), milp.engine)
        best = solve(problem, "exhaustive")
        if stopped.bound is None or best.value is None:
            continue
        bounds += 1
        assert best.objective.gain(best.value, stopped.bound) <= 1e-9 * abs(best.value), seed
    assert bounds > 5


def test_a_coarse_program_leaves_time_for_the_search(default: Catalog) -> None:
    """On a large market the coarse program of an exchange may take a quarter of 40 s: 10 s."""
    allowed: list[float] = []

    def noted(model: Any, seconds: float) -> Any:
        allowed.append(seconds)
        return milp.engine(model, seconds)

    problem = question("roberta-xlm", default, gpus=("T4",))
    split.search(problem, SolveOptions(time_limit_s=40.0, node_limit=0), noted, draft=False)
    assert {*allowed} == {10.0}


@pytest.mark.parametrize("name", ENGINES)
def test_a_known_program(name: str) -> None:
    """Least x + y / 2 + 2 with x + y >= 4.2, x whole to 5, y 0.5 to 3.5: x = 1, y = 3.2, 4.6."""
    got = ENGINES[name](_program(4.2), 10.0)
    assert got.status == "optimal"
    assert got.values == pytest.approx((1.0, 3.2), abs=1e-5)
    assert got.bound == pytest.approx(4.6, abs=1e-5)
    assert ENGINES[name](_program(8.6), 10.0).status == "infeasible"  # 5 + 3.5 is less


def _program(least: float) -> Any:
    model = linear.Model()
    x, y = model.variable(0, 5, whole=True), model.variable(0.5, 3.5)
    model.at_least({x: 1.0, y: 1.0}, least)
    model.goal = {x: 1.0, y: 0.5, -1: 2.0}
    return model


@pytest.mark.parametrize("most", [1e4, 0.0])
def test_only_the_solvers_own_words_are_proofs(most: float) -> None:
    """Five rows that 40 coins can hardly split in halves, with some over or not: PuLP calls a run
    of HiGHS that timed out "Optimal", CP-SAT has a solution or none. None is a proof, and no value
    is read.
    """
    draw, model = random.Random(1), linear.Model()
    coins = [model.variable(0, 1, whole=True) for _ in range(40)]
    for _ in range(5):
        worth = [float(draw.randrange(100)) for _ in coins]
        over, under = model.variable(0, most), model.variable(0, most)
        half = dict(zip(coins, worth, strict=True))
        model.equal({**half, over: 1.0, under: -1.0}, sum(worth) // 2)
        model.goal |= {over: 1.0, under: 1.0}
    for engine in ENGINES.values():
        stopped = engine(model, 0.2)
        assert (stopped.status, stopped.values) == ("stopped", ())
        assert stopped.bound <= 19  # which HiGHS has found after a second


@pytest.mark.parametrize(
    ("budget", "most"), [(None, 7), (1.2, 2), (2.19, 3), (2.21, 3), (2.81, 4), (99.0, 7), (0.5, 0)]
)
def test_no_more_workers_than_the_budget_pays_for(budget: float | None, most: int) -> None:
    """Up to three T4 of gcp/b for 0.60 USD/h each, then up to four of aws/a for 1.00."""
    problem = two_places(budget_usd_per_hour=budget)
    counts = {"gcp/b": 3, "aws/a": 4}
    offers = [replace(each, available=counts[each.place]) for each in problem.catalog.offers]
    problem = replace(problem, catalog=replace(problem.catalog, offers=tuple(offers)))
    assert split.most_workers(problem) == most


def test_values_that_break_a_row_are_not_read() -> None:
    """A solver that says optimal with values outside its program stops the search: no answer, and
    no claim that there is none.
    """
    model = _program(4.2)
    assert not linear.broken(model, (1.0, 3.2))
    assert linear.broken(model, (1.0, 3.0))  # 4.0 < 4.2
    assert linear.broken(model, (1.5, 3.2))  # not whole
    assert linear.broken(model, (0.8 + 5.0, 0.5))  # above 5
    assert linear.broken(model, (5.0, 0.0))  # below 0.5

    def liar(model: Any, seconds: float) -> Any:
        return linear.Solved(
            status="optimal", bound=0.0, values=tuple(high + 7.0 for high in model.high)
        )

    problem = replace(random_problem(0), requirements=Requirements(min_workers=2, max_workers=4))
    assert split.search(problem, PROOF, liar).status is Status.TIME_LIMIT


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            *(st.floats(-1e6, 1e6), st.floats(0, 1)),
            *(st.floats(1e-3, 1e6), st.floats(0, 1), st.booleans()),
        ),
        min_size=1,
        max_size=8,
    ),
    st.floats(0, 10),
)
def test_rounding_keeps_every_point(
    rows: list[tuple[float, float, float, float, bool]], slack: float
) -> None:
    """Whatever keeps a row keeps the rounded row in whole numbers: costs were rounded down, the
    limit up. No term is larger than the scale of rows. The same costs as a goal are rounded down.
    Both are weaker by no more than the module says: 2e-6 of the largest term for each continuous
    variable, and next to nothing for a whole one.
    """
    model, point = linear.Model(), list[float]()
    for _, share, size, start, whole in rows:
        low, span = (0.0, float(int(size))) if whole else (start * size, size)
        model.variable(low, low + span, whole=whole)
        point.append(int(share * span) if whole else low + share * span)
    steps = cpsat.step_sizes(model)
    terms = {n: coefficient for n, (coefficient, *_) in enumerate(rows)}
    limit = sum(c * x for c, x in zip(terms.values(), point, strict=True)) + slack
    row, most = cpsat.scaled(terms, limit, model, steps)
    columns = zip(point, model.low, steps, strict=True)
    whole_point = [int((x - low) / step) for x, low, step in columns]
    for value, low, high, step in zip(row.values(), model.low, model.high, steps, strict=True):
        # Rounding down adds at most one for each step.
        assert abs(value) * (high - low) / step <= cpsat.SCALE + 2 * cpsat.STEPS
    units = sum(x for x, whole in zip(point, model.whole, strict=True) if whole)
    weaker = 2e-6 * model.whole.count(False) + 2**-40 * (units + len(rows) ** 2 + 2)
    kept = most - sum(value * whole_point[n] for n, value in row.items())
    assert 0 <= kept <= cpsat.SCALE * (weaker + slack / max(abs(limit), 1e-200))
    model.goal = {**terms, linear.CONSTANT: slack}  # at the point as much as the limit
    goal, offset, unit = cpsat.scaled_goal(model, steps)
    least = sum(value * whole_point[n] for n, value in goal.items()) / unit + offset
    largest = max(abs(c) * high for c, high in zip(terms.values(), model.high, strict=True))
    assert -2 * weaker * largest - 1e-12 <= least - limit <= 1e-9 * largest + 1e-12


def test_rounding_hardly_weakens_a_row() -> None:
    """At most 50 of 100 coins: the whole row allows 50, one unit more that its limit is rounded up
    by, and one for each pair of terms that are added up.
    """
    model = linear.Model()
    coins = [model.variable(0, 1, whole=True) for _ in range(100)]
    row, most = cpsat.scaled(dict.fromkeys(coins, 1.0), 50.0, model, cpsat.step_sizes(model))
    assert most == 50 * row[coins[0]] + 1 + 100**2


def test_a_build_that_lies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS is right in all tiny programs; an engine that says "infeasible" is wrong in those that
    have a solution. The child names what went wrong, its time included.
    """
    kept: list[bool] = []

    def noted(model: Any, seconds: float) -> Any:
        solved = milp.engine(model, seconds)
        kept.append(solved.status == "optimal")
        return solved

    assert selftest.wrong_answers(noted) == 0
    nothing = linear.Solved(status="infeasible")
    assert selftest.wrong_answers(lambda *_: nothing) == sum(kept) < len(kept) == 60
    monkeypatch.setattr(milp, "engine", lambda *_: nothing)
    with pytest.raises(SystemExit, match=f"^{sum(kept)} of 60 tiny programs got a wrong answer"):
        selftest.complain("milp")
    assert selftest.check_in_child("none").endswith("No module named 'placer.solvers.none'")
    monkeypatch.setattr(selftest, "SECONDS", 0.01)
    assert selftest.check_in_child("milp") == "the self-test did not end in 0 s"


BETTER = (
    "from placer.solvers._programs.child_process import begin, say; import os, signal, time;"
    "begin(); say(started=True);"
)
FOUND = (
    "say(better=2.0, bound=3.0, candidates=7, placement={'groups': [], 'exchange': "
    "{'strategy': 'none', 'compression': 'fp16'}});"
)


def hurried(monkeypatch: pytest.MonkeyPatch, body: str) -> Answer:
    """Run a child with some body, a limit of 0.3 s and a grace of 0.3 s."""
    monkeypatch.setattr(child, "GRACE_S", 0.3)
    got = child.run_child("the solver 'x'", {}, SolveOptions(time_limit_s=0.3), BETTER + body)
    assert isinstance(got, Answer)
    return got


def test_a_child_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last word counts: the placement, its bound and the status time_limit."""
    got = hurried(monkeypatch, FOUND + "time.sleep(60)")
    assert (got.status, got.bound, got.candidates) == (Status.TIME_LIMIT, 3.0, 7)
    assert got.placement is not None
    assert hurried(monkeypatch, "time.sleep(60)").placement is None


def test_a_child_that_crashes_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it found anything it is an error that names the signal, later the best so far with its
    bound.
    """
    crash = "os.kill(os.getpid(), signal.SIGSEGV)"
    with pytest.raises(PlacerError, match="its process ended with SIGSEGV"):
        hurried(monkeypatch, crash)
    assert hurried(monkeypatch, FOUND + crash).bound == 3.0
    with pytest.raises(PlacerError, match="ValueError: odd"):
        hurried(monkeypatch, "raise ValueError('odd')")


def test_a_child_has_so_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0.5 GiB of address space a block of 1 GiB is refused, and the error says which limit it
    was.
    """
    monkeypatch.setenv("PLACER_SOLVER_MEMORY_GIB", "0.5")
    with pytest.raises(PlacerError, match=r"more than 0\.5 GiB of memory"):
        hurried(monkeypatch, "bytearray(2**30)")
    monkeypatch.setenv("PLACER_SOLVER_MEMORY_GIB", "much")
    with pytest.raises(PlacerError, match="PLACER_SOLVER_MEMORY_GIB is 'much'"):
        child.memory_gib()


PARENT = """
import sys
from placer.solving.answer import SolveOptions
from placer.solvers._programs import child_process
body = {body!r}
print(child_process.run_child("x", {{}}, SolveOptions(time_limit_s=60), body).status, flush=True)
"""


def parent_of(body: str, pid: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a parent whose child writes its own process id into a file."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(body=body)], env=env, stdout=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not pid.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return parent, int(pid.read_text())


def gone(pid: int) -> bool:
    """Whether a process has ended within 5 s; one that nobody has waited for yet has ended."""
    for _ in range(250):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path: Path, blow: signal.Signals) -> None:
    """After Ctrl-C the parent has an answer; after SIGKILL it has none; the child is gone either
    way.
    """
    pid = tmp_path / "pid"
    writes = (
        f"open({str(pid) + '.part'!r}, 'w').write(str(os.getpid()));"
        f"os.rename({str(pid) + '.part'!r}, {str(pid)!r}); time.sleep(60)"
    )
    parent, below = parent_of(BETTER + FOUND + writes, pid)
    parent.send_signal(blow)
    said, _ = parent.communicate(timeout=PROCESS_TIMEOUT_S)
    assert said.strip() == ("time_limit" if blow is signal.SIGINT else "")
    assert gone(below)


def test_a_second_solver_agrees(erben: Catalog) -> None:
    """On the book of Erben et al. `milp`, told nothing, proves the same 1,060 samples/s for 5
    USD/h; the document says so.
    """
    result = recommend(
        "roberta-xlm", budget="5/h", catalog=erben, quota=8, verify="milp", time_limit=3600
    )
    found = result.verification
    assert found is not None
    assert (found.verdict, found.status) == ("agree", Status.OPTIMAL)
    assert found.value == pytest.approx(result.value)
    assert result.to_dict()["verification"]["verdict"] == "agree"


def test_contradictions_are_loud(erben: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second bound below the first value, or a second "infeasible", is a warning with both
    values; an unproved word is open.
    """
    problem = question("roberta-xlm", erben, budget_usd_per_hour=5.0)
    first = solve(problem, "exact")
    assert first.value is not None
    none = replace(first, placement=None, estimate=None, bound=None, status=Status.INFEASIBLE)
    for second, verdict in (
        (replace(first, bound=first.value * 0.9), "disagree"),
        (none, "disagree"),
        (replace(first, status=Status.TIME_LIMIT, bound=first.value * 2), "open"),
        (replace(none, status=Status.UNKNOWN), "open"),
        (first, "agree"),
    ):
        monkeypatch.setattr(verify, "solve", lambda *_, second=second: second)
        got = verify.verified(first, "cpsat", SolveOptions())
        assert got.verification is not None
        assert got.verification.verdict == verdict
        assert [w.code for w in got.warnings] == (["disagreement"] if verdict == "disagree" else [])

    def fails(*_: object) -> None:
        raise PlacerError("the solver 'cpsat' failed: SIGSEGV")

    monkeypatch.setattr(verify, "solve", fails)
    assert [w.code for w in verify.verified(first, "cpsat", SolveOptions()).warnings] == [
        "unverified"
    ]
