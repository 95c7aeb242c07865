"""Stdout and stderr whose reader may go away: a command still runs to its end."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TextIO


class Pipe(io.FileIO):
    """The writing end of a pipe. Once its reader has gone, nothing more is sent and ``has_reader``
    is False: files are still written, and the exit code is that of the command.
    """

    has_reader = True

    def write(self, data: object) -> int:
        """Write bytes, or drop them where nobody reads."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            self.has_reader = False
            to_nowhere(self.fileno())
            return super().write(data)  # type: ignore[arg-type]


def outlasting(stream: TextIO | None) -> TextIO:
    """Return a stream of the process as one that outlasts its reader, and that escapes what its
    encoding lacks. None, a stream that was closed from the start, has no reader either.
    """
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors="backslashreplace")
    raw = _raw(stream)
    if isinstance(raw, Pipe) or not isinstance(raw, io.FileIO) or stream.isatty():
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(Pipe(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def has_reader(stream: TextIO) -> bool:
    """Tell whether anybody may still read what a command without an end writes."""
    return getattr(_raw(stream), "has_reader", True)


def to_nowhere(descriptor: int) -> None:
    """Send what is written to a descriptor from now on to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _raw(stream: TextIO) -> object:
    buffer = getattr(stream, "buffer", None)  # the file itself where PYTHONUNBUFFERED is set
    return getattr(buffer, "raw", buffer)
