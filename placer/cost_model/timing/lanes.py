"""Links between islands: their machines send their parts side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from placer.market.network.graph import Link, Network


class Links(Protocol):
    """What the timing of transfers asks of a network."""

    def link(self, src: str, dst: str) -> Link:
        """Find the link from one place to another."""

    def machine_bytes_per_s(self, place: str) -> float:
        """Return what one worker sends or receives in all."""


class Lanes(Struct, frozen=True):
    """A network in which the workers of some places are several machines each. Between two places
    as many pairs of machines send side by side as the smaller island has machines, each with a cap
    of its own.
    """

    network: Network
    machines: Mapping[str, int]

    def link(self, src: str, dst: str) -> Link:
        """Find the link from one place to another."""
        pairs = min(self.machines.get(src, 1), self.machines.get(dst, 1))
        return self.network.link(src, dst).of_machines(pairs)

    def machine_bytes_per_s(self, place: str) -> float:
        """Return what one worker sends or receives in all."""
        return self.network.machine_bytes_per_s(place, self.machines.get(place, 1))


DIRECT = frozenset({"butterfly", "leaders", "region-hub", "region-gossip"})
"""Transports in which workers send to each other; to a store or a server one machine sends."""


def lanes(network: Network, machines: Mapping[str, int]) -> Links:
    """Return the network as workers of so many machines use it."""
    return Lanes(network, machines) if max(machines.values(), default=1) > 1 else network
