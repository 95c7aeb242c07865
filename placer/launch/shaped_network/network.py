"""A wide-area network on one machine: a network namespace for each machine, made and joined by one
relay process (`placer.launch.shaped_network.relay`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from placer.errors import PlacerError, not_installed
from placer.launch.shaped_network.kernel import INTERFACE, how_ended, window_bytes


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The rates of one direction between two places, or inside one, and the round-trip time, half
    of it each way. Rates are payload: of one TCP connection, and of all from machine to machine.
    """

    src: str
    dst: str
    stream_bytes_per_s: float
    pair_bytes_per_s: float
    rtt_s: float


def shapes_between(
    places: Sequence[str], shapes: Iterable[Shape]
) -> Mapping[tuple[str, str], Shape]:
    """Return the shapes by pair of places; a pair that two machines need must be there."""
    by_pair = {(shape.src, shape.dst): shape for shape in shapes}
    counts = Counter(places)
    for src, dst in product(counts, counts):
        if (src != dst or counts[src] > 1) and (src, dst) not in by_pair:
            raise PlacerError(
                f"no link {src} -> {dst}",
                "give the shape of each direction between places that have machines",
            )
    return by_pair


NAME = "the relay of the rehearsal's network"
END_S = 10.0
"""A relay whose stdin has ended, and all in its namespaces, are gone by then."""
CARRIES_BYTES_PER_S = 375e6
"""3 Gb/s. On two shared cores of 2026 one stream reached 3 to 8 Gb/s and 56 streams of eight gloo
processes 5 Gb/s together; the relay takes about a tenth of a core a Gb/s, its users more.
"""
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": INTERFACE, "TP_SOCKET_IFNAME": INTERFACE}
"""Variables with which the collectives of a command use the card of its machine."""
RIGHTS = (
    "rehearse as root, or let users make namespaces ('unshare --user --map-root-user --net true' "
    "must work) and open /dev/net/tun"
)


class ShapedNetwork:
    """Machines with addresses of their own and shaped links between them, carried by a relay
    process; with ``user`` in a user namespace of its own. `OSError` if no network can be made so.
    """

    def __init__(
        self, places: Sequence[str], shapes: Mapping[tuple[str, str], Shape], *, user: bool
    ) -> None:
        networks = {place: f"10.{i}" for i, place in enumerate(dict.fromkeys(places), 1)}
        self.addresses = tuple(
            f"{networks[place]}.0.{places[: i + 1].count(place)}" for i, place in enumerate(places)
        )
        run = [sys.executable, "-m", "placer.launch.shaped_network.relay"]
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of our own
            run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lock = threading.Lock()
        self.made = self.ask(**_request(places, shapes, networks, self.addresses), user=user)
        if "error" in self.made:
            self.end()
            raise OSError(self.made["error"])

    def command(self, machine: int, argv: Sequence[str]) -> list[str]:
        """Return a command that runs another one on a machine of this network. It is killed with
        the network, also where this process is killed. Its collectives need `ENVIRONMENT`.
        """
        relay = f"/proc/{self.made['pid']}"
        user = [f"--user={relay}/ns/user", "--preserve-credentials"] if self.made["user"] else []
        network = f"--net={relay}/fd/{self.made['files'][machine]}"
        return ["nsenter", *user, network, "--", *argv]

    def ask(self, **call: Any) -> dict[str, Any]:
        """Call the relay (`placer.launch.shaped_network.relay`) and wait for its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self.lock:
            try:
                self.process.stdin.write(json.dumps(call) + "\n")
                self.process.stdin.flush()
                answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            except (OSError, ValueError):
                how = ""
                with suppress(subprocess.TimeoutExpired):
                    how = f": {how_ended(self.process.wait(END_S))}"
                raise PlacerError(
                    f"{NAME} has ended{how}", "start the rehearsal again", exit_code=1
                ) from None
        return answer

    def kill(self, machine: int) -> None:
        """Kill the processes that run on a machine."""
        self.ask(kill=machine)

    def traffic(self) -> dict[tuple[int, int], tuple[int, float]]:
        """Return bytes, as if cut to the MTU, and seconds busy by ordered pair of machines."""
        return {(src, dst): (sent, busy) for src, dst, sent, busy in self.ask()["links"]}

    @property
    def processes(self) -> dict[str, subprocess.Popen[str]]:
        """Return the processes that must outlive the users of the network, by name."""
        return {NAME: self.process}

    def end(self) -> None:
        """Close the relay's stdin, so that it kills what runs in its namespaces and ends."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not written when the relay ended
                    pipe.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def open_network(places: Sequence[str], shapes: Iterable[Shape]) -> Iterator[ShapedNetwork]:
    """Make a network for the time of a ``with`` block: as root, or in a user namespace of its own.

    Shapes are needed for each direction between places, and inside a place with two machines or
    more. A machine sends, and receives, at most what one stream reaches inside its place, if given.
    """
    checked = shapes_between(places, shapes)
    if sys.platform != "linux":
        raise PlacerError("network namespaces are Linux's", "rehearse on Linux")
    if shutil.which("nsenter") is None:
        raise PlacerError("shaped links need nsenter, which is not here", "install util-linux")
    if importlib.util.find_spec("pyroute2") is None:
        raise not_installed("shaped links need pyroute2", "rehearse")
    reasons = []
    for user in (False, True) if os.geteuid() == 0 else (True,):
        try:
            network = ShapedNetwork(places, checked, user=user)
            break
        except OSError as error:
            reasons.append(str(error))
    else:
        words = f"no network namespaces here: {'; '.join(dict.fromkeys(reasons))}"
        raise PlacerError(words, RIGHTS, exit_code=1)
    try:
        yield network
    finally:
        network.end()


def _request(
    places: Sequence[str],
    shapes: Mapping[tuple[str, str], Shape],
    networks: Mapping[str, str],
    addresses: Sequence[str],
) -> dict[str, Any]:
    """Say what the relay is to make, with networks of /16 and addresses in them."""
    windows: dict[str, dict[str, int]] = {place: {} for place in networks}
    cards = dict.fromkeys(networks, CARRIES_BYTES_PER_S)
    for (src, dst), shape in shapes.items():
        if src in networks and dst in networks:
            alone = min(shape.stream_bytes_per_s, shape.pair_bytes_per_s, CARRIES_BYTES_PER_S)
            windows[dst][f"{networks[src]}.0.0/16"] = window_bytes(alone, shape.rtt_s)
            if src == dst:
                cards[src] = shape.stream_bytes_per_s
    pairs = [(i, j, shapes[places[i], places[j]]) for i, j in permutations(range(len(places)), 2)]
    return {
        "machines": [
            {"address": address, "windows": windows[place], "bytes_per_s": cards[place]}
            for address, place in zip(addresses, places, strict=True)
        ],
        "links": [
            [i, j, shape.stream_bytes_per_s, shape.pair_bytes_per_s, shape.rtt_s / 2]
            for i, j, shape in pairs
        ],
    }
