"""The tools of an assistant, called by the client library of the protocol in a real process."""

import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from conforming import validate
from jsonschema import Draft202012Validator
from served import BOOK, LONG, QUESTION

from conftest import ROOT, Run
from placer.service.questions.body import check_body
from placer.service.questions.words import LISTS, VERBS, words_of

if find_spec("mcp") is None:  # it takes seconds to import, so only what asks it does
    pytest.skip("mcp is not installed", allow_module_level=True)
COMMAND = ["-m", "placer", "mcp", "--time-limit", "20s"]
PLACED = "gcp/us-central1=4xT4:spot"
TWO = [PLACED, "gcp/us-central1=2xT4:spot"]
MODEL = {"model": "roberta-xlm", "catalog": BOOK}
CALLS: dict[str, dict[str, Any]] = {
    "recommend": QUESTION,
    "estimate": {**MODEL, "workers": PLACED},
    "compare": {**MODEL, "placements": TWO},
    "explain": {**QUESTION, "why_not": "gcp/us-west1"},
    "pareto": {**QUESTION, "points": 3},
    "whatif": {**QUESTION, "set": ["budget=2/h"]},
    "robust": {**QUESTION, "worlds": 8},
    "portfolio": {"catalog": BOOK, "jobs": [{"model": "roberta-xlm", "min_throughput": "300/s"}]},
    "replan": {"manifest": "answer-1", "observed": ["no log"]},
    "diff": {"before": "answer-1", "after": "answer-1"},
    "export": {"manifest": "answer-1", "target": "torchrun"},
    "bill": {
        "result": "answer-1",
        "charges": (ROOT / "examples" / "focus.csv").read_text(),
        "hours": 24,
    },
    "offers": {"gpu": "T4", "limit": 3, "catalog": [BOOK]},
    "models": {},
    "catalogs": {},
    "manifest": {"answer": "answer-1"},
}
"""A call of each tool; that of ``replan`` is refused for its log."""


def asked(
    *calls: tuple[str, dict[str, Any]], transport: Any = None, progress: Any = None
) -> list[Any]:
    """List the tools, then make calls, one after the other; return the tools and the results."""
    mcp = pytest.importorskip("mcp")
    stdio = pytest.importorskip("mcp.client.stdio")
    parameters = stdio.StdioServerParameters(command=sys.executable, args=COMMAND, cwd=ROOT)
    found: list[Any] = []

    async def talk() -> None:
        async with mcp.Client(transport or stdio.stdio_client(parameters)) as client:
            found.append((await client.list_tools()).tools)
            found.extend(
                [
                    await client.call_tool(name, words, progress_callback=progress)
                    for name, words in calls
                ]
            )

    run: Callable[[Callable[[], Awaitable[None]]], None] = anyio.run
    run(talk)
    return found


def said(result: Any) -> str:
    """Return the text of a result, which is all that it has beside its document."""
    (part,) = result.content
    return str(part.text)


def test_every_tool_is_listed_and_answers() -> None:
    """Each verb and list of the service with its words; documents follow their schemas."""
    tools, *results = asked(*CALLS.items())
    assert {tool.name for tool in tools} == {*VERBS, *LISTS, "manifest"} == {*CALLS}
    for tool in tools:
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator(tool.input_schema).validate(CALLS[tool.name])
        Draft202012Validator.check_schema(tool.output_schema)
        if tool.name in VERBS:
            assert tool.description == VERBS[tool.name].summary
            assert {*tool.input_schema["properties"]} == {*words_of(tool.name)}
    assert sum(len(json.dumps(tool.output_schema)) for tool in tools) < 20_000
    core = next(tool.output_schema["properties"] for tool in tools if tool.name == "recommend")
    assert "optimal" in core["status"]["enum"]
    assert {*core["objective"]["properties"]} == {"name", "value", "bound", "gap"}
    assert core["nearest"] == {"type": "array"}
    outputs = {tool.name: Draft202012Validator(tool.output_schema) for tool in tools}
    for name, result in zip(CALLS, results, strict=True):
        text = said(result)
        if name == "replan":
            assert result.is_error
            assert "observed-1" in text
            continue
        assert not result.is_error, text
        kind = VERBS[name].document if name in VERBS else name
        validate(result.structured_content, kind)
        outputs[name].validate(result.structured_content)
        assert not outputs[name].is_valid({"schema": "placer.other/v1"})
        if name == "export":
            assert "workers-0.sh:" in text
            continue
        assert 20 < len(text) < 6_000
        assert "--" not in re.sub("-{3,}", "", text), "words of calls, no options"


