"""The loop that a user goes through on one machine: profile, recommend, export, run, calibrate,
estimate; for `test_closed_loop.py` and `benchmarks/closed_loop.py`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import ROOT, completed, free_port

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
OWN = "here=2xCPU-1@Berlin"
WORKERS = "onprem/here=2xCPU-1"
LONGEST_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one turn of the loop gave: samples/s of the plan, of each run, and of the estimate with
    its interval; the sentences on which the estimate rests.
    """

    planned: float
    runs: tuple[float, ...]
    low: float
    value: float
    high: float
    rests_on: tuple[str, ...]


def placer(folder: Path, *words: str) -> str:
    """Run a command in a folder and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = completed(
        [sys.executable, "-m", "placer", *words], cwd=folder, env=environment, timeout=LONGEST_S
    )
    assert done.returncode == 0, f"placer {shlex.join(words)}: {done.stderr}"
    return done.stdout


def started(folder: Path, out: str, steps: int) -> dict[str, Any]:
    """Start the exported script once for each of the two machines; return the summary of the
    run.
    """
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "placer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m placer "$@"\n')
    (tools / "placer").chmod(0o755)
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "RANK")},
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PLACER_RENDEZVOUS_ADDRESS": "127.0.0.1",
        "PLACER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
        "PLACER_STEPS": str(steps),
        "PLACER_OUT": str(folder / out),
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
        said = [process.communicate(timeout=LONGEST_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(said)
    lines = (folder / out / "run.jsonl").read_text().splitlines()
    summary: dict[str, Any] = json.loads(lines[-1])
    assert summary["kind"] == "summary"
    return summary


def throughput(summary: dict[str, Any]) -> float:
    """Return the samples/s that a run measured."""
    rows = {row["what"]: row["measured"] for row in summary["seconds"]}
    return float(rows["throughput"])


def turn(folder: Path, *, steps: int = 30, profile_steps: int = 10, runs: int = 1) -> Outcome:
    """Go through the loop once, in a fresh folder.

    Parameters
    ----------
    steps, profile_steps
        Of a run, and measured for each batch size.
    runs
        The first is calibrated on; the others see whether the estimate holds.
    """
    (folder / "mymodel.py").write_text(MODEL)

    def do(words: str) -> str:
        return placer(folder, *words.split())

    asked = f"--model ./m.json --own {OWN}"
    measure = f"--batch-sizes 64 --steps {profile_steps} --threads 1"
    do(f"profile mymodel:profile {measure} --target-batch-size 512 -o m.json")
    told = do(f"recommend {asked} --workers 2 --manifest plan.json --json")
    planned = json.loads(told)["estimate"]["samples_per_second"]["value"]
    do("export plan.json --to torchrun --dir launch --train mymodel:profile")
    (folder / "launch/mymodel.py").write_text(MODEL)
    measured = [throughput(started(folder, "run-0", steps))]
    do("profile runs run-0/run.jsonl -o calibration.json")
    words = f"--workers {WORKERS} --exchange all-reduce --calibration calibration.json --json"
    document = json.loads(do(f"estimate {asked} {words}"))
    measured += [throughput(started(folder, f"run-{n}", steps)) for n in range(1, runs)]
    speed = document["estimate"]["samples_per_second"]
    notes = tuple(note["message"] for note in document["notes"])
    return Outcome(
        planned=planned,
        runs=tuple(measured),
        low=speed["low"],
        value=speed["value"],
        high=speed["high"],
        rests_on=(*document["estimate"]["provenance"], *notes),
    )
