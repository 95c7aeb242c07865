"""A network namespace for each machine, made and joined by one relay process
(`placer.launch.shaped_network.packets.relay`).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from placer.errors import PlacerError
from placer.launch.shaped_network.entrance import INTERFACE
from placer.launch.shaped_network.network import ShapedNetwork
from placer.launch.shaped_network.packets.namespace import window_bytes
from placer.launch.shaped_network.shaping.shape import Shape
from placer.launch.shaped_network.streams.relay_process import RelayProcess
from placer.version import install_line

CARRIES_BYTES_PER_S = 375e6
"""3 Gb/s. On two shared cores of 2026 one stream reached 3 to 8 Gb/s and 56 streams of eight gloo
processes 5 Gb/s together; the relay takes about a tenth of a core for each Gb/s, the processes at
its ends take more.
"""
MOST_PLACES, MOST_MACHINES = 200, 250
"""Networks are 10.1.0.0/16, 10.2.0.0/16 and so on; a relay of this kind carries no more machines
anyway.
"""


class Namespaces(ShapedNetwork):
    """Network namespaces and the relay between them.

    Parameters
    ----------
    process, made
        The relay and its first answer.
    """

    method = "namespaces"

    def __init__(
        self,
        places: Sequence[str],
        shapes: Mapping[tuple[str, str], Shape],
        process: RelayProcess,
        made: dict[str, Any],
    ) -> None:
        super().__init__(places, shapes, process)
        self.addresses = addresses_of(places)
        self.made = made

    def entry(self, machine: int) -> dict[str, Any]:
        """Return what a process needs to join a machine."""
        shared = {"method": self.method, "interface": INTERFACE, "address": self.addresses[machine]}
        return {
            **shared,
            "pid": self.made["pid"],
            "user_inode": self.made["user_inode"],
            **self.made["machines"][machine],
        }

    def carries_bytes_per_s(self) -> float:
        """Return `CARRIES_BYTES_PER_S`."""
        return CARRIES_BYTES_PER_S


@contextmanager
def namespaces(
    places: Sequence[str], shapes: Mapping[tuple[str, str], Shape]
) -> Iterator[ShapedNetwork]:
    """Make the network, with a user namespace of its own where this user may not.

    Raises
    ------
    PlacerError
        Says why it cannot be made here.
    """
    if sys.platform != "linux":
        raise PlacerError("network namespaces are Linux's", "rehearse on Linux")
    if importlib.util.find_spec("pyroute2") is None:
        raise PlacerError(
            "shaped links need pyroute2, which is not installed",
            f"install it: {install_line('rehearse')}",
        )
    process, made = _start(places, shapes)
    try:
        yield Namespaces(places, shapes, process, made)
    finally:
        process.end()


def _start(
    places: Sequence[str], shapes: Mapping[tuple[str, str], Shape]
) -> tuple[RelayProcess, dict[str, Any]]:
    reasons = []
    for user in (False, True) if os.geteuid() == 0 else (True,):
        process = RelayProcess("placer.launch.shaped_network.packets.relay")
        made = process.ask(**_request(places, shapes, user=user))
        if "error" not in made:
            return process, made
        process.end()
        reasons.append(made["error"])
    words = "as root, or where users may make network namespaces and open /dev/net/tun"
    raise PlacerError(
        f"no network namespaces here: {'; '.join(dict.fromkeys(reasons))}",
        f"run it {words}",
        exit_code=1,
    )


def _request(
    places: Sequence[str], shapes: Mapping[tuple[str, str], Shape], *, user: bool
) -> dict[str, Any]:
    """Return the request to the relay: what it is to make."""
    addresses = addresses_of(places)
    networks = _networks(places)
    windows = {
        here: {
            networks[there]: window_bytes(
                min(shape.rate_bytes_per_s, CARRIES_BYTES_PER_S), shape.rtt_s
            )
            for (there, dst), shape in shapes.items()
            if dst == here and there in networks
        }
        for here in networks
    }
    pairs = [
        (i, j, shapes[places[i], places[j]])
        for i, j in product(range(len(places)), repeat=2)
        if i != j
    ]
    return {
        "user": user,
        "machines": [
            {"address": address, "windows": windows[place]}
            for address, place in zip(addresses, places, strict=True)
        ],
        "links": [
            [i, j, shape.stream_bytes_per_s, shape.pair_bytes_per_s, shape.rtt_s / 2]
            for i, j, shape in pairs
        ],
    }


def addresses_of(places: Sequence[str]) -> tuple[str, ...]:
    """Return an address for each machine in the network of its place.

    Examples
    --------
    >>> addresses_of(["US", "EU", "US"])
    ('10.1.0.1', '10.2.0.1', '10.1.0.2')
    """
    if len(set(places)) > MOST_PLACES or len(places) > MOST_MACHINES:
        raise PlacerError(
            f"{len(places)} machines in {len(set(places))} places",
            f"rehearse with {MOST_MACHINES} and {MOST_PLACES} at most",
        )
    networks = _networks(places)
    return tuple(
        f"{networks[place].removesuffix('0/16')}{places[: i + 1].count(place)}"
        for i, place in enumerate(places)
    )


def _networks(places: Sequence[str]) -> dict[str, str]:
    return {place: f"10.{i + 1}.0.0/16" for i, place in enumerate(dict.fromkeys(places))}
