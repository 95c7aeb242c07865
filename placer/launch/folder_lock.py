"""The lock of an output folder: one run or rehearsal at a time writes into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from placer.errors import PlacerError


@contextmanager
def locked_folder(
    folder: Path,
    owner: str = "rehearsal",
    option: str = "--dir",
    *,
    must_lock: bool = True,
    shared: bool = False,
) -> Iterator[None]:
    """Make a folder and lock it for the time of a ``with`` block: what locks it and the ``option``
    that chooses another are named in errors. A ``shared`` one lets others in that share it, as the
    ranks of a run do. Without ``must_lock`` a file system that has no locks is fine.

    The lock is the folder's own (flock), so no file is left, and the kernel frees it with the
    process, also after SIGKILL. Processes that are started meanwhile do not inherit it.
    """
    _make(folder, option)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(fd, folder, owner, option, must_lock=must_lock, shared=shared)
        yield
    finally:
        os.close(fd)


def lock_log(fd: int, path: Path) -> None:
    """Lock the log of a run for as long as it is open, or refuse one that another run writes."""
    _lock(fd, path.parent, "run", "--out", must_lock=False)


def refuse_a_taken_log(path: Path) -> None:
    """Refuse a log that another run of the same rank is writing; see `lock_log`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # none, or one that cannot be written either
        return
    try:
        lock_log(fd, path)
    finally:
        os.close(fd)


def _lock(
    fd: int, folder: Path, owner: str, option: str, *, must_lock: bool, shared: bool = False
) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no flock
        return
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PlacerError(
            f"another {owner} is writing into '{folder}'",
            f"wait until it has ended, or choose another {option}",
        ) from None
    except OSError as error:
        if must_lock:
            raise PlacerError(
                f"cannot lock the folder '{folder}': {error.strerror}",
                f"choose a folder on a local disk with {option}",
            ) from None


def _make(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        words = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise PlacerError(
            f"cannot make the folder '{folder}': {words}", f"choose another {option}"
        ) from None
    if not os.access(folder, os.W_OK):
        raise PlacerError(f"cannot write into '{folder}'", f"choose another {option}")
