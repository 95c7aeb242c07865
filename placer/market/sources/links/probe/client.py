"""The measuring end of a probe: round-trip times, and throughput of several TCP streams side by
side.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from placer.market.sources.links.probe.protocol import (
    CHUNK_BYTES,
    ECHO_BYTES,
    GO,
    TRAILER_BYTES,
    VERSION,
    Meter,
    ProbeError,
    Question,
    Report,
    ask,
    read_exactly,
    read_line,
    read_report,
)

SILENCE_SECONDS = 5.0
"""Longest time for a connection, a line or a piece of data."""
ROUNDS = 5
"""Connections whose time is taken; each echoes as often."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A server of probes: resolved address, token, and how long it may be silent."""

    address: tuple[str, int]
    token: str
    silence_seconds: float = SILENCE_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundTrip:
    """Medians in seconds: of opening a connection, and of an echo over an open one."""

    connect_s: float
    echo_s: float

    @property
    def rtt_s(self) -> float:
        """The smaller one: both hold one round trip, and what a busy host adds."""
        return min(self.connect_s, self.echo_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Throughput:
    """One run of some streams in one direction: bytes sent, and bytes that arrived in time."""

    streams: int
    sent_bytes: int
    received_bytes: int
    bits_per_s: float


def round_trip(peer: Peer) -> RoundTrip:
    """Take the time of connections and echoes.

    Raises
    ------
    ProbeError, OSError
        If the server refuses, breaks the protocol or is silent.
    """
    connects, echoes = [], []
    for _ in range(ROUNDS):
        connection, seconds = _open(peer, Question(verb="echo"))
        with connection:
            connects.append(seconds)
            connection.sendall(GO)
            for _ in range(ROUNDS):
                message, start = os.urandom(ECHO_BYTES), time.perf_counter()
                connection.sendall(message)
                if read_exactly(connection, ECHO_BYTES, peer.silence_seconds) != message:
                    raise ProbeError("did not echo what was sent")
                echoes.append(time.perf_counter() - start)
    return RoundTrip(connect_s=median(connects), echo_s=median(echoes))


def throughput(peer: Peer, verb: str, streams: int, most_bytes: int, seconds: float) -> Throughput:
    """Measure one direction over some streams side by side.

    Parameters
    ----------
    peer
        Server.
    verb
        ``upload`` or ``download``.
    streams
        Number of connections.
    most_bytes
        What all of them together send at most.
    seconds
        How long they send at most.

    Raises
    ------
    ProbeError, OSError
        If any stream fails: a sum that lacks one is no throughput.
    """
    question = Question(verb=verb, most_bytes=most_bytes // streams, seconds=seconds)
    connections: list[socket.socket] = []
    try:
        connections.extend(_open(peer, question)[0] for _ in range(streams))
        move = _upload if verb == "upload" else _download
        reports = _side_by_side(
            [lambda c=c: move(c, question, peer.silence_seconds) for c in connections]  # type: ignore[misc]
        )
    finally:
        for connection in connections:
            _drop(connection)
    lasted = max(report.seconds for _, report in reports)
    counted = sum(report.rate_bytes for _, report in reports)
    if lasted <= 0 or counted <= 0:
        raise ProbeError("moved too few bytes to tell a throughput")
    return Throughput(
        streams=streams,
        sent_bytes=sum(sent for sent, _ in reports),
        received_bytes=sum(report.total_bytes for _, report in reports),
        bits_per_s=8 * counted / lasted,
    )


def _open(peer: Peer, question: Question) -> tuple[socket.socket, float]:
    """Connect and ask; return the connection after ``ok``, and the seconds to connect."""
    start = time.perf_counter()
    connection = socket.create_connection(peer.address, timeout=peer.silence_seconds)
    seconds = time.perf_counter() - start
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        greeting = read_line(connection, peer.silence_seconds).decode("ascii", "replace").split()
        if len(greeting) != 2 or greeting[0] != VERSION:
            raise ProbeError(f"is no probe server of this version ({VERSION})")
        connection.sendall(ask(question, greeting[1], peer.token))
        answer = read_line(connection, peer.silence_seconds).decode("ascii", "replace").strip()
        if answer != "ok":
            raise ProbeError(
                f"refuses: "
                f"{''.join(c for c in answer.removeprefix('error ') if c.isprintable())[:120]}"
            )
    except BaseException:
        connection.close()
        raise
    return connection, seconds


def _side_by_side(jobs: list[Callable[[], tuple[int, Report]]]) -> list[tuple[int, Report]]:
    """Run all jobs at once, each in a thread; raise the first fault."""
    reports: list[tuple[int, Report]] = []
    faults: list[Exception] = []

    def run(job: Callable[[], tuple[int, Report]]) -> None:
        try:
            reports.append(job())
        except (ProbeError, OSError) as fault:
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return reports


def _upload(connection: socket.socket, question: Question, silence: float) -> tuple[int, Report]:
    """Send until bytes or seconds are used up; the server says what arrived in time."""
    payload, sent = memoryview(os.urandom(CHUNK_BYTES)), 0
    connection.sendall(GO)
    start = time.monotonic()
    while sent < question.most_bytes and (left := start + question.seconds - time.monotonic()) > 0:
        connection.settimeout(min(left, silence))
        try:
            sent += connection.send(payload[: question.most_bytes - sent])
        except TimeoutError:
            if left > silence:
                raise
    connection.settimeout(silence)
    connection.shutdown(socket.SHUT_WR)
    report = read_report(read_exactly(connection, TRAILER_BYTES, silence))
    if report.total_bytes > sent or report.seconds > time.monotonic() - start:
        raise ProbeError("reports more bytes or seconds than there were")
    return sent, report


def _download(connection: socket.socket, question: Question, silence: float) -> tuple[int, Report]:
    """Receive until the server ends, with a report that must agree, or the seconds are over."""
    meter, buffer, tail = Meter(seconds=question.seconds), bytearray(CHUNK_BYTES), b""
    connection.sendall(GO)
    connection.settimeout(silence)
    while count := connection.recv_into(buffer):
        tail = (tail + bytes(buffer[max(0, count - TRAILER_BYTES) : count]))[-TRAILER_BYTES:]
        if not meter.add(count, time.monotonic()):
            report = meter.report()
            return report.total_bytes, report
        if meter.total_bytes > question.most_bytes + TRAILER_BYTES:
            raise ProbeError("sends more than it was asked for")
    sent = read_report(tail).total_bytes
    report = meter.report()
    arrived = report.total_bytes - TRAILER_BYTES
    if sent != arrived:
        raise ProbeError(f"says that it sent {sent} bytes; {arrived} arrived")
    return sent, Report(
        total_bytes=arrived, rate_bytes=min(report.rate_bytes, arrived), seconds=report.seconds
    )


def _drop(connection: socket.socket) -> None:
    """Close at once: bytes that still wait to be sent are dropped, for nobody counts them and
    somebody would pay them.
    """
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
