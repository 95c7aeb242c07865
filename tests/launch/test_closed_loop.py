"""The loop closes on this machine: profile, recommend, export, run, calibrate, estimate. What was
run makes the next estimate right.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from exports import on_path

from conftest import PROCESS_TIMEOUT_S, ROOT, Run, free_port

pytest.importorskip("torch")
pytest.importorskip("scipy")
MODEL = """import torch


def profile():
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
    )

    def batch(samples, device="cpu"):
        images = torch.randn(samples, 256, device=device)
        return images, torch.randint(0, 10, (samples,), device=device)

    def loss(model, batch):
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])

    return model, batch, loss
"""
ASKED = "--model ./m.json --own here=2xCPU-1@Berlin"


def started(folder: Path) -> float:
    """Start the exported script once for each of the two machines; return the samples/s that the
    run measured.
    """
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "RANK")},
        "PATH": on_path(folder / "bin", placer=f'exec "{sys.executable}" -m placer "$@"'),
        "PYTHONPATH": str(ROOT),
        "PLACER_RENDEZVOUS_ADDRESS": "127.0.0.1",
        "PLACER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
        "PLACER_STEPS": "30",
        "PLACER_OUT": str(folder / "run"),
    }
    processes = [
        subprocess.Popen(
            ["bash", "workers-0.sh"],
            cwd=folder / "launch",
            env={**environment, "PLACER_NODE": str(node)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]
    try:
        said = [process.communicate(timeout=PROCESS_TIMEOUT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(said)
    summary = json.loads((folder / "run" / "run.jsonl").read_text().splitlines()[-1])
    assert summary["kind"] == "summary"
    return float(next(r["measured"] for r in summary["seconds"] if r["what"] == "throughput"))


@pytest.mark.nightly
def test_an_estimate_holds_for_the_run_it_was_calibrated_on(run: Run, tmp_path: Path) -> None:
    """Two processes of one thread: profiled, planned as own machines, exported, started by the
    exported script. The plan knows nothing of gloo over loopback; the estimate that is calibrated
    on the run's log has its speed within 5 % and its interval, and says on what it rests. Each run
    goes from a profile to a calibration in `test_run_plan` of test_examples.py, and fits constants
    to what was measured in test_calibration.py.
    """

    def do(words: str) -> str:
        done = run(*words.split(), cwd=tmp_path)
        assert done.returncode == 0, f"placer {words}: {done.stderr}"
        return done.stdout

    def estimated(words: str) -> Any:
        return json.loads(do(f"{words} --json"))

    (tmp_path / "mymodel.py").write_text(MODEL)
    measure = "--batch-sizes 64 --steps 10 --threads 1 --target-batch-size 512"
    do(f"profile mymodel:profile {measure} -o m.json")
    plan = estimated(f"recommend {ASKED} --workers 2 --manifest plan.json")
    do("export plan.json --to torchrun --dir launch --train mymodel:profile")
    (tmp_path / "launch" / "mymodel.py").write_text(MODEL)
    measured = started(tmp_path)
    do("profile runs run/run.jsonl -o calibration.json")
    words = "--workers onprem/here=2xCPU-1 --exchange all-reduce --calibration calibration.json"
    known = estimated(f"estimate {ASKED} {words}")
    speed = known["estimate"]["samples_per_second"]
    assert speed["low"] <= measured <= speed["high"]
    assert speed["value"] == pytest.approx(measured, rel=0.05)
    assert speed["value"] != pytest.approx(plan["estimate"]["samples_per_second"]["value"])
    rests_on = [*known["estimate"]["provenance"], *(note["message"] for note in known["notes"])]
    lines = [line for line in rests_on if "run.jsonl" in line]
    assert any(line.startswith("speed on CPU-1: measured: placer profile runs") for line in lines)
    assert any(line.startswith("averaging time: Gloo") for line in lines)
    assert any(line.startswith("speeds and exchange times are those of") for line in lines)
