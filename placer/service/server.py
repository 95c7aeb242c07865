"""Run the service: one process that listens, and workers that solve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import attrgetter
from types import FrameType
from typing import ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from placer.service.application import application
from placer.service.jobs.desk import Desk
from placer.service.settings import Settings, listen

HEADER_BYTES = 65_536
"""Largest head of a request: address and header fields."""
MOST_UNFINISHED = 256
"""Connections of one address that may be without a whole request at a time: a further one closes
the one that has been so for longest, of those that never sent one. So new ones are always answered,
probes among them.
"""
FIRST_LOOK_S = 0.1
"""So long a connection may be above that number, in which what it has sent is read."""
IDLE_S = 15
"""A connection without a whole request is closed after so long, on every address."""
READING_S = 30
"""An answer that its reader does not take in is given up after so long."""


class Connection(H11Protocol):
    """A connection that ends where its client does not go on: uvicorn has a time limit between
    requests alone, and answers nobody once it has as many connections as it may have.
    """

    unfinished: ClassVar[dict[str, dict[Connection, None]]] = {}
    has_asked = False
    deadline: asyncio.TimerHandle | None = None
    reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the head of a request, and make room for it."""
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        super().connection_lost(exc)
        self._request_is_whole()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take what the client sends."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._await_request()
        super().on_response_complete()  # the next request may have come with this one
        self._look()

    def pause_writing(self) -> None:
        """Wait until the client takes in what it was sent."""
        super().pause_writing()
        self.reading = self.loop.call_later(READING_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with an answer."""
        super().resume_writing()
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None

    def _await_request(self) -> None:
        self._request_is_whole()
        self.deadline = self.loop.call_later(IDLE_S, self.transport.abort)
        others = self.unfinished.setdefault(self._address, {})
        others[self] = None
        if len(others) > MOST_UNFINISHED:
            self.loop.call_later(FIRST_LOOK_S, self._make_room)

    def _make_room(self) -> None:
        others = self.unfinished.get(self._address, {})
        while len(others) > MOST_UNFINISHED:
            stranger = min(others, key=attrgetter("has_asked"))  # the oldest of them
            stranger.transport.abort()
            del others[stranger]

    def _look(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self.has_asked = True
            self._request_is_whole()

    def _request_is_whole(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
        others = self.unfinished.get(self._address, {})
        others.pop(self, None)
        if not others:
            self.unfinished.pop(self._address, None)

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""


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
    listening = listen(settings)
    app = application(settings)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=max(1, round(settings.grace_s)),
        http=Connection,
        ws="none",
    )
    server = Server(config)
    server.desk = app.state.desk
    port = listening.getsockname()[1]
    tell(f"http://{f'[{settings.host}]' if ':' in settings.host else settings.host}:{port}")
    with listening:
        server.run(sockets=[listening])
