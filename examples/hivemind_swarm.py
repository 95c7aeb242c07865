"""Machines of an exported plan as processes on this computer, and the network between them; used by `hivemind_trial.py`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

JOIN = (
    "import json, os, sys\n"
    "entry = json.loads(sys.argv[1])\n"
    "if entry:\n    from placer.rehearsal.network.enter import enter; enter(entry)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)
"""Program that joins a machine's network, then becomes the machine's own program."""
START_S, END_S, POLL_S = 120.0, 20.0, 0.5


class Machines:
    """Processes, each the leader of a group of its own: hivemind starts a daemon and several processes more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, words: list[str], entry: dict[str, Any] | None, environment: dict[str, str]) -> None:
        """Start a program in the network of a machine; its output goes to NAME.log."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-c", JOIN, json.dumps(entry), *words],
                cwd=self.folder,
                env={**os.environ, "PATH": path, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        """What a program has written so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Lines of JSON that a peer has written."""
        return [json.loads(line) for line in self.log(name).splitlines(keepends=True) if line.startswith("{") and line.endswith("}\n")]

    def wait_for_words(self, name: str, pattern: str, limit_s: float) -> str:
        """Return the first text of a program's output that matches; stop where it ends without."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            ended = self.running[name].poll() is not None
            found = re.search(pattern, self.log(name))
            if found or ended:
                break
            time.sleep(POLL_S)
        if not found:
            sys.exit(f"error: {name} did not start; see {self.folder / name}.log")
        return found[0]

    def end(self) -> None:
        """Ask all to end, then end them and whatever they started."""
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Loopback:
    """No network of its own: all machines are one address of this computer, not that of another trial."""

    def __init__(self, count: int) -> None:
        self.addresses = [f"127.{1 + os.getpid() % 250}.{1 + os.getpid() // 250 % 250}.1"] * count

    def entry(self, _machine: int) -> None:
        """There is nothing to join."""

    def sent_bytes(self) -> dict[tuple[int, int], float]:
        """Nobody counts."""
        return {}


@contextlib.contextmanager
def network_of(manifest: dict[str, Any], *, shaped: bool) -> Iterator[Any]:
    """The network of a plan: a namespace for each machine and links as the plan has them, or loopback."""
    places = [group["place"] for group in manifest["groups"] for _ in range(group["count"])]
    if not shaped:
        yield Loopback(len(places))
        return
    from placer.rehearsal.network import Shape, shaped_network

    shapes = [
        Shape(
            src=link["from"],
            dst=link["to"],
            stream_bytes_per_s=link["bytes_per_second"],
            pair_bytes_per_s=link["cap"],
            rtt_s=link["rtt_s"],
        )
        for link in manifest["network"]["links"]
        if {link["from"], link["to"]} <= set(places)
    ]
    with shaped_network(places, shapes) as network:
        yield network


def train(folder: Path, manifest: dict[str, Any], *, steps: int, shaped: bool) -> dict[str, Any]:
    """Start the exported scripts as they are, wait for all peers, and return what they and the relay counted.

    Returns
    -------
    dict
        ``rows``: of each peer, one a step. ``sent_bytes``: of each ordered pair of machines, empty on loopback.
    """
    machines, limit_s = Machines(folder), START_S + steps * manifest["exchange"]["timeouts"]["round_s"] + 2 * END_S
    try:
        with network_of(manifest, shaped=shaped) as network:
            first = network.addresses[0]
            listen = [{"PLACER_LISTEN_ADDRESS": address} for address in network.addresses]
            machines.start("bootstrap", ["bash", "bootstrap.sh"], network.entry(0), {**listen[0], "PLACER_RENDEZVOUS_ADDRESS": first})
            address = machines.wait_for_words("bootstrap", r"/ip4/\S+/p2p/\w+", START_S)
            peers = []
            for group in manifest["groups"]:
                for node in range(group["count"]):
                    rank = group["rank_offset"] + node
                    own = {**listen[rank], "PLACER_INITIAL_PEERS": address, "PLACER_NODE": str(node)}
                    words = ["--steps", str(steps), "--samples_per_second", f"{group['samples_per_second']:.4f}"]
                    words += ["--weights", f"weights-{rank}.pt"]
                    machines.start(f"peer-{rank}", ["bash", f"{group['name']}.sh", *words], network.entry(rank), own)
                    peers.append(f"peer-{rank}")
            watch(machines, peers, limit_s)
            return {"rows": [machines.rows(peer) for peer in peers], "sent_bytes": network.sent_bytes()}
    finally:
        machines.end()


def watch(machines: Machines, peers: list[str], limit_s: float) -> None:
    """Show each step until all peers are done; stop where one fails."""
    shown, deadline = 0, time.monotonic() + limit_s
    while True:
        codes = [machines.running[peer].poll() for peer in peers]
        for row in machines.rows(peers[0])[shown:]:
            print(f"  step {row['step']:>2}: loss {row['loss']:.3f}, {row['seconds']:.1f} s", flush=True)
            shown += 1
        failed = [peer for peer, code in zip(peers, codes, strict=True) if code]
        if failed or time.monotonic() > deadline:
            late = [peer for peer, code in zip(peers, codes, strict=True) if code is None]
            what = f"{failed[0]} failed" if failed else f"{late[0]} was not done after {limit_s:.0f} s"
            sys.exit(f"error: {what}; see {machines.folder / (failed or late)[0]}.log")
        if all(code == 0 for code in codes):
            return
        time.sleep(POLL_S)
