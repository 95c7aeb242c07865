"""The store at which the processes of a run meet, open to no more networks than it needs."""

from __future__ import annotations

import errno
import socket
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

from placer.errors import PlacerError

LOOPBACK = "127.0.0.1"
MOST_WAITING = 1024
"""Processes that may knock at the store at once."""
USUAL_S = 300.0
"""PyTorch's own time-out of a store."""


def loopback_store(port: int, hint: str, timeout_s: float = USUAL_S) -> Any:
    """Serve a store as `store_at` does, on 127.0.0.1 alone."""
    return store_at(LOOPBACK, port, hint, timeout_s)


def store_at(host: str, port: int, hint: str, timeout_s: float = USUAL_S) -> Any:
    """Serve a store of ``torch.distributed`` on one address: PyTorch's own socket is open to all
    networks, whatever the host.

    Parameters
    ----------
    host
        ``localhost`` or an IP address: served on it alone, if it is one of this machine. Otherwise
        (a name, an address before a translation) on all addresses, as PyTorch does.
    port
        0: a free one.
    hint
        What to do where the port is taken.

    Raises
    ------
    PlacerError
        If the port is taken or may not be used.
    """
    from torch.distributed import TCPStore

    host = LOOPBACK if host == "localhost" else host
    listening = _listening(host, port, hint)
    return TCPStore(
        host,
        listening.getsockname()[1],
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout_s),
        master_listen_fd=listening.detach(),
    )


def _listening(host: str, port: int, hint: str) -> socket.socket:
    """Listen on one address of this machine, or on all if the host is none of them."""
    for address in (host, ""):
        try:
            return _bound(address, port)
        except OSError as error:
            if address and error.errno in (errno.EADDRNOTAVAIL, None):
                continue
            taken = error.errno == errno.EADDRINUSE
            words = (
                f"port {port} is taken"
                if taken
                else f"cannot serve on port {port}: {error.strerror}"
            )
            raise PlacerError(words, hint, exit_code=1) from None
    raise AssertionError


def _bound(address: str, port: int) -> socket.socket:
    """Listen on an IP address; an empty one: on all, of both families where the system has both.

    Raises
    ------
    OSError
        Without a number if ``address`` is a name.
    """
    try:
        version = ip_address(address).version if address else 0
    except ValueError:
        raise OSError(f"{address} is a name") from None
    if not version:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        return socket.create_server(
            ("", port), family=family, backlog=MOST_WAITING, dualstack_ipv6=both
        )
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    return socket.create_server((address, port), family=family, backlog=MOST_WAITING)
