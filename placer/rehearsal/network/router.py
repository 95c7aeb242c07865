"""Carries IP packets between TUN devices through `placer.rehearsal.network.queues`."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence
from functools import partial

from placer.rehearsal.network.queues import Link, Queues

VNET = 10
"""Bytes before each packet: struct virtio_net_hdr; TCP segments of how many bytes it is to be cut into stands at 4."""
MOST_PACKET_BYTES = 65_536 + VNET
AT_ONCE = 32
"""Packets taken from one device before what is due goes out."""
TCP, UDP = 6, 17
SYN_FIN_RST = 0x07
LONGEST_SLEEP_S = 3600.0


class Router:
    """Routes by destination address.

    Parameters
    ----------
    tuns
        Open TUN devices by machine.
    addresses
        Of the machines, 4 bytes each.
    links
        By ordered pair of machines.
    """

    def __init__(self, tuns: Sequence[int], addresses: Sequence[bytes], shapes: dict[tuple[int, int], tuple[float, float, float]]) -> None:
        self.queues = Queues()
        self.poll = select.epoll()
        self.links: dict[tuple[int, int], Link] = {}
        self.ways: dict[int, dict[bytes, Link]] = {tun: {} for tun in tuns}
        self.actions: dict[int, Callable[[], None]] = {}
        for (src, dst), shape in shapes.items():
            link = self.links[src, dst] = Link(*shape, partial(_write, tuns[dst]))
            self.ways[tuns[src]][addresses[dst]] = link
        for tun in tuns:
            self.watch(tun, partial(self._read, tun))

    def watch(self, fd: int, action: Callable[[], None]) -> None:
        """Do something whenever a file can be read."""
        self.poll.register(fd, select.EPOLLIN)
        self.actions[fd] = action

    def run(self) -> None:
        """Carry packets until an action raises."""
        while True:
            due = self.queues.run(time.monotonic())
            # an epoll set is ready when a file in it is; select keeps microseconds, where epoll's own time-out has milliseconds
            wait = LONGEST_SLEEP_S if due is None else max(0.0, due - time.monotonic())
            if select.select([self.poll], [], [], wait)[0]:
                for fd, _ in self.poll.poll(0):
                    self.actions[fd]()

    def _read(self, tun: int) -> None:
        """Take what a machine sends."""
        ways = self.ways[tun]
        for _ in range(AT_ONCE):
            try:
                packet = os.read(tun, MOST_PACKET_BYTES)
            except BlockingIOError:
                return
            link = ways.get(packet[VNET + 16 : VNET + 20])
            if link is not None and packet[VNET] >> 4 == 4:
                self._route(link, packet)

    def _route(self, link: Link, packet: bytes) -> None:
        now = time.monotonic()
        header = (packet[VNET] & 15) * 4
        at = VNET + header  # of what IP carries
        protocol = packet[VNET + 9]
        if protocol != TCP:
            size = len(packet) - VNET
            link.sent_bytes += size
            key = packet[VNET + 12 : VNET + 20] + bytes((protocol,)) + (packet[at : at + 4] if protocol == UDP else b"")
            self.queues.accept(link, key, size, packet, now)
            return
        headers = header + (packet[at + 12] >> 4) * 4
        size = len(packet) - VNET - headers
        segment = packet[4] | packet[5] << 8
        segments = -(-size // segment) if packet[1] and segment else 1
        link.sent_bytes += size + segments * headers
        if size == 0 and not packet[at + 13] & SYN_FIN_RST:
            self.queues.pass_by(link, packet, now)
        else:
            self.queues.accept(link, packet[VNET + 12 : VNET + 20] + packet[at : at + 4], size, packet, now)


def _write(tun: int, packet: bytes) -> None:
    with contextlib.suppress(OSError):  # full: lost, as on any network
        os.write(tun, packet)
