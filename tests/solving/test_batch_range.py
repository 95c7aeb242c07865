"""The target batch size as a choice: every batch of a range, and what the critical batch says of
large ones.
"""

import json
import random
from typing import Any

import pytest

import placer
from instances import (
    batch_problem,
    carbon_problem,
    exchange_problem,
    island_problem,
    loading_problem,
    question,
    server_problem,
    total_problem,
    wishing,
)
from placer.cost_model.convergence import batch_factor, multiplier_of
from placer.cost_model.limits import violations
from placer.documents.schemas.proofs import BatchProof
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.placement import Exchange
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve
from proofs import PROOF


def ask(book: Catalog, **changes: object) -> Problem:
    """Ask for roberta-xlm, whose profile has batches of 32,768."""
    wishes: dict[str, Any] = {"gpus": ("T4", "A10"), "budget_usd_per_hour": 5.0, "min_workers": 2}
    return question("roberta-xlm", book, **wishes, **changes)


def with_batch(problem: Problem, batch: int) -> Problem:
    """The same question with one batch."""
    return wishing(problem, target_batch_size=batch)


@pytest.mark.parametrize("chunk", range(4))
def test_a_range_is_the_best_of_its_batches(chunk: int) -> None:
    """40 instances: the value of `exact` over the range is as good as the best that plain
    enumeration finds at an end or a power of two, and the bound holds for all of them: to the last
    digit, or to 1 % where large batches need more samples and every batch between counts as well.
    """
    answered = 0
    for seed in range(chunk * 10, chunk * 10 + 10):
        problem = batch_problem(seed)
        values = [
            solve(with_batch(problem, batch), "exhaustive").value
            for batch in problem.requirements.open_batches
        ]
        there = [value for value in values if value is not None]
        gap = 0.0 if problem.requirements.critical_batch is None else 0.01
        answer = solve(problem, "exact", SolveOptions(gap=gap, time_limit_s=3600.0))
        assert (answer.value is None) == (not there), seed
        if answer.value is None:
            assert answer.status is Status.INFEASIBLE, seed
            continue
        answered += 1
        best = max(there) if problem.requirements.objective == "throughput" else min(there)
        assert not answer.objective.better(best, answer.value, gap + 2e-9), seed
        assert answer.bound is not None
        assert not answer.objective.beats_bound(best, answer.bound), seed
        assert answer.status is Status.OPTIMAL, seed
        assert answer.placement is not None
        assert violations(answer.placement, answer.problem) == (), seed
        assert answer.gap == pytest.approx(0.0, abs=gap + 3e-9), seed
        tried = {row.target_batch_size for row in answer.batches}
        assert tried == {*problem.requirements.open_batches, answer.problem.batch}, seed
    assert answered >= 2


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 11])
def test_a_range_is_proved_over_every_batch(seed: int) -> None:
    """Drawn ranges of 11 or 26 batches: `exact` with a gap of 0 has the best of plain enumeration
    at every single batch, whatever the strategy, objective, limits and data; the last has islands,
    where each batch that was not tried at first is searched alone.
    """
    problem = short_range(seed)
    low, high = problem.requirements.batch_range or (1, 1)
    answer = solve(problem, "exact", PROOF)
    every = [solve(with_batch(problem, each), "exhaustive").value for each in range(low, high + 1)]
    best = answer.objective.best([value for value in every if value is not None])
    assert answer.value == (None if best is None else pytest.approx(best, rel=3e-9))
    assert answer.status is (Status.INFEASIBLE if best is None else Status.OPTIMAL)
    assert answer.batch_proof is not None
    assert answer.batch_proof.finished
    assert (answer.batch_proof.low, answer.batch_proof.high) == (low, high)
    if problem.island_question is not None:
        assert answer.batch_proof.searches == high - low + 1 - len(answer.batches)


def short_range(seed: int) -> Problem:
    """Draw a market of any kind with a range of few batches."""
    draw = random.Random(f"short {seed}")
    kinds = (
        exchange_problem,
        total_problem,
        carbon_problem,
        loading_problem,
        server_problem,
        island_problem,
    )
    problem = kinds[seed % len(kinds)](seed)
    low = draw.choice([2, 5, 12, 48])
    return wishing(
        problem,
        target_batch_size=None,
        batch_range=(low, low + draw.choice([10, 25])),
        critical_batch=draw.choice([None, 3, 20, 100]),
    )


