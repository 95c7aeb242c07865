"""The process that holds the namespaces and carries their packets: ``python -m placer.rehearsal.network.relay``.

It reads one line of JSON that says what to make, answers with one line, and then takes a command a line (`Relay.command`) until
stdin ends, which is when its parent does. Namespaces have no names: with this process and those that joined they are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from placer.rehearsal.network.kernel import CLONE_NEWUSER, end_with_parent, unshare, wake_on_time
from placer.rehearsal.network.namespace import make_namespace
from placer.rehearsal.network.router import Router

ALL_CALLS = 65_536
FIRST = -10
"""Niceness: a relay that waits for the processor delays all."""


def main() -> None:
    """Make the network, say so, carry packets."""
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this
    wake_on_time()
    with contextlib.suppress(OSError):  # not for users, whose packets wait a little longer for a busy machine
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    told = json.loads(sys.stdin.readline())
    try:
        relay = Relay(told)
    except (OSError, ImportError) as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    except Exception as error:  # pyroute2 has an exception of its own, and is imported late
        say({"error": f"{type(error).__name__}: {error}"})
        return
    say(relay.told)
    relay.router.run()


class Relay:
    """All machines and their links.

    Parameters
    ----------
    told
        ``machines``: address and windows of each; ``links``: src, dst, stream and pair bytes/s, delay in s; ``user``: make a
        user namespace first.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        if told["user"]:
            own_user_namespace()
        made = [make_namespace(machine["address"], machine["windows"]) for machine in told["machines"]]
        addresses = [IPv4Address(machine["address"]).packed for machine in told["machines"]]
        shapes = {(src, dst): (stream, pair, delay) for src, dst, stream, pair, delay in told["links"]}
        self.router = Router([machine.tun for machine in made], addresses, shapes)
        self.router.watch(sys.stdin.fileno(), self._take)
        self.unread = b""
        user = os.stat("/proc/self/ns/user").st_ino if told["user"] else None  # noqa: PTH116 - one call, follows the link
        self.told = {"pid": os.getpid(), "user_inode": user, "machines": [{"fd": m.fd, "inode": m.inode} for m in made]}

    def _take(self) -> None:
        read = os.read(sys.stdin.fileno(), ALL_CALLS)
        if not read:
            os._exit(0)
        *lines, self.unread = (self.unread + read).split(b"\n")
        for line in lines:
            say(self.command(json.loads(line)))

    def command(self, call: dict[str, Any]) -> dict[str, Any]:
        """Do what the parent asks: ``shape`` on or off, or say ``sent`` bytes."""
        if "shape" in call:
            self.router.queues.flush()
            self.router.queues.on = call["shape"]
        return {
            "sent": [[src, dst, link.sent_bytes] for (src, dst), link in self.router.links.items()],
            "dropped": self.router.queues.dropped,
            "cpu_s": sum(os.times()[:2]),
        }


def own_user_namespace() -> None:
    """Make a user namespace in which this user stays who he is and may make networks."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")


def say(words: dict[str, Any]) -> None:
    """Answer the parent."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
