"""The frozen benchmark instances still have the answers that were proved; changes of instance,
formula and solver are told apart.
"""

from __future__ import annotations

import importlib
import json
import sys
from itertools import pairwise
from math import inf, nan
from pathlib import Path

import msgspec
import pytest

from conftest import ROOT
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

sys.path.insert(0, str((ROOT / "tests") / "benchmarks"))

import drawing
import frozen
import growth
import ledger
import monolith
import one_program
import report
import scheduler
import solving
from by_strategy import searched_classes
from markets import Question

QUICK_CPU_S = 0.5
"""Instances that were proved in less are solved again here."""
EACH = 2
"""Of each kind: of a budget, with or without local steps, one machine or several."""


def quick() -> list[frozen.Frozen]:
    """The quickest frozen instances of each kind."""
    kinds: dict[tuple[object, ...], list[frozen.Frozen]] = {}
    for row in sorted(frozen.rows(), key=lambda row: (row.cpu_s, row.key)):
        if row.cpu_s < QUICK_CPU_S:
            kinds.setdefault(
                (row.budget, row.local_steps, row.huge, row.strategy == "none"), []
            ).append(row)
    return [row for of in kinds.values() for row in of[:EACH]]


QUICK = quick()


@pytest.mark.parametrize(
    "row",
    QUICK,
    ids=lambda row: f"{row.regions}x{row.types}-{row.budget:g}-{row.seed}-{row.local_steps}",
)
def test_frozen_answers_hold(row: frozen.Frozen) -> None:
    """Proved again, within the gap: no value above the frozen bound, no bound below the frozen
    value.
    """
    record = solving.measured(row.question, SolveOptions())
    assert frozen.verdict(row, record) == "same", frozen.AGAIN


def test_the_frozen_set_is_worth_its_name() -> None:
    """Bounds are 0.1 % above the optima at most, questions differ, and placements of several
    machines are among the quick ones.
    """
    rows = frozen.rows()
    assert len({row.key for row in rows}) == len(rows) >= 10
    assert all(row.optimum <= row.bound <= row.optimum * 1.0011 for row in rows)
    assert {row.strategy == "none" for row in QUICK} == {True, False}


def test_an_instance_that_changed_is_told() -> None:
    """One price that moves by 0.1 cent changes the digest; the name of the book and a second
    drawing do not.
    """
    question = Question(regions=4, types=4, budget=5.0, seed=0)
    problem = question.problem()
    digest = ledger.problem_digest(problem)
    assert ledger.problem_digest(question.problem()) == digest
    assert (
        ledger.problem_digest(replace(problem, catalog=replace(problem.catalog, name="other")))
        == digest
    )
    first, *others = problem.catalog.offers
    dearer = msgspec.structs.replace(first, usd_per_hour=first.usd_per_hour + 0.001)
    assert (
        ledger.problem_digest(
            replace(problem, catalog=replace(problem.catalog, offers=(dearer, *others)))
        )
        != digest
    )


def test_verdicts() -> None:
    """Each way in which a later run may differ has its own word; a changed formula is told by the
    price of the frozen placement.
    """
    row = QUICK[0]
    record = {"digest": row.digest, "status": "optimal", "value": row.optimum, "bound": row.bound}
    assert frozen.verdict(row, record) == "same"
    assert frozen.verdict(row, {**record, "digest": "other"}) == "drifted"
    assert (
        frozen.verdict(row, {**record, "value": row.bound * 1.01, "bound": row.bound * 1.02})
        == "beats the bound"
    )
    assert (
        frozen.verdict(row, {**record, "value": row.optimum * 0.9, "bound": row.optimum * 0.95})
        == "below the optimum"
    )
    assert (
        frozen.verdict(row, {**record, "status": "infeasible", "value": None, "bound": None})
        == "below the optimum"
    )
    assert (
        frozen.verdict(
            row,
            {**record, "status": "time_limit", "value": row.optimum * 0.5, "bound": row.bound * 2},
        )
        == "open"
    )
    other = replace(
        row, optimum=row.optimum * 2, bound=row.bound * 2
    )  # as if the placement had been worth twice as much
    assert frozen.verdict(other, record) == "repriced"


