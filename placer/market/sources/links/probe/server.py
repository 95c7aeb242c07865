"""The other end of a probe: answers only those who know the token, within limits of bytes, seconds
and connections.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from placer.errors import PlacerError
from placer.market.sources.links.probe.protocol import (
    CHUNK_BYTES,
    ECHO_BYTES,
    GO,
    MOST_ECHOES,
    VERSION,
    Meter,
    ProbeError,
    Question,
    Report,
    read_exactly,
    read_line,
    read_question,
    write_report,
)

ACCEPT_SECONDS = 0.1
"""How often a waiting server looks whether it shall end."""
END_SECONDS = 2.0
"""How long an ending server waits for its connections."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerLimits:
    """What a server gives at most.

    Parameters
    ----------
    connections
        Connections at a time. A further one takes the place of one that has not shown the token
        yet, the oldest from the address that has the most of these; if all have, it is closed.
    most_bytes
        Bytes that the server sends and receives in its life, all connections together.
    transfer_seconds
        Longest transfer.
    idle_seconds
        Longest silence of a client that has shown the token.
    question_seconds
        Time for a client to ask, and so to show the token.
    """

    connections: int = 64
    most_bytes: int = 200 * 10**9
    transfer_seconds: float = 60.0
    idle_seconds: float = 5.0
    question_seconds: float = 3.0


@dataclass(kw_only=True, slots=True)
class Client:
    """Who is at the other end of a connection; ``trusted`` once it has shown the token."""

    host: str
    thread: threading.Thread
    trusted: bool = False


@dataclass(kw_only=True)
class Served:
    """What a server did in its life; bytes of payload."""

    measured: int = 0
    refused: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(kw_only=True)
