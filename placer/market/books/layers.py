"""The layers of a catalog: shipped books, the user's own, folders and single files; rows of
later layers replace those of earlier ones. A request that names none uses those that were pinned.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json
from placer.market.books.csv_rows import (
    BOOK_FILES,
    MOST_BOOK_BYTES,
    file_columns,
    header_of,
    optional_columns,
)
from placer.market.books.folders import own_book_names, own_books, shipped_catalogs

MOST_NAMED = 5  # Columns that an error names
PIN_SCHEMA = "placer.pin/v1"
DEFAULT_CATALOG = "default"


class LayerFile(Struct, frozen=True, kw_only=True):
    """One CSV file of a layer, as it was when it was read."""

    path: Path
    data: bytes


class Layer(Struct, frozen=True, kw_only=True):
    """A whole or partial price book: its files by the name that `BOOK_FILES` has for them."""

    name: str
    files: Mapping[str, LayerFile]

    @property
    def digest(self) -> str:
        """First half of the SHA-256 of what stands in the files."""
        return digest_of([self])


def digest_of(layers: Sequence[Layer]) -> str:
    """Digest of the contents of all files of some layers, not of their names or places."""
    digest = hashlib.sha256()
    for layer in layers:
        for file in BOOK_FILES:
            content = layer.files.get(file)
            if content is not None:
                digest.update(f"{file} {len(content.data)}\n".encode())
                digest.update(content.data)
    return digest.hexdigest()[:16]


def catalog_names() -> list[str]:
    """Return the names of the shipped books, sorted."""
    return sorted(path.parent.name for path in shipped_catalogs().glob("*/offers.csv"))


def find_layer(word: str) -> Layer:
    """Read the files of a layer: a shipped book such as ``default``, a book of the user's own such
    as ``aws``, or the path of a folder or of one CSV file. PlacerError if there is none.
    """
    if not isinstance(word, str):
        raise PlacerError(f"catalog {word!r} is not a name", "give text")
    path = _path_of(word)
    if path is None:
        here = False
        with suppress(OSError, ValueError):
            here = Path(word).exists()
        if here and not is_path(word):
            tip = f"for the folder or file of that name write ./{word}"
            raise PlacerError(f"unknown catalog '{word}'", tip)
        raise unknown("catalog", word, [*catalog_names(), *own_book_names()])
    if path.is_file():
        return _single(path)
    files = {}
    for file in BOOK_FILES:
        member = path / file
        if member.is_file():
            files[file] = LayerFile(path=member, data=_read(member))
        elif member.exists():
            tip = "a price book has CSV files; catalogs/columns.csv lists them"
            raise PlacerError(f"{member} is not a file", tip)
    if not files:
        tip = f"a book is a folder with {', '.join(BOOK_FILES[1:3])} and so on"
        raise PlacerError(f"'{word}' has no file of a price book", tip)
    return Layer(name=path.name if is_path(word) else word, files=files)


def is_path(word: str) -> bool:
    """Tell the path of a layer from the name of a book."""
    return "/" in word or word.startswith(".") or word.endswith(".csv")


def _path_of(word: str) -> Path | None:
    """Return the folder or file of a layer; links are followed now, before a refresh."""
    if not word.strip():
        return None
    try:
        if is_path(word):
            path = Path(word).resolve()
            return path if path.is_dir() or path.is_file() else None
        return next(
            (p.resolve() for p in (shipped_catalogs() / word, own_books() / word) if p.is_dir()),
            None,
        )
    except (OSError, ValueError, RuntimeError):
        return None


def _single(path: Path) -> Layer:
    """Read one CSV file: its header tells which file of a book it is."""
    data = _read(path)
    header = set(header_of(data))
    fit = (file for file in BOOK_FILES if header and not any(_differences(header, file)))
    kind = path.name if path.name in BOOK_FILES else next(fit, None)
    if kind is None:
        raise PlacerError(
            f"{path}:1: unknown header{_closest(header)}",
            "catalogs/columns.csv lists the columns of each file of a price book; 'placer catalog "
            "import csv' renames columns",
        )
    return Layer(name=path.stem, files={kind: LayerFile(path=path, data=data)})


def _differences(header: set[str], file: str) -> tuple[list[str], list[str]]:
    """Return the columns of a file of a book that a header lacks, and those that it has besides."""
    known = set(file_columns(file))
    return sorted(known - optional_columns(file) - header), sorted(header - known)


def _closest(header: set[str]) -> str:
    """Name the file of a book that shares most columns with a header, and what it lacks."""
    shared = {file: len(header & set(file_columns(file))) for file in BOOK_FILES}
    file = max(shared, key=lambda name: shared[name])
    if not shared[file]:
        return ""
    words = "; ".join(
        f"{what}: {', '.join(repr(name)[1:-1] for name in names[:MOST_NAMED])}"
        + (" ..." if len(names) > MOST_NAMED else "")
        for what, names in zip(("missing", "unknown"), _differences(header, file), strict=True)
        if names
    )
    return f"; closest is {file}, {words}"


def _read(path: Path) -> bytes:
    try:
        return bounded(path, "give a smaller file", MOST_BOOK_BYTES)
    except OSError as error:
        words = f"{path}: cannot be read: {error.strerror or error}"
        raise PlacerError(words, "check the path") from None


def pin_file() -> Path:
    """Return where the pin stands."""
    return own_books().parent / "pin.json"


def pin_document(words: tuple[str, ...]) -> dict[str, Any]:
    """Build the pin of some books as they are now."""
    names = (str(Path(word).resolve()) if is_path(word) else word for word in words)  # lasting
    layers = (find_layer(word) for word in words)
    pins = [{"name": name, "digest": at.digest} for name, at in zip(names, layers, strict=True)]
    return {"schema": PIN_SCHEMA, "catalogs": pins}


def default_words() -> tuple[str, ...]:
    """Return the names of the pinned books, else ``default``; exit code 5 if one changed."""
    pins = pinned()
    again = (
        f"if that is meant: placer catalog pin "
        f"{' '.join(shlex.quote(name) for name, _ in pins)}; or placer catalog pin --clear"
    )
    for name, digest in pins:
        try:
            current = find_layer(name).digest
        except PlacerError as error:
            words = f"the pinned catalog '{name}' cannot be read: {error.message}"
            raise PlacerError(words, again, exit_code=5) from None
        if current != digest:
            words = f"has changed (digest {current}, pinned {digest})"
            raise PlacerError(f"the pinned catalog '{name}' {words}", again, exit_code=5)
    return tuple(name for name, _ in pins) or (DEFAULT_CATALOG,)


def pinned() -> tuple[tuple[str, str], ...]:
    """Return name and digest of each pinned book, the lowest first; empty if none is."""
    path = pin_file()
    if not path.is_file():
        return ()
    try:
        document = parse_json(bounded(path, "remove it"))
        if document["schema"] != PIN_SCHEMA:
            raise ValueError
        pins = [(entry["name"], entry["digest"]) for entry in document["catalogs"]]
        if not pins or not all(isinstance(text, str) for pin in pins for text in pin):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        tip = "remove it, or write it again with 'placer catalog pin NAME...'"
        raise PlacerError(f"'{path}' is not a pin file of placer", tip) from None
    return tuple(pins)
