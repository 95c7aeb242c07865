"""Write what a source gave as a book of the user: checked first, then put in place at once."""

from __future__ import annotations

import csv
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from placer.errors import PlacerError, SourceError
from placer.market.books.csv_rows import file_columns, optional_columns, read_rows
from placer.market.books.folders import check_book_name, own_books
from placer.market.books.layers import catalog_names
from placer.market.sources.harvest import FORMULA, BookOrigin, Cell, Harvest

ORIGIN = "origin.json"
"""Beside the CSV files of a book: documents with digests, date, what was left out."""
LOCK_SECONDS = 2.0


def save(harvest: Harvest, name: str) -> Path:
    """Write a harvest as the user's book ``name``, in place of one of the same name.

    Parameters
    ----------
    harvest
        Rows and origins.
    name
        Lower-case letters, digits, ``-``, ``_`` and ``.``.

    Returns
    -------
    Path
        Folder of the book.

    Raises
    ------
    PlacerError
        If a row breaks catalogs/columns.csv (exit code 7, the message names file, line and cell),
        nothing was found, another process writes this book, or the folder cannot be written. The
        old book stays as it was.

    Notes
    -----
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
def locked(name: str, done: str, seconds: float) -> Iterator[Path]:
    """Keep other processes from doing the same to a book of the user.

    Parameters
    ----------
    name
        Of the book.
    done
        What is done to it, for the lock and the message: ``written``, ``refreshed``.
    seconds
        How long another process is waited for.

    Yields
    ------
    Path
        The folder of the user's books.

    Raises
    ------
    PlacerError
        With exit code 7 if another process is at it for longer, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    folder = own_books()
    lock = FileLock(folder / f".{name}.{done}.lock", timeout=seconds)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise SourceError(
            f"the book '{name}' is being {done} by another process",
            "wait for it, then run this again",
        ) from None
    except (OSError, NotImplementedError) as error:
        raise _unwritable(name, folder, error) from None
    try:
        yield folder
    finally:
        lock.release()


def replaceable(book: Path) -> Path:
    """Refuse a place where something lies that is no book of `save`."""
    if os.path.lexists(book) and _target(book) is None:
        raise PlacerError(
            f"'{book}' was not written by placer", "move it away, or choose another name with --as"
        )
    return book


def _unwritable(name: str, folder: Path, error: Exception) -> PlacerError:
    why = getattr(error, "strerror", None) or error
    return SourceError(
        f"cannot write the book '{name}' in '{folder}': {why}",
        "set PLACER_HOME to a folder that can be written",
    )


def _checked_folder(harvest: Harvest, name: str, folder: Path) -> Path:
    made = folder / f".{name}@{secrets.token_hex(4)}"
    made.mkdir()
    try:
        _write(harvest, made)
        _check(harvest, made)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
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
        raise SourceError(
            f"the source gave '{cell[:80]}', which begins as a formula does", "nothing was changed"
        )
    return "" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)


def _check(harvest: Harvest, made: Path) -> None:
    """Read every file again as any book is read."""
    for file in harvest.rows:
        try:
            for _ in read_rows(made / file, file):
                pass
        except PlacerError as error:
            message = error.message.replace(f"{made}{os.sep}", "")
            raise SourceError(
                f"the source gave a row that no book may have: {message}", "nothing was changed"
            ) from None


def _put_in_place(made: Path, book: Path) -> None:
    """Move the link ``book`` to ``made`` and drop all older folders but the one before."""
    before, link = _target(book), made.with_name(f"{made.name}.link")
    try:
        link.symlink_to(made.name, target_is_directory=True)
        link.replace(book)
    except BaseException:
        if (
            _target(book) != made
        ):  # Ctrl-C may come after the link has moved: then the new folder is the book
            _remove(made, link)
        raise
    _remove(*(old for old in book.parent.glob(f".{book.name}@*") if old not in (made, before)))


def _target(book: Path) -> Path | None:
    """Return the folder that the link of a book names; None if there is no link, or one that `save`
    does not make.
    """
    try:
        name = str(book.readlink())
    except OSError:
        return None
    return book.parent / name if name.startswith(f".{book.name}@") and os.sep not in name else None


def _remove(*leftovers: Path) -> None:
    """Remove folders, and links that were made and not moved."""
    for path in leftovers:
        if path.is_symlink():
            path.unlink(missing_ok=True)
        else:
            shutil.rmtree(path, ignore_errors=True)
