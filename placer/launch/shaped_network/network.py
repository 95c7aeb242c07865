"""The interface of a wide-area network on one machine, whichever method carries its bytes."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from placer.launch.shaped_network.shaping.shape import Shape
from placer.launch.shaped_network.streams.relay_process import NAME, RelayProcess


class ShapedNetwork(ABC):
    """Machines with addresses of their own and shaped links between them.

    Attributes
    ----------
    method
        ``namespaces`` or ``relays``.
    why_not
        Why no better method; empty if there is none.
    addresses
        IP address of each machine.
    """

    method: str
    why_not: str = ""

    def __init__(
        self, places: Sequence[str], shapes: Mapping[tuple[str, str], Shape], process: RelayProcess
    ) -> None:
        self.places, self.shapes, self.process = tuple(places), shapes, process
        self.addresses: tuple[str, ...] = ()

    @abstractmethod
    def entry(self, machine: int) -> dict[str, Any]:
        """Return what `placer.launch.shaped_network.entrance.enter` needs to join a machine; plain
        JSON.
        """

    def ask(self) -> dict[str, Any]:
        """Ask the relay; its answer has ``sent`` bytes, ``dropped`` packets and ``cpu_s``, the
        relay's CPU time so far.
        """
        return self.process.ask()

    def sent_bytes(self) -> dict[tuple[int, int], int]:
        """Return the bytes sent so far by ordered pair of machines. With namespaces they are those
        of IP packets as if cut to the MTU, else without headers.
        """
        return {(src, dst): sent for src, dst, sent in self.ask()["sent"]}

    @property
    def processes(self) -> dict[str, subprocess.Popen[str]]:
        """Return the processes that must outlive the users of the network, by their names in
        messages.
        """
        return {NAME: self.process.process}

    @abstractmethod
    def carries_bytes_per_s(self) -> float:
        """Return what all links together carry on a usual machine: a measured constant."""

    @property
    def slower(self) -> tuple[Shape, ...]:
        """Return the links whose rate is above what this machine can carry, so that they are slower
        here.
        """
        counts = Counter(self.places)
        used = (
            s for (src, dst), s in self.shapes.items() if counts[dst] > (src == dst) and counts[src]
        )
        return tuple(shape for shape in used if shape.rate_bytes_per_s > self.carries_bytes_per_s())
