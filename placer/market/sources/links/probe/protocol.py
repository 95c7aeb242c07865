"""What the probe and its server say to each other: one bounded line each way, then bytes.

The server speaks first, once: ``PLACER-PROBE/1 NONCE``. The client asks with one line of JSON that
carries an HMAC of the nonce and the question under the shared token, so the token itself never
travels. The server answers ``ok`` or ``error WORDS``; after ``ok`` the client sends `GO` when all
its streams stand.

* ``echo``: the client sends up to `MOST_ECHOES` messages of `ECHO_BYTES`; each comes back.
* ``upload``: the client sends; the server counts and ends with one report line.
* ``download``: the server sends, and ends with a report of exactly `TRAILER_BYTES`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

VERSION = "PLACER-PROBE/1"
MOST_LINE_BYTES = 512
"""Longest line that either side reads."""
ECHO_BYTES = 8
MOST_ECHOES = 100
TRAILER_BYTES = 64
GO = b"g"
CHUNK_BYTES = 1 << 18
VERBS = ("echo", "upload", "download")
MOST_BYTES = 1 << 50
MOST_SECONDS = 3600.0
WARM_UP = 0.2
"""Share of the time before the rate counts: a stream starts slowly, and a step of training is long
after its start.
"""


class ProbeError(Exception):
    """The other side broke the protocol, or refused; the text says how, in plain words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a client asks for on one connection."""

    verb: str
    most_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a receiver counted, or a sender sent: all bytes, and the bytes and seconds that the rate
    counts.
    """

    total_bytes: int
    rate_bytes: int
    seconds: float


@dataclass(kw_only=True, slots=True)
class Meter:
    """Counts what arrives and stops after some seconds from the first byte on.

    Notes
    -----
    The first piece only starts the clock. What arrives in the first fifth (`WARM_UP`) of the time
    is left out of the rate, unless the stream ended before.
    """

    seconds: float
    total_bytes: int = 0
    _first: tuple[float, int] | None = None
    _warm: tuple[float, int] | None = None
    _last: tuple[float, int] | None = None

    def add(self, count: int, now: float) -> bool:
        """Count a piece; return False once the time is over: the piece then does not count."""
        self.total_bytes += count
        mark = (now, self.total_bytes)
        if self._first is None:
            self._first = mark
        elif now - self._first[0] > self.seconds:
            return False
        elif self._warm is None and now - self._first[0] >= WARM_UP * self.seconds:
            self._warm = mark
        self._last = mark
        return True

    def report(self) -> Report:
        """Return what the rate counts: from the end of the warm-up, or of the first piece, to the
        last piece in time.
        """
        if self._first is None or self._last is None:
            return Report(total_bytes=self.total_bytes, rate_bytes=0, seconds=0.0)
        first = self._first if self._warm is None or self._warm == self._last else self._warm
        return Report(
            total_bytes=self.total_bytes,
            rate_bytes=self._last[1] - first[1],
            seconds=self._last[0] - first[0],
        )


def ask(question: Question, nonce: str, token: str) -> bytes:
    """Write the line of a question, signed."""
    words = {"verb": question.verb, "bytes": question.most_bytes, "seconds": question.seconds}
    return json.dumps({**words, "mac": _mac(question, nonce, token)}).encode() + b"\n"


def read_question(line: bytes, nonce: str, token: str) -> Question:
    """Read and check the line of a question.

    Raises
    ------
    ProbeError
        If it is no question, or not signed with the token.
    """
    try:
        message = json.loads(line)
        question = Question(
            verb=str(message["verb"]),
            most_bytes=int(message["bytes"]),
            seconds=float(message["seconds"]),
        )
        mac = str(message["mac"]).encode("ascii", "replace")
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ProbeError("not a question of a placer probe") from None
    if question.verb not in VERBS:  # first, as only these words can surely be signed
        raise ProbeError("unknown verb")
    if not hmac.compare_digest(mac, _mac(question, nonce, token).encode()):
        raise ProbeError("wrong token")
    if not 0 <= question.most_bytes <= MOST_BYTES or not 0 <= question.seconds <= MOST_SECONDS:
        raise ProbeError("bytes or seconds out of range")
    return question


def _mac(question: Question, nonce: str, token: str) -> str:
    text = f"{VERSION} {nonce} {question.verb} {question.most_bytes} {question.seconds!r}"
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def write_report(report: Report) -> bytes:
    """Write a report as one line of `TRAILER_BYTES`."""
    text = f"{report.total_bytes} {report.rate_bytes} {report.seconds:.9f}"
    return text.ljust(TRAILER_BYTES - 1).encode() + b"\n"


def read_report(line: bytes) -> Report:
    """Read a report; `ProbeError` if it is none."""
    try:
        total, rate, seconds = line.decode("ascii").split()
        report = Report(total_bytes=int(total), rate_bytes=int(rate), seconds=float(seconds))
    except (ValueError, UnicodeDecodeError):
        raise ProbeError("ended without a report") from None
    if (
        not 0 <= report.rate_bytes <= report.total_bytes <= MOST_BYTES
        or not math.isfinite(report.seconds)
        or report.seconds < 0
    ):
        raise ProbeError("gave a report that cannot be true")
    return report


def read_line(connection: socket.socket, seconds: float, most: int = MOST_LINE_BYTES) -> bytes:
    """Read up to a newline, in a bounded time for the whole line: a peer that drips single bytes
    gains nothing.

    Raises
    ------
    ProbeError
        If the line is too long, late, or the other side closes before its end.
    """
    data = b""
    wait = until(seconds)
    while not data.endswith(b"\n"):
        connection.settimeout(wait())
        piece = connection.recv(1)
        if not piece:
            raise ProbeError("closed before the end of its line")
        data += piece
        if len(data) > most:
            raise ProbeError("sent a line that is too long")
    return data


def read_exactly(connection: socket.socket, count: int, seconds: float) -> bytes:
    """Read a fixed number of bytes in a bounded time; empty if the other side closed first."""
    data = b""
    wait = until(seconds)
    while len(data) < count:
        connection.settimeout(wait())
        piece = connection.recv(count - len(data))
        if not piece:
            return b""
        data += piece
    return data


def until(seconds: float) -> Callable[[], float]:
    """Return a function of the seconds that are left; it raises `TimeoutError` at zero."""
    end = time.monotonic() + seconds

    def left() -> float:
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    return left
