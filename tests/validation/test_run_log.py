"""Logs of ``placer run`` as calibration input: rows, what is refused, and speeds of local runs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conforming import validate
from run_plans import A, B, document, saved

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.validation.calibration.calibrate import calibrate
from placer.validation.calibration.run_log import counted_rounds, round_seconds, run_log_row
from placer.workload.constants import PUBLISHED
from placer.workload.overlay import overlay_from

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
        "slow_steps": 0,
        "calculation_spread": 0.0,
        "exchange_spread": 0.0,
    }


def test_the_first_of_three_rounds_is_warm_up() -> None:
    """Both others count, of two workers each."""
    steps = [{"step": step, "rank": rank} for step in range(3) for rank in range(2)]
    rounds = counted_rounds(steps, 2, 1, overlap=False)
    assert [[record["step"] for record in records] for records in rounds] == [[1, 1], [2, 2]]


def test_slow_steps_do_not_spoil_a_run(tmp_path: Path, erben: Catalog) -> None:
    """One of four steps calculates three times as long, and one waits a whole step for the
    exchange: the median of the whole, (630 + 1,230) / 2 s, is of neither part; without the two it
    is 630 s.
    """
    path, late = log(tmp_path), {2: (1_830.0, 1_850.0), 3: (610.0, 1_230.0)}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record.get("step") in late and record["kind"] == "step":
            record["calculation_s"], record["step_s"] = late[record["step"]]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    _, row = run_log_row(path)
    parts = row["step_s"], row["calculation_s"], row["communication_s"], row["slow_steps"]
    assert parts == (630.0, 610.0, 20.0, 2)
    words = "2 steps of the log took far longer than usual: left out"
    assert words in calibrate(path, erben, today="2026-11-23").warnings


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
    assert round_seconds([], 2) is None
    path.write_text("")
    with pytest.raises(PlacerError, match=r"is no placer\.run/v1"):
        run_log_row(path)


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
    assert (row.model, row.gpu, row.framework) == ("roberta-xlm", "cpu", "none")
    assert row.value == pytest.approx(32_768 / 610)
    assert row.low == pytest.approx(0.98 * row.value)
    assert row.high == pytest.approx(1.02 * row.value)
    assert report.overlay.calibration.hosts == PUBLISHED.hosts
    written = json.loads(json.dumps(report.to_dict()))
    validate(written, "calibration")
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
    assert [one.because for one in two.unfitted][1:] == [
        "the processes exchanged over loopback"
    ] * 2
    one = calibrate(log(tmp_path, **LOCAL, groups=[{**TWO_PLACES[0]}]), erben)
    assert [figure.figure for figure in one.unfitted] == ["speed of roberta-xlm on T4 alone"]


@pytest.mark.usefixtures("warm_machines")
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
