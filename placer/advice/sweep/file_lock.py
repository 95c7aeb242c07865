"""The lock of a sweep's file: one sweep at a time adds points to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from placer.errors import PlacerError


@contextmanager
def opened_alone(path: str) -> Iterator[FileIO]:
    """Open a file to add lines to it, and lock it; PlacerError if another process has.

    The lock is the file's own (flock), so nothing is left beside it, and the kernel frees it with
    the process, also after SIGKILL. Windows has no flock: there a file beside it is locked, which
    its system removes. File systems without locks, such as some network disks, go on without one.
    """
    with Path(path).open("ab", buffering=0) as handle:
        try:
            import fcntl
        except ImportError:
            with _locked_beside(path):
                yield handle
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(path) from None
        except OSError:  # no locks here
            pass
        yield handle


@contextmanager
def _locked_beside(path: str) -> Iterator[None]:
    """Lock a file beside a file."""
    from filelock import FileLock, Timeout

    beside = Path(f"{path}.lock")
    lock = FileLock(beside, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise _taken(path) from None
    try:
        yield
    finally:
        lock.release()
        with suppress(OSError):
            beside.unlink()


def _taken(path: str) -> PlacerError:
    return PlacerError(
        f"another sweep is writing into '{path}'",
        "wait until it has ended, or give each a file of its own; --merge puts them together",
    )
