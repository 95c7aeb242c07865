"""The folder of a rehearsal's logs: one rehearsal at a time writes into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from placer.errors import PlacerError


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make a folder and keep it for the time of a ``with`` block.

    Raises
    ------
    PlacerError
        If it cannot be made or written, or another rehearsal has it.

    Notes
    -----
    The lock is the folder's own (flock), so no file is left, and the kernel frees it with the
    process, also after SIGKILL. Processes that are started meanwhile do not inherit it.
    """
    _make(folder)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(fd, folder)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows, where nothing is rehearsed
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PlacerError(
            f"another rehearsal is writing into '{folder}'",
            "wait until it has ended, or choose another --dir",
        ) from None
    except OSError as error:
        raise PlacerError(
            f"cannot lock the folder '{folder}': {error.strerror}", "choose a --dir on a local disk"
        ) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        words = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise PlacerError(
            f"cannot make the folder '{folder}': {words}", "choose another --dir"
        ) from None
    if not os.access(folder, os.W_OK):
        raise PlacerError(f"cannot write into '{folder}'", "choose another --dir")
