"""The machines of an exported plan as processes on this computer, and the network between them."""

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
from itertools import product
from pathlib import Path
from typing import Any

from placer.documents.manifest import Manifest
from placer.documents.manifest.types import question_of
from placer.launch.shaped_network import Shape, open_network
from placer.market.network import graph as network

BECOME = (
    "import os, signal, sys\n"
    "from placer.launch.shaped_network.kernel import end_with_parent\n"
    "if sys.platform == 'linux':\n    end_with_parent(signal.SIGTERM)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Program that becomes a machine's own program; it is asked to end when this one is killed."""
START_S, END_S, POLL_S = 120.0, 20.0, 0.5


class Machines:
    """Processes, each the leader of a group of its own: hivemind starts a daemon and several
    processes more.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, words: list[str], environment: dict[str, str]) -> None:
        """Start a program; its output goes to NAME.log."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(  # noqa: S603 - scripts of the export
                [sys.executable, "-c", BECOME, *words],
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
        return [
            json.loads(line)
            for line in self.log(name).splitlines(keepends=True)
            if line.startswith("{") and line.endswith("}\n")
        ]

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
    """No network of its own: all machines are one address of this computer, not that of another
    trial.
    """

    def __init__(self, count: int) -> None:
        self.addresses = [f"127.{1 + os.getpid() % 250}.{1 + os.getpid() // 250 % 250}.1"] * count

    def command(self, _machine: int, argv: list[str]) -> list[str]:
        """There is nothing to join."""
        return argv

    def traffic(self) -> dict[tuple[int, int], tuple[float, float]]:
        """Nobody counts."""
        return {}


@contextlib.contextmanager
def network_of(manifest: Manifest, *, shaped: bool) -> Iterator[Any]:
    """The network of a plan: a namespace for each machine and links as the plan has them, or
    loopback.
    """
    places = [group.place for group in manifest.groups for _ in range(group.count)]
    if not shaped:
        yield Loopback(len(places))
        return
    problem, _placement = question_of(manifest, "plan.json")
    links = [
        network.network_of(problem.catalog).link(src, dst)
        for src, dst in product(set(places), repeat=2)
    ]
    shapes = [
        Shape(
            src=link.src,
            dst=link.dst,
            stream_bytes_per_s=link.bytes_per_second,
            pair_bytes_per_s=link.speed(99),
            rtt_s=link.rtt_s,
        )
        for link in links
    ]
    with open_network(places, shapes) as found:
        yield found


def train(
    folder: Path, manifest: Manifest, *, steps: int, pace: float, shaped: bool
) -> dict[str, Any]:
    """Start the exported scripts as they are, wait for all peers, and return what they and the
    relay counted.

    Parameters
    ----------
    folder
        With the exported scripts.
    pace
        Samples/s of each machine.

    Returns
    -------
    dict
        ``rows``: of each peer, one a step. ``sent``: times and the bytes that a machine had sent to
        another one until then, the mean of all ordered pairs; empty on loopback.
    """
    machines, limit_s = (
        Machines(folder),
        START_S + steps * manifest.exchange.timeouts.round_s + 2 * END_S,
    )
    try:
        with network_of(manifest, shaped=shaped) as lines:
            first = lines.addresses[0]
            listen = [{"PLACER_LISTEN_ADDRESS": address} for address in lines.addresses]
            machines.start(
                "bootstrap",
                lines.command(0, ["bash", "bootstrap.sh"]),
                {**listen[0], "PLACER_RENDEZVOUS_ADDRESS": first},
            )
            address = machines.wait_for_words("bootstrap", r"/ip4/\S+/p2p/\w+", START_S)
            peers = []
            for group in manifest.groups:
                for node in range(group.count):
                    rank = group.rank_offset + node
                    own = {
                        **listen[rank],
                        "PLACER_INITIAL_PEERS": address,
                        "PLACER_NODE": str(node),
                    }
                    words = [
                        "--steps",
                        str(steps),
                        "--samples_per_second",
                        f"{pace:.4f}",
                        "--weights",
                        f"weights-{rank}.pt",
                    ]
                    script = ["bash", f"{group.name}.sh", *words]
                    machines.start(f"peer-{rank}", lines.command(rank, script), own)
                    peers.append(f"peer-{rank}")
            sent = watch(machines, peers, limit_s, lines)
            return {"rows": [machines.rows(peer) for peer in peers], "sent": sent}
    finally:
        machines.end()


def watch(
    machines: Machines, peers: list[str], limit_s: float, lines: Any
) -> list[tuple[float, float]]:
    """Show each step until all peers are done; stop where one fails. Returns what was sent, as
    `train`.
    """
    shown, deadline = 0, time.monotonic() + limit_s
    sent: list[tuple[float, float]] = []
    while True:
        codes = {peer: machines.running[peer].poll() for peer in peers}
        counted = [count for count, _ in lines.traffic().values()]
        if counted:
            sent.append((time.time(), sum(counted) / len(counted)))
        for row in machines.rows(peers[0])[shown:]:
            print(
                f"  step {row['step']:>2}: loss {row['loss']:.3f}, {row['seconds']:.1f} s",
                flush=True,
            )
            shown += 1
        failed = [peer for peer, code in codes.items() if code]
        late = [peer for peer, code in codes.items() if code is None]
        if failed:
            sys.exit(f"error: {failed[0]} failed; see {machines.folder / failed[0]}.log")
        if not late:
            return sent
        if time.monotonic() > deadline:
            sys.exit(
                f"error: {late[0]} was not done after {limit_s:.0f} s; see "
                f"{machines.folder / late[0]}.log"
            )
        time.sleep(POLL_S)
