"""The event loop of a relay: files that are ready, and packets that are due
(`placer.launch.shaped_network.shaping.queues`).
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from placer.launch.shaped_network.shaping.queues import Queues

LONGEST_SLEEP_S = 3600.0


class Loop:
    """Queues, and an action per watched file."""

    def __init__(self) -> None:
        self.queues = Queues()
        self.poll = select.epoll()
        self.actions: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, action: Callable[[], None], events: int = select.EPOLLIN) -> None:
        """Call an action whenever a file is ready to be read, or for other events; without events
        stop watching it.
        """
        if not events:
            if self.actions.pop(fd, None) is not None:
                self.poll.unregister(fd)
        elif fd in self.actions:
            self.poll.modify(fd, events)
            self.actions[fd] = action
        else:
            self.poll.register(fd, events)
            self.actions[fd] = action

    def run(self) -> None:
        """Carry until an action raises."""
        while True:
            due = self.queues.run(time.monotonic())
            # An epoll set is ready when a file in it is. The time-out of select has microseconds,
            # that of epoll only milliseconds.
            wait = LONGEST_SLEEP_S if due is None else max(0.0, due - time.monotonic())
            if select.select([self.poll], [], [], wait)[0]:
                for fd, _ in self.poll.poll(0):
                    action = self.actions.get(fd)
                    if action is not None:  # an action before it may have closed the file
                        action()
