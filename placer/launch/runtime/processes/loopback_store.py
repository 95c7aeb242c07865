"""The store at which the processes of a run meet, open to no more networks than it needs; and
torchft's lighthouse, whose address stands there.
"""

from __future__ import annotations

import errno
import socket
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.run_plan import RunPlan

LOOPBACK = "127.0.0.1"
MOST_WAITING = 1024
"""Processes that may knock at the store at once."""
LIGHTHOUSE = "lighthouse"
"""Key of the lighthouse's address in the store of the run."""
LONG_S = 86_400.0
"""Without a quorum the lighthouse waits for all: each world gives up by itself."""
BEATS_S = 5.0
"""A world that the lighthouse has not heard of for so long is gone."""


def store_at(host: str, port: int, timeout_s: float, listening: int | None = None) -> Any:
    """Serve a store of ``torch.distributed`` on one address and port, 0 for a free one, or on a
    socket that listens already; see `listen_at`. PyTorch's own socket is open to all networks.
    """
    from torch.distributed import TCPStore

    if listening is None:
        served = listen_at(host, port)
        port, listening = served.getsockname()[1], served.detach()
    return TCPStore(
        LOOPBACK if host == "localhost" else host,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=timeout_s),
        master_listen_fd=listening,
    )


def connected(host: str, port: int, timeout_s: float) -> Any:
    """Connect to the store at which all processes meet."""
    from torch.distributed import TCPStore

    try:
        return TCPStore(
            host,
            port,
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(seconds=timeout_s),
        )
    except (RuntimeError, ValueError) as error:
        words = " ".join(str(error).split())
        raise PlacerError(
            f"cannot reach rank 0 at {host}:{port}: {words[:160]}",
            "start rank 0, check MASTER_ADDR and firewalls",
            exit_code=1,
        ) from None


def shared_store(meeting: Any, key: str, address: str, timeout_s: float, *, serves: bool) -> Any:
    """Serve a store of its own at an address, or connect to it; where all processes meet, it stands
    by its key.
    """
    if serves:
        served = store_at(address, 0, timeout_s)
        meeting.set(key, f"{address} {served.port}")
        return served
    host, port = meeting.get(key).decode().split()
    return connected(host, int(port), timeout_s)


def listen_at(host: str, port: int) -> socket.socket:
    """Listen on an address of this machine, or on all if it is none: a name, or translated."""
    try:
        address = ip_address(LOOPBACK if host == "localhost" else host)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        return socket.create_server((str(address), port), family=family, backlog=MOST_WAITING)
    except ValueError:
        pass
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise _taken(port, error) from None
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        return socket.create_server(
            ("", port), family=family, backlog=MOST_WAITING, dualstack_ipv6=both
        )
    except OSError as error:
        raise _taken(port, error) from None


def _taken(port: int, error: OSError) -> PlacerError:
    taken = error.errno == errno.EADDRINUSE
    words = f"port {port} is taken" if taken else f"cannot serve on port {port}: {error.strerror}"
    return PlacerError(words, "choose another MASTER_PORT", exit_code=1)


def serve_lighthouse(plan: RunPlan, host: str, timeout_s: float) -> tuple[Any, str]:
    """Serve torchft's lighthouse, which knows who lives; return it and its address. An exchange
    waits for all worlds that live, or with a quorum until ``grace_s`` after that many have come.
    """
    from torchft.coordination import LighthouseServer

    grace_s = plan.grace_s if plan.quorum is not None and plan.grace_s else LONG_S
    server = LighthouseServer(
        bind=f"{host}:0",
        min_replicas=plan.quorum or plan.workers,
        join_timeout_ms=int(grace_s * 1000),
        quorum_tick_ms=20,
        heartbeat_timeout_ms=int(min(BEATS_S, timeout_s) * 1000),
    )
    return server, f"http://{host}:{server.address().rsplit(':', 1)[1]}"
