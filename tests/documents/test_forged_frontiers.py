"""Forged frontiers: every figure of a file is priced again or named as not covered."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from second_opinions import examined, fresh

from conftest import ROOT, Run
from placer.advice.frontier import Ending, Frontier, FrontierPoint
from placer.cost_model.estimate import estimate
from placer.documents.proof_check import UNCOVERED
from placer.documents.validate import examine_document
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.solving.by_hand import place_by_hand

WORDS = ("--model", "roberta-xlm", "--catalog", "erben-2023", "--points", "4")
Path_ = tuple[str | int, ...]


@pytest.fixture(scope="module")
def frontier(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A frontier as the command writes it."""
    path = tmp_path_factory.mktemp("frontier") / "f.json"
    done = run("pareto", *WORDS, "-o", str(path))
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(path.read_text())
    assert len(document["points"]) == 4
    return document


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Paths of all figures and words of a document, empty lists and objects among them."""
    if isinstance(value, dict | list) and value:
        keys = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in keys:
            yield from leaves(part, (*path, key))
    else:
        yield path


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 1.25 + 1 if isinstance(value, float) else value + 1
    if isinstance(value, str):
        return value + "x"
    return [1.0] if isinstance(value, list) else {"x": 1.0} if isinstance(value, dict) else 1.0


def edited(document: dict[str, Any], path: Path_) -> dict[str, Any]:
    """The document with another value at a path."""
    made: dict[str, Any] = fresh(document)
    at: Any = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = changed(at[path[-1]])
    return made


def passes(document: dict[str, Any], path: Path_) -> bool:
    """Whether an edit is neither refused nor of a key that is said not to be covered."""
    try:
        _, checked = examine_document(edited(document, path), "f.json")
    except PlacerError:
        return False
    assert checked is not None
    said = " ".join(line for line in checked.trusted if UNCOVERED in line)
    return not any(str(key) in said for key in path)


def test_what_the_command_writes_holds(frontier: dict[str, Any], run: Run, tmp_path: Path) -> None:
    """Terminal and JSON say what is confirmed, and what is not covered."""
    path = tmp_path / "f.json"
    path.write_text(json.dumps(frontier))
    done = run("validate", str(path))
    assert done.returncode == 0, done.stderr
    assert "every point is priced again" in " ".join(done.stdout.split())
    listed = json.loads(run("validate", str(path), "--json").stdout)
    assert any("most_samples_per_second" in line for line in listed["trusted"])


@pytest.mark.parametrize("number", [0, 2])
def test_every_change_of_a_point_is_found(frontier: dict[str, Any], number: int) -> None:
    """Each figure of the first point, a single machine, and of the third, one at a time: refused,
    but for the two bounds that rest on searches, which are named.
    """
    paths = [("points", number, *path) for path in leaves(frontier["points"][number])]
    assert len(paths) > 40
    assert [path for path in paths if passes(frontier, path)] == []


def test_every_change_of_the_rest_is_found_or_named(frontier: dict[str, Any]) -> None:
    """Request, data, marks, axes and status."""
    parts = {key: value for key, value in frontier.items() if key not in ("points", "problem")}
    paths = list(leaves(parts))
    assert len(paths) > 40
    assert [path for path in paths if passes(frontier, path)] == []


def test_a_doctored_price_is_found(frontier: dict[str, Any]) -> None:
    """An offer of the problem at half its price: the points do not fit it, and if they did, the
    book of the same digest would not.
    """
    document = fresh(frontier)
    for offer in document["problem"]["catalog"]["offers"]:
        offer["usd_per_hour"] /= 2
    with pytest.raises(PlacerError, match="is written as"):
        examine_document(document, "f.json")
    unused = fresh(frontier)
    del unused["points"][1:]
    unused |= {"knee": None, "best_value": 0}
    used = {w["offer"] for w in unused["points"][0]["placement"]["workers"]}
    others = [o for o in unused["problem"]["catalog"]["offers"] if o["instance_type"] not in used]
    others[0]["usd_per_hour"] /= 2
    with pytest.raises(PlacerError, match="in the book 'erben-2023' of the same digest"):
        examine_document(unused, "f.json")


def test_every_change_of_a_job_is_found_or_named(run: Run, tmp_path: Path) -> None:
    """Each figure of the first job of a portfolio beside its result, one at a time."""
    path = tmp_path / "p.json"
    assert run("portfolio", str(ROOT / "examples" / "jobs.toml"), "-o", str(path)).returncode == 0
    document = json.loads(path.read_text())
    job = {key: value for key, value in document["jobs"][0].items() if key != "result"}
    paths = [("jobs", 0, *path) for path in leaves(job)]
    assert len(paths) > 40
    assert [path for path in paths if passes(document, path)] == []
    del document["jobs"][0]["result"]
    with pytest.raises(PlacerError, match="has no problem to price again"):
        examine_document(document, "p.json")


@pytest.mark.parametrize("workers", ["gcp/us-west1=1xT4:on-demand", "gcp/us-west1=2xT4:on-demand"])
def test_a_point_that_another_placement_beats_is_refuted(xlm: Problem, workers: str) -> None:
    """A frontier whose only point is a machine on demand, called proved: spot machines are cheaper
    and as fast.
    """
    placement = place_by_hand(workers, xlm)
    priced = estimate(placement, xlm)
    point = FrontierPoint.of(
        placement,
        priced,
        most_samples_per_second=priced.effective_samples_per_second.value,
        least_usd_per_hour=priced.usd_per_hour.total,
        asked_gap=0.001,
    )
    forged = Frontier(
        problem=xlm,
        points=(point,),
        ending=Ending.POINTS,
        solver="exact",
        gap=0.001,
        seconds=1.0,
        solves=2,
    )
    with pytest.raises(PlacerError, match=r"points\[0\]\..* is .*, but \d+ x "):
        examine_document(json.loads(json.dumps(forged.to_saved())), "f.json")


def test_without_its_problem_a_frontier_says_that_it_is_not_priced(
    frontier: dict[str, Any],
) -> None:
    """As files of older versions are: figures are compared with each other alone."""
    document = {key: value for key, value in frontier.items() if key != "problem"}
    _, checked = examined(document)
    assert "placements, estimates and prices of the points" in checked.trusted[0]
    document = edited(document, ("points", 1, "usd_per_million_samples"))
    with pytest.raises(PlacerError, match=r"points\[1\]\.usd_per_million_samples is written as"):
        examine_document(document, "f.json")
