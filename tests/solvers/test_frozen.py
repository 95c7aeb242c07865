"""The frozen benchmark instances still have the answers that were proved; changes of instance,
formula and solver are told apart.
"""

import json
import math
import sys

import pytest
from certain import certain
from goldens.__main__ import FROZEN
from goldens.outputs import asked, question

from conftest import ROOT
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

sys.path.insert(0, str((ROOT / "tests") / "benchmarks"))

import frozen
import ledger
import solving
from markets import Question

QUICK_CPU_S = 0.5
"""Instances that were proved in less are solved again here."""
LEAST_NODES = 10
"""Nodes of a question whose bounds are worth watching."""
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
LANGUAGE_MODELS = ("gpt-1.3b", "llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b")
BOOK = [row for row in frozen.rows() if row.book_model and row.book_model not in LANGUAGE_MODELS]


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


@pytest.mark.parametrize(
    ("kind", "same", "lost", "priced", "above"),
    [
        ("synchronous", 58, 0.2212, 992, 91.43),
        ("huge", 49, 0.4663, 895, 71.25),
        ("local steps", 20, 0.3374, 1465, 4.82),
    ],
)
def test_a_draft_is_mostly_as_good_as_what_was_proved(
    kind: str, same: int, lost: float, priced: int, above: float
) -> None:
    """Drafts of 60 synchronous questions, of 53 with huge batches and of 24 to the default book
    with local steps, which `exact` had proved: how many lose nothing, what all lose in sum, how
    many placements they price, and how far their bounds are above what was proved, as logarithms.
    """
    plain = [row for row in frozen.rows() if row.types == 30 and row.local_steps is None]
    rows = {
        "synchronous": [row for row in plain if not row.huge],
        "huge": [row for row in plain if row.huge],
        "local steps": [row for row in BOOK if row.local_steps is not None],
    }[kind]
    quick = SolveOptions(proof="quick")
    drafts = [solve(row.question.problem(), options=quick) for row in rows]
    losses = [1 - certain(d.value) / row.optimum for d, row in zip(drafts, rows, strict=True)]
    assert sum(loss <= 0.0011 for loss in losses) >= same  # proved within a gap of 0.001
    assert sum(losses) <= lost
    assert sum(draft.candidates for draft in drafts) <= priced
    gaps = [math.log(certain(d.bound) / row.optimum) for d, row in zip(drafts, rows, strict=True)]
    assert min(gaps) >= 0
    assert sum(gaps) <= above


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
    dearer = replace(first, usd_per_hour=first.usd_per_hour + 0.001)
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
    value, bound = row.optimum, row.bound
    record = {"digest": row.digest, "status": "optimal", "value": value, "bound": bound}
    for changed, word in (
        ({}, "same"),
        ({"digest": "other"}, "drifted"),
        ({"value": bound * 1.01, "bound": bound * 1.02}, "beats the bound"),
        ({"value": value * 0.9, "bound": value * 0.95}, "below the optimum"),
        ({"status": "infeasible", "value": None, "bound": None}, "below the optimum"),
        ({"status": "time_limit", "value": value * 0.5, "bound": bound * 2}, "open"),
    ):
        assert frozen.verdict(row, {**record, **changed}) == word
    # As if the placement had been worth twice as much.
    other = replace(row, optimum=value * 2, bound=bound * 2)
    assert frozen.verdict(other, record) == "repriced"


NODES = {
    name: json.loads(path.read_text(encoding="utf-8")).get("solver", {}).get("nodes", 0)
    for name, words in asked("questions")
    for path in [FROZEN / f"questions/{name}.json"]
}
SEARCHED = {name: words for name, words in asked("questions") if NODES[name] >= LEAST_NODES}


@pytest.mark.parametrize("name", SEARCHED)
def test_searches_take_no_more_nodes_than_frozen(name: str) -> None:
    """A bound that is looser than it was changes no answer, and shows here: `make goldens
    NAMES=questions` says what else changed.
    """
    assert json.loads(question(SEARCHED[name]))["solver"]["nodes"] <= NODES[name]


def test_enough_searches_are_frozen() -> None:
    """All-reduce, leaders, hubs among regions and around them, and regions at their own pace."""
    assert len(SEARCHED) >= 11
