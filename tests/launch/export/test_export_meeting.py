"""Machines whose addresses nobody knows before they are there find rank 0 by what was exported:
processes on the loopback, each with the environment that SkyPilot or Kubernetes would give it.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from exports import parsed, plan_of, tasks_of
from run_plans import A, B, C, document, islands

from conftest import PROCESS_TIMEOUT_S, completed, free_port
from placer.launch.export import export
from placer.launch.export.texts.readme import meeting_program

PUBLIC = "192.0.2.7"
"""An address at which nobody answers (RFC 5737)."""
TORCHRUN = f"""#!{sys.executable}
import json, socket, sys, time
words = dict(word[2:].split("=") for word in sys.argv[1:] if word.startswith("--"))
where = (words["master-addr"], int(words["master-port"]))
if words["node-rank"] == "0":
    with socket.create_server(where) as server:
        server.settimeout(20)
        heard = set()
        while len(heard) < int(words["nnodes"]) - 1:
            heard.add(server.accept()[0].recv(9))
            heard.discard(b"")
else:
    for _ in range(200):
        try:
            socket.create_connection(where).sendall(words["node-rank"].encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
print(json.dumps(sys.argv[1:]))
"""
"""Stands in for torchrun where the arguments matter: rank 0 listens, the others reach it."""


def stand_in(folder: Path) -> str:
    """A PATH with the stand-in of torchrun, and the Python of the tests as python3."""
    bin_ = folder / "bin"
    bin_.mkdir()
    (bin_ / "torchrun").write_text(TORCHRUN, encoding="utf-8")
    (bin_ / "torchrun").chmod(0o755)
    (bin_ / "python3").symlink_to(sys.executable)
    return f"{bin_}{os.pathsep}{os.environ['PATH']}"


def outputs(scripts: Iterable[tuple[str, dict[str, str]]], folder: Path, path: str) -> list[str]:
    """Start each script with its variables, the last first and a while before the others; return
    what they print.
    """
    port = str(free_port())
    processes: list[subprocess.Popen[str]] = []
    alike = {
        "PATH": path,
        "HOME": str(folder),
        "PLACER_PORT": port,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    machines = list(scripts)
    try:
        for number, (text, variables) in reversed(list(enumerate(machines))):
            (folder / f"{number}.sh").write_text(text, encoding="utf-8")
            process = subprocess.Popen(
                ["bash", f"{number}.sh"],
                cwd=folder,
                env={**alike, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            processes.insert(0, process)
            time.sleep(0.3 if number == len(machines) - 1 else 0)
        ends = [process.communicate(timeout=PROCESS_TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * len(processes), ends
    return [said.strip() for said, _ in ends]


def skypilot(told: dict[str, Any], folder: Path) -> list[tuple[str, dict[str, str]]]:
    """What SkyPilot starts on each machine, with a folder in place of the mounted bucket."""
    (folder / "meet.py").write_text(meeting_program(), encoding="utf-8")
    given = {"SKYPILOT_NODE_IPS": "127.0.0.1", "PLACER_MEETING": str(folder / "bucket")}
    given["GLOO_SOCKET_IFNAME"] = "lo"  # in place of Tailscale's
    return [
        (task["run"], {**task["envs"], **given, "SKYPILOT_NODE_RANK": str(node)})
        for task in tasks_of(plan_of(told))
        for node in range(task["num_nodes"])
    ]


def pods(told: dict[str, Any], target: str, **given: str) -> list[tuple[str, dict[str, str]]]:
    """What Kubernetes starts in each pod, with values for what it looks up."""
    given = {"GLOO_SOCKET_IFNAME": "lo", **given}
    made: list[tuple[str, dict[str, str]]] = []
    for document_ in parsed(plan_of(told), target):
        spec = document_["spec"]
        if target == "jobset":
            jobs = [job["template"]["spec"] for job in spec["replicatedJobs"]]
            containers = [
                (job["template"]["spec"]["containers"][0], job["completions"]) for job in jobs
            ]
        else:
            containers = [(spec["trainer"], spec["trainer"]["numNodes"])]
        for container, count in containers:
            known = {
                entry["name"]: entry.get("value", given.get(entry["name"], "")).replace("$$", "$")
                for entry in container["env"]
            }
            text = container["command"][2].replace("$$", "$")
            made += [(text, {**known, "JOB_COMPLETION_INDEX": str(n)}) for n in range(count)]
    return made


def arguments(said: list[str]) -> list[tuple[int, int, str]]:
    """Machines, rank and address that torch's own parser reads from the arguments."""
    run = pytest.importorskip("torch.distributed.run")
    read = [run.get_args_parser().parse_args(json.loads(words)) for words in said]
    return [(int(words.nnodes), words.node_rank, words.master_addr) for words in read]


def test_tasks_of_two_places_meet_in_a_bucket(tmp_path: Path) -> None:
    """SkyPilot's two tasks, the second started first, where an earlier start left an address that
    nobody has any more. Torch's own torchrun gets such arguments in test_examples.py.
    """
    machines = skypilot(document("all-reduce", (A, 1), (C, 1)), tmp_path)
    name = "{PLACER_RUN}-{PLACER_MANIFEST_DIGEST:.16}-run".format_map(machines[0][1])
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / name).write_text(PUBLIC, encoding="utf-8")
    said = outputs(machines, tmp_path, stand_in(tmp_path))
    assert arguments(said) == [(2, 0, "127.0.0.1"), (2, 1, "127.0.0.1")]
    assert (tmp_path / "bucket" / name).read_text(encoding="utf-8") == "127.0.0.1"


