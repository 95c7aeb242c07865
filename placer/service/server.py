"""Run the service: one process that listens, and workers that solve."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from placer.errors import PlacerError
from placer.service.application import application
from placer.service.jobs.desk import Desk
from placer.service.settings import Settings

HEADER_BYTES = 65_536
"""Largest head of a request: address and header fields."""
MOST_CONNECTIONS = 512
IDLE_S = 15
"""A connection without a request is closed after so long."""


class Server(uvicorn.Server):
    """A server that ends its streams of events before it waits for answers."""

    desk: Desk

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to shut down; a second signal ends at once."""
        if self.should_exit:
            self.force_exit = True
            return
        self.should_exit = True
        self.desk.end_listening()


def serve(settings: Settings, tell: Callable[[str], None] = lambda address: None) -> None:
    """Serve until a signal ends it; answers that are being worked out get a few seconds. The
    address is told once it is listened on; `PlacerError` if it is taken, or the file of jobs.
    """
    listening = _listening(settings)
    app = application(settings)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=max(1, round(settings.grace_s)),
        http="h11",
        ws="none",
    )
    server = Server(config)
    server.desk = app.state.desk
    port = listening.getsockname()[1]
    tell(f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}")
    with listening:
        server.run(sockets=[listening])


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except (OSError, OverflowError) as error:
        raise PlacerError(
            f"cannot listen on {settings.host}:{settings.port}: "
            f"{getattr(error, 'strerror', None) or error}",
            "choose another --port, or end what has it",
            exit_code=1,
        ) from None
