"""What tests of documents share: the second implementation beside the model, and forged figures."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from placer.cost_model.estimate import evaluate
from placer.cost_model.limits import violations
from placer.cost_model.reduced_problem import used_problem
from placer.documents.certificate_check import Checked
from placer.documents.checker.case import Case
from placer.documents.checker.dollars import dollars_of
from placer.documents.checker.limits import broken_limits, unread
from placer.documents.checker.seconds import round_of
from placer.documents.manifest import document_digest
from placer.documents.result_parts import placement_document
from placer.documents.saved_result import figures
from placer.documents.validate import examine_document
from placer.problem.placement import Placement
from placer.problem.problem import Problem


def case_of(placement: Placement, problem: Problem) -> Case:
    """Read a placement as it would stand in a file: through JSON, with nothing but what the file
    holds.
    """
    document = json.loads(json.dumps(used_problem(problem, placement).to_dict()))
    given = json.loads(json.dumps(figures(placement, problem), allow_nan=False))
    multiplier = evaluate(placement, problem).multiplier
    return Case(document, placement_document(placement, problem), given, multiplier)


def assert_priced_alike(placement: Placement, problem: Problem) -> None:
    """Both implementations give the same seconds and the same dollars of every component."""
    got, case = evaluate(placement, problem), case_of(placement, problem)
    bill = round_of(case)
    assert bill.seconds == pytest.approx(got.step.total, rel=1e-9), placement
    for name, usd in dollars_of(case, bill).items():
        ours = getattr(got.usd, name)
        assert usd == pytest.approx(ours, rel=1e-9, abs=1e-12 * got.usd.total), (name, placement)
    assert not [*unread(case)], placement


def assert_same_limits(pairs: Iterable[tuple[Placement, Problem]]) -> None:
    """Nothing is broken in one implementation that is not in the other; some placements break a
    limit, and some none.
    """
    seen = {True: 0, False: 0}
    for placement, problem in pairs:
        case = case_of(placement, problem)
        bill = round_of(case)
        usd = dollars_of(case, bill)
        speed = case.batch * case.local_steps / bill.seconds / case.multiplier
        second, first = broken_limits(case, bill, speed, usd), violations(placement, problem)
        assert bool(second) == bool(first), (placement, second, first)
        seen[bool(first)] += 1
    assert min(seen.values()) > 10


def examined(document: Any) -> tuple[str, Checked]:
    """What the check of a file says that it is, and what of it is confirmed and taken on trust."""
    said, checked = examine_document(json.loads(json.dumps(document)), "file.json")
    assert checked is not None
    return said, checked


def fresh(document: Any) -> Any:
    """Copy a document of JSON, ten times as fast as `deepcopy` does."""
    return json.loads(json.dumps(document))


def edited(document: Any, path: str, value: Any) -> Any:
    """A copy of a document with another value, or a function of it, at a path with slashes."""
    made = fresh(document)
    *keys, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    at = made
    for key in keys:
        at = at[key]
    before = at[last]
    at[last] = value(before) if callable(value) else value
    assert at[last] != before
    return made


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """A manifest with the digest of what it now says."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return {**rest, "digest": document_digest(rest)}
