"""Read a file of the user whole, up to a limit: also endless devices, and silent pipes."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from placer.errors import PlacerError

MOST_BYTES = 32 << 20  # Largest document: as objects in memory, JSON may take twenty times its size
MOST_TOML_BYTES = 1 << 20  # Largest TOML file: 200 hosts have about 20 kB
MOST_LINES_BYTES = 128 << 20
"""Largest file of lines, each a document of its own: logs of runs, points of sweeps."""
PIECE_BYTES = 1 << 20
WRITER_S = 3.0  # Time for somebody to open a named pipe for writing
LOOK_S = 0.02


class NoWriterError(OSError):
    """A named pipe that nobody opened for writing."""

    def __init__(self) -> None:
        super().__init__(errno.EPIPE, f"nobody wrote into this pipe within {WRITER_S:g} s")


def read_file(
    path: str | Path, hint: str = "check the path", most_bytes: int = MOST_BYTES
) -> bytes:
    """Read a file, a pipe or a device whole; ``hint`` says what to give instead."""
    try:
        return bounded(path, hint, most_bytes)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise PlacerError(f"cannot read '{path}': {why}", hint) from None


def read_toml(path: str, hint: str) -> dict[str, Any]:
    """Read a TOML file; ``hint`` says what it has to look like."""
    import tomllib  # most commands read none

    data = read_file(path, hint, MOST_TOML_BYTES)
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid TOML: {error}", hint) from None


def line_of(word: str, text: Sequence[str], lines: range) -> int:
    """Return the first of some lines of TOML, from 0, that begins with a word, perhaps below
    another one, or with a table of its name; else the first of all.
    """
    name = rf"""(?:\w+\s*\.\s*)?["']?{re.escape(word)}["']?"""
    begin = re.compile(rf"\s*({name}\s*[=.]|\[+\s*{name}\b)")
    return next((number for number in lines if begin.match(text[number])), lines.start)


def bounded(path: str | Path, hint: str, most_bytes: int = MOST_BYTES, exit_code: int = 2) -> bytes:
    """Read a file as `read_file` does, for callers with words of their own: OSError or ValueError
    if it cannot be read, PlacerError if it has more bytes than the limit. Of a pipe or device no
    more than `MOST_LINES_BYTES` are read: some have no end.
    """
    never_wait = getattr(os, "O_NONBLOCK", 0)  # to open a pipe without a writer would wait for one
    flags = os.O_RDONLY | never_wait | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    file = os.open(path, flags)
    try:
        mode, size = os.fstat(file).st_mode, os.fstat(file).st_size
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            most_bytes = min(most_bytes, MOST_LINES_BYTES)
        wait = _pipe_waiter(file) if stat.S_ISFIFO(mode) else None
        data = bytearray()
        while len(data) <= most_bytes and size <= most_bytes:
            try:
                piece = os.read(file, min(PIECE_BYTES, most_bytes + 1 - len(data)))
            except BlockingIOError:  # a pipe or terminal whose other end is thinking
                if stat.S_ISREG(mode):  # such as /proc/kmsg, which has no end
                    raise
                select.select([file], [], [])
                continue
            data += piece
            if not piece and (data or wait is None or not wait()):
                return bytes(data)
    finally:
        os.close(file)
    words = f"'{path}' has more than {most_bytes / 2**20:g} MiB, the limit"
    raise PlacerError(words, hint, exit_code)


def _pipe_waiter(file: int) -> Callable[[], bool] | None:
    """Return a function that says whether to read a silent pipe again; None: never."""
    if not hasattr(select, "poll"):
        return None
    until, poll = time.monotonic() + WRITER_S, select.poll()
    poll.register(file, select.POLLIN)

    def wait() -> bool:
        events = dict(poll.poll(LOOK_S * 1000))
        if events.get(file, 0) & select.POLLHUP:  # somebody had, and wrote nothing
            return bool(events[file] & select.POLLIN)
        if time.monotonic() > until:
            raise NoWriterError
        return True

    return wait