class ProbeServer:
    """Listens until it is stopped.

    Parameters
    ----------
    listener
        Socket of `listen`.
    token
        Shared secret.
    limits
        What is given at most.
    """

    listener: socket.socket
    token: str
    limits: ServerLimits = field(default_factory=ServerLimits)
    served: Served = field(default_factory=Served)
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: dict[socket.socket, Client] = field(default_factory=dict)
    _promised_bytes: int = 0

    def stop(self) -> None:
        """End `serve` soon; may be called from a signal handler or another thread."""
        self._stop.set()

    def serve(self, seconds: float | None = None) -> Served:
        """Answer until `stop` is called or some seconds are over; then close every connection."""
        end = None if seconds is None else time.monotonic() + seconds
        self.listener.settimeout(ACCEPT_SECONDS)
        try:
            while not self._stop.is_set() and (end is None or time.monotonic() < end):
                try:
                    self._welcome(*self.listener.accept())
                except (TimeoutError, ConnectionError):
                    continue
                except (OSError, RuntimeError):
                    # Out of files or threads: clients wait until another one has gone.
                    self._stop.wait(ACCEPT_SECONDS)
        finally:
            self.listener.close()
            self._close_all()
        return self.served

    def _welcome(self, connection: socket.socket, address: tuple[str, int]) -> None:
        thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
        with self._lock:
            if len(self._open) >= self.limits.connections and not self._make_room():
                self.served.refused += 1
                connection.close()
                return
            self._open[connection] = Client(host=address[0], thread=thread)
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                del self._open[connection]
            connection.close()
            raise

    def _make_room(self) -> bool:
        """Drop the oldest connection without the token, from the address that has the most of them:
        neither silent clients nor one machine that opens many can keep the others out.
        """
        strangers = [(c, client.host) for c, client in self._open.items() if not client.trusted]
        if not strangers:
            return False
        counts = Counter(host for _, host in strangers)
        dropped, _ = max(strangers, key=lambda one: counts[one[1]])  # the first of equals: oldest
        del self._open[dropped]
        with contextlib.suppress(OSError):
            dropped.shutdown(socket.SHUT_RDWR)  # its thread wakes up, and counts it
        return True

    def _close_all(self) -> None:
        with self._lock:
            left = [(connection, client.thread) for connection, client in self._open.items()]
        for connection, _ in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + END_SECONDS
        for _, thread in left:
            thread.join(max(0.0, end - time.monotonic()))

    def _answer(self, connection: socket.socket) -> None:
        """Serve one connection; whatever a client does ends its connection and nothing else."""
        try:
            self._converse(connection)
        except Exception:  # strangers speak here: no words of theirs may end more than this
            with self._lock:
                self.served.refused += 1
        finally:
            with self._lock:
                self._open.pop(connection, None)
            connection.close()

    def _converse(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        idle, nonce = self.limits.idle_seconds, secrets.token_hex(16)
        patience = self.limits.question_seconds
        connection.settimeout(patience)
        connection.sendall(f"{VERSION} {nonce}\n".encode())
        try:
            question = read_question(read_line(connection, patience), nonce, self.token)
            self._trust(connection)
            connection.settimeout(idle)
            self._promise(question)
        except ProbeError as fault:
            connection.sendall(f"error {fault}\n".encode())
            raise
        moved = question.most_bytes
        try:
            connection.sendall(b"ok\n")
            if read_exactly(connection, 1, idle) != GO:
                raise ProbeError("did not start")
            if question.verb == "echo":
                self._echo(connection)
                moved = 0
            else:
                moved = (
                    self._receive(connection, question)
                    if question.verb == "upload"
                    else self._send(connection, question)
                )
        finally:
            with self._lock:
                self._promised_bytes += moved - question.most_bytes
        with self._lock:
            self.served.measured += 1

    def _trust(self, connection: socket.socket) -> None:
        """Keep a connection: it has shown the token."""
        with self._lock:
            if connection not in self._open:
                raise ProbeError("gave way to another")
            self._open[connection].trusted = True

    def _promise(self, question: Question) -> None:
        """Set the bytes of a question aside; give back later what it did not use."""
        if question.seconds > self.limits.transfer_seconds:
            raise ProbeError(f"more than {self.limits.transfer_seconds:g} s")
        with self._lock:
            left = self.limits.most_bytes - self._promised_bytes
            if question.most_bytes > left:
                raise ProbeError(f"more than the {left} bytes that are left")
            self._promised_bytes += question.most_bytes

    def _echo(self, connection: socket.socket) -> None:
        for _ in range(MOST_ECHOES):
            message = read_exactly(connection, ECHO_BYTES, self.limits.idle_seconds)
            if not message:
                return
            connection.sendall(message)

    def _receive(self, connection: socket.socket, question: Question) -> int:
        """Count what arrives until the client ends, the time is over, or it sends more than it
        said.
        """
        meter, buffer = Meter(seconds=question.seconds), bytearray(CHUNK_BYTES)
        connection.settimeout(self.limits.idle_seconds)
        while not self._stop.is_set():
            count = connection.recv_into(buffer)
            if count == 0 or not meter.add(count, time.monotonic()):
                break
            if meter.total_bytes > question.most_bytes:
                raise ProbeError("sent more than it said")
        with self._lock:
            self.served.received_bytes += meter.total_bytes
        connection.sendall(write_report(meter.report()))
        connection.shutdown(socket.SHUT_WR)
        return meter.total_bytes + self._drain(connection, buffer)

    def _drain(self, connection: socket.socket, buffer: bytearray) -> int:
        """Wait until the client has read the report: closing over unread bytes would destroy it.
        Returns what still came.
        """
        end, count = time.monotonic() + self.limits.idle_seconds, 0
        connection.settimeout(self.limits.idle_seconds)
        with contextlib.suppress(OSError):
            while time.monotonic() < end and (received := connection.recv_into(buffer)):
                count += received
        return count

    def _send(self, connection: socket.socket, question: Question) -> int:
        """Send until the bytes or the seconds are used up."""
        payload, sent, start = memoryview(os.urandom(CHUNK_BYTES)), 0, time.monotonic()
        connection.settimeout(self.limits.idle_seconds)
        try:
            while (
                sent < question.most_bytes
                and time.monotonic() - start < question.seconds
                and not self._stop.is_set()
            ):
                sent += connection.send(payload[: question.most_bytes - sent])
        finally:
            with self._lock:
                self.served.sent_bytes += sent
        connection.sendall(
            write_report(
                Report(total_bytes=sent, rate_bytes=sent, seconds=time.monotonic() - start)
            )
        )
        connection.shutdown(socket.SHUT_WR)
        self._drain(connection, bytearray(CHUNK_BYTES))
        return sent


def listen(host: str, port: int) -> socket.socket:
    """Open the socket of a server.

    Raises
    ------
    PlacerError
        If the address is not one of this machine, or the port is taken.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError, UnicodeError) as error:
        words = (getattr(error, "strerror", None) or str(error)).partition(" (")[0]
        raise PlacerError(
            f"cannot listen on {host} port {port}: {words}", "choose another --port or --host"
        ) from None
