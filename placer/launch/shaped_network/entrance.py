"""The entrance of a process into the network namespace of its machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from placer.errors import PlacerError
from placer.launch.shaped_network.kernel import CLONE_NEWNET, CLONE_NEWUSER, set_namespace

INTERFACE = "wan0"
"""Name of the network card in each machine's namespace."""


def enter(entry: Mapping[str, Any]) -> None:
    """Move this thread, and the threads and processes that it starts from now on, into a machine's
    namespace.

    Parameters
    ----------
    entry
        Of `ShapedNetwork.entry`.

    Raises
    ------
    PlacerError
        If the network is gone, or this process may not join.

    Notes
    -----
    Sockets that are open stay where they were opened. Without root `enter_user` has to be called
    first, while the process has one thread.
    """
    enter_user(entry)
    _join(f"/proc/{entry['pid']}/fd/{entry['fd']}", entry["inode"], CLONE_NEWNET)


def enter_user(entry: Mapping[str, Any]) -> None:
    """Join the user namespace that owns the network, if it has one of its own and this process is
    not in it yet.
    """
    inode = entry.get("user_inode")
    if inode is not None and os.stat("/proc/self/ns/user").st_ino != inode:  # noqa: PTH116 - one call, follows the link
        _join(f"/proc/{entry['pid']}/ns/user", inode, CLONE_NEWUSER)


def _join(path: str, inode: int, kind: int) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_ino != inode:
                raise ProcessLookupError("another process has its number")
            set_namespace(fd, kind)
        finally:
            os.close(fd)
    except OSError as error:
        raise PlacerError(
            f"cannot join the rehearsal's network: {error}",
            "start the rehearsal again",
            exit_code=1,
        ) from None
