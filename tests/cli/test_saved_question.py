"""Commands that ask the question of a saved result: the same answers, changes that are said."""

import json
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import Run

ASKED = ("--model", "roberta-xlm", "--catalog", "erben-2023", "--gpu", "T4,A10", "--budget", "5/h")
SEARCHES = {
    "explain": ("--why-not", "T4"),
    "pareto": ("--points", "3"),
    "whatif": ("--drop", "lambda"),
    "robust": ("--worlds", "8"),
}
"""Commands that search, with what keeps them short."""
COMMANDS = {**SEARCHES, "estimate": ("--workers", "gcp/us-central1=4xT4:spot")}


@pytest.fixture(scope="module")
def file(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Save eight A10 for 4.80 USD/h."""
    path = str(tmp_path_factory.mktemp("saved") / "r.json")
    assert run("recommend", *ASKED, "-o", path).returncode == 0
    return path


def without_seconds(document: Any) -> Any:
    """Leave out how long a search took."""
    if isinstance(document, dict):
        kept = {key: value for key, value in document.items() if key != "seconds"}
        return {key: without_seconds(value) for key, value in kept.items()}
    return [*map(without_seconds, document)] if isinstance(document, list) else document


@pytest.mark.parametrize("name", SEARCHES)
def test_a_saved_question_has_the_answer_of_its_words(run: Run, file: str, name: str) -> None:
    """The file holds the wishes and names the book, of which all offers are asked."""
    words = (*SEARCHES[name], "--json")
    saved, direct = run(name, file, *words), run(name, *ASKED, *words)
    assert (saved.returncode, direct.returncode, saved.stderr) == (0, 0, direct.stderr)
    assert without_seconds(json.loads(saved.stdout)) == without_seconds(json.loads(direct.stdout))


def test_the_saved_answer_is_the_first_row_of_a_comparison(run: Run, file: str) -> None:
    """Eight A10 before what is given by hand; a row that costs more than 5 USD/h says so."""
    done = run("estimate", file, "--workers", "lambda/us-west-1=9xA10", "--json")
    document, saved = json.loads(done.stdout), json.loads(Path(file).read_text(encoding="utf-8"))
    rows = document["placements"]
    assert rows[0]["placement"] == saved["placement"]
    assert [row["violations"] for row in rows] == [[], ["$5.40/h is above the budget of $5.00/h"]]
    assert document["request"] == saved["request"]
    every = json.loads(run("estimate", file, "--every-exchange", "--json").stdout)["placements"]
    assert len({row["placement"]["exchange"] for row in every}) == len(every) > 1


@pytest.mark.parametrize(("machines", "code"), [(8, 0), (9, 2)])
def test_an_estimate_of_what_breaks_limits_is_no_success(
    run: Run, machines: int, code: int
) -> None:
    """Nine A10 exceed a quota of eight; their figures are told all the same."""
    words = (*ASKED[:4], "--quota", "8", "--workers", f"lambda/us-west-1={machines}xA10")
    done = run("estimate", *words)
    assert done.returncode == code
    assert f"{machines} x A10" in done.stdout
    assert ("error: 9 x A10 on_demand in lambda/us-west-1 exceed the quota" in done.stderr) == (
        code == 2
    )
    assert ("ignores these limits" in done.stderr) == (code == 2)


@pytest.mark.parametrize("name", COMMANDS)
def test_words_that_cannot_change_a_question_are_refused(run: Run, file: str, name: str) -> None:
    """One line, and exit code 2."""
    for flag, value in (("--model", "resnet50"), ("--link", "a:b=3Mb/s"))[: 1 + (name == "whatif")]:
        done = run(name, file, *COMMANDS[name], flag, value)
        says = f"error: {flag} together with a saved result"
        assert (done.returncode, done.stderr.splitlines()[0]) == (2, says)


def test_an_explanation_begins_with_the_answer_that_is_known() -> None:
    """A search of a hundredth of a second alone finds less than one of four seconds did; from its
    answer on it is no worse.
    """
    words: dict[str, Any] = {"budget": "50/h", "regions": "2..", "alternatives": False}
    known = placer.recommend("resnet50", time_limit="4s", **words)
    again = placer.explain(known.problem, start=known.placement, time_limit=0.01)
    assert known.value is not None
    assert again.result.value is not None
    assert again.result.value >= known.value * (1 - 1e-9)


def test_defaults_do_not_change_a_saved_question(run: Run, file: str) -> None:
    """The budget of the file holds, and the book as well."""
    settings = {"PLACER_DEFAULT_BUDGET": "1/h", "PLACER_DEFAULT_CATALOG": "phalak-2023"}
    done = run("explain", file, "--why-not", "T4", "--json", columns=200, **settings)
    document = json.loads(done.stdout)
    assert document["request"]["budget_usd_per_hour"] == 5.0
    assert document["data"]["catalog"] == "erben-2023"
    assert f"defaults do not change the question of {file}: " in " ".join(done.stderr.split())
