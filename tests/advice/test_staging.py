"""Data that is read where it lies, or copied once to a store beside the workers."""

from collections import Counter
from typing import Any

import pytest

import placer
from instances import reading_problem
from placer.advice.recommendation.other_answers import UNPROVED, at_copy
from placer.cost_model.outlook.totals import totals_of
from placer.interface.advisor import Advisor
from placer.problem.contradictions import contradiction
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve
from placer.units import GIB

IMAGES: dict[str, Any] = {
    "figures": "book",
    "startup": 0,
    "data": "backblaze/us-west",
    "data_size": "157GB",
}


def drawn(seed: int) -> Problem | None:
    """Draw a question about data of a known size that may be copied to another store."""
    problem = reading_problem(seed)
    wish = replace(problem.requirements, data_bytes=2e9, passes=30.0, samples=None, deadline_s=None)
    problem = replace(problem, requirements=replace(wish, budget_usd=None))
    return problem if len({store.place for store in problem.catalog.stores}) > 1 else None


def copied(problem: Problem, place: str) -> Problem:
    """Return the question with the data copied to another store."""
    wish = problem.requirements
    return replace(
        problem, requirements=replace(wish, data_store=place, data_source=wish.data_store)
    )


def test_dollars_and_seconds_of_a_copy() -> None:
    """146.2 GiB leave Backblaze for 0.01 USD each and stay a month in Google's store for 0.02: what
    115 M samples share. The way has 16 streams.
    """
    words = {**IMAGES, "data": "gcp/us-central1", "data_source": "backblaze/us-west"}
    got = placer.estimate("resnet50", workers="gcp/us-central1=4xT4:spot", samples="115M", **words)
    problem = Advisor().problem("resnet50", samples="115M", **words)
    copy = problem.data_copy
    assert copy is not None
    gib = 157e9 / GIB
    assert copy.egress_usd == pytest.approx(0.01 * gib)
    assert copy.kept_usd == pytest.approx(0.02 * gib)
    assert copy.usd_per_sample * 115e6 == pytest.approx(copy.usd, rel=1e-9)
    link = problem.network.link("backblaze/us-west", "gcp/us-central1")
    assert copy.seconds == pytest.approx(157e9 / link.speed(16))
    whole = totals_of(got, problem.requirements)
    trained_s = 115e6 / got.effective_samples_per_second.value
    assert whole.seconds.value == pytest.approx(
        trained_s + copy.seconds + problem.requirements.startup_s
    )
    assert got.usd_per_hour.data * trained_s / 3600 == pytest.approx(copy.usd)


def test_no_store_is_better_than_the_bound_and_a_limit_improves_nothing() -> None:
    """Against all stores one by one: the best where it is called optimal, else its bound holds."""
    options, counted = SolveOptions(), Counter[str]()
    for seed in range(30):
        problem = drawn(seed)
        if problem is None or contradiction(problem):
            continue
        best = solve(problem, "exact", options)
        chosen = at_copy(best, "exact", options)
        ahead, values = best.objective, [] if best.value is None else [best.value]
        for place in sorted({store.place for store in problem.catalog.stores}):
            there = copied(problem, place) if place != problem.requirements.data_store else None
            if there is None or contradiction(there):
                continue
            one = solve(there, "exact", options)
            values += [] if one.value is None else [one.value]
        if chosen.value is None:
            assert not values or chosen.status is not Status.INFEASIBLE
            counted["none"] += 1
            continue
        assert chosen.bound is not None
        most = max(values) if ahead.maximised else min(values)
        assert not ahead.better(most, chosen.bound, 1e-6)
        assert best.value is None or not ahead.better(best.value, chosen.value)
        if chosen.status is Status.OPTIMAL:
            assert chosen.value == pytest.approx(most, rel=2e-3)
        for note in chosen.notes:
            if note.message.startswith(UNPROVED):
                assert note.message.endswith(f" {100 * (chosen.gap or 0.0):.2g} % better")
                counted["not proved"] += 1
        counted["copied" if chosen.problem.data_copy else "read"] += 1
        counted[str(chosen.status)] += 1
    assert counted["not proved"] >= 1, counted
    assert counted["copied"] >= 2, counted
    assert counted["read"] >= 7, counted
    assert counted["optimal"] >= 10, counted


def test_a_search_with_a_copy_is_exact() -> None:
    """Every placement, one by one, at the price and the time of a copy."""
    seen = 0
    for seed in range(40):
        problem = drawn(seed)
        places = [] if problem is None else [store.place for store in problem.catalog.stores]
        others = [place for place in places if problem and place != problem.requirements.data_store]
        if problem is None or not others:
            continue
        there = copied(problem, others[seed % len(others)])
        if contradiction(there):
            continue
        every = solve(there, "exhaustive", SolveOptions())
        found = solve(there, "exact", replace(SolveOptions(), gap=0.0))
        assert (found.value is None) == (every.value is None)
        if every.value is not None and found.value is not None:
            assert found.value == pytest.approx(every.value, rel=1e-9)
            seen += 1
    assert seen >= 15, seen


QUESTION: dict[str, Any] = {
    "model": "resnet50",
    "data": "2TB@s3://us-east-1",
    "samples": "100B",
    "budget": "50/h",
    "gpu": "A100-40,A100-80,H100",
}


def test_data_that_must_stay_is_not_copied_away() -> None:
    """The copy of the question above leaves Virginia for Finland."""
    asked = {name: value for name, value in QUESTION.items() if name != "model"}
    kept = placer.recommend("resnet50", keep="raw-data=aws/us-east-1", **asked)
    assert (kept.problem.data_copy, kept.status) == (None, Status.OPTIMAL)


def test_what_no_copy_proves_is_not_called_infeasible() -> None:
    """Nothing fits where the data lies, and the bound on all copies has a placement that none of
    the copies to stores in its place reaches: nothing is proved.
    """
    seen = Counter[str]()
    for seed in (4, 12, 16, 26, 42):
        problem = drawn(seed)
        if problem is None or contradiction(problem):
            continue
        best = solve(problem, "exact", SolveOptions())
        if best.value is None or not best.objective.maximised:
            continue
        floor = replace(problem.requirements, min_samples_per_second=best.value * 1.05)
        raised = replace(problem, requirements=floor)
        if contradiction(raised):
            continue
        chosen = at_copy(solve(raised, "exact", SolveOptions()), "exact", SolveOptions())
        values = [
            solve(copied(raised, store.place), "exact", SolveOptions()).value
            for store in raised.catalog.stores
            if store.place != floor.data_store
        ]
        if any(value is not None for value in values):
            assert chosen.status is not Status.INFEASIBLE
        seen[str(chosen.status)] += 1
    assert {"feasible", "unknown"} <= {*seen}, seen
    assert seen["infeasible"] >= 2, seen
