"""Logs of ``placer run --local`` as calibration input: the model's speed here, and what is left
out.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from run_plans import A, B, document, saved
from test_run_log import log

from conftest import ROOT, Run
from placer.documents.schemas import schema_text
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.validation.calibration.calibrate import calibrate
from placer.workload.constants import PUBLISHED
from placer.workload.overlay import overlay_from

LOCAL = {"links": "loopback", "device": "cpu"}
TWO_PLACES = [
    {"place": place, "count": 1, "gpu": "T4", "gpu_count": 1, "market": "spot"}
    for place in ("gcp/us-central1", "gcp/us-west1")
]


def test_the_speed_of_all_processes_together_is_taken_up(tmp_path: Path, erben: Catalog) -> None:
    """32,768 samples over the 610 s of the slower process in each counted step: 53.72 a second, at
    least 2 % either way; a file that --calibration reads.
    """
    report = calibrate(log(tmp_path, **LOCAL), erben, today="2026-11-23")
    (row,) = report.overlay.rates
    assert (row.model, row.rate.gpu, row.rate.framework) == ("roberta-xlm", "cpu", "none")
    assert row.rate.value == pytest.approx(32_768 / 610)
    assert row.rate.low == pytest.approx(0.98 * row.rate.value)
    assert row.rate.high == pytest.approx(1.02 * row.rate.value)
    assert report.overlay.calibration.hosts == PUBLISHED.hosts
    written = json.loads(json.dumps(report.to_dict()))
    jsonschema.validate(written, json.loads(schema_text("calibration")))
    assert overlay_from(written, "file") == report.overlay


def test_what_is_left_out_is_said_in_one_line(tmp_path: Path, erben: Catalog) -> None:
    """Speed of the plan's machines, averaging time and the link between its places; one worker has
    neither of the latter.
    """
    two = calibrate(log(tmp_path, **LOCAL, groups=TWO_PLACES), erben)
    assert two.warnings == (
        "all processes ran on one machine: took up the speed of roberta-xlm on its processors; "
        "left out speed of roberta-xlm on T4 in a group, averaging time of t4 hosts, link "
        "gcp/us-central1:gcp/us-west1, which are of the plan's machines and links",
    )
    assert [why for _, why in two.unfitted][1:] == ["the processes exchanged over loopback"] * 2
    one = calibrate(log(tmp_path, **LOCAL, groups=[{**TWO_PLACES[0]}]), erben)
    assert [p.label for p, _ in one.unfitted] == ["speed of roberta-xlm on T4 alone"]


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"gradient_bytes": 1e9}, r"nothing to take up: .* another model: 1,120,284,964 bytes"),
        ({"device": "cuda"}, "nothing to take up: all workers ran on one machine and its cuda"),
        ({"groups": [{**TWO_PLACES[0], "count": 3}]}, "0 steps of all workers after the first"),
    ],
)
def test_logs_that_tell_nothing_are_refused(
    tmp_path: Path, erben: Catalog, head: dict[str, Any], words: str
) -> None:
    """Another model, a GPU without a name, a worker without steps: each in one line."""
    with pytest.raises(PlacerError, match=words):
        calibrate(log(tmp_path, **{**LOCAL, **head}), erben)


def test_a_real_run_is_taken(command: Run, tmp_path: Path) -> None:
    """The manual's own example: two processes train the plan's model here, and calibrate takes the
    log as it is: exit code 0, one line of what was left out, a file that validates.
    """
    pytest.importorskip("torch")
    saved(tmp_path, document("all-reduce", (A, 1), (B, 1)))
    paths = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    more = "--train run_plans:tiny --local --steps 5 --tbs 8 --microbatch 2 -o out"
    done = command("run", "plan.json", *more.split(), cwd=tmp_path, **paths)
    assert done.returncode == 0, done.stderr
    words = "out/run.jsonl --catalog erben-2023 -o cal.json"
    taken = command("profile", "runs", *words.split(), cwd=tmp_path, columns=200)
    assert taken.returncode == 0, taken.stderr
    assert "on CPU-2 alone" in taken.stdout
    assert "the processes exchanged over loopback" in taken.stdout
    assert taken.stderr.count("warning: ") == 1
    assert "wrote calibration to cal.json" in taken.stderr
    checked = command("validate", "cal.json", cwd=tmp_path)
    assert "1 speeds" in checked.stdout
