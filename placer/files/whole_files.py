"""Files that are there whole or not at all, and temporary ones that do not outlast their process.

A temporary file or folder is locked (flock) by the process that writes it. The kernel frees the
lock with the process, also after SIGKILL, so the next process that writes there knows what is left
over and removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

MARK = ".placer-"
"""In the names of temporary files and folders."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def write_whole(target: Path, contents: bytes) -> None:
    """Write a file at once or not at all, and leave nothing else; see `whole_file`."""
    with whole_file(target) as stream:
        stream.write(contents)


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of the target at the end of a ``with`` block, or never.

    The target is no link. One that exists keeps its owner and mode; a new one follows the umask.
    `OSError` if it cannot be written, or could not keep its owner; what was there stays.
    """
    remove_left_over(target.parent, target.name)
    descriptor, name = _open_temporary(target)
    spare = name or _temporary_name(target)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            if target.exists():
                present = target.stat()
                _keep_owner(descriptor, present)
                os.fchmod(descriptor, present.st_mode & 0o777)
            os.fsync(descriptor)
            _put_in_place(descriptor, spare, target, unnamed=name is None)
    except BaseException:
        spare.unlink(missing_ok=True)
        raise


def remove_left_over(folder: Path, name: str) -> None:
    """Remove temporary files and folders beside a target whose processes have ended."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(f".{name}{MARK}") and not entry.is_symlink():
                _remove_unlocked(Path(entry.path))


@contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """Make a temporary folder beside a target, locked for the time of a ``with`` block; what lies
    under its name afterwards is removed.

    Raise `OSError` if it cannot be made.
    """
    remove_left_over(target.parent, target.name)
    made, descriptor = _made_folder(target)
    owner = os.getpid()
    try:
        yield made
    finally:
        if os.getpid() == owner:  # a forked child that ends leaves the block too
            shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


def exchange_names(first: Path, second: Path) -> bool:
    """Exchange the names of two files or folders in one step.

    Return whether it was done: only Linux can, and not on every file system.
    """
    import ctypes  # a millisecond that few processes need

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    names = os.fsencode(first), os.fsencode(second)
    return bool(call(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0)


def _made_folder(target: Path) -> tuple[Path, int]:
    """Make a locked folder as the umask says."""
    while True:
        made = _temporary_name(target)
        made.mkdir()
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(made, os.O_RDONLY | os.O_CLOEXEC)
            _lock(descriptor, wait=True)
            if made.exists():
                return made, descriptor
            os.close(descriptor)  # another process has removed it before it was locked


def _put_in_place(descriptor: int, spare: Path, target: Path, *, unnamed: bool) -> None:
    """Give a temporary file the name of its target; ``spare`` is its own name, or the one that it
    gets where the target exists.
    """
    if unnamed and not target.exists() and _link(descriptor, target):
        return
    if unnamed and not spare.exists() and not _link(descriptor, spare):
        raise FileExistsError(f"'{spare}' exists")
    spare.replace(target)


def _open_temporary(target: Path) -> tuple[int, Path | None]:
    """Open a locked temporary file; one without a name (None) where the file system has those, so
    that nothing can be left.
    """
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir():
        with contextlib.suppress(OSError):
            descriptor = os.open(target.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            _lock(descriptor)
            return descriptor, None
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    while True:
        name = _temporary_name(target)
        descriptor = os.open(name, flags, 0o666)
        _lock(descriptor, wait=True)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # another process has removed it before it was locked


def _temporary_name(target: Path) -> Path:
    return target.with_name(f".{target.name}{MARK}{os.urandom(4).hex()}")


def _keep_owner(descriptor: int, present: os.stat_result) -> None:
    """Give the new file the owner of the old one.

    Raise `PermissionError` if that may not be done: only root may give a file away.
    """
    made = os.fstat(descriptor)
    if (made.st_uid, made.st_gid) == (present.st_uid, present.st_gid):
        return
    try:
        os.fchown(descriptor, present.st_uid, present.st_gid)
    except PermissionError as error:
        tip = "it belongs to another user or group, which a new file would not"
        raise PermissionError(error.errno, tip) from None


def _link(descriptor: int, name: Path) -> bool:
    """Give a file without a name one; False if the name is taken."""
    folder = os.open(name.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:  # with a folder, Python calls linkat and follows the link in /proc
        os.link(f"/proc/self/fd/{descriptor}", name.name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        return False
    finally:
        os.close(folder)
    return True


def _lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock a file for as long as it is open; False if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows has no flock, and removes nothing
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _remove_unlocked(path: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not _lock(descriptor):
                return
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