WRONG: Sequence[tuple[str, dict[str, Any], str]] = (
    ("recommend", {**QUESTION, "budgte": "5/h"}, "a similar word exists: 'budget'"),
    ("recommend", {"budget": "5/h"}, "recommend needs model"),
    ("recommend", {**QUESTION, "model": "/etc/passwd.json"}, "unknown model '/etc/passwd.json'"),
    ("recommend", {**QUESTION, "quota": "/etc/passwd"}, "files of the service are not read"),
    ("recommend", {**QUESTION, "time_limit": "2h"}, "above the 20 s"),
    ("reccomend", QUESTION, "a similar tool exists: 'recommend'"),
    ("offers", {"limit": "many"}, "whole number"),
    ("offers", {"gpus": "T4"}, "a similar parameter exists: 'gpu'"),
    ("manifest", {"answer": "answer-9"}, "unknown answer 'answer-9'"),
    ("manifest", {}, "unknown answer"),
    ("replan", {"manifest": "plan", "observed": ["x"]}, "unknown answer 'plan'"),
)


def test_what_is_wrong_is_one_line_and_long_questions_are_cut() -> None:
    """A call that is wrong ends none; a search of two seconds says what gap is left, and on the way
    how many of the 20 s have passed.
    """
    cut = ("recommend", {**LONG, "time_limit": "2s"})
    told: list[tuple[float, float | None]] = []

    async def progress(passed: float, most: float | None, _: str | None) -> None:
        told.append((passed, most))

    calls = ((name, words) for name, words, _ in WRONG)
    _, *results, long = asked(*calls, cut, progress=progress)
    assert told[0] == (1.0, 20.0)
    for (_, _, words), result in zip(WRONG, results, strict=True):
        assert result.is_error
        assert words in said(result)
        assert "\n" not in said(result)
    assert not long.is_error
    assert long.structured_content["status"] != "optimal"
    assert long.structured_content["objective"]["gap"] > 0


def test_five_calls_over_http_end_in_a_manifest(run: Run, tmp_path: Path) -> None:
    """Models, offers, an answer, why not something else, and what `placer export` takes, on this
    machine; a page of another site, or another name, is refused.
    """
    calls: Sequence[tuple[str, dict[str, Any]]] = (
        ("models", {}),
        ("offers", {"gpu": "A10", "catalog": BOOK}),
        ("recommend", QUESTION),
        ("explain", {**QUESTION, "why_not": "T4"}),
        ("manifest", {"answer": "answer-1"}),
    )
    words = [sys.executable, *COMMAND, "--port", "0"]
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
        assert found
        _, models, offers, answer, why, manifest = asked(*calls, transport=found[0])
        kind = {"Content-Type": "application/json"}
        for header, value, status in (
            ("Host", "evil.example", 421),
            ("Origin", "http://evil.example", 403),
        ):
            refused = httpx2.post(found[0], headers={**kind, header: value}, trust_env=False)
            assert refused.status_code == status
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert "roberta-xlm" in said(models)
    assert "lambda/us-west-1" in said(offers)
    assert "8 x A10" in said(answer)
    assert said(answer).endswith("This answer is answer-1.")
    assert "T4" in said(why)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(manifest.structured_content))
    done = run("export", str(plan), "--to", "torchrun", "--dir", str(tmp_path / "launch"))
    assert done.returncode == 0, done.stderr


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, command: Run) -> None:
    """Where the library is not installed the error says how to install it."""
    monkeypatch.setattr("placer.cli.files.serve.find_spec", lambda name: None)
    done = command("mcp")
    assert done.returncode == 2
    assert "placer mcp needs mcp, prometheus_client" in done.stderr
    assert "placer-advisor[mcp]" in done.stderr


def test_a_book_that_is_not_there_is_an_error_at_once(run: Run) -> None:
    """And not a server that never answers."""
    done = run("mcp", "--catalog", "defualt")
    assert done.returncode == 2
    assert "similar" in done.stderr


def test_the_skill_names_words_that_there_are() -> None:
    """Each row of its table is a question, and its head has the two fields that readers need."""
    text = (ROOT / "docs/skills/placer/SKILL.md").read_text()
    head = text.split("---")[1]
    assert re.search(r"^name: placer$", head, re.MULTILINE)
    described = re.search(r"^description: (.+)$", head, re.MULTILINE)
    assert described
    assert len(described[1]) < 1024
    rows = re.findall(r"^\| .* \| `(\{.*\})` \|$", text, re.MULTILINE)
    assert len(rows) == 6
    for row in rows:
        check_body(VERBS["recommend"], {"model": "roberta-xlm", **json.loads(row)})
