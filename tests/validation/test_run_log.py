"""Logs of ``placer run`` as calibration input: the row that they are, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placer.errors import PlacerError
from placer.validation.calibration.run_log import run_log_row

HEAD: dict[str, Any] = {
    "kind": "run",
    "schema": "placer.run/v1",
    "manifest": {"name": "xlm", "digest": "0"},
    "model": "roberta-xlm",
    "gradient_bytes": 560_142_482 * 2.0,
    "groups": [
        {"place": "gcp/us-central1", "count": 2, "gpu": "T4", "gpu_count": 1, "market": "spot"}
    ],
    "strategy": "all-reduce",
    "compression": "fp16",
    "local_steps": 1,
    "streams": 1,
    "aggregator": None,
    "storage": None,
    "train": "m:f",
    "steps": 5,
    "seed": 0,
    "target_batch_size": 32768,
    "microbatch": 8,
    "device": "cuda:0",
    "elastic": False,
    "links": "real",
}


def step(number: int, rank: int, calculation_s: float, step_s: float) -> dict[str, Any]:
    """Record of one step of one rank."""
    figures = {
        "calculation_s": calculation_s,
        "exchange_s": {},
        "sent": [],
        "control_bytes": 0,
        "requests": {},
    }
    base = {
        "kind": "step",
        "step": number,
        "rank": rank,
        "place": "gcp/us-central1",
        "samples": 16384,
        "loss": 1.0,
    }
    return {**base, "step_s": step_s, "exchanged": True, **figures}


def log(folder: Path, **head: Any) -> Path:
    """Five steps of two workers: calculation 600 + step and 610 s, exchange 20 s; the first takes
    900 s.
    """
    records = [
        {**HEAD, **head},
        *(
            {"kind": "ready", "rank": r, "pid": 1, "start": 0, "elements": 560_142_482}
            for r in range(2)
        ),
    ]
    for number in range(5):
        whole = 900.0 if number == 0 else 630.0
        records += [step(number, 0, 600.0 + number, whole), step(number, 1, 610.0, whole)]
    path = folder / "run.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_the_row_of_a_log(tmp_path: Path) -> None:
    """Medians without the first step: round 630 s, calculation of the slower worker 610 s, 20 s
    between them.
    """
    _, row = run_log_row(log(tmp_path))
    assert row == {
        "model": "roberta-xlm",
        "workers": "gcp/us-central1=2xT4:spot",
        "step_s": 630.0,
        "calculation_s": 610.0,
        "communication_s": 20.0,
        "target_batch_size": 32768,
        "compression": "fp16",
        "streams": 1,
        "question": None,
        "calculation_spread": 0.0,
        "exchange_spread": 0.0,
    }


def test_parts_of_two_machines_make_one_log(tmp_path: Path) -> None:
    """What each rank wrote, one after the other, is the whole run; one part alone is refused by
    what it lacks.
    """
    path = log(tmp_path)
    head, *records = [json.loads(line) for line in path.read_text().splitlines()]
    parts = [[head, *(record for record in records if record["rank"] == rank)] for rank in range(2)]
    path.write_text("".join(json.dumps(record) + "\n" for part in parts for record in part))
    assert run_log_row(path)[1]["step_s"] == 630.0
    path.write_text("".join(json.dumps(record) + "\n" for record in parts[1]))
    with pytest.raises(PlacerError, match="no steps of rank 0"):
        run_log_row(path)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"links": "loopback"}, "all workers ran on one machine"),
        ({"links": "shaped"}, "all workers ran on one machine"),
        ({"strategy": "local-sgd"}, "a run of local-sgd"),
        ({"overlap": True}, "the exchange ran beside the next step, which slows both"),
        (
            {"gradient_bytes": 1e9},
            r"the run exchanged 1,120,284,964 bytes, gradients of roberta-xlm are 1,000,000,000",
        ),
    ],
)
def test_runs_that_say_nothing_about_the_plan_are_refused(
    tmp_path: Path, head: dict[str, Any], words: str
) -> None:
    """Links of one machine, another strategy, another model."""
    with pytest.raises(PlacerError, match=words):
        run_log_row(log(tmp_path, **head))


def test_a_log_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """A killed run leaves half a line; a damaged line in the middle is an error with its number."""
    path = log(tmp_path)
    text = path.read_text()
    path.write_text(text + '{"kind": "st')
    assert run_log_row(path)[1]["step_s"] == 630.0
    lines = text.splitlines()
    path.write_text("\n".join([lines[0], "{", *lines[1:]]))
    with pytest.raises(PlacerError, match=r"run\.jsonl:2: not a record"):
        run_log_row(path)
    path.write_text("\n".join(lines[:7]))
    with pytest.raises(PlacerError, match="1 rounds of all workers after the first"):
        run_log_row(path)
    path.write_text("")
    with pytest.raises(PlacerError, match=r"is no placer\.run/v1"):
        run_log_row(path)
