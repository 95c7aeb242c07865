"""What a request uses when it names no catalog: the books that were pinned, with their digests."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json
from placer.market.books.folders import own_books
from placer.market.books.layers import find_layer, is_path

SCHEMA = "placer.pin/v1"
DEFAULT_CATALOG = "default"


def pin_file() -> Path:
    """Return where the pin stands."""
    return own_books().parent / "pin.json"


def pin_document(words: tuple[str, ...]) -> dict[str, Any]:
    """Build the pin of some books as they are now."""
    layers = [(word, find_layer(word)) for word in words]
    return {
        "schema": SCHEMA,
        "catalogs": [{"name": _lasting(word), "digest": layer.digest} for word, layer in layers],
    }


def default_words() -> tuple[str, ...]:
    """Return the names of the pinned books; ``default`` if none are.

    Raises
    ------
    PlacerError
        If the pin cannot be read, or a book is not as it was when it was pinned (exit code 5).
    """
    pins = pinned()
    again = (
        f"if that is meant: placer catalog pin "
        f"{' '.join(shlex.quote(name) for name, _ in pins)}; or placer catalog pin --clear"
    )
    for name, digest in pins:
        try:
            current = find_layer(name).digest
        except PlacerError as error:
            raise PlacerError(
                f"the pinned catalog '{name}' cannot be read: {error.message}", again, exit_code=5
            ) from None
        if current != digest:
            raise PlacerError(
                f"the pinned catalog '{name}' has changed (digest {current}, pinned {digest})",
                again,
                exit_code=5,
            )
    return tuple(name for name, _ in pins) or (DEFAULT_CATALOG,)


def pinned() -> tuple[tuple[str, str], ...]:
    """Name and digest of each pinned book, the lowest first; empty if nothing is pinned.

    Raises
    ------
    PlacerError
        If the pin cannot be read.
    """
    path = pin_file()
    return tuple(_read(path)) if path.is_file() else ()


def _lasting(word: str) -> str:
    """Return a path from every folder."""
    return str(Path(word).resolve()) if is_path(word) else word


def _read(path: Path) -> list[tuple[str, str]]:
    try:
        document = parse_json(bounded(path, "remove it"))
        if document["schema"] != SCHEMA:
            raise ValueError
        pins = [(entry["name"], entry["digest"]) for entry in document["catalogs"]]
        if not pins or not all(isinstance(text, str) for pin in pins for text in pin):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise PlacerError(
            f"'{path}' is not a pin file of placer",
            "remove it, or write it again with 'placer catalog pin NAME...'",
        ) from None
    return pins
