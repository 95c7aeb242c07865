"""Calls to the Linux kernel that Python 3.11 has no function for: namespaces, the end with the
parent, TUN devices; and how a process ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

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
    """Read an exit code as Python's ``subprocess`` and ``multiprocessing`` give it.

    Examples
    --------
    >>> how_ended(-9), how_ended(3)
    ('killed by SIGKILL', 'ended with code 3')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def wake_on_time() -> None:
    """Wake from sleep within a microsecond of the time asked, instead of 50."""
    _call("prctl", PR_SET_TIMERSLACK, 1000, 0, 0, 0)


def open_tun(name: str) -> int:
    """Make a TUN device in the network namespace of this thread; it goes when the file is closed.

    Notes
    -----
    Packets come with a header of 10 bytes and are as long as TCP makes them (up to 64 KiB, to be
    cut to the MTU by a network card that is not there), so a relay has a few thousand packets a
    second to carry and no checksums to work out.
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
