"""gloo on a machine of a network of relays: it listens on the machine's address, and reaches the
others through the relay.

gloo's ranks write their addresses to the store at which they meet, as the kernel's ``sockaddr_in``,
and read those of the others. Here the addresses that are read are replaced by the relay's.

The store of each group is in Python. It is referred to until the process ends, like the groups:
see `placer.launch.runtime.processes.rank_process`.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from placer.launch.shaped_network.addresses import seen

BACKEND = "placed_gloo"
SOCKADDR = re.compile(
    re.escape(struct.pack("=H", socket.AF_INET)) + rb"(..)(\x7f\x00.\x01)", re.DOTALL
)
"""Family, port, and an address 127.0.x.1."""


def gloo_backend(entry: Mapping[str, Any] | None) -> str:
    """Return the name of the backend for ``torch.distributed`` on a machine, and register it.

    Parameters
    ----------
    entry
        Of `ShapedNetwork.entry`; None: no such network.
    """
    if entry is None or entry["method"] != "relays":
        return "gloo"
    import torch.distributed as dist

    kept: list[Any] = []
    """gloo keeps the C++ half of a store alone."""

    def make(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        options = dist.ProcessGroupGloo._Options()
        options._timeout = timeout
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=entry["address"])]
        kept.append(seeing_store(store, entry))
        return dist.ProcessGroupGloo(kept[-1], rank, size, options)

    dist.Backend.register_backend(BACKEND, make, devices=["cpu"])
    return BACKEND


def seeing_store(store: Any, entry: Mapping[str, Any]) -> Any:
    """Wrap a store: a machine reads from it the addresses at which it reaches the others."""
    import torch.distributed as dist

    class SeeingStore(dist.Store):  # type: ignore[misc]
        """The part of a store that gloo calls."""

        def set(self, key: str, value: bytes) -> None:
            store.set(key, value)

        def get(self, key: str) -> bytes:
            return as_seen(store.get(key), entry)

        def add(self, key: str, value: int) -> int:
            return int(store.add(key, value))

        def check(self, keys: list[str]) -> bool:
            return bool(store.check(keys))

        def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
            if timeout is None:
                store.wait(keys)
            else:
                store.wait(keys, timeout)

        def has_extended_api(self) -> bool:
            return False

    return SeeingStore()


def as_seen(value: bytes, entry: Mapping[str, Any]) -> bytes:
    """Replace the socket addresses that gloo published by those of the relay; the machine's own
    stays.
    """

    def exchanged(match: re.Match[bytes]) -> bytes:
        address, port = seen(entry, socket.inet_ntoa(match[2]), int.from_bytes(match[1], "big"))
        return match[0][:2] + port.to_bytes(2, "big") + socket.inet_aton(address)

    return SOCKADDR.sub(exchanged, value)