def test_freezing_keeps_other_rows_and_unproved_ones_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run with one proved and one stopped question adds one row; another run adds to it; the file
    checks against its own run.
    """
    into, runs = tmp_path / "frozen.csv", []
    for seed in (0, 1):
        question = Question(regions=4, types=4, budget=5.0, seed=seed)
        log = ledger.Ledger(tmp_path / f"{seed}.jsonl")
        log.write(solving.measured(question, SolveOptions()))
        log.write(
            {
                **solving.measured(replace(question, budget=6.0), SolveOptions()),
                "status": "time_limit",
            }
        )
        log.close()
        runs.append(tmp_path / f"{seed}.jsonl")
        frozen.freeze(runs[-1], into)
    kept = frozen.rows(into)
    assert [(row.seed, row.budget) for row in kept] == [(0, 5.0), (1, 5.0)]
    assert all(row.worth() == pytest.approx(row.optimum, rel=1e-12) for row in kept)
    frozen.check(runs[0], into)
    assert "1 not frozen, 1 same" in capsys.readouterr().err
    text = into.read_text(encoding="utf-8").replace(kept[0].digest, "0" * 16)
    into.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=r"differ from frozen\.csv"):
        frozen.check(runs[0], into)


def test_first_and_near_answers() -> None:
    """The last value is 100: 60 comes first, 98 is the first within 3 %."""
    result = solve(Question(regions=4, types=4, budget=5.0, seed=0).problem())
    last = result.value or 0.0
    found = solving.answers(
        [(0.1, 0.2, 0.6 * last), (0.3, 0.4, 0.98 * last), (0.5, 0.6, last)], result
    )
    assert found["first"] == {"cpu_s": 0.1, "wall_s": 0.2, "value": 0.6 * last}
    assert found["near"]["cpu_s"] == 0.3
    assert solving.answers([], result) == {"first": None, "near": None}


def test_searches_are_watched_only_while_asked() -> None:
    """The sums name all-reduce, which the bound of the whole mode does not close here, and the
    classes are as before afterwards.
    """
    exact = importlib.import_module("placer.solvers.exact.branch_and_bound")
    before = {kind: kind.turns for kind in searched_classes(exact)}
    assert len(before) == 4  # all-reduce, regions, hubs, gossip
    record = solving.measured(
        Question(regions=20, types=20, budget=5.0, seed=3), SolveOptions(), by_strategy=True
    )
    assert "all-reduce" in record["by_strategy"]
    assert {kind: kind.turns for kind in searched_classes(exact)} == before


def test_percentiles_are_nearest_ranks() -> None:
    """Of 1..20 the 95th percentile is the 19th, the median the 10th."""
    values = [float(n) for n in range(20, 0, -1)]
    assert [ledger.percentile(values, share) for share in (0.5, 0.95, 1.0)] == [10.0, 19.0, 20.0]
    assert ledger.markdown(["a", "b"], [["x", nan]])[-1] == "| x | - |"


def test_ledgers_that_were_cut_off_are_read(tmp_path: Path) -> None:
    """A last line without its end is left out; a missing file is named."""
    log = ledger.Ledger(tmp_path / "a.jsonl", seeds="0:1")
    log.write({"kind": "question"})
    log.close()
    text = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(text[:-8], encoding="utf-8")
    assert [r["kind"] for r in ledger.read(tmp_path / "a.jsonl")[1]] == ["question", "end"]
    assert [r["kind"] for r in ledger.read(tmp_path / "b.jsonl")[1]] == ["question"]
    with pytest.raises(SystemExit, match=r"no measurements in .*c\.jsonl"):
        ledger.read(tmp_path / "c.jsonl")


ENGINES = ("milp", "cpsat")


@pytest.mark.parametrize("seed", range(4))
def test_the_one_program_bounds_all_reduce(seed: int) -> None:
    """HiGHS and CP-SAT close the program with the same optimum, and it is not below what `exact`
    proves.

    Notes
    -----
    With the presolve that `cpsat` switches off, CP-SAT of OR-Tools 9.15 calls each of these four
    programs infeasible.
    """
    problem = monolith.asked(Question(regions=4, types=6, budget=20.0, seed=seed))
    best = solve(problem, "exact", SolveOptions(gap=1e-6)).value
    assert best is not None
    built = one_program.program_of(problem)
    bounds = []
    for name in ENGINES:
        solved = importlib.import_module(f"placer.solvers.{name}").engine(built.model, 20.0)
        assert solved.status == "optimal", name
        bounds.append(one_program.samples_per_second(solved.bound, built) or inf)
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-4)
    assert min(bounds) >= best * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_a_real_placement_keeps_all_rows(seed: int) -> None:
    """With the machines of the best placement fixed the program is feasible, and takes no more
    seconds than the placement does.
    """
    problem = monolith.asked(Question(regions=6, types=8, budget=30.0, seed=seed))
    best = solve(
        problem, "exact", SolveOptions(gap=1e-6)
    )  # not slower than what `greedy` finds, which bounds the seconds
    assert best.placement is not None
    assert best.estimate is not None
    built = one_program.program_of(problem)
    used = {(g.place, g.instance_type, g.market): g.count for g in best.placement.groups}
    for c, pool in zip(built.counts, problem.pools, strict=True):
        built.model.low[c] = built.model.high[c] = used.get(
            (pool.offer.place, pool.offer.instance_type, pool.offer.market), 0
        )
    solved = importlib.import_module("placer.solvers.milp").engine(built.model, 20.0)
    assert solved.status == "optimal"
    assert solved.bound <= best.estimate.step.total * (1 + 1e-6)


def test_wrong_answers_of_a_solver_are_counted() -> None:
    """Infeasible where 100 is known, or a bound of 99, is wrong; a bound of 100 or none is not."""
    said = [
        {"status": s, "bound": b}
        for s, b in (("infeasible", None), ("optimal", 99.0), ("optimal", 100.0), ("stopped", None))
    ]
    assert [monolith.wrong(record, 100.0) for record in said] == [True, True, False, False]


def test_slope_and_drawing() -> None:
    """Seconds that grow with the square have the slope 2; a drawing has a line, a dot for each
    point, and rises to the right.
    """
    points = [(10.0, 1.0), (20.0, 4.0), (40.0, 16.0)]
    assert growth.slope(points) == pytest.approx(2.0)
    text = drawing.drawn({"a < b": points}, "x", "y")
    assert text.count("<circle") == 3
    assert "a &lt; b" in text
    line = text.split('polyline points="')[1].split('"')[0]
    ends = [tuple(map(float, point.split(","))) for point in line.split()]
    assert all(left[0] < right[0] and left[1] > right[1] for left, right in pairwise(ends))


def test_requests_repeat_and_name_gpus_only_where_they_are_known() -> None:
    """The same number is the same request; budgets lie in 1..100; a profile without GPUs is never
    asked for some.
    """
    models = {"resnet50": True, "niser": False}
    drawn = [scheduler.request(number, models) for number in range(200)]
    assert drawn == [scheduler.request(number, models) for number in range(200)]
    assert all(1 <= float(words["budget"].removesuffix("/h")) <= 100 for words in drawn)
    assert any("gpu" in words for words in drawn)
    assert not any("gpu" in words for words in drawn if words["model"] == "niser")


def test_the_report_says_what_is_missing_and_what_was_cut_off(tmp_path: Path) -> None:
    """One finished, one cut off, the others named as not measured; each table stands with its
    command and commit.
    """
    record = solving.measured(Question(regions=20, types=20, budget=5.0, seed=0), SolveOptions())
    for name in ("solving", "solving-local"):
        log = ledger.Ledger(tmp_path / f"{name}.jsonl", seeds="0:1")
        log.write(record)
        if name == "solving":
            log.close()
    text = report.page(tmp_path)
    assert text.count("| 20 x 20, 5 USD/h | 1/1 |") == 2
    assert text.count("**The run was cut off") == 1
    assert "Not measured: no `scheduler.jsonl`." in text
    commit = json.loads((tmp_path / "solving.jsonl").read_text(encoding="utf-8").splitlines()[0])[
        "commit"
    ]
    assert f"commit {commit}." in text
    (tmp_path / "solving.jsonl").unlink()
    again = report.page(tmp_path, text)  # what was not run again keeps its table
    assert again.count("| 20 x 20, 5 USD/h | 1/1 |") == 2
