"""The Linux kernel's part: calls that Python 3.11 lacks, and the namespace of one machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
TUN_DEVICE = "/dev/net/tun"
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x01, 0x02
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29
SIGKILL = 9


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _call("unshare", flags)


def end_with_parent(how: int = SIGKILL) -> None:
    """Receive a signal when the parent ends; on Linux alone."""
    if sys.platform == "linux":
        _call("prctl", PR_SET_PDEATHSIG, how, 0, 0, 0)


def how_ended(code: int) -> str:
    """Read an exit code as ``subprocess`` and ``multiprocessing`` give it.

    >>> how_ended(-9), how_ended(3)
    ('killed by SIGKILL', 'ended with code 3')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def wake_on_time() -> None:
    """Wake from sleep within a microsecond of the time asked, instead of 50."""
    _call("prctl", PR_SET_TIMERSLACK, 1000, 0, 0, 0)


def open_tun(name: str) -> int:
    """Make a TUN device in the network namespace of this thread; it goes when the file is closed.

    Packets come with a header of 10 bytes and are as long as TCP makes them (up to 64 KiB, to be
    cut to the MTU by a card that is not there), so a relay has a few thousand packets a second to
    carry and no checksums to work out.
    """
    import fcntl  # not on Windows, where this module is imported and nothing of it is called

    fd = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(
            fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR)
        )
        fcntl.ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    except OSError:
        os.close(fd)
        raise
    return fd


def _call(name: str, *arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*(ctypes.c_ulong(argument) for argument in arguments)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


INTERFACE = "wan0"
"""Name of the network card in each machine's namespace."""
MTU = 9000
"""Headers are 0.6 % of the bytes, as inside a cloud; larger is no faster: packets come uncut."""
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
    """Move this process into a new network namespace, which lives as long as its files are open.
    ``windows``: bytes of the TCP window for streams from the network (CIDR) of each place.
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

    It bounds what waits in the relay and in the buffers of senders, which else fill the memory that
    the kernel has for all TCP (``tcp_mem``): it then drops what comes, and connections stand still.
    """
    late = LATE_S * min(bytes_per_s, LATE_BYTES_PER_S)
    return int(min(LEAST_WINDOW_BYTES + bytes_per_s * rtt_s + late, MOST_WINDOW_BYTES))