@pytest.mark.parametrize("target", ["jobset", "trainjob"])
def test_pods_of_two_clusters_meet_in_a_bucket(tmp_path: Path, target: str, endpoint: str) -> None:
    """By an object of S3; the first cluster's pods know rank 0 by its name there."""
    boto3 = pytest.importorskip("boto3")
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket="mine")
    access = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    told = document("all-reduce", (A, 1), (B, 2))
    machines = pods(told, target, PLACER_MEETING="s3://mine/runs", PLACER_OWN_ADDRESS="127.0.0.1")
    said = outputs(
        ((text, {**given, **access}) for text, given in machines), tmp_path, stand_in(tmp_path)
    )
    assert arguments(said) == [(3, rank, "127.0.0.1") for rank in range(3)]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[str]:
    """A server of etcd, where it is installed."""
    program = os.environ.get("PLACER_ETCD") or shutil.which("etcd")
    if program is None:
        pytest.skip("etcd is not installed; PLACER_ETCD may name it")
    clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    words = [
        f"--data-dir={tmp_path / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
    ]
    with subprocess.Popen(
        [program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for_health(clients)
            yield clients.replace("http", "etcd")
        finally:
            server.kill()


def wait_for_health(address: str) -> None:
    """Wait until etcd has a leader, as the one that pods meet in has long had."""
    until = time.monotonic() + PROCESS_TIMEOUT_S
    while time.monotonic() < until:
        try:
            with urlopen(f"{address}/health", timeout=5) as answer:  # noqa: S310 - of http
                if json.load(answer)["health"] == "true":
                    return
        except OSError:
            time.sleep(0.1)
    pytest.fail("etcd did not become healthy")


def test_pods_of_two_clusters_meet_in_etcd(tmp_path: Path, etcd: str) -> None:
    """Where pods have no store: etcd needs an address and no credentials."""
    machines = pods(
        document("all-reduce", (A, 1), (B, 1)),
        "trainjob",
        PLACER_MEETING=etcd,
        PLACER_OWN_ADDRESS="127.0.0.1",
    )
    said = outputs(machines, tmp_path, stand_in(tmp_path))
    assert arguments(said) == [(2, 0, "127.0.0.1"), (2, 1, "127.0.0.1")]


def host_names(folder: Path, names: Iterable[str]) -> list[str]:
    """A command that runs another where names lead to the loopback, as a headless service's do in
    a cluster; skips where the system lets nobody mount.
    """
    hosts = folder / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in names), encoding="utf-8")
    words = ["unshare", "-rm", "sh", "-c", f'mount --bind "{hosts}" /etc/hosts && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("no mount name spaces for users here")
    return words


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("jobset", "tiny-all-reduce-2-workers-0-0-0.tiny-all-reduce-2"),
        ("trainjob", "tiny-all-reduce-2-workers-0-node-0-0.tiny-all-reduce-2-workers-0"),
    ],
)
def test_pods_of_one_cluster_meet_by_name(tmp_path: Path, target: str, first: str) -> None:
    """A headless service gives the first pod a name before it is there: JobSet calls it
    SET-JOB-0-INDEX.SET (jobset.sigs.k8s.io), Trainer's set is called as the TrainJob and its job
    node. No ConfigMap is needed.
    """
    told = document("all-reduce", (A, 2))
    enter = " ".join(f"'{word}'" for word in host_names(tmp_path, [first]))
    path = stand_in(tmp_path)
    python = tmp_path / "bin" / "torchrun"
    python.rename(tmp_path / "bin" / "torchrun.py")
    python.write_text(f'#!/bin/sh\nexec {enter} "{python}.py" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    machines = pods(told, target)
    assert arguments(outputs(machines, tmp_path, path)) == [(2, 0, first), (2, 1, first)]
    assert "configmap" not in export(plan_of(told), target)["README.md"]


def test_train_jobs_of_one_cluster_meet_by_name() -> None:
    """Two islands in one place are two TrainJobs of one name space: both know the first's pod."""
    jobs = parsed(plan_of(islands("local-sgd", ("aws/us-east-1", 2, 2))), "trainjob")
    environments = [
        {entry["name"]: entry.get("value") for entry in job["spec"]["trainer"]["env"]}
        for job in jobs
    ]
    (first,) = {one["PLACER_RENDEZVOUS_ADDRESS"] for one in environments}
    own = [one.get("PLACER_WORLD_ADDRESS", first) for one in environments]
    assert own == [first, first.replace("workers-0-0", "workers-0-1")]


def test_scripts_of_torchrun_meet_without_an_address(tmp_path: Path) -> None:
    """`PLACER_MEETING` in place of an address, by the program beside the scripts."""
    files = export(plan_of(document("all-reduce", (A, 1), (B, 1))), "torchrun")
    (tmp_path / "meet.py").write_text(files["meet.py"], encoding="utf-8")
    given = {"PLACER_MEETING": str(tmp_path / "share")}
    machines = [(files[f"workers-{n}.sh"], given) for n in range(2)]
    said = outputs(machines, tmp_path, stand_in(tmp_path))
    assert arguments(said) == [(2, 0, "127.0.0.1"), (2, 1, "127.0.0.1")]


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    """Rank 0 never tells its address: after the time of the plan the machine says where it looked,
    and the script ends.
    """
    program = tmp_path / "meet.py"
    program.write_text(meeting_program(), encoding="utf-8")
    given = {
        "PLACER_MEETING": str(tmp_path),
        "PLACER_RUN": "a",
        "PLACER_MANIFEST_DIGEST": "b",
        "PLACER_JOIN_TIMEOUT_S": "0.1",
    }
    done = completed([sys.executable, program, "run", "1", "29400", ""], env=given)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"rank 0 did not answer at port 29400 of the address in {tmp_path}\n"


def test_the_port_probe_of_a_closed_port() -> None:
    """Nobody listens: the address is not taken."""
    scope: dict[str, Any] = {"__name__": "meeting_point"}
    exec(meeting_program(), scope)  # noqa: S102 - the shipped text itself
    port = free_port()
    assert not scope["answers"]("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert scope["answers"]("127.0.0.1", port)
