"""The export to Slurm: taken by Slurm's own controller, and what its jobs start on each node."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from exports import bash, done, on_path, plan_of
from run_plans import A, B, document, islands

import placer
from conftest import PROCESS_TIMEOUT_S, free_port
from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder
from placer.records import replace

NODES = 9
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}
SlurmctldPidFile={folder}/pid
SlurmctldLogFile={folder}/log
SlurmctldPort={port}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=-1
NodeName=n[0-{last}] CPUs=8 RealMemory=1000 Gres=gpu:8 State=CLOUD
PartitionName=all Nodes=ALL Default=YES State=UP
"""
"""Nodes of a cloud need not be there: the controller would start them."""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables of a cluster with nine nodes of 8 GPUs, by Slurm's own controller."""
    programs = [
        shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
        for name in ("munged", "slurmctld", "sbatch")
    ]
    if None in programs:
        pytest.skip("Slurm is not installed: apt-get install slurm-wlm")
    munged, controller, _ = map(str, programs)
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    words = {"host": os.uname().nodename.partition(".")[0], "user": os.environ.get("USER", "root")}
    text = CONFIGURATION.format(folder=folder, port=free_port(), last=NODES - 1, **words)
    (folder / "slurm.conf").write_text(text, encoding="utf-8")
    (folder / "gres.conf").write_text(f"NodeName=n[0-{NODES - 1}] Name=gpu Count=8\n")
    given = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    files = {"key-file": "key", "socket": "munge", "pid-file": "m", "log-file": "l"}
    options = [f"--{option}={folder / name}" for option, name in files.items()]
    running = [
        subprocess.Popen(
            [munged, "--foreground", "--force", *options, f"--seed-file={folder / 'seed'}"],
            stderr=subprocess.DEVNULL,
        )
    ]
    try:
        while not (folder / "munge").exists() and running[0].poll() is None:
            time.sleep(0.05)
        running.append(
            subprocess.Popen([controller, "-D", "-c"], env=given, stderr=subprocess.DEVNULL)
        )
        until = time.monotonic() + PROCESS_TIMEOUT_S
        ping = ["scontrol", "ping"]
        while b"UP" not in subprocess.run(ping, env=given, capture_output=True, check=False).stdout:
            assert time.monotonic() < until, (folder / "log").read_text()
            assert running[1].poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield given
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
            process.wait()


def verdicts(some: ExportPlan, folder: Path, given: dict[str, str]) -> list[str]:
    """What ``sbatch --test-only`` says of each script: processors and nodes, or why not."""
    write_folder(str(folder / "launch"), export(some, "slurm"))
    said = []
    for script in sorted((folder / "launch").glob("*.sbatch")):
        ended = done(["sbatch", "--test-only", str(script)], given, None)
        said.append(ended.stderr.strip().partition(" using ")[2] or ended.stderr.strip())
    return said


def test_sbatch_takes_the_scripts(slurm: dict[str, str], tmp_path: Path) -> None:
    """One world of four machines; two worlds of two, and one of three in another region; a server
    beside two workers: nodes as the mesh says. A node with nine GPUs is not there.
    """
    cases = [
        (islands("all-reduce", (A, 2, 2), gpu_count=8), ["32 processors on nodes n[0-3]"]),
        (
            islands("local-sgd", (A, 2, 2), (B, 1, 3), gpu_count=8),
            ["16 processors on nodes n[0-1]", "24 processors on nodes n[0-2]"],
        ),
        (document("parameter-server", (A, 2)), ["8 processors on nodes n0"] * 2),
        (islands("all-reduce", (A, 2, 2), gpu_count=9), ["Requested node configuration"]),
    ]
    for number, (told, expected) in enumerate(cases):
        (tmp_path / str(number)).mkdir()
        said = verdicts(plan_of(told), tmp_path / str(number), slurm)
        assert len(said) == len(expected)
        assert all(words in line for words, line in zip(expected, said, strict=True)), said


def test_the_jobs_of_an_array_are_worlds(tmp_path: Path) -> None:
    """The second job of an array of islands with two machines: its nodes are machines 2 and 3,
    world 1, and meet at its own first node; rank 0 is in the first job.
    """
    some = plan_of(islands("parameter-server", (A, 3, 2)))
    write_folder(str(tmp_path), export(some, "slurm"))
    programs = {
        "scontrol": "printf 'n6\\nn7\\n'",
        "srun": 'shift; for node in 0 1; do SLURM_NODEID=$node "$@"; done',
        "python3": 'if [ "$2" = run ]; then echo n1; else echo "$5"; fi',
        "torchrun": 'echo "$PLACER_RANK $PLACER_WORLD $PLACER_RENDEZVOUS_ADDRESS $*"',
    }
    given = {
        "PATH": on_path(tmp_path / "bin", **programs),
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_NODELIST": "n[6-7]",
        "SLURM_ARRAY_TASK_ID": "1",
    }
    ended = bash(str(tmp_path / "workers-0.sbatch"), "--epochs", "2", given=given)
    assert ended.returncode == 0, ended.stderr
    where = "--nproc-per-node=1 --master-addr=n6 --master-port=29402 train.py --epochs 2"
    assert ended.stdout.splitlines() == [
        f"2 1 n1 --nnodes=2 --node-rank=0 {where}",
        f"3 1 n1 --nnodes=2 --node-rank=1 {where}",
    ]


@pytest.mark.parametrize("train", ["train.py", "mymodel:workload"])
def test_the_page_says_where_options_go_and_how_long_a_job_may_take(train: str) -> None:
    """Whatever the machines start: nobody said how much this job trains."""
    page = export(replace(plan_of(document("all-reduce", (A, 2))), train=train), "slurm")[
        "README.md"
    ]
    assert "Options of sbatch, such as `--partition` or `--account`, go before" in page
    assert "`--time` is the cluster's default: nobody said how much the job trains." in page


def test_a_job_has_its_time_and_goes_on_after_a_reclaim() -> None:
    """10 B tokens in steps of 512 x 8,192: 2,385 steps; a quarter more time than is predicted; spot
    machines are requeued.
    """
    told = placer.recommend(
        "llama-3.1-8b", budget="100/h", tokens="10B", alternatives=False
    ).to_manifest()
    text = export(plan_of(told), "slurm")["workers-0.sbatch"]
    minutes = 2385 * told["expected"]["step_seconds"]["total"] * 1.25 / 60
    assert f"\n#SBATCH --time={int(minutes) + 1}\n" in text
    assert "\n#SBATCH --requeue\n" in text
    assert "\nexport PLACER_JOB_STEPS=2385\n" in text
