"""Catalogs that were read and checked before: MessagePack files, by the digest of their layers."""

from __future__ import annotations

import gc
import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from placer.files.whole_files import whole_file
from placer.market.books.folders import own_folder, shipped_catalogs
from placer.market.catalog import TABLES, Catalog, VmOffer
from placer.market.table import Column, Table, code_type
from placer.version import __version__

MARK_BYTES = 32  # At the end of each file: the SHA-256 of what stands before it
MOST_KEPT = 12  # Compiled catalogs that the cache keeps; the ones used longest ago go first


def cache_folder() -> Path:
    """Return the folder of compiled catalogs: ``$PLACER_HOME/cache``, else the user's own."""
    folder = own_folder("cache")
    return (folder / "cache" if os.environ.get("PLACER_HOME") else folder) / "catalogs"


_used: ContextVar[bool] = ContextVar("cache used", default=True)


@contextmanager
def unused() -> Iterator[None]:
    """Read and write nothing in the cache for a while."""
    token = _used.set(False)
    try:
        yield
    finally:
        _used.reset(token)


def writing_problem() -> str:
    """Return why nothing can be put into the cache; empty if it can, or is not used."""
    import tempfile

    folder = cache_folder()
    try:
        if _used.get():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror or error})"
    return ""


def read_compiled(digest: str, name: str) -> Catalog | None:
    """Load a catalog from the cache; None if it has no whole file of this digest."""
    if not _used.get():
        return None
    path = _path(digest)
    try:
        data = memoryview(path.read_bytes() if _own(path) else b"")
        content, mark = data[:-MARK_BYTES], data[-MARK_BYTES:]
        if hashlib.sha256(content).digest() != mark:
            return None  # a price may have rotted
        with _no_collection():
            tables = msgspec.msgpack.decode(content)
            rows = {table: _rows(tables[table], kind) for table, kind in TABLES.items()}
        with suppress(OSError):
            os.utime(path)
    except (OSError, msgspec.DecodeError, TypeError, ValueError, KeyError, IndexError):
        return None
    return Catalog.of_tables(name, digest, rows)


def write_compiled(catalog: Catalog) -> None:
    """Put a catalog into the cache; a cache that cannot be written is none."""
    if not _used.get():
        return
    folder = cache_folder()
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = msgspec.msgpack.encode(
            {table: _columns(catalog.rows_of(table), kind) for table, kind in TABLES.items()}
        )
        path = _path(catalog.digest)
        if path.exists() and not _own(path):
            path.unlink()
        with whole_file(path) as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(content + hashlib.sha256(content).digest())
        for old in sorted(folder.glob("*.msgpack"), key=lambda p: p.stat().st_mtime)[:-MOST_KEPT]:
            old.unlink(missing_ok=True)


def _own(path: Path) -> bool:
    """Return whether nobody but this user, or root, can have written a file and its digest."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    mine = not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)
    return stat.S_ISREG(status.st_mode) and mine and not status.st_mode & 0o022


def _columns(rows: Sequence[Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return every column as its values and the number of each row's: a fifth of the bytes."""
    table = Table.of(kind, rows)
    columns = {name: table.column(name) for name in kind.__struct_fields__}
    types = {name: code_type(len(each.values)) for name, each in columns.items()}
    return {n: (each.values, each.array.astype(types[n]).tobytes()) for n, each in columns.items()}


def _rows(content: Mapping[str, Any], kind: type[msgspec.Struct]) -> Sequence[Any]:
    columns = {
        name: Column(values, memoryview(codes).cast(code_type(len(values))))
        for name, (values, codes) in ((name, content[name]) for name in kind.__struct_fields__)
    }
    if kind is VmOffer:  # made when somebody looks at them: there may be a million
        return Table.of_columns(VmOffer, columns)
    cells = (map(each.values.__getitem__, each.codes) for each in columns.values())
    return [kind(**dict(zip(columns, row, strict=True))) for row in zip(*cells, strict=True)]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage while many rows are made, none of which is: half of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _path(digest: str) -> Path:
    """Return the file of a digest; layout and figures in no digest are part of its name."""
    columns = {table: kind.__struct_fields__ for table, kind in TABLES.items()}
    layout = repr((__version__, MARK_BYTES, sys.byteorder, columns)).encode()
    files = ("columns.csv", "accelerators.csv", "capacity.csv")
    beside = b"".join((shipped_catalogs() / name).read_bytes() for name in files)
    return cache_folder() / f"{digest}-{hashlib.sha256(layout + beside).hexdigest()[:8]}.msgpack"
