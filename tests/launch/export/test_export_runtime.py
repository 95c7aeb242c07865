"""Exports whose machines start placer's own runtime: by real processes, each in a folder of its
own, and by what each script asks for.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conforming import validator
from exports import bash, on_path, parsed, plan_of
from run_plans import A, B, C, document, islands

from conftest import PROCESS_TIMEOUT_S, ROOT, Run, free_port
from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder
from placer.launch.export.texts.files import assignments

EXPORT = ("export", "plan.json", "--to", "torchrun", "--dir", "launch", "--train")
MODEL = """
import torch
def workload():
    loss = lambda module, batch: ((module(batch) - batch) ** 2).mean()
    return torch.nn.Linear(8, 8, bias=False), lambda count: torch.randn(count, 8), loss
"""
"""64 parameters, 256 bytes: they divide by 2 and by 4, so bytes are those of the prediction."""


def plan(told: dict[str, Any], **words: Any) -> ExportPlan:
    """A manifest to be trained by a function."""
    return plan_of(told, **{"train": "mymodel:workload", **words})


def started(folder: Path, told: dict[str, Any], run: Run) -> dict[str, Path]:
    """Export to torchrun, copy the folder for each machine, start all scripts from elsewhere;
    returns the folders by group and number.
    """
    (folder / "plan.json").write_text(json.dumps(told), encoding="utf-8")
    done = run(*EXPORT, "mymodel:workload", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "launch" / "mymodel.py").write_text(MODEL, encoding="utf-8")
    names = [
        (group["name"], node)
        for group in told["groups"]
        for node in range(group["count"] * group.get("machines", 1))
    ]
    names += [("server", 0)] if (folder / "launch" / "server.sh").exists() else []
    environment = {
        **os.environ,
        "PLACER_RENDEZVOUS_ADDRESS": "127.0.0.1",
        "PLACER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PATH": on_path(folder / "bin", placer=f'exec "{sys.executable}" -m placer "$@"'),
        "PYTHONPATH": str(ROOT),
        "PLACER_STEPS": "6",
        "WORLD_SIZE": "99",
    }
    machines, processes = {}, []
    try:
        for name, node in names:
            machine = machines[f"{name}-{node}"] = folder / f"machine-{name}-{node}"
            shutil.copytree(folder / "launch", machine)
            with (folder / f"{name}-{node}.txt").open("w") as said:
                script = str(machine / f"{name}.sh")
                words = ["bash", script, "--threads", "1", "--device", "cpu"]
                environment["PLACER_NODE"] = str(node)
                processes.append(
                    subprocess.Popen(words, cwd=folder, env=environment, stdout=said, stderr=said)
                )
        codes = [process.wait(timeout=PROCESS_TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [0] * len(names), "".join(file.read_text() for file in folder.glob("*.txt"))
    return machines


def whole_log(path: Path, ranks: int) -> list[dict[str, Any]]:
    """Records of rank 0's log: each follows the schema, all ranks took all six steps and ended with
    equal parameters.
    """
    records = [json.loads(line) for line in path.read_text().splitlines()]
    check = validator("run")
    for record in records:
        check.validate(record)
    steps = sorted(
        (record["rank"], record["step"]) for record in records if record["kind"] == "step"
    )
    assert steps == [(rank, step) for rank in range(ranks) for step in range(6)]
    return records


def bytes_of(records: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[float, float]]:
    """Predicted and measured bytes of a round by pair of places."""
    return {
        (row["src"], row["dst"]): (row["predicted"], row["measured"])
        for row in records[-1]["bytes"]
    }


@pytest.mark.nightly
def test_machines_of_islands_train_from_an_exported_folder(run: Run, tmp_path: Path) -> None:
    """Two islands of two machines, each machine with a copy of the folder and a launcher of its
    own: ranks count machines, the log has the steps of the two islands, the others keep their own
    part of it and of checkpoints, and both islands end alike.

    Each island's machines hold 32 of 64 parameters, and a pair of equal machines averages them in a
    ring of two, so 2 x 128 bytes go each way. Each run starts exported scripts in
    test_torchft_export.py, two launchers in test_run_command.py, and islands in test_runtime.py.
    """
    pytest.importorskip("torch")
    told = islands("all-reduce", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"})
    machines = started(tmp_path, told, run)
    assert sorted(machines) == ["workers-0-0", "workers-0-1", "workers-1-0", "workers-1-1"]
    there = json.loads((machines["workers-1-1"] / "manifest.json").read_text())
    folder = f"{told['name']}-run"
    records = whole_log(machines["workers-0-0"] / folder / "run.jsonl", 2)
    assert there["digest"] == records[0]["manifest"]["digest"] == told["digest"]
    assert len({record["parameters_sha256"] for record in records if record["kind"] == "end"}) == 1
    assert bytes_of(records) == {(A, B): (256, 256), (B, A): (256, 256)}
    own = (machines["workers-1-0"] / folder / "run-rank-2.jsonl").read_text().splitlines()
    assert {json.loads(line).get("rank", 1) for line in own} == {1}  # of the second island
    checkpoints = machines["workers-1-0"] / folder / "checkpoints" / "step-00000006" / "world-0"
    assert [file.name for file in checkpoints.iterdir()] == ["__2_0.distcp"]


@pytest.mark.nightly
def test_a_parameter_server_has_a_machine_and_the_last_rank(run: Run, tmp_path: Path) -> None:
    """A worker a region pushes 256 bytes to the server in the first and pulls as many; both end
    alike. Each run asks the server's script for its rank, below, and trains with a server in
    test_runtime.py.
    """
    pytest.importorskip("torch")
    machines = started(tmp_path, document("parameter-server", (A, 1), (B, 1)), run)
    records = whole_log(machines["workers-0-0"] / "tiny-parameter-server-2-run" / "run.jsonl", 3)
    ends = [record for record in records if record["kind"] == "end" and record["rank"] < 2]
    assert ends[0]["parameters_sha256"] == ends[1]["parameters_sha256"]
    assert bytes_of(records) == {(A, A): (512, 512), (A, B): (256, 256), (B, A): (256, 256)}
    assert (machines["server-0"] / "tiny-parameter-server-2-run" / "run-rank-2.jsonl").is_file()


SAY = 'echo "$MASTER_ADDR:$MASTER_PORT ${WORLD_SIZE:-}" "$@"'


def test_a_script_asks_for_its_rank(tmp_path: Path) -> None:
    """Machine 1 of the second group is rank 3; steps, folder and --resume by variables, other
    options behind the script's name.
    """
    some = plan(document("all-reduce", (A, 2), (B, 2)))
    write_folder(str(tmp_path / "launch"), export(some, "torchrun"))
    given = {
        "PATH": on_path(tmp_path / "bin", placer=f"pwd; {SAY}"),
        "PLACER_NODE": "1",
        "PLACER_RENDEZVOUS_ADDRESS": "10.0.0.1",
        "GLOO_SOCKET_IFNAME": "wg0",
        "WORLD_SIZE": "2",
    }

    def start(*words: str, **more: str) -> list[str]:
        done = bash(str(tmp_path / "launch/workers-1.sh"), *words, given={**given, **more})
        return [done.stderr, *done.stdout.splitlines()]

    usual = (
        "run manifest.json --train mymodel:workload --rank 3 --steps 20 --out tiny-all-reduce-4-run"
    )
    assert start() == ["", str(tmp_path / "launch"), f"10.0.0.1:29400  {usual}"]
    more = usual.replace("20", "7").replace("tiny-all-reduce-4-run", "/a b")
    assert start(
        "--tbs", "8", PLACER_STEPS="7", PLACER_OUT="/a b", PLACER_RESUME="1", PLACER_PORT="1"
    )[2:] == [f"10.0.0.1:1  {more} --resume --tbs 8"]
    assert start(PLACER_RESUME="auto")[2].endswith("-run --resume-if-any")
    assert "address of rank 0" in start(PLACER_RENDEZVOUS_ADDRESS="")[0]
    assert "placer is not installed" in start(PATH="/usr/bin:/bin")[0]
    served = plan(document("parameter-server", (A, 1), (B, 1)))
    write_folder(str(tmp_path / "served"), export(served, "torchrun"))
    last = bash(str(tmp_path / "served/server.sh"), given={**given, "PLACER_NODE": "0"})
    assert "--rank 2 --steps 20 --out tiny-parameter-server-2-run" in last.stdout


def ran(script: str, folder: Path, **variables: str) -> str:
    """What a script starts, on machines that have the stand-in."""
    path = on_path(
        folder / "bin",
        placer=f'mkdir -p out; for n in run run-rank-2 run-rank-3; do echo "{{\\"$n\\": 1}}" > '
        f"out/$n.jsonl; done; {SAY}; exit 3",
    )
    (folder / "script.sh").write_text(script, encoding="utf-8")
    given = {"PATH": path, "PLACER_OUT": "out", "HOME": str(folder), **variables}
    done = bash("script.sh", cwd=folder, given=given)
    assert done.returncode == 3, done.stderr
    return done.stdout


def test_skypilot_starts_each_rank_and_prints_the_log(tmp_path: Path) -> None:
    """Setup installs the wheel that lies in the folder; the machine goes, so its log is printed,
    and the failure stays one.
    """
    some = plan(document("parameter-server", (A, 1), (B, 2)))
    (tmp_path / "meet.py").write_text(export(some, "skypilot")["meet.py"], encoding="utf-8")
    header, *tasks = parsed(some, "skypilot")
    assert header["primary_tasks"] == ["workers-0", "workers-1"]
    (tmp_path / "placer-env" / "bin").mkdir(parents=True)
    (tmp_path / "placer-env" / "bin" / "activate").touch()
    for task, node, rank, log in (
        (tasks[0], "0", 0, "run"),
        (tasks[1], "1", 2, "run-rank-2"),
        (tasks[2], "0", 3, "run-rank-3"),
    ):
        assert "pip install" in task["setup"]
        known = "SKYPILOT_NODE_IPS" if rank == 0 else "PLACER_RENDEZVOUS_ADDRESS"
        envs = {**task["envs"], known: "10.0.0.1", "PLACER_MEETING": str(tmp_path / "meeting")}
        envs |= {"PLACER_OWN_ADDRESS": "10.0.0.1", "PLACER_OUT": "out"}
        said = ran(task["run"], tmp_path, **envs, SKYPILOT_NODE_RANK=node)
        assert (
            f"10.0.0.1:29400  run manifest.json --train mymodel:workload --rank {rank} --steps 20 "
            f"--out out --resume-if-any"
        ) in said
        logged = [line for line in said.splitlines() if line.startswith("placer-log ")]
        assert logged == [f'placer-log {{"{log}": 1}}']
    (told,) = (tmp_path / "meeting").iterdir()
    assert told.read_text(encoding="utf-8") == "10.0.0.1"


@pytest.mark.parametrize("target", ["jobset", "trainjob"])
def test_pods_read_the_manifest_from_a_config_map(tmp_path: Path, target: str) -> None:
    """Each pod sees the map that the README's command makes, and starts its rank with it."""
    some = plan(document("all-reduce", (A, 1), (B, 2)))
    made = "create configmap tiny-all-reduce-3-manifest --from-file=manifest.json"
    assert made in export(some, target)["README.md"]
    for number, item in enumerate(parsed(some, target)):
        if target == "jobset":
            (job,) = item["spec"]["replicatedJobs"]
            pod = job["template"]["spec"]["template"]["spec"]
            started = pod["containers"][0]
        else:
            (patch,), started = item["spec"]["runtimePatches"], item["spec"]["trainer"]
            (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
            pod = job["template"]["spec"]["template"]["spec"]
        command, env = started["command"], started["env"]
        mounts = pod["containers"][0]["volumeMounts"]
        assert pod["volumes"] == [
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": mounts[1]["name"], "configMap": {"name": "tiny-all-reduce-3-manifest"}},
        ]
        assert mounts[0] == {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108
        given = {entry["name"]: entry.get("value", "10.0.0.1") for entry in env}
        script = command[2].replace("$$", "$")
        said = ran(script, tmp_path, **given, JOB_COMPLETION_INDEX=str(number))
        assert (
            f"run {mounts[1]['mountPath']}/manifest.json --train mymodel:workload --rank "
            f"{2 * number} --steps 20"
        ) in said


@pytest.mark.parametrize(
    ("strategy", "last"),
    [("all-reduce", 3), ("parameter-server", 4), ("central", 4), ("hierarchical", 6)],
)
def test_compose_runs_every_rank_once(tmp_path: Path, strategy: str, last: int) -> None:
    """Server or functions are a container with the last ranks, a function for each bucket; all meet
    at rank 0, the store is given.
    """
    services = parsed(plan(document(strategy, (A, 2), (C, 2))), "compose")[0]["services"]
    ranks: list[int] = []
    for service in services.values():
        if "command" in service:
            given = {
                name: value.split(":-")[-1].rstrip("}") if value.startswith("${") else value
                for name, value in service["environment"].items()
            }
            words = ran(service["command"][2].replace("$$", "$"), tmp_path, **given).split()
            assert words[0] == "workers-0-0:29400"
            assert "--one-machine" in words
            assert ("--endpoint-url" in words) == (strategy in ("central", "hierarchical"))
            first, _, last_here = words[words.index("--rank") + 1].partition("-")
            ranks += range(int(first), int(last_here or first) + 1)
    assert sorted(ranks) == list(range(last + 1))


def test_one_worker_meets_nobody(tmp_path: Path) -> None:
    """It needs no address."""
    script = export(plan(document("none", (A, 1))), "torchrun")["workers-0.sh"]
    said = ran(script, tmp_path)
    assert "127.0.0.1:29400  run manifest.json --train mymodel:workload --rank 0" in said


def test_the_folder_holds_the_manifest_itself(run: Run, tmp_path: Path) -> None:
    """Byte for byte what --manifest wrote; it validates, and the scripts name its digest."""
    words = (
        "--model roberta-xlm --catalog erben-2023 --workers "
        "gcp/us-central1=2xT4:spot,gcp/us-west1=1xT4:spot --exchange all-reduce"
    )
    assert run("estimate", *words.split(), "--manifest", "plan.json", cwd=tmp_path).returncode == 0
    done = run(*EXPORT, "a.b:c", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole = (tmp_path / "plan.json").read_bytes()
    assert (tmp_path / "launch" / "manifest.json").read_bytes() == whole
    assert run("validate", "launch/manifest.json", cwd=tmp_path).returncode == 0
    found = assignments((tmp_path / "launch" / "workers-0.sh").read_text())
    assert found["PLACER_MANIFEST_DIGEST"] == json.loads(whole)["digest"]
    assert found["PLACER_TRAIN"] == "a.b:c"
    assert "no difference" in run(*EXPORT, "a.b:c", "--diff", cwd=tmp_path).stdout
    script = run(*EXPORT[:-1], "--diff", cwd=tmp_path).stdout
    assert "-exec placer run" in script
    assert "+exec torchrun" in script
