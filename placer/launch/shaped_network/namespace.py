"""The network namespace of one machine: a TUN device, an address, routes to all places, and TCP
settings that limit nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from placer.launch.shaped_network.kernel import CLONE_NEWNET, open_tun, unshare

INTERFACE = "wan0"
"""Name of the network card in each machine's namespace."""
MTU = 9000
"""Headers are 0.6 % of the bytes, as inside a cloud; a larger one makes no relay faster, as packets
come uncut anyway.
"""
QUEUE_PACKETS = 10_000
"""Of the device: as many may wait for the relay."""
LATE_S, LATE_BYTES_PER_S = 0.05, 60e6
"""A busy machine wakes a process so late; windows cover it, up to this rate."""
LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES = 2**18, 2**27
BUFFER = 2.0
"""Send buffer over the largest window."""
TCP = {
    # its window only grows where nothing is lost; bbr probes and paces by itself
    "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "0",
    "tcp_rmem": "4096 1048576 536870912",
    "tcp_min_tso_segs": "7",  # packets of 60 KiB at any rate: fewer for the relay
    "tcp_timestamps": "0",  # they would show which packets were overtaken, see router.Outlet
    "tcp_no_metrics_save": "1",
}
"""Under /proc/sys/net/ipv4, for the namespace alone; what a kernel refuses is left as it is."""


@dataclass(frozen=True)
class Namespace:
    """The open files of a namespace: itself and its TUN device."""

    fd: int
    inode: int
    tun: int


def make_namespace(address: str, windows: Mapping[str, int]) -> Namespace:
    """Move this process into a new network namespace and set it up; it lives as long as the files
    are open.

    Parameters
    ----------
    address
        Of the machine.
    windows
        Network of each place (CIDR) to the TCP window for streams from there, bytes.
    """
    from pyroute2 import IPRoute

    unshare(CLONE_NEWNET)
    fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    buffer = int(BUFFER * max([LEAST_WINDOW_BYTES, *windows.values()]))
    for name, value in {**TCP, "tcp_wmem": f"4096 {LEAST_WINDOW_BYTES} {buffer}"}.items():
        with contextlib.suppress(OSError):
            Path("/proc/sys/net/ipv4", name).write_text(value, encoding="ascii")
    tun = open_tun(INTERFACE)
    with IPRoute() as netlink:
        netlink.link("set", index=netlink.link_lookup(ifname="lo")[0], state="up")
        index = netlink.link_lookup(ifname=INTERFACE)[0]
        netlink.link("set", index=index, mtu=MTU, txqlen=QUEUE_PACKETS, state="up")
        netlink.addr("add", index=index, address=address, prefixlen=32)
        for network, window in windows.items():
            netlink.route("add", dst=network, oif=index, metrics={"window": window})
    return Namespace(fd, os.fstat(fd).st_ino, tun)


def window_bytes(bytes_per_s: float, rtt_s: float) -> int:
    """Return the TCP window of a stream: its bytes in flight at full speed, and a reserve for late
    wake-ups, so that it never limits the rate.

    Notes
    -----
    Windows also bound what waits in the relay and in the buffers of senders. Without a bound they
    fill the memory that the kernel has for all TCP (``tcp_mem``); it then drops what comes, and
    connections stand still.
    """
    late = LATE_S * min(bytes_per_s, LATE_BYTES_PER_S)
    return int(min(LEAST_WINDOW_BYTES + bytes_per_s * rtt_s + late, MOST_WINDOW_BYTES))
