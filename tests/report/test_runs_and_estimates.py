"""Reports of placements by hand, of runs and of what a run says about its plan."""

import pickle
from datetime import date
from pathlib import Path
from typing import Any

import placer
from conftest import Run
from placer.report.contents import contents
from placer.report.page import page
from report_documents import saved, tables
from run_logs import logged, planned

TODAY = date(2026, 11, 23)
TWO = "gcp/us-central1=2xT4:spot,gcp/europe-west1=2xT4:spot"


def estimated(**words: Any) -> Any:
    """Estimate of two regions."""
    return placer.estimate("roberta-xlm", TWO, catalog="erben-2023", **words)


def test_an_estimate_equals_its_figures_and_travels() -> None:
    """With a placement behind it, an estimate is still equal to that of a result."""
    by_hand = estimated()
    assert isinstance(by_hand, placer.Estimate)
    assert pickle.loads(pickle.dumps(by_hand)) == by_hand
    document = saved("one")
    group = document["placement"]["workers"][0]
    words = f"{group['place']}={group['count']}x{group['gpu']}:{group['market']}"
    same = placer.estimate("roberta-xlm", words.replace("_", "-"), catalog="erben-2023")
    result = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023", gpu=["T4", "A10"])
    assert same == result.estimate
    assert result.estimate == same
    assert hash(same) == hash(result.estimate)
    assert same != by_hand


def test_logs_and_sweeps_in_lines_have_a_page(tmp_path: Path, command: Run) -> None:
    """`placer report` reads run.jsonl and the file that a sweep grows."""
    log = logged(planned(tmp_path, regions="2"))
    points = tmp_path / "sweep.jsonl"
    words = "whatif --model roberta-xlm --catalog erben-2023 --gpu T4 --over budget=1/h,2/h -o"
    assert command(*words.split(), str(points)).returncode == 0
    target = tmp_path / "page.html"
    done = command("report", log, str(points), "-o", str(target))
    assert done.returncode == 0, done.stderr
    html = target.read_text(encoding="utf-8")
    assert "Run of roberta-xlm" in html
    assert "2 values of budget" in html
    assert html.count('<header class="next">') == 1


def run_document(**more: Any) -> dict[str, Any]:
    """Log of one worker with three steps, as `placer report` reads it."""
    group = {"place": "a/b", "count": 1, "gpu": "T4", "gpu_count": 1, "market": "spot"}
    head = {
        "kind": "run",
        "schema": "placer.run/v1",
        "manifest": {"name": "plan", "digest": "0"},
        "groups": [group],
        "strategy": "none",
        "steps": 3,
        "train": "m:f",
        "model": "roberta-xlm",
        "links": "real",
        "device": "cpu",
        "seed": 0,
        "target_batch_size": 8,
        "microbatch": 4,
    }
    steps = [
        {"kind": "step", "step": at, "rank": 0, "step_s": 0.5, "loss": loss}
        for at, loss in enumerate((2.0, float("nan"), 1.0))
    ]
    return {**head, "records": [*steps, *more.get("records", ())]}


def test_a_run_beside_its_prediction() -> None:
    """10 samples/s measured, 8 predicted: +25 %; a loss that is no number is left out. A second
    worker adds its loss, 2 + 0.5, and is waited for where it is slower.
    """
    seconds = {"what": "throughput", "unit": "samples/s", "predicted": 8.0, "measured": 10.0}
    summary = {
        "kind": "summary",
        "rounds": 3,
        "seconds": [seconds],
        "seconds_compare": True,
        "bytes": [],
        "requests": [],
        "losses": [],
        "remarks": ["a remark"],
    }
    document = run_document(records=[{"kind": "end", "rank": 0}, summary])
    report = contents(document, today=TODAY)
    assert report.verdict == "All 3 steps are done. 10 samples/s, +25 % against the prediction."
    assert tables(report)["Loss of each step"].rows == (("1", "2"), ("3", "1"))
    assert "a remark" in page({"run.jsonl": document}, today=TODAY)
    summary["seconds_compare"] = False
    second = {"kind": "step", "step": 0, "rank": 1, "step_s": 0.75, "loss": 0.5}
    other = contents(run_document(records=[second, summary]), today=TODAY)
    assert tables(other)["Loss of each step"].rows == (("1", "2.5"), ("3", "1"))
    slowest = tables(other)["Seconds of each step, of the slowest worker"]
    assert slowest.rows[0] == ("1", "750 ms")
    assert other.verdict.startswith("The log has 3 of 3 steps, and not the end of every worker.")
    assert "+25 %" not in other.verdict
    assert other.tone == "bad"
