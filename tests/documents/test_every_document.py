"""Every JSON document that a command prints or writes has a schema, and follows it."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conftest import ROOT, Run
from placer.documents.schemas import (
    SCHEMA_NAMES,
    document_type,
    field_words,
    schema_document,
    schema_name,
)
from placer.documents.schemas.parts import Part

SAVED = ROOT / "tests" / "fixtures" / "saved"
LINKS = ROOT / "tests" / "fixtures" / "links"
XLM = "--model roberta-xlm --catalog erben-2023"
ISLANDS = "--model llama-3.2-1b --workers aws/us-east-1=2x(2xH100:8):spot"
T4 = "gcp/us-central1=4xT4:spot"
REPLAY = (
    f"capacity replay {ROOT}/examples/capacity-trace.csv --machines 4 --work 4h --deadline 8h "
    "--gpu H100 --tick 30min"
)
PRINTED = {
    "result": [
        f"recommend {XLM} --budget 5/h",
        f"recommend {XLM} --budget 0.05/h",
        f"recommend {XLM} --budget 5EUR/h --own office=2xA100-40@Berlin --gpu T4,A100",
        f"recommend {XLM} --budget 5/h --samples 100M --verify milp --gpu T4 --workers 4",
        f"recommend {XLM} --gpu T4 --workers 4 --tbs 16Ki..32Ki",
        f"recommend {XLM} --gpu T4 --market spot --min-throughput 300/s --confidence 90%",
        "recommend --model llama-3.2-1b --gpu H100 --budget 200/h --tokens 10B",
    ],
    "estimate": [
        f"estimate {XLM} --workers {T4}",
        f"estimate {ISLANDS}",
        f"estimate {XLM} --workers {T4} --quota quota.csv",
    ],
    "comparison": [
        f"estimate {XLM} --workers {T4} --workers gcp/us-central1=9xT4:spot",
        f"estimate {XLM} --workers {T4} --every-exchange",
    ],
    "diff": [
        f"report --diff {SAVED}/result.json {SAVED}/wishes.json",
        f"report --diff {SAVED}/nothing.json {SAVED}/result.json",
    ],
    "bill": [
        f"bill {SAVED}/result.json {ROOT}/examples/focus.csv --hours 5",
        f"bill {SAVED}/result.json {ROOT}/examples/focus.csv --hours 5 --tag run=4711",
    ],
    "simulation": [f"estimate --simulate {words}" for words in (f"{XLM} --workers {T4}", ISLANDS)],
    "explanation": [f"explain {SAVED}/result.json --why-not T4", f"explain {XLM} --budget 0.05/h"],
    "pareto": [f"pareto {XLM} --gpu T4,A10 --points 4"],
    "robust": [f"robust {XLM} --gpu T4 --workers 4 --market spot"],
    "sweep": [
        f"whatif {XLM} --gpu T4 --over budget=0.01/h,2/h",
        f"whatif {XLM} --gpu T4 --objective carbon --min-throughput 200/s --over budget=2/h",
    ],
    "whatif": [f"whatif {XLM} --gpu T4 --budget 2/h --set budget=0.1/h"],
    "portfolio": [f"portfolio {ROOT}/examples/jobs.toml"],
    "replan": [f"whatif {SAVED}/manifest.json --observed {SAVED}/run.jsonl"],
    "replay": [REPLAY],
    "config": ["config show --origin"],
    "models": ["models", "models --public"],
    "profile": ["models roberta-xlm", "models 7B"],
    "calibration": [f"profile runs {ROOT}/examples/runs.csv --catalog erben-2023"],
    "reproduction": ["reproduce phalak"],
    "export": [
        f"export {SAVED}/manifest.json --to torchrun --dir launch",
        f"export {SAVED}/manifest.json --to torchrun --dir other --diff",
    ],
    "offers": ["offers --gpu T4 --limit 20"],
    "offer-groups": ["offers --gpu T4 --group-by continent,market"],
    "network": ["network show gcp/us-central1 aws/us-east-1"],
    "network-check": ["network check erben-2023"],
    "capacity": ["capacity show --gpu H100"],
    "capacity-check": ["capacity check"],
    "capacity-forecast": [
        f"capacity forecast {ROOT}/examples/launches.csv --machines 8 --ahead 6h"
    ],
    "catalogs": ["catalog list"],
    "coverage": ["catalog show erben-2023", "catalog show default"],
    "catalog-diff": ["catalog diff erben-2023 phalak-2023"],
    "catalog-validation": ["catalog validate erben-2023"],
    "catalog-export": ["catalog export skypilot out --catalog phalak-2023"],
    "pin": ["catalog pin erben-2023", "catalog pin --clear"],
    "import": [
        f"network import iperf3 {LINKS}/one.json --from aws/us-east-1 --to gcp/us-west1 --dry-run",
        f"network import skyplane {LINKS}/throughput.csv --as links",
    ],
    "import-quotas": ["capacity import aws-quotas --from quotas.json --in us-east-1 --dry-run"],
    "import-blocks": [
        "capacity import aws-blocks --from blocks.json --machine p5.48xlarge --machines 4"
    ],
    "validation": [f"validate {SAVED}/manifest.json", f"validate {SAVED}/certificate.json"],
    "doctor": ["config check"],
    "error": ["recommend", "recommend --model roberta-xml", f"validate {ROOT}/pyproject.toml"],
}
"""Commands by the document that they print with --json."""
WRITTEN = {
    "result": [
        (f"recommend {XLM} --budget 5/h --gpu T4 --certificate -o saved.json", "saved.json")
    ],
    "manifest": [(f"recommend {XLM} --budget 2/h --gpu T4 --manifest plan.json", "plan.json")],
    "manifest-v2": [(f"estimate {ISLANDS} --manifest islands.json", "islands.json")],
    "pareto": [(f"pareto {XLM} --gpu T4 --points 3 -o frontier.json", "frontier.json")],
    "sweep-points": [(f"whatif {XLM} --gpu T4 --over budget=1/h,2/h -o s.jsonl", "s.jsonl")],
    "portfolio": [(f"portfolio {ROOT}/examples/jobs.toml -o jobs.json", "jobs.json")],
    "pin": [("catalog pin erben-2023", "home/pin.json")],
    "origin": [
        (
            f"network import skyplane {LINKS}/throughput.csv --as links",
            "home/catalogs/links/origin.json",
        )
    ],
}
"""Commands by the document that they write, with its file."""
ELSEWHERE = {
    "profile-estimate": "profiler/test_estimate_memory.py",
    "rehearsal": "launch/rehearsal/test_rehearsal.py",
    "refresh": "market/sources/test_refresh_azure.py",
    "run": "validation/test_run_log.py",
    "watch": "advice/test_watch.py",
}
"""Documents of commands that need PyTorch, a server or a pipe: the tests that check them."""
PARTS = {"problem": "problem", "certificate": "certificate"}
"""Documents inside a saved result, by its key."""


def closed(schema: Any) -> Any:
    """Return a schema that also refuses keys that it does not name, so that none is forgotten."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    built = {key: closed(value) for key, value in schema.items()}
    named = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return {"additionalProperties": False, **built} if named else built


