"""The process that holds the namespaces and carries their packets: ``python -m
placer.launch.shaped_network.relay``.

It reads one line of JSON that says what to make, answers with one line, and then tells a line of
figures for each call that it reads, after it has killed what runs on the machine that the call
names, if any. When stdin ends, as its parent does, it kills what still runs in the namespaces and
ends. Namespaces have no names: with this process and those that joined they are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Collection
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from placer.launch.shaped_network.kernel import (
    CLONE_NEWUSER,
    Namespace,
    make_namespace,
    unshare,
    wake_on_time,
)
from placer.launch.shaped_network.router import Router

ALL_CALLS = 65_536
FIRST = -10
"""Niceness: a relay that waits for the processor delays all."""
LOOK_S, LOOKS = 0.02, 100
"""Between two looks for processes left, and how many: one killed as it forks leaves its child."""


def main() -> None:
    """Make the network, say so, carry packets."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this
    wake_on_time()
    with contextlib.suppress(OSError):  # refused to users: a busy machine delays them a little
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    request = json.loads(sys.stdin.readline())
    try:
        if request["user"]:
            own_user_namespace()
        made = [make_namespace(m["address"], m["windows"]) for m in request["machines"]]
    except Exception as error:  # pyroute2 has exceptions of its own, and is imported late
        _say({"error": f"{type(error).__name__}: {error}"})
        return
    _carry(request, made)


def _carry(request: dict[str, Any], made: list[Namespace]) -> None:
    machines = request["machines"]
    router = Router(
        [machine.tun for machine in made],
        [IPv4Address(machine["address"]).packed for machine in machines],
        [machine["bytes_per_s"] for machine in machines],
        {(src, dst): (stream, pair, delay) for src, dst, stream, pair, delay in request["links"]},
    )
    unread = b""

    def take() -> None:
        nonlocal unread
        read = os.read(sys.stdin.fileno(), ALL_CALLS)
        if not read:
            kill_inside({machine.inode for machine in made})
            os._exit(0)
        *lines, unread = (unread + read).split(b"\n")
        for line in lines:
            machine = json.loads(line).get("kill")
            if machine is not None:
                kill_inside({made[machine].inode})
            links = router.links.items()
            _say({"links": [[*way, link.sent_bytes, link.busy_s] for way, link in links]})

    router.watch(sys.stdin.fileno(), take)
    files = [machine.fd for machine in made]
    _say({"pid": os.getpid(), "user": request["user"], "files": files})
    router.run()


def kill_inside(inodes: Collection[int]) -> None:
    """Kill the processes of some network namespaces, but not this one."""
    for _ in range(LOOKS):
        left = False
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or may not be looked at
                inside = (process / "ns" / "net").stat().st_ino in inodes
                if inside and int(process.name) != os.getpid():
                    left = True
                    os.kill(int(process.name), signal.SIGKILL)
        if not left:
            return
        time.sleep(LOOK_S)


def own_user_namespace() -> None:
    """Make a user namespace in which this user stays who he is and may make networks."""
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")


def _say(words: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
