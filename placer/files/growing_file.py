"""Lines of a feed that grows: a file, the output of a command, or a folder of files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from placer.errors import PlacerError

LOOK_S = 0.2  # Seconds between two looks at a file
MOST_LINE_BYTES = 1 << 20
UNFINISHED = (".tmp", ".part", "~")
"""Ends of names under which programs write what they rename when it is whole."""
HINT = "give a file that grows, a folder of files, or - for the output of a command"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One whole line, without its end; ``file`` and ``number`` say where it stands."""

    text: str
    file: str
    number: int

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.file}:{self.number}"


def follow(
    feed: str, idle_s: float | None = None, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Line]:
    """Yield the lines of a feed as they are written, each when it has its end.

    feed: A file, a folder whose files are read in the order of their names, or ``-``: what comes on
        standard input, until it ends.
    idle_s: Seconds after which a file or folder without a new line has ended; None: never.
    sleep: Waits between two looks; a feed is never waited for by looking without a pause.
    """
    if feed == "-":
        yield from _of_pipe(sys.stdin.buffer)
        return
    path = Path(feed)
    if path.is_dir():
        yield from _of_folder(path, idle_s, sleep)
    else:
        yield from _of_file(path, idle_s, sleep, lambda: False)


def _of_pipe(stream: BinaryIO) -> Iterator[Line]:
    number = 0
    while raw := stream.readline(MOST_LINE_BYTES + 1):
        number += 1
        yield _line(raw, "standard input", number)


def _of_folder(
    folder: Path, idle_s: float | None, sleep: Callable[[float], None]
) -> Iterator[Line]:
    done, waited_s = "", 0.0
    while idle_s is None or waited_s < idle_s:
        name = next((name for name in _names(folder) if name > done), None)
        if name is None:
            sleep(LOOK_S)
            waited_s += LOOK_S
            continue
        yield from _of_file(folder / name, idle_s, sleep, partial(_has_later, folder, name))
        if not _has_later(folder, name):
            return
        done = name


def _has_later(folder: Path, name: str) -> bool:
    return _names(folder)[-1] > name


def _names(folder: Path) -> list[str]:
    try:
        return sorted(
            path.name
            for path in folder.iterdir()
            if path.is_file()
            and not path.name.startswith(".")
            and not path.name.endswith(UNFINISHED)
        )
    except OSError as error:
        raise PlacerError(f"{folder}: {error.strerror or error}", HINT) from None


def _of_file(
    path: Path, idle_s: float | None, sleep: Callable[[float], None], is_over: Callable[[], bool]
) -> Iterator[Line]:
    """Read a file to its end and wait for more; a line without end counts once it is over."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise PlacerError(f"{path}: {error.strerror or error}", HINT) from None
    with file:
        rest, number, waited_s = b"", 0, 0.0
        while True:
            over = is_over()
            piece = file.read(MOST_LINE_BYTES)
            if piece:
                waited_s = 0.0
                *whole, rest = (rest + piece).split(b"\n")
                for raw in whole:
                    number += 1
                    yield _line(raw, str(path), number)
                if len(rest) > MOST_LINE_BYTES:
                    _line(rest, str(path), number + 1)
                continue
            _check_same(path, os.fstat(file.fileno()), file.tell())
            if over or (idle_s is not None and waited_s >= idle_s):
                if over and rest:
                    yield _line(rest, str(path), number + 1)
                return
            sleep(LOOK_S)
            waited_s += LOOK_S


def _check_same(path: Path, opened: os.stat_result, read: int) -> None:
    """Refuse a file that was cut or replaced: what comes after it would be read wrongly."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise PlacerError(f"{path}: {error.strerror or error}", HINT) from None
    if now.st_size < read or (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino):
        tip = "append to a feed, or write each snapshot into a folder as a file of its own"
        raise PlacerError(f"{path}: was truncated or replaced while it was read", tip)


def _line(raw: bytes, file: str, number: int) -> Line:
    if len(raw) > MOST_LINE_BYTES:
        raise PlacerError(f"{file}:{number}: over {MOST_LINE_BYTES:,} bytes in one line", HINT)
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise PlacerError(f"{file}:{number}: no UTF-8 text", "write the feed as UTF-8") from None
    return Line(text=text.rstrip("\r\n"), file=file, number=number)
