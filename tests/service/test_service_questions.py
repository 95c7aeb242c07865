"""Questions over HTTP: the documents of the command line, what is wrong with a question, the client
of the examples, and what a request cannot reach.
"""

import json
import os
import sys
from threading import Event
from typing import Any

import httpx2
import pytest
from goldens.__main__ import FROZEN, difference
from goldens.outputs import made
from served import BOOK, QUESTION, Served

from conftest import ROOT, completed
from placer.documents.schemas import SCHEMA_NAMES, schema_text
from placer.errors import PlacerError
from placer.problem.words.wishes import WISHES
from placer.service.questions.body import WordError, check_body
from placer.service.questions.words import VERBS, words_of
from placer.service.working.messages import Question
from placer.service.working.session import Session
from placer.workload.profile import load_profile

JOB = {"model": "roberta-xlm", "min_throughput": "300/s"}


def problem(answer: httpx2.Response) -> dict[str, Any]:
    """Return the details of a problem, which say at least what RFC 9457 asks for."""
    assert answer.headers["content-type"] == "application/problem+json"
    details: dict[str, Any] = answer.json()
    assert details["status"] == answer.status_code
    assert {"type", "title", "detail"} <= set(details)
    assert "Traceback" not in answer.text
    return details


def test_words_of_requests_are_read_as_frozen() -> None:
    """Bodies, forms and settings, what is refused, and what is said of how a question ended."""
    frozen = (FROZEN / "service.txt").read_text(encoding="utf-8")
    assert difference("service.txt", frozen, made("service.txt")) == []


def test_a_model_of_ones_own_is_a_document(client: httpx2.Client) -> None:
    """A profile is sent whole; one that is none is refused."""
    models = client.get("/v1/models").json()["models"]
    profile = next(row for row in models if row["name"] == "roberta-xlm")
    answer = client.post("/v1/recommend", json={**QUESTION, "model": {**profile, "name": "mine"}})
    assert answer.json()["request"]["model"] == "mine"
    answer = client.post("/v1/recommend", json={**QUESTION, "model": {"schema": "x"}})
    assert problem(answer)["field"] == "model"
    answer = client.post(
        "/v1/recommend", json={**QUESTION, "model": {"schema": profile["schema"], "name": 1}}
    )
    assert problem(answer)["field"] == "model"


WRONG: list[tuple[str, Any, str, str]] = [
    ("recommend", {**QUESTION, "budgte": "5/h"}, "budgte", "a similar word exists: 'budget'"),
    ("recommend", {**QUESTION, "budget": 5}, "budget", "'5/h'"),
    ("recommend", {**QUESTION, "budget": "5/x"}, "budget", "write it as 5/h"),
    ("recommend", {**QUESTION, "gpu": "T44"}, "gpu", "a similar GPU exists"),
    ("recommend", {**QUESTION, "places": "gcp/us-cntral1"}, "places", "similar"),
    ("recommend", {**QUESTION, "workers": [3, 1]}, "workers", ""),
    ("recommend", {"budget": "5/h"}, "model", "recommend needs model"),
    ("recommend", {**QUESTION, "model": "roberta-xml"}, "model", "'roberta-xlm'"),
    ("recommend", {**QUESTION, "catalog": "defualt"}, "catalog", "'default'"),
    ("recommend", {**QUESTION, "catalog": []}, "catalog", "1 to 4"),
    ("recommend", {**QUESTION, "top": 0}, "top", "1"),
    ("recommend", {**QUESTION, "alternatives": "no"}, "alternatives", "boolean"),
    ("recommend", {**QUESTION, "time_limit": "2h"}, "time_limit", "as a job"),
    ("recommend", {**QUESTION, "time_limit": "soon"}, "time_limit", "200ms"),
    ("recommend", {**QUESTION, "memory_limit": "much"}, "memory_limit", "500MB"),
    ("recommend", {**QUESTION, "quota": "/etc/passwd"}, "quota", "not read"),
    ("recommend", {**QUESTION, "calibration": "mine.json"}, "calibration", "whole document"),
    ("recommend", {**QUESTION, "calibration": {"schema": "x"}}, "calibration", ""),
    ("recommend", {**QUESTION, "solver": "magic"}, "solver", ""),
    ("pareto", {**QUESTION, "objective": "cost"}, "objective", ""),
    ("estimate", {"model": "roberta-xlm", "workers": "4"}, "workers", ""),
    ("compare", {"model": "roberta-xlm", "placements": []}, "placements", ""),
    ("replan", {"manifest": {}, "observed": ["x"]}, "manifest", "write it again"),
    ("portfolio", {"jobs": []}, "jobs", "portfolio needs jobs"),
    ("portfolio", {"jobs": ["x"]}, "jobs", '{"model": "roberta-xlm"}'),
    ("portfolio", {"jobs": [{**JOB, "calibration": "mine.json"}]}, "calibration", "whole document"),
    ("portfolio", {"jobs": [{**JOB, "budgte": "5/h"}]}, "", "a similar word exists: 'budget'"),
    ("portfolio", {"jobs": [JOB], "quota": "/etc/passwd"}, "quota", "not read"),
    ("portfolio", {"jobs": [JOB], "teams": [{"quota": "/etc/passwd"}]}, "teams", "not read"),
    ("portfolio", {"jobs": [JOB], "blocks_file": "x.csv"}, "blocks_file", "blocks"),
    ("robust", {**QUESTION, "jobs": 2}, "jobs", ""),
    ("diff", {"before": {}, "after": {}}, "before", "placer recommend"),
    ("export", {"manifest": "plan.json", "target": "torchrun"}, "manifest", "object"),
    ("export", {"manifest": {}, "target": "torch"}, "target", "'torchrun'"),
]


