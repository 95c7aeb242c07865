"""The router of IP packets between TUN devices, through `placer.launch.shaped_network.queues`."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence
from functools import partial

from placer.launch.shaped_network.queues import Card, Link, Queues

VNET = 10
"""Bytes before each packet: struct virtio_net_hdr; TCP segments of how many bytes it is to be cut
into stands at 4.
"""
MOST_PACKET_BYTES = 65_536 + VNET
AT_ONCE = 32
"""Packets taken from one device before what is due goes out."""
TCP, UDP = 6, 17
SYN_FIN_RST = 0x07
NEEDS_CHECKSUM = 1
HALF = 2**31
LONGEST_SLEEP_S = 3600.0


class Router:
    """A router by destination address, and the loop that carries what is due.

    Parameters
    ----------
    tuns
        Open TUN devices by machine.
    addresses
        Of the machines, 4 bytes each.
    cards
        Bytes/s that each machine sends, and as many that it receives.
    shapes
        Stream and pair in bytes/s and delay in s, by ordered pair of machines.
    """

    def __init__(
        self,
        tuns: Sequence[int],
        addresses: Sequence[bytes],
        cards: Sequence[float],
        shapes: dict[tuple[int, int], tuple[float, float, float]],
    ) -> None:
        self.queues, self.poll = Queues(), select.epoll()
        self.actions: dict[int, Callable[[], None]] = {}
        out, into = ([Card(rate) for rate in cards] for _ in range(2))
        self.links: dict[tuple[int, int], Link] = {}
        self.ways: dict[int, dict[bytes, Link]] = {tun: {} for tun in tuns}
        outlets = [Outlet(tun) for tun in tuns]
        for (src, dst), shape in shapes.items():
            link = self.links[src, dst] = Link(*shape, (out[src], into[dst]), outlets[dst])
            self.ways[tuns[src]][addresses[dst]] = link
        for tun in tuns:
            self.watch(tun, partial(self._read, tun))

    def watch(self, fd: int, action: Callable[[], None]) -> None:
        """Call an action whenever a file is ready to be read."""
        self.poll.register(fd, select.EPOLLIN)
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
            key = (
                packet[VNET + 12 : VNET + 20]
                + bytes((protocol,))
                + (packet[at : at + 4] if protocol == UDP else b"")
            )
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
            self.queues.accept(
                link, packet[VNET + 12 : VNET + 20] + packet[at : at + 4], size, packet, now
            )


class Outlet:
    """The end of all links to one machine.

    Notes
    -----
    Confirmations overtake the data that waits for its bucket, as they would where nothing waits:
    behind data that goes the other way, both directions of a connection would lose a quarter of
    their rate. Data that was overtaken then carries an older confirmation than the last one, and
    would be dropped for it (RFC 5961, section 5.2), so it gets the last one.
    """

    def __init__(self, tun: int) -> None:
        self.tun = tun
        self.last: dict[bytes, bytes] = {}

    def __call__(self, packet: bytes) -> None:
        """Give a packet to the machine."""
        at = VNET + (packet[VNET] & 15) * 4
        if packet[VNET + 9] == TCP and packet[0] & NEEDS_CHECKSUM:
            packet = self._confirmed(packet, at)
        with contextlib.suppress(OSError):  # full: lost, as on any network
            os.write(self.tun, packet)

    def _confirmed(self, packet: bytes, at: int) -> bytes:
        """Keep the confirmation and window of a packet, or give it the last ones."""
        key = packet[VNET + 12 : VNET + 20] + packet[at : at + 4]
        if packet[at + 13] & SYN_FIN_RST:
            self.last.pop(key, None)
            return packet
        own, last = packet[at + 8 : at + 16], self.last.get(key)
        if last is None or _after(own, last):
            self.last[key] = own
            return packet
        if own[:4] == last[:4]:
            return packet
        return packet[: at + 8] + last[:4] + own[4:6] + last[6:] + packet[at + 16 :]


def _after(one: bytes, other: bytes) -> bool:
    """Return whether a sequence number comes after another; they wrap at 2**32."""
    return 0 < (int.from_bytes(one[:4], "big") - int.from_bytes(other[:4], "big")) % 2**32 < HALF