def faults(document: Any, name: str) -> list[str]:
    """What is wrong with a document, or missing in its schema."""
    schema = closed(schema_document(name))
    return [
        f"{error.json_path}: {error.message[:200]}"
        for error in Draft202012Validator(schema).iter_errors(document)
    ]


@pytest.fixture
def call(command: Run, tmp_path: Path) -> Callable[[str], str]:
    """Run a command line in an empty folder with a home of its own; its output."""
    (tmp_path / "quota.csv").write_text("place,gpu,market,gpus\n*,T4,*,2\n", encoding="utf-8")
    for name, answer in (("quotas", QUOTAS), ("blocks", BLOCKS)):
        (tmp_path / f"{name}.json").write_text(json.dumps(answer), encoding="utf-8")

    def run(words: str, *more: str) -> str:
        from conftest import home_with_book

        home = home_with_book(tmp_path / "home")
        done = command(*words.split(), *more, cwd=tmp_path, PLACER_HOME=str(home))
        assert "internal failure" not in done.stderr
        return done.stdout

    return run


QUOTAS = {
    "Quotas": [
        {"QuotaName": "All P5 Spot Instance Requests", "Value": 400.0},
        {"QuotaName": "Running On-Demand P instances", "Value": 192.0},
    ]
}
BLOCKS = {
    "CapacityBlockOfferings": [
        {
            "CapacityBlockOfferingId": "cb-1",
            "InstanceType": "p5.48xlarge",
            "AvailabilityZone": "us-east-1a",
            "InstanceCount": 4,
            "StartDate": "2026-12-01T11:30:00Z",
            "EndDate": "2026-12-02T11:30:00Z",
            "CapacityBlockDurationHours": 24,
            "UpfrontFee": "3024.0",
            "CurrencyCode": "USD",
        }
    ]
}


def cases() -> Iterator[Any]:
    """Each command with the document that it prints, but those of test_frozen_documents.py."""
    for name, lines in PRINTED.items():
        for number, words in enumerate(lines):
            if number or name == "doctor":
                yield pytest.param(name, words, id=f"{name}-{number}")


@pytest.mark.parametrize(("name", "words"), tuple(cases()))
def test_what_a_command_prints_follows_its_schema(
    call: Callable[..., str], name: str, words: str
) -> None:
    """Nothing but one document on stdout, which names its schema and has no key beside it."""
    document = json.loads(call(words, "--json"))
    assert schema_name(document["schema"]) == name
    assert faults(document, name) == []


def test_every_schema_is_tried_and_stands_alone() -> None:
    """Each is valid by itself, has a title and its own version, names each of its parts and no
    others, and is tried above or frozen.
    """
    tried = {*PRINTED, *WRITTEN, *ELSEWHERE, *PARTS}
    assert tried == {*SCHEMA_NAMES}
    for name in SCHEMA_NAMES:
        schema = schema_document(name)
        Draft202012Validator.check_schema(schema)
        assert schema_name(schema["$id"]) == name
        assert schema["title"]
        assert schema["description"]
        parts = {f"#/$defs/{part}" for part in schema.get("$defs", ())}
        assert {*re.findall(r'"\$ref": "([^"]*)"', json.dumps(schema))} == parts
    for name, test in ELSEWHERE.items():
        assert name in (ROOT / "tests" / test).read_text(encoding="utf-8")


def test_docstrings_describe_fields_that_exist() -> None:
    """Else a word about a field that was renamed would be lost without a sound."""
    for name in SCHEMA_NAMES:
        document_type(name)
    kinds, found = [Part], 0
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        said = field_words(kind.__doc__ or "")[1]
        assert {*said} <= {*kind.__struct_encode_fields__}, kind
        found += len(said)
    assert found > 150