@pytest.mark.parametrize(
    ("verb", "body", "field", "hint"),
    WRONG,
    ids=[f"{verb} {field} {number}" for number, (verb, _, field, _) in enumerate(WRONG)],
)
def test_a_wrong_word_is_named_with_what_to_write(
    verb: str, body: Any, field: str, hint: str, client: httpx2.Client
) -> None:
    """Status 422, one line, a hint, and the word of the body that is wrong."""
    details = problem(client.post(f"/v1/{verb}", json=body))
    assert (details["status"], details.get("field", "")) == (422, field), details
    assert hint in details.get("hint", "")
    assert "--" not in details["detail"] + details.get("hint", "")  # words of requests, no options


@pytest.mark.parametrize(
    "text", ["", "{", "[1", '{"a": 1, "a": 2}', '{"a": NaN}', "\xff", "[" * 9999]
)
def test_what_is_no_json_is_refused(text: str, client: httpx2.Client) -> None:
    """With the line and the column where that is known."""
    details = problem(client.post("/v1/recommend", content=text.encode("latin-1")))
    assert details["status"] == 400
    if text == "{":
        assert "line 1, column 2" in details["detail"]


@pytest.mark.parametrize("name", WISHES)
def test_every_wish_takes_its_example_or_is_a_document(name: str) -> None:
    """A wish that the table gains is asked for over HTTP without an edit here."""
    verb = VERBS["pareto" if name != "objective" else "recommend"]
    wish = WISHES[name]
    example: Any = True if wish.is_flag else wish.example
    body = {"model": "roberta-xlm", name: example}
    if "FILE" in wish.metavar and not example.isdigit():
        with pytest.raises(WordError, match="files of the service are not read"):
            check_body(verb, body)
    else:
        assert check_body(verb, body)[name] == example


def test_lists(client: httpx2.Client) -> None:
    """Models, books and schemas; where books lie on the server is not told."""
    books = client.get("/v1/catalogs").json()
    assert {"default", BOOK} <= {row["name"] for row in books["catalogs"]}
    assert books["folder"] == ""
    assert client.get("/v1/schemas").json()["schemas"] == list(SCHEMA_NAMES)
    assert client.get("/v1/schemas/result").json() == json.loads(schema_text("result"))
    assert problem(client.get("/v1/schemas/reslt"))["hint"] == "a similar schema exists: 'result'"


def test_the_client_asks_twice(service: Served) -> None:
    """It prints the best so far and both answers: the one of the README, and two regions."""
    done = completed(
        [sys.executable, "examples/service_client.py", service.address],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PLACER_TOKEN"},
    )
    assert done.returncode == 0, done.stderr
    assert "at once: 8 x A10 in lambda/us-west-1" in done.stdout
    assert "samples/s, gap" in done.stdout
    assert "as a job: 1 x T4 in gcp/us-central1, 11 x T4 in gcp/us-west1" in done.stdout


def test_no_word_opens_a_file() -> None:
    """While every word of every verb holds a path, nothing of that name is opened or listed.

    Python tells an audit hook of each file that is opened, folder that is listed and address that
    is connected to.
    """
    seen: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir", "socket.connect", "sqlite3.connect"):
            seen.extend(str(one) for one in arguments if "planted" in str(one))

    sys.addaudithook(hook)
    with pytest.raises(PlacerError):
        load_profile("/planted/secret")
    assert seen == ["/planted/secret"]  # it hears what it should
    seen.clear()
    session = Session((), 2_000_000_000)
    for verb in VERBS.values():
        for name in words_of(verb.name):
            for path in ("/planted/secret", "../planted.json", "file://planted.csv"):
                for value in (path, [path], {path: 1}, f"hf:{path}", f"{path}=1"):
                    body = {**QUESTION, "workers": "gcp/us-central1=1xT4", "placements": ["x"]}
                    body |= {"manifest": {}, "observed": ["{}"], "set": [], "target": "torchrun"}
                    body |= {"jobs": [JOB], "before": {}, "after": {}, name: value}
                    words = {key: one for key, one in body.items() if key in words_of(verb.name)}
                    _answer(session, verb.name, words)
    for name in ("model", *WISHES):
        for path in ("/planted/secret", "../planted.json"):
            for value in (path, [path], {path: 1}, f"{path}=1", f"{path}@Berlin"):
                _answer(session, "portfolio", {"catalog": BOOK, "jobs": [{**JOB, name: value}]})
    assert set(WISHES) <= set(words_of("recommend"))
    assert seen == []


def _answer(session: Session, verb: str, words: dict[str, Any]) -> None:
    try:
        checked = check_body(VERBS[verb], words)
    except PlacerError:
        return
    cancelled = Event()
    cancelled.set()  # the question is read, and its search ended at once
    session.reply(Question(name=verb, words=checked, seconds=0.2), lambda better: None, cancelled)
