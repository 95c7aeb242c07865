"""The protocol of both kinds of relay: one line of JSON says what to make, then comes one line per
call, until stdin ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from placer.launch.shaped_network.packets.kernel import end_with_parent, wake_on_time
from placer.launch.shaped_network.shaping.loop import Loop
from placer.launch.shaped_network.shaping.queues import Link, Queues

ALL_CALLS = 65_536
FIRST = -10
"""Niceness: a relay that waits for the processor delays all."""


class Relay(Protocol):
    """A relay."""

    @property
    def loop(self) -> Loop:
        """Return the loop that carries."""

    @property
    def greeting(self) -> dict[str, Any]:
        """Return the first answer."""

    def figures(self) -> dict[str, Any]:
        """Return the answer to each later question."""


def serve(make: Callable[[dict[str, Any]], Relay]) -> None:
    """Make a relay as stdin says, answer, carry until stdin ends, which is when its parent does."""
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this
    wake_on_time()
    with contextlib.suppress(
        OSError
    ):  # not for users, whose packets wait a little longer for a busy machine
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
    request = json.loads(sys.stdin.readline())
    try:
        relay = make(request)
    except Exception as error:  # pyroute2 has exceptions of its own, and is imported late
        _say({"error": f"{type(error).__name__}: {error}"})
        return
    unread = b""

    def take() -> None:
        nonlocal unread
        read = os.read(sys.stdin.fileno(), ALL_CALLS)
        if not read:
            os._exit(0)
        *lines, unread = (unread + read).split(b"\n")
        for _ in lines:
            _say(relay.figures())

    relay.loop.watch(sys.stdin.fileno(), take)
    _say(relay.greeting)
    relay.loop.run()


def traffic(queues: Queues, links: Mapping[tuple[int, int], Link]) -> dict[str, Any]:
    """Return ``sent`` bytes, ``dropped`` packets and the CPU time so far."""
    sent = [[src, dst, link.sent_bytes] for (src, dst), link in links.items()]
    return {"sent": sent, "dropped": queues.dropped, "cpu_s": sum(os.times()[:2])}


def _say(words: dict[str, Any]) -> None:
    """Send an answer to the parent."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()