def test_a_stopped_range_has_an_honest_bound() -> None:
    """Whatever the node limit, no batch of the range has a placement beyond the bound."""
    compared = 0
    for seed in range(500, 516):
        problem = batch_problem(seed)
        stopped, best = (
            solve(problem, "exact", SolveOptions(gap=0.0, node_limit=seed % 20)),
            solve(problem, "exact", SolveOptions(gap=0.01, time_limit_s=3600.0)),
        )
        if stopped.bound is None or best.value is None:
            continue
        compared += 1
        assert not best.objective.better(best.value, stopped.bound, 1e-8), seed
    assert compared >= 8


def test_critical_batch_by_hand(erben: Catalog) -> None:
    """B = 65,536 beside 32,768 with B_crit = 16,384: (16 + 64) / (16 + 32) = 5/3 of the samples;
    local steps come on top.
    """
    problem = with_batch(ask(erben, critical_batch=16_384), 65_536)
    assert batch_factor(problem) == pytest.approx(5 / 3)
    assert batch_factor(with_batch(problem, 32_768)) == 1.0
    assert batch_factor(with_batch(problem, 8_192)) == pytest.approx(0.5)
    plain = multiplier_of(Exchange(strategy="none", compression="fp16"), problem)
    assert plain.value == pytest.approx(5 / 3)
    assert plain.basis == "given"
    local = multiplier_of(
        Exchange(strategy="local-sgd", compression="none", local_steps=16), problem
    )
    assert local.value == pytest.approx(1.05 * 5 / 3)  # 1.05 for 16 local steps
    assert "McCandlish" in local.source


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("low", 4_096, "not the range of the request"),
        ("bound", 2_000.0, "not that of the answer"),
        ("finished", False, "batches of the range are open"),
    ],
)
def test_forged_proofs_of_a_range_are_refused(
    erben: Catalog, key: str, value: object, says: str
) -> None:
    """What is said of all batches has to fit the request, the answer and its status."""
    saved = json.loads(json.dumps(solve(ask(erben, batch_range=(8_192, 16_384))).to_saved()))
    saved["batch_proof"][key] = value
    with pytest.raises(PlacerError, match=says):
        check_document(saved, "it")


def test_a_bound_that_another_batch_beats_is_refused(erben: Catalog) -> None:
    """The answer of the smallest batch, said to be the best of a range that reaches further."""
    best = solve(ask(erben, batch_range=(8_192, 8_192)))
    wish = replace(best.problem.requirements, batch_range=(8_192, 65_536))
    assert best.bound is not None
    proof = BatchProof(low=8_192, high=65_536, bound=best.bound, searches=1, finished=True)
    problem = replace(best.problem, requirements=wish)
    forged = replace(best, problem=problem, batch_proof=proof)
    with pytest.raises(PlacerError, match=r"is beaten by the value .* at batch"):
        check_document(json.loads(json.dumps(forged.to_saved())), "it")


def test_a_batch_that_divides_among_the_ranks_is_tried() -> None:
    """72 GPUs: 512 sequences leave 8 on the fullest, as 576 = 8 x 72 do, which are 12 % more in the
    same time. The ends of the range and its power of two divide nothing. A range ends with its
    last batch, although the next one would be faster.
    """
    words: dict[str, Any] = {"budget": "100/h", "gpu": "H100:8", "places": "gcp/europe-north1"}
    words["figures"] = "book"
    best = placer.recommend("llama-3.1-8b", tbs="480..600", alternatives=False, **words)
    assert best.problem.batch == 576
    assert best.placement is not None
    assert sum(group.gpus for group in best.placement.groups) == 72
    assert {row.target_batch_size for row in best.batches} >= {480, 512, 576, 600}
    short = placer.recommend("llama-3.1-8b", tbs="510..511", alternatives=False, **words)
    assert [row.target_batch_size for row in short.batches] == [510, 511]
