"""Write what a source gave as a book of the user: checked first, then put in place at once."""

from __future__ import annotations

import csv
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from placer.errors import PlacerError, SourceError
from placer.market.books.csv_rows import file_columns, key_columns, optional_columns, read_rows
from placer.market.books.folders import check_book_name, own_books
from placer.market.books.layers import catalog_names
from placer.market.sources.harvest import FORMULA, BookOrigin, Cell, Harvest, Row
from placer.records import replace

ORIGIN = "origin.json"
"""Beside the CSV files of a book: documents with digests, date, what was left out."""
LOCK_SECONDS = 2.0
CAPACITY_FILES = ("capacity.csv", "offers.csv")  # What a book of capacity may have


def save(harvest: Harvest, name: str) -> Path:
    """Write a harvest as the user's book ``name``, in place of one of the same name; return its
    folder. Exit code 7 if a row breaks catalogs/columns.csv; the old book stays as it was.

    A book is a link to a folder that is never changed: writing makes a new folder, checks it and
    moves the link. A reader that has begun with the old folder can finish: the one before the
    current is kept.
    """
    check_book_name(name, catalog_names())
    if not any(harvest.rows.values()):
        raise SourceError(f"nothing was found for '{name}'", "the old book stays as it was")
    with locked(name, "written", LOCK_SECONDS) as folder:
        try:
            book = replaceable(folder / name)
            _put_in_place(_checked_folder(harvest, name, folder), book)
        except OSError as error:
            raise _unwritable(name, folder, error) from None
    return book


@contextmanager
def temporary(harvest: Harvest, name: str) -> Iterator[Path]:
    """Write a harvest as a book of that name, checked as `save` does; yield its folder, which is
    gone afterwards.
    """
    check_book_name(name, catalog_names())
    with TemporaryDirectory(prefix="placer-") as folder:
        book = Path(folder) / name
        _checked_folder(harvest, name, Path(folder)).rename(book)
        yield book


@contextmanager
def locked(name: str, done: str, seconds: float) -> Iterator[Path]:
    """Keep other processes from doing the same to a book of the user; yield the folder of the
    user's books. ``done`` says what is done: ``written``, ``refreshed``; another process is waited
    for so many seconds, then exit code 7.
    """
    from filelock import FileLock, Timeout

    folder = own_books()
    lock = FileLock(folder / f".{name}.{done}.lock", timeout=seconds)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        words = f"the book '{name}' is being {done} by another process"
        raise SourceError(words, "wait for it, then run this again") from None
    except (OSError, NotImplementedError) as error:
        raise _unwritable(name, folder, error) from None
    try:
        yield folder
    finally:
        lock.release()


def replaceable(book: Path) -> Path:
    """Refuse a place where something lies that is no book of `save`."""
    if os.path.lexists(book) and _target(book) is None:
        tip = "move it away, or choose another name with --as"
        raise PlacerError(f"'{book}' was not written by placer", tip)
    return book


def merged(harvest: Harvest, name: str) -> Harvest:
    """Lay rows of capacity over those of the book of that name; no other file may be in it."""
    book = own_books() / name
    if not book.is_dir():
        return harvest
    other = sorted(path.name for path in book.glob("*.csv") if path.name not in CAPACITY_FILES)
    if other:
        words = f"the book '{name}' has {other[0]}: it is no book of capacity"
        raise PlacerError(words, "choose another name with --as")
    rows: dict[str, Sequence[Row]] = {}
    for file in CAPACITY_FILES:
        below = read_rows(book / file, file) if (book / file).is_file() else ()
        keyed = {
            tuple(row.get(column) or "" for column in key_columns(file)): row
            for row in (*below, *harvest.rows.get(file, ()))
        }
        if keyed:
            rows[file] = [*keyed.values()]
    return replace(harvest, rows=rows)


def _unwritable(name: str, folder: Path, error: Exception) -> PlacerError:
    why = getattr(error, "strerror", None) or error
    return SourceError(
        f"cannot write the book '{name}' in '{folder}': {why}",
        "set PLACER_HOME to a folder that can be written",
    )


def _checked_folder(harvest: Harvest, name: str, folder: Path) -> Path:
    """Write the files of a book, and read every one again as any book is read."""
    made = folder / f".{name}@{secrets.token_hex(4)}"
    made.mkdir()
    try:
        _write(harvest, made)
        for file in harvest.rows:
            for _ in read_rows(made / file, file):
                pass
    except BaseException as error:
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, SourceError) or not isinstance(error, PlacerError):
            raise
        message = error.message.replace(f"{made}{os.sep}", "")
        words = f"the source gave a row that no book may have: {message}"
        raise SourceError(words, "nothing was changed") from None
    return made


def _write(harvest: Harvest, made: Path) -> None:
    import msgspec

    for file, rows in harvest.rows.items():
        columns = [
            c
            for c in file_columns(file)
            if c not in optional_columns(file) or any(row.get(c) not in (None, "") for row in rows)
        ]
        with (made / file).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_text(row.get(column)) for column in columns] for row in rows)
            _sync(stream)
    document = BookOrigin(
        retrieved=datetime.now(UTC).isoformat(timespec="seconds"),
        documents=list(harvest.origins),
        left_out=dict(harvest.left_out),
        notes=list(harvest.notes),
    )
    with (made / ORIGIN).open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(msgspec.to_builtins(document), indent=2) + "\n")
        _sync(stream)


def _sync(stream: TextIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _text(cell: Cell) -> str:
    if isinstance(cell, str) and cell.startswith(FORMULA):
        words = f"the source gave '{cell[:80]}', which begins as a formula does"
        raise SourceError(words, "nothing was changed")
    return "" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)


def _put_in_place(made: Path, book: Path) -> None:
    """Move the link ``book`` to ``made`` and drop all older folders but the one before."""
    before, link = _target(book), made.with_name(f"{made.name}.link")
    try:
        link.symlink_to(made.name, target_is_directory=True)
        link.replace(book)
    except BaseException:
        if _target(book) != made:  # Ctrl-C may come after the link has moved: then it is the book
            _remove(made, link)
        raise
    _remove(*(old for old in book.parent.glob(f".{book.name}@*") if old not in (made, before)))


def _target(book: Path) -> Path | None:
    """Return the folder that the link of a book names; None if `save` made no such link."""
    try:
        name = str(book.readlink())
    except OSError:
        return None
    return book.parent / name if name.startswith(f".{book.name}@") and os.sep not in name else None


def _remove(*leftovers: Path) -> None:
    for path in leftovers:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path, ignore_errors=True)
