"""The target batch size as a choice: every batch of a range, and what the critical batch says of
large ones.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from conftest import Run
from instances import batch_problem
from placer.cost_model.convergence import batch_factor, multiplier_of
from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.placement import Exchange
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.solving.answer import SolveOptions, Status
from placer.solving.solve import solve
from placer.workload.profile import load_profile

PROOF = SolveOptions(gap=0.0, time_limit_s=3600.0)
RANGE = (8_192, 65_536)


def ask(book: Catalog, **changes: object) -> Problem:
    """Ask for roberta-xlm, whose profile has batches of 32,768."""
    wish = Requirements(gpus=("T4", "A10"), budget_usd_per_hour=5.0, min_workers=2, **changes)  # type: ignore[arg-type]
    return Problem(profile=load_profile("roberta-xlm"), catalog=book, requirements=wish)


def with_batch(problem: Problem, batch: int) -> Problem:
    """The same question with one batch."""
    return replace(problem, requirements=replace(problem.requirements, target_batch_size=batch))


def test_batches_that_are_tried() -> None:
    """The ends and the powers of two between; one batch where it is given."""
    assert Requirements(batch_range=(6_000, 33_000)).open_batches == (
        6_000,
        8_192,
        16_384,
        32_768,
        33_000,
    )
    assert Requirements(batch_range=(8_192, 16_384)).open_batches == (8_192, 16_384)
    assert Requirements(batch_range=(100, 100)).open_batches == (100,)
    assert Requirements(batch_range=(8, 64), target_batch_size=16).open_batches == ()


@pytest.mark.parametrize("chunk", range(10))
def test_a_range_is_the_best_of_its_batches(chunk: int) -> None:
    """160 instances: the value of `exact` over the range is the best that plain enumeration finds
    with any one batch.
    """
    answered = 0
    for seed in range(chunk * 16, chunk * 16 + 16):
        problem = batch_problem(seed)
        values = [
            solve(with_batch(problem, batch), "exhaustive").value
            for batch in problem.requirements.open_batches
        ]
        there = [value for value in values if value is not None]
        answer = solve(problem, "exact", PROOF)
        assert (answer.value is None) == (not there), seed
        if answer.value is None:
            assert answer.status is Status.INFEASIBLE, seed
            continue
        answered += 1
        best = max(there) if problem.requirements.objective == "throughput" else min(there)
        assert answer.value == pytest.approx(best, rel=2e-9, abs=1e-12), seed
        assert answer.status is Status.OPTIMAL, seed
        assert answer.placement is not None
        assert violations(answer.placement, answer.problem) == (), seed
        assert answer.gap == pytest.approx(0.0, abs=3e-9), seed
        assert [row.target_batch_size for row in answer.batches] == [
            *problem.requirements.open_batches
        ], seed
    assert answered >= 2


def test_a_stopped_range_has_an_honest_bound() -> None:
    """Whatever the node limit, no batch of the range has a placement beyond the bound."""
    compared = 0
    for seed in range(500, 540):
        problem = batch_problem(seed)
        stopped, best = (
            solve(problem, "exact", SolveOptions(gap=0.0, node_limit=seed % 20)),
            solve(problem, "exact", PROOF),
        )
        if stopped.bound is None or best.value is None:
            continue
        compared += 1
        if problem.requirements.objective == "throughput":
            assert stopped.bound >= best.value * (1 - 1e-8), seed
        else:
            assert stopped.bound <= best.value * (1 + 1e-8) + 1e-12, seed
    assert compared >= 20


def test_without_a_critical_batch_the_largest_wins(erben: Catalog) -> None:
    """Several workers exchange less often; the other batches are cut by a limit and not better."""
    answer = solve(ask(erben, batch_range=RANGE))
    assert answer.problem.batch == 65_536
    assert [row.value is None for row in answer.batches] == [True, True, True, False]
    assert answer.bound is not None
    assert all(row.bound is not None and row.bound <= answer.bound for row in answer.batches)


def test_a_small_critical_batch_makes_the_smallest_win(erben: Catalog) -> None:
    """With B_crit = 500, 65,536 samples a step need nearly 8 times the samples of 8,192: fast steps
    are worth nothing.
    """
    assert solve(ask(erben, batch_range=RANGE, critical_batch=500)).problem.batch == 8_192


def test_one_machine_takes_the_smallest_batch(erben: Catalog) -> None:
    """It exchanges nothing, so all batches tie."""
    problem = ask(erben, batch_range=RANGE)
    alone = replace(
        problem, requirements=replace(problem.requirements, min_workers=1, max_workers=1)
    )
    assert solve(alone).problem.batch == 8_192


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


def test_speed_that_counts_knows_the_batch(erben: Catalog) -> None:
    """One machine is as fast as before, but only 3/5 of its samples count."""
    problem = with_batch(ask(erben, critical_batch=16_384), 65_536)
    alone = replace(
        problem, requirements=replace(problem.requirements, min_workers=1, max_workers=1)
    )
    got = solve(alone)
    assert got.placement is not None
    outcome = evaluate(got.placement, alone)
    assert outcome.samples_per_second == pytest.approx(outcome.processed_per_second * 3 / 5)
    assert got.value == pytest.approx(outcome.samples_per_second)


@pytest.mark.parametrize("solver", ["greedy", "local_search"])
def test_heuristics_answer_ranges(erben: Catalog, solver: str) -> None:
    """Feasible, without a bound, never better than proved."""
    problem = ask(erben, batch_range=RANGE, critical_batch=20_000)
    best, got = solve(problem), solve(problem, solver)
    assert got.status is Status.FEASIBLE
    assert got.bound is None
    assert got.value is not None
    assert best.bound is not None
    assert got.value <= best.bound * (1 + 1e-9)


def test_documents_hold_the_table(erben: Catalog) -> None:
    """The request has the range and the chosen batch; a saved file is priced again with it."""
    document = json.loads(
        json.dumps(solve(ask(erben, batch_range=RANGE, critical_batch=20_000)).to_saved())
    )
    assert document["request"]["batch_range"] == [*RANGE]
    chosen = document["request"]["target_batch_size"]
    (row,) = [row for row in document["batches"] if row["target_batch_size"] == chosen]
    assert row["status"] == "optimal"
    assert "priced again" in check_document(document, "it")


def test_command_line(run: Run) -> None:
    """The table, the assumption that is said, and the range that is echoed."""
    words = [
        "recommend",
        "--model",
        "roberta-xlm",
        "--catalog",
        "erben-2023",
        "--gpu",
        "T4,A10",
        "--budget",
        "5/h",
        "--workers",
        "2..",
    ]
    done = run(*words, "--tbs", "8Ki..64Ki", columns=200)
    assert done.returncode == 0, done.stderr
    assert "the best of 8,192 to 65,536" in done.stdout
    assert "not better" in done.stdout
    assert "(assumed)" in done.stderr
    assert "--critical-batch" in done.stderr


@pytest.mark.parametrize(
    ("command", "words", "says"),
    [
        ("recommend", ["--tbs", "64K..8K"], "tbs 64000..8000"),
        ("recommend", ["--tbs", "8K.."], "has an open end"),
        ("recommend", ["--tbs", "8K..x"], "tbs 'x' is not a number"),
        ("recommend", ["--critical-batch", "0"], "must be above zero"),
        ("recommend", ["--critical-batch", "20K"], "changes nothing"),
        ("estimate", ["--tbs", "8K..64K", "--workers", "lambda/us-west-1=2xA10"], "is a range"),
    ],
)
def test_bad_batches_are_refused(run: Run, command: str, words: list[str], says: str) -> None:
    """One line that names the word; exit code 2."""
    done = run(command, "--model", "roberta-xlm", "--catalog", "erben-2023", *words, columns=200)
    assert done.returncode == 2
    assert says in done.stderr


def test_contradictions_of_a_range() -> None:
    """A range that is upside down is refused before anything else."""
    with pytest.raises(PlacerError, match=r"tbs 8\.\.4"):
        Requirements(batch_range=(8, 4))
