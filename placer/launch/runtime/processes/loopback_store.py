"""The store of a run on one machine, which no other machine can reach."""

from __future__ import annotations

import errno
import socket
from datetime import timedelta
from typing import Any

from placer.errors import PlacerError

LOOPBACK = "127.0.0.1"
MOST_WAITING = 1024
"""Processes that may knock at the store at once."""
USUAL_S = 300.0
"""PyTorch's own time-out of a store."""


def loopback_store(port: int, hint: str, timeout_s: float = USUAL_S) -> Any:
    """Serve a store of ``torch.distributed`` on 127.0.0.1 alone: PyTorch's own socket is open to
    all networks.

    Parameters
    ----------
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

    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(MOST_WAITING)
    except OSError as error:
        listening.close()
        taken = error.errno == errno.EADDRINUSE
        words = (
            f"port {port} is taken" if taken else f"cannot serve on port {port}: {error.strerror}"
        )
        raise PlacerError(words, hint, exit_code=1) from None
    return TCPStore(
        LOOPBACK,
        listening.getsockname()[1],
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout_s),
        master_listen_fd=listening.detach(),
    )
