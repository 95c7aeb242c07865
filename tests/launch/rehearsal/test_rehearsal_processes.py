"""What a rehearsal needs beside its workers: stores and relay, whose end is said at once, and a
folder of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placer.records import replace

pytest.importorskip("torch")
pytest.importorskip("waitress")
if sys.platform != "linux":
    pytest.skip("rehearsals need Linux", allow_module_level=True)
from run_plans import A, B, document, plan_of, settings_of

from conftest import Run
from placer.errors import PlacerError
from placer.launch.folder_lock import locked_folder
from placer.launch.runtime.processes.run import run_here
from placer.launch.runtime.processes.store_processes import local_object_stores
from placer.launch.shaped_network import Shape, open_network
from placer.launch.shaped_network.addresses import seen

WAY = {"stream_bytes_per_s": 1e7, "pair_bytes_per_s": 1e7, "rtt_s": 0.002}


def shapes(*places: str) -> list[Shape]:
    """Alike links between some places and inside each."""
    return [Shape(src=a, dst=b, **WAY) for a in places for b in places]


def stores_here() -> set[int]:
    """Object stores that this process has started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(
                (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
            if (
                parent == os.getpid()
                and b"placer.launch.runtime.stores.local_store"
                in (process / "cmdline").read_bytes()
            ):
                found.add(int(process.name))
        except OSError:
            continue
    return found


def at_first_step(do: Callable[[], None]) -> Callable[[dict[str, Any]], None]:
    """Do something when the first step is reported."""
    done: list[bool] = []

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "step" and not done:
            done.append(True)
            do()

    return watch


def test_a_store_that_is_killed_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """No worker waits for a time-out, and no process is left."""
    told = document("central", (A, 1), (B, 1))
    plan = plan_of(told)
    before = stores_here()

    def kill() -> None:
        (store,) = stores_here() - before
        os.kill(store, signal.SIGKILL)

    settings = settings_of(tmp_path, plan, steps=100_000, checkpoints="", timeout_s=3600.0)
    with pytest.raises(PlacerError) as caught:
        run_here(plan, told, settings, tmp_path, at_first_step(kill))
    assert (
        caught.value.message
        == f"the object store in {B} (tiny-central) has ended: killed by SIGKILL"
    )
    assert caught.value.exit_code == 1
    assert stores_here() == before


def test_of_several_stores_the_one_that_is_killed_is_named(tmp_path: Path) -> None:
    """Of three, those of the two regions and the global one, the second."""
    told = document("hierarchical", (A, 1), (B, 1))
    plan = plan_of(told)
    settings = settings_of(tmp_path, plan, steps=100_000, checkpoints="", timeout_s=3600.0)
    with local_object_stores(tmp_path, plan.buckets, [None] * 3) as stores:
        settings = replace(
            settings, endpoints={store.bucket.name: store.address for store in stores}
        )
        services = {store.label: store.process for store in stores}
        with pytest.raises(PlacerError) as caught:
            run_here(
                plan,
                told,
                settings,
                tmp_path,
                at_first_step(stores[1].process.kill),
                services=services,
            )
    assert caught.value.message == f"{stores[1].label} has ended: killed by SIGKILL"
    assert stores[1].bucket.place == "gcp/b"


def test_a_relay_that_is_killed_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """Its workers lose their connections with it: the cause is named, not that loss."""
    told = document("all-reduce", (A, 1), (B, 1))
    plan = plan_of(told)
    settings = settings_of(tmp_path, plan, steps=100_000, checkpoints="", timeout_s=3600.0)
    with open_network(plan.machines, shapes(A, B), "relays") as network:
        kill = at_first_step(network.process.process.kill)
        with pytest.raises(
            PlacerError,
            match=r"^the relay of the rehearsal's network has ended: killed by SIGKILL ",
        ):
            run_here(
                plan, told, settings, tmp_path, kill, network=network, services=network.processes
            )
        with pytest.raises(
            PlacerError,
            match=r"^the relay of the rehearsal's network has ended: killed by SIGKILL ",
        ):
            network.ask()


def test_one_rehearsal_at_a_time_has_a_folder(command: Run, tmp_path: Path) -> None:
    """The second is refused in one line, before it writes anything; other folders are free."""
    path = tmp_path / "plan.json"
    from test_rehearsal import by_hand, manifest_of

    path.write_text(json.dumps(manifest_of(*by_hand())), encoding="utf-8")
    with locked_folder(tmp_path / "logs"), locked_folder(tmp_path / "others"):
        done = command("run", "--rehearse", str(path), "--dir", str(tmp_path / "logs"))
        assert done.returncode == 2
        assert (
            done.stderr.splitlines()[0]
            == f"error: another rehearsal is writing into '{tmp_path / 'logs'}'"
        )
        assert not list((tmp_path / "logs").iterdir())
    with locked_folder(tmp_path / "logs"):
        pass


def test_sigkill_frees_the_folder(tmp_path: Path) -> None:
    """The kernel does, although a process that was started meanwhile lives on."""
    code = f"""
import subprocess, sys
from pathlib import Path
from placer.launch.folder_lock import locked_folder
with locked_folder(Path({str(tmp_path)!r})):
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with (
            pytest.raises(PlacerError, match="another rehearsal is writing into"),
            locked_folder(tmp_path),
        ):
            pass
        holder.kill()
        holder.wait()
    os.kill(child, 0)
    with locked_folder(tmp_path):
        os.kill(child, signal.SIGKILL)


def test_two_networks_of_relays_stand_beside_each_other() -> None:
    """Both have a machine at 127.0.2.1: what goes through one relay is not counted, nor found, by
    the other.
    """
    places = ["A", "B"]
    with (
        open_network(places, shapes(*places), "relays") as one,
        open_network(places, shapes(*places), "relays") as other,
    ):
        assert one.addresses == other.addresses
        with socket.create_server((one.addresses[1], 0)) as server:
            port = server.getsockname()[1]
            ways = [seen(network.entry(0), one.addresses[1], port) for network in (one, other)]
            assert ways[0] != ways[1]
            with socket.create_connection(ways[0]) as client:
                client.sendall(b"x" * 1000)
                client.shutdown(socket.SHUT_WR)
                there, _ = server.accept()
                with there:
                    assert sum(iter(lambda: len(there.recv(4096)), 0)) == 1000
        assert [network.sent_bytes()[0, 1] for network in (one, other)] == [1000, 0]
