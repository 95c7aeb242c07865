"""The process that holds the namespaces and carries their packets: ``python -m
placer.launch.shaped_network.packets.relay``.

It reads one line of JSON that says what to make, answers with one line, and then takes a command a
line (`Relay.command`) until stdin ends, which is when its parent does. Namespaces have no names:
with this process and those that joined they are gone.
"""

from __future__ import annotations

import os
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from placer.launch.shaped_network.packets.kernel import CLONE_NEWUSER, unshare
from placer.launch.shaped_network.packets.namespace import make_namespace
from placer.launch.shaped_network.packets.router import Router
from placer.launch.shaped_network.relay_protocol import serve, traffic


def main() -> None:
    """Make the network, say so, carry packets."""
    serve(Relay)


class Relay:
    """All machines and their links.

    Parameters
    ----------
    request
        ``machines``: address and windows of each; ``links``: src, dst, stream and pair bytes/s,
        delay in s; ``user``: make a user namespace first.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        if request["user"]:
            own_user_namespace()
        made = [
            make_namespace(machine["address"], machine["windows"])
            for machine in request["machines"]
        ]
        addresses = [IPv4Address(machine["address"]).packed for machine in request["machines"]]
        shapes = {
            (src, dst): (stream, pair, delay) for src, dst, stream, pair, delay in request["links"]
        }
        self.router = self.loop = Router([machine.tun for machine in made], addresses, shapes)
        user = os.stat("/proc/self/ns/user").st_ino if request["user"] else None  # noqa: PTH116 - one call, follows the link
        self.greeting = {
            "pid": os.getpid(),
            "user_inode": user,
            "machines": [{"fd": m.fd, "inode": m.inode} for m in made],
        }

    def figures(self) -> dict[str, Any]:
        """Return what it has carried so far."""
        return traffic(self.router.queues, self.router.links)


def own_user_namespace() -> None:
    """Make a user namespace in which this user stays who he is and may make networks."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")


if __name__ == "__main__":
    main()
