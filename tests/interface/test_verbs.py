"""One contract for every verb: its example runs, its words are told everywhere, and Python, command
line and service give one answer.
"""

import doctest
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from conforming import validate
from jsonschema import Draft202012Validator
from served import BOOK, QUESTION

import placer
from conftest import Run
from placer.documents.schemas import schema_document
from placer.errors import PlacerError
from placer.interface.advisor import Advisor, compare
from placer.interface.replay import watch
from placer.interface.verb import described, verb_of
from placer.problem.words.wishes import WISHES
from placer.service.questions.words import NOT_ASKED, VERBS, words_of

PUBLIC = [getattr(placer, name) for name in placer.__all__]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: described(f) for f in (*PUBLIC, compare, watch) if hasattr(f, "declared")
}
PLACED = "gcp/us-central1=4xT4:spot"
COMMANDS = {
    "simulate": "estimate",
    "compare": "estimate",
    "sweep": "whatif --over",
    "replan": "whatif --observed",
    "replay": "capacity replay",
    "watch": "capacity watch",
    "forecast_capacity": "capacity forecast",
    "diff": "report --diff",
}
"""Commands of verbs that are not named as the verb."""
ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "recommend": ({}, ""),
    "estimate": ({"workers": PLACED}, f"--workers {PLACED}"),
    "compare": (
        {"placements": [PLACED], "every_exchange": True},
        f"--every-exchange --workers {PLACED}",
    ),
    "explain": ({"budget": "0.01/h"}, "--budget 0.01/h"),
    "pareto": ({"points": 3}, "--points 3"),
    "whatif": ({"set": ["budget=2/h"]}, "--set budget=2/h"),
    "robust": ({"worlds": 8}, "--worlds 8"),
}
"""For each verb a question of its own words in Python, and the same on the command line."""


def timeless(document: Any) -> Any:
    """Take out what differs between two runs: seconds of the search."""
    if isinstance(document, dict):
        return {k: timeless(v) for k, v in document.items() if k not in ("seconds", "nodes")}
    return [timeless(one) for one in document] if isinstance(document, list) else document


def test_every_verb_is_here() -> None:
    """Those of the service, and each public function that takes wishes."""
    assert {*VERBS} <= {*FUNCTIONS}
    assert {*ASKED, "replan", "portfolio", "diff", "export", "bill"} == {*VERBS}
    assert {"portfolio", "replay", "sweep", "robust", "simulate"} <= {*FUNCTIONS}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_runs(name: str) -> None:
    """What the documentation shows is what comes."""
    function = FUNCTIONS[name]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    module = sys.modules[function.__module__]
    for test in doctest.DocTestFinder(recurse=False).find(function, name, module=False):
        test.globs = dict(vars(module))
        runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_signature_has_every_word(name: str) -> None:
    """With its type and default, no `**words` is left, and `help()` lists each."""
    function, verb = FUNCTIONS[name], verb_of(FUNCTIONS[name])
    parameters = inspect.signature(function).parameters
    assert {*parameters} == {*verb.rows, *verb.wishes}
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    text = function.__doc__ or ""
    for row in verb.rows.values():
        assert parameters[row.name].default == row.default
        assert re.search(rf"^    {row.name}( : .*)?$", text, re.MULTILINE)
    for wish in (WISHES[each] for each in verb.wishes):
        assert parameters[wish.name].default == (False if wish.is_flag else wish.default)
        assert name == "estimate" or f"* {wish.name}: " in text
    if hasattr(Advisor, name):
        assert inspect.signature(getattr(Advisor(), name)) == inspect.signature(function)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_help_of_the_command_names_each_word(name: str, run: Run) -> None:
    """With what the entry says of it, but those that only Python takes or the command answers."""
    shown = " ".join(run(*COMMANDS.get(name, name).split(), "--help", "all").stdout.split())
    verb = verb_of(FUNCTIONS[name])
    inner = {"portfolio": {*verb.rows} - {"budget", "objective", "gap", "time_limit"}}
    arguments = {*verb.needed, "workers", "placements", "alternatives"} - {"machines"}
    for row in verb.rows.values():
        if not row.here and row.name not in arguments | inner.get(name, set()):
            assert (row.flags or (f"--{row.name.replace('_', '-')}",))[-1] in shown
    assert all(WISHES[wish].flag in shown for wish in verb.wishes)


@pytest.mark.parametrize("name", ASKED)
def test_python_command_line_and_service_agree(name: str, client: httpx2.Client, run: Run) -> None:
    """Word for word, apart from seconds; and the answer follows its schema."""
    own, words = ASKED[name]
    placed = name in ("estimate", "compare")
    body = {**QUESTION, **own}
    if placed:
        del body["budget"]
    options = f"--model roberta-xlm --catalog {BOOK} {words}"
    options += "" if placed or "--budget" in words else f" --budget {QUESTION['budget']}"
    done = run(*COMMANDS.get(name, name).split()[:1], *options.split(), "--json")
    printed = json.loads(done.stdout)
    answer = client.post(f"/v1/{name}", json=body)
    assert answer.status_code == 200, answer.text
    assert timeless(answer.json()) == timeless(printed)
    in_python = json.loads(json.dumps(FUNCTIONS[name](**body).to_dict()))
    assert timeless(in_python) == timeless(printed)
    schema = schema_document(verb_of(FUNCTIONS[name]).document)
    Draft202012Validator(schema).validate(printed)


