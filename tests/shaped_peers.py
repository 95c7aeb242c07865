"""A process on each machine of a shaped network, and the best of several measurements, for the
tests of networks.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from placer.launch.shaped_network import ShapedNetwork

PEER = Path(__file__).with_name("shaped_peer.py")


def best(measure: Callable[[], float], enough: float) -> float:
    """The least of up to forty measurements, seconds: a busy machine makes some longer, none
    shorter.
    """
    least = measure()
    for _ in range(39):
        if least <= enough:
            break
        least = min(least, measure())
    return least


class Peers:
    """A process on each machine."""

    def __init__(self, network: ShapedNetwork) -> None:
        self.network = network
        run = [sys.executable, str(PEER)]
        self.processes = [
            subprocess.Popen(
                network.command(i, [*run, address]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for i, address in enumerate(network.addresses)
        ]
        self.ports = [self.answer(i) for i in range(len(self.processes))]

    def begin(self, src: int, dst: int, size: int, streams: int = 1) -> None:
        """Start a transfer."""
        stdin = self.processes[src].stdin
        assert stdin is not None
        stdin.write(
            json.dumps([self.network.addresses[dst], self.ports[dst], size, streams]) + "\n"
        )
        stdin.flush()

    def answer(self, machine: int) -> Any:
        """What a process says."""
        stdout = self.processes[machine].stdout
        assert stdout is not None
        return json.loads(stdout.readline())

    def seconds(self, src: int, dst: int, size: int, streams: int = 1) -> float:
        """Of a transfer."""
        self.begin(src, dst, size, streams)
        return float(self.answer(src))

    def end(self) -> None:
        """End all."""
        for process in self.processes:
            process.communicate()
