"""Exported hivemind scripts, started with programs that print what they get in the place of
hivemind-dht and python3.
"""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from exports import bash, changed, on_path, plan, plan_of

from placer.launch.export import export
from placer.launch.export.folder import write_folder
from placer.launch.export.targets.hivemind import AVERAGE_STATE_EVERY, batch_size_per_step

PORT = 24_700
"""Scripts look whether it is taken on this machine, so not the usual 29400."""
ECHO = 'printf "%s\\n" "$PLACER_OPTIMIZER" "$@"'


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported plan of two groups."""
    folder = tmp_path_factory.mktemp("hivemind") / "launch"
    document = json.loads(plan("all-reduce", workers="2..2").text)
    document = changed(document, rendezvous={**document["rendezvous"], "port": PORT})
    write_folder(str(folder), export(plan_of(document), "hivemind"))
    return folder


def run(launch: Path, name: str, cwd: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Start a script with stand-ins for what it starts."""
    path = on_path(launch.parent / "bin", hivemind_dht=ECHO, python3=ECHO)
    return bash(str(launch / name), cwd=cwd, given={**os.environ, "PATH": path, **given})


def started(launch: Path, name: str, cwd: Path, **variables: str) -> list[str]:
    """What a script starts its program with: the path of the arguments, then the words."""
    given = {"PLACER_OPTIMIZER": "", "PLACER_LISTEN_ADDRESS": "", **variables}
    done = run(launch, name, cwd, **given)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def after(words: list[str], option: str) -> str:
    """The word after the last occurrence of an option, which is the one that counts."""
    return words[len(words) - words[::-1].index(option)]


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("10.1.0.1", f"/ip4/10.1.0.1/tcp/{PORT}"),
        ("fd00::1", f"/ip6/fd00::1/tcp/{PORT}"),
        ("a.example", f"/dns4/a.example/tcp/{PORT}"),
    ],
)
def test_the_bootstrap_peer_announces_its_address(
    launch: Path, tmp_path: Path, address: str, shown: str
) -> None:
    """By kind of address; gradients never pass through it."""
    words = started(launch, "bootstrap.sh", tmp_path, PLACER_RENDEZVOUS_ADDRESS=address)
    assert after(words, "--announce_maddrs") == shown
    assert after(words, "--host_maddrs") == f"/ip4/0.0.0.0/tcp/{PORT}"
    assert "--no_relay" in words


def test_a_peer_listens_where_it_is_told(launch: Path, tmp_path: Path) -> None:
    """Rank 1 has the second port after the bootstrap peer's; its arguments are found from any
    folder.
    """
    words = started(launch, "workers-1.sh", tmp_path, PLACER_INITIAL_PEERS="/a /b")
    assert words[0] == str(launch / "optimizer.json")
    assert "--announce_maddrs" not in words
    assert after(words, "--host_maddrs") == f"/ip4/0.0.0.0/tcp/{PORT + 2}"
    assert words[words.index("--initial_peers") + 1 :][:2] == ["/a", "/b"]
    told = {"PLACER_LISTEN_ADDRESS": "127.0.0.9", "PLACER_PEER_ADDRESS": "203.0.113.7"}
    words = started(launch, "workers-1.sh", tmp_path, PLACER_INITIAL_PEERS="/a", **told)
    assert after(words, "--host_maddrs") == f"/ip4/127.0.0.9/tcp/{PORT + 2}"
    assert after(words, "--announce_maddrs") == f"/ip4/203.0.113.7/tcp/{PORT + 2}"


def test_a_taken_port_is_said(launch: Path, tmp_path: Path) -> None:
    """The daemon of hivemind would share it, and peers would reach the other run."""
    with socket.create_server(("127.77.0.1", PORT + 2)):
        given = {"PLACER_LISTEN_ADDRESS": "127.77.0.1", "PLACER_INITIAL_PEERS": "/a"}
        done = run(launch, "workers-1.sh", tmp_path, **given)
    assert done.returncode == 2
    assert done.stderr == f"port {PORT + 2} of this machine is taken: another run?\n"
    assert not list(tmp_path.iterdir())


def test_arguments_cost_the_bytes_that_the_plan_has(launch: Path) -> None:
    """Parameters are averaged beside gradients only now and then: 1 / 50 of the bytes; by default
    hivemind does so in every step.
    """
    found = json.loads((launch / "optimizer.json").read_text())["optimizer"]
    assert found["average_state_every"] == AVERAGE_STATE_EVERY == 50
    assert not found["delay_grad_averaging"]
    assert not found["use_local_updates"]
    assert found["next_chunk_timeout"] >= max(15.0, found["matchmaking_time"])
    assert found["averaging_timeout"] >= 60
    assert found["averager_opts"] == {"target_group_size": 2}


def test_a_peer_hands_over_a_micro_batch_of_each_device() -> None:
    """Four devices hand over four micro-batches."""
    some = plan("all-reduce")
    each = some.manifest.exchange.microbatch
    assert [batch_size_per_step(some, devices) for devices in (1, 4)] == [each, 4 * each]