JOBS = """
catalog = "erben-2023"
quota = {A10 = 1, T4 = 8}
[defaults]
model = "roberta-xlm"
min-throughput = "300/s"
market = "on-demand"
places = "lambda,gcp/us-central1"
[[job]]
name = "one"
[[job]]
name = "two"
"""


def test_saved_answers_and_jobs_agree(tmp_path: Path, client: httpx2.Client, run: Run) -> None:
    """A portfolio, what changes between two results, and launch files: what the command line reads
    from files is sent whole, and the texts that come are those that it writes.
    """
    files = {name: tmp_path / f"{name}.json" for name in ("before", "after", "plan")}
    asked = ("--model", "roberta-xlm", "--catalog", BOOK)
    run("recommend", *asked, "--budget", "2/h", "-o", str(files["before"]))
    words = ("--budget", "5/h", "-o", str(files["after"]), "--manifest", str(files["plan"]))
    run("recommend", *asked, *words)
    before, after, plan = (json.loads(path.read_text()) for path in files.values())
    jobs = tmp_path / "jobs.toml"
    jobs.write_text(JOBS)
    top = tomllib.loads(JOBS)
    rows = [{**top["defaults"], **job} for job in top["job"]]
    shared = {"catalog": BOOK, "quota": top["quota"], "jobs": rows}
    diff = {"before": before, "after": after, "fail_on": ["cost>10%"]}
    made = tmp_path / "made"
    for name, body, command in (
        ("portfolio", shared, ("portfolio", str(jobs))),
        (
            *("diff", diff),
            ("report", "--diff", *map(str, list(files.values())[:2]), "--fail-on", "cost>10%"),
        ),
        (
            *("export", {"manifest": plan, "target": "torchrun"}),
            ("export", str(files["plan"]), "--to", "torchrun", "--dir", str(made)),
        ),
    ):
        printed = json.loads(run(*command, "--json").stdout)
        answer = client.post(f"/v1/{name}", json=body)
        assert answer.status_code == 200, answer.text
        in_python = json.loads(json.dumps(FUNCTIONS[name](**body).to_dict()))
        document = answer.json()
        assert timeless(document) == timeless(in_python)
        validate(document, verb_of(FUNCTIONS[name]).document)
        if name == "diff":
            for side in ("before", "after"):
                document[side]["name"] = f"{side}.json"
            assert document["failed"] == ["cost>10%"]
        if name == "export":
            texts = {row["name"]: row.pop("text") for row in document["files"]}
            assert texts == {path.name: path.read_text() for path in made.iterdir()}
            document |= {"dir": str(made), "written": True}
        assert timeless(document) == timeless(printed)


@pytest.mark.parametrize("name", VERBS)
def test_the_service_describes_each_word(name: str) -> None:
    """A body may have what Python takes, but functions, objects, files and processes."""
    verb = VERBS[name]
    here = {row.name for row in verb.rows.values() if row.here} | {*NOT_ASKED.get(name, ())}
    assert {*words_of(name)} == ({*verb.rows} | {*verb.wishes}) - here
    for schema in words_of(name).values():
        Draft202012Validator.check_schema(schema)
        assert schema["description"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_word_that_no_verb_has_is_refused(name: str) -> None:
    """With the nearest one that exists."""
    verb = verb_of(FUNCTIONS[name])
    given = dict.fromkeys(verb.needed, "x")
    with pytest.raises(PlacerError, match="unknown word 'catalgo'"):
        FUNCTIONS[name](**given, catalgo="x")


def test_a_replay_has_the_prices_of_the_book_that_is_named(tmp_path: Path) -> None:
    """Four T4 of Oregon cost 0.18 USD/h each on spot in the book of 2023, and not today."""
    trace = tmp_path / "trace.csv"
    rows = [f"2026-11-01T{hour:02d}:00Z,4" for hour in range(8)]
    trace.write_text("\n".join(["utc,gcp/us-west1", *rows]) + "\n", encoding="utf-8")
    asked: dict[str, Any] = {"machines": 4, "work": "2h", "deadline": "5h", "gpu": "T4"}
    old, new = (
        placer.replay(str(trace), catalog=book, on_demand=1.0, egress=0.0, **asked).to_dict()
        for book in ("erben-2023", "default")
    )
    cheapest = [min(row["usd"] for row in found["policies"]) for found in (old, new)]
    assert cheapest[0] == pytest.approx(4 * 0.18 * 2.2, rel=0.05)
    assert cheapest[1] != pytest.approx(cheapest[0], rel=0.01)
