"""The scripts of ``placer export --to torchrun`` where torchft exchanges, on CPUs: a replica is
lost, the others go on, and send what is priced.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchft")
if sys.platform != "linux":
    pytest.skip("processes end with their parent", allow_module_level=True)
from run_plans import A, B, C, document, plan_of

from conftest import PROCESS_TIMEOUT_S, ROOT, free_port
from placer.documents.manifest import read_manifest
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder
from placer.launch.export.targets.torchrun import group_scripts
from placer.problem.exchange import bytes_by_link

ROUNDS, BYTES = 4, 132.0
"""Rounds of a run, and bytes of the model."""


def records_of(log: Path) -> list[dict[str, Any]]:
    """Whole records of a log that may still grow."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [json.loads(line) for line in lines]


def test_the_exported_scripts_go_on_without_a_lost_replica(tmp_path: Path) -> None:
    """Streaming DiLoCo by three scripts, quorum 2 of 3: the last stops in its second round and is
    killed there. Rounds are those of the plan; a round sends the bytes that are priced for three
    workers, and after the loss those for two. Local SGD and DiLoCo have the same scripts, and what
    they do is in `test_torchft.py`.
    """
    strategy, h = "streaming-diloco", 4
    words: dict[str, Any] = {"local_steps": h, "overlap": True, "quorum": 2, "grace_s": 60.0}
    told = document(strategy, (A, 1), (B, 1), (C, 1), **words)
    text = json.dumps(told)
    export = ExportPlan(manifest=read_manifest(told, "plan"), text=text, train="run_plans:stopping")
    write_folder(str(tmp_path), {**group_scripts(export, "torchrun"), "manifest.json": text})
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
        "PLACER_RENDEZVOUS_ADDRESS": "127.0.0.1",
        "PLACER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
        "PLACER_NODE": "0",
        "PLACER_TEST_BATCHES": str(3 * h),  # of 3, 3 and 2 samples in a step
        "PLACER_STEPS": str(ROUNDS * h),
        "PLACER_OUT": str(tmp_path / "run"),
    }
    more = ["--device", "cpu", "--threads", "1", "--timeout", "8", "--checkpoint-every", "0"]
    started = []
    try:
        for group in range(3):
            with (tmp_path / f"said-{group}").open("w") as said:
                started.append(
                    subprocess.Popen(
                        ["bash", f"workers-{group}.sh", *more],
                        cwd=tmp_path,
                        env=environment,
                        stdout=said,
                        stderr=said,
                    )
                )
        until = time.monotonic() + PROCESS_TIMEOUT_S
        while time.monotonic() < until and started[2].poll() is None:
            steps = [
                r["step"] for r in records_of(tmp_path / "run" / "run-rank-2.jsonl") if "step" in r
            ]
            if max(steps, default=0) >= h - 1:
                started[2].send_signal(signal.SIGKILL)
            time.sleep(0.02)
        codes = [process.wait(PROCESS_TIMEOUT_S) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert codes == [0, 0, -signal.SIGKILL], (tmp_path / "said-0").read_text()
    records = records_of(tmp_path / "run" / "run.jsonl")
    assert {r["rank"] for r in records if r["kind"] == "end"} == {0, 1}
    assert len({r["parameters_sha256"] for r in records if r["kind"] == "end"}) == 1
    three = bytes_by_link(plan_of(told).phases(BYTES))
    two = bytes_by_link(plan_of(document(strategy, (A, 1), (B, 1), **words)).phases(BYTES))
    priced = [sum(way.values()) / count for way, count in ((three, 3), (two, 2))]
    for rank in (0, 1):
        sent = [0.0] * ROUNDS
        for record in records:
            if record["kind"] == "step" and record["rank"] == rank:
                sent[record["step"] // h] += sum(part["bytes"] for part in record["sent"])
        assert sent[0] == pytest.approx(priced[0], rel=0.02)
        assert sent[-1] == pytest.approx(priced[1], rel=0.02)
