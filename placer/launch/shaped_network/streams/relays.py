"""A network of relays: an address of the loopback device for each machine, and a process that
carries the connections between them. It needs no privileges.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from placer.errors import PlacerError
from placer.launch.shaped_network.addresses import LOOPBACK
from placer.launch.shaped_network.network import ShapedNetwork
from placer.launch.shaped_network.shaping.shape import Shape
from placer.launch.shaped_network.streams.relay_process import RelayProcess

CARRIES_BYTES_PER_S = 250e6
"""2 Gb/s. On two shared, busy cores of 2026 one stream reached 2 to 4 Gb/s and eight streams 4 to 6
Gb/s together; the relay takes about a tenth of a core for each Gb/s, as that of the namespaces.
"""
MOST_MACHINES = 150
INTERFACE = "lo"


class Relays(ShapedNetwork):
    """A network whose machines are addresses of the loopback device. Who connects to another
    machine asks the relay for an address (`placer.launch.shaped_network.addresses`).

    Parameters
    ----------
    process, port
        The relay, and where it is asked.
    """

    method = "relays"

    def __init__(
        self,
        places: Sequence[str],
        shapes: Mapping[tuple[str, str], Shape],
        process: RelayProcess,
        port: int,
    ) -> None:
        super().__init__(places, shapes, process)
        self.addresses = tuple(address_of(machine, machine) for machine in range(len(places)))
        self.port = port

    def entry(self, machine: int) -> dict[str, Any]:
        """Return what a process needs to take part as a machine."""
        return {
            "method": self.method,
            "interface": INTERFACE,
            "address": self.addresses[machine],
            "machine": machine,
            "relay": [LOOPBACK, self.port],
        }

    def carries_bytes_per_s(self) -> float:
        """Return `CARRIES_BYTES_PER_S`."""
        return CARRIES_BYTES_PER_S


@contextmanager
def relays(
    places: Sequence[str], shapes: Mapping[tuple[str, str], Shape]
) -> Iterator[ShapedNetwork]:
    """Make the network.

    Raises
    ------
    PlacerError
        Says why it cannot be made here.
    """
    if sys.platform != "linux":
        raise PlacerError(
            "relays need the loopback addresses 127.0.1.1 and so on, which Linux has",
            "rehearse on Linux",
        )
    if len(places) > MOST_MACHINES:
        raise PlacerError(
            f"{len(places)} machines, relays have addresses for {MOST_MACHINES}",
            "rehearse fewer of each group",
        )
    numbers = range(len(places))
    links = [
        [src, dst, shape.stream_bytes_per_s, shape.pair_bytes_per_s, shape.rtt_s / 2]
        for src, dst in product(numbers, numbers)
        if src != dst
        for shape in [shapes[places[src], places[dst]]]
    ]
    process = RelayProcess("placer.launch.shaped_network.streams.stream_relay")
    try:
        made = process.ask(
            machines=[[address_of(i, j) for j in numbers] for i in numbers], links=links
        )
        if "error" in made:
            raise PlacerError(
                f"no relays here: {made['error']}",
                "look for what blocks addresses such as 127.0.1.1",
                exit_code=1,
            )
        yield Relays(places, shapes, process, made["port"])
    finally:
        process.end()


def address_of(viewer: int, machine: int) -> str:
    """Return the address at which one machine sees another.

    Notes
    -----
    Of two ranks of gloo the one with the lower address listens, so both have to agree on which that
    is: the third number decides it, whoever looks.

    Examples
    --------
    >>> address_of(0, 0), address_of(0, 1), address_of(1, 0)
    ('127.0.1.1', '127.0.2.100', '127.0.1.101')
    """
    return f"127.0.{machine + 1}.{1 if viewer == machine else 100 + viewer}"
