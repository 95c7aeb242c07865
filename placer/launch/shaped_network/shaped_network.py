"""A wide-area network on one machine: what those who use it see, whatever carries it."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from placer.errors import PlacerError
from placer.launch.shaped_network.shaping.shape import Shape, shapes_between
from placer.launch.shaped_network.streams.relay_process import NAME, RelayProcess

METHODS = ("namespaces", "relays")
"""The better first."""


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
        """What `placer.launch.shaped_network.entrance.enter` needs to join a machine; plain JSON."""

    def ask(self) -> dict[str, Any]:
        """Ask the relay; its answer has ``sent`` bytes, ``dropped`` packets and ``cpu_s``, the
        relay's CPU time so far.
        """
        return self.process.ask()

    def sent_bytes(self) -> dict[tuple[int, int], int]:
        """Bytes sent so far by ordered pair of machines: of IP packets with namespaces, as if cut
        to the MTU, else without headers.
        """
        return {(src, dst): sent for src, dst, sent in self.ask()["sent"]}

    @property
    def processes(self) -> dict[str, subprocess.Popen[str]]:
        """What must not end before those who use it, by the name that messages give it."""
        return {NAME: self.process.process}

    @abstractmethod
    def carries_bytes_per_s(self) -> float:
        """What all links together carry on a usual machine: a measured constant."""

    @property
    def slower(self) -> tuple[Shape, ...]:
        """Links that are asked to be faster than what is carried here: they are as fast as this
        machine goes.
        """
        counts = Counter(self.places)
        used = (
            s for (src, dst), s in self.shapes.items() if counts[dst] > (src == dst) and counts[src]
        )
        return tuple(shape for shape in used if shape.rate_bytes_per_s > self.carries_bytes_per_s())


@contextmanager
def shaped_network(
    places: Sequence[str], shapes: Iterable[Shape], method: str = "auto"
) -> Iterator[ShapedNetwork]:
    """Make a network for the time of a ``with`` block.

    Parameters
    ----------
    places
        Place of each machine.
    shapes
        For each direction between places that have machines, and inside a place with two machines
        or more.
    method
        ``namespaces``: root, or user namespaces with a TUN device that users may open. ``relays``:
        nothing but Linux; who connects to another machine has to ask where. ``auto``: the best that
        works here.

    Raises
    ------
    PlacerError
        If a link is missing, or no method works here.

    Examples
    --------
    >>> from placer.launch.shaped_network import Shape
    >>> way = {"stream_bytes_per_s": 1e7, "pair_bytes_per_s": 4e7, "rtt_s": 0.1}
    >>> ways = [Shape(src="US", dst="EU", **way), Shape(src="EU", dst="US", **way)]
    >>> with shaped_network(["US", "EU"], ways) as network:  # doctest: +SKIP
    ...     network.addresses
    ('10.1.0.1', '10.2.0.1')
    """
    from placer.launch.shaped_network.packets.namespaces import namespaces
    from placer.launch.shaped_network.streams.relays import relays

    if method not in ("auto", *METHODS):
        raise PlacerError(f"method '{method}' is unknown", f"one of: auto, {', '.join(METHODS)}")
    checked = shapes_between(places, shapes)
    with ExitStack() as stack:
        network, why_not = None, ""
        if method != "relays":
            try:
                network = stack.enter_context(namespaces(places, checked))
            except PlacerError as error:
                if method != "auto":
                    raise
                why_not = f"links by relays: {error.message}"
        if network is None:
            network = stack.enter_context(relays(places, checked))
            network.why_not = why_not
        yield network
