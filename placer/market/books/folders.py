"""Folders of price books: those that come with placer, and the user's own."""

from __future__ import annotations

import csv
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from placer.errors import PlacerError

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""What a book may be called: a folder name on every system that nobody takes for a path."""


def shipped_folder(name: str) -> Path:
    """Find the folder of a data package: ``catalogs`` installs as ``placer.catalogs``."""
    spec = find_spec(f"placer.{name}")
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or [])))


def shipped_catalogs() -> Path:
    """Return the folder of the books that come with placer, installed or in a checkout."""
    return shipped_folder("catalogs")


def shipped_records(file: str) -> list[dict[str, str]]:
    """Return the rows of a table beside the books that come with placer, every cell as text."""
    with (shipped_catalogs() / file).open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def own_books() -> Path:
    """Return the folder of the user's books, ``$PLACER_HOME/catalogs`` or in the data folder."""
    return own_folder("data") / "catalogs"


def own_folder(kind: Literal["cache", "config", "data"]) -> Path:
    """Return the folder of what placer keeps for a user: ``$PLACER_HOME``, else the usual one of
    the system for what is kept.

    A user without a home, as in a container under any number, has a folder in which nothing can be:
    reading finds nothing there, and writing says so.
    """
    home = os.environ.get("PLACER_HOME")
    if home:
        return Path(home)
    import platformdirs  # not needed where a folder is given

    try:
        return Path(getattr(platformdirs, f"user_{kind}_path")("placer"))
    except RuntimeError:
        return Path(os.devnull) / "placer"


def own_book_names() -> list[str]:
    """Return the names of the user's books, sorted."""
    try:
        return sorted(
            path.name
            for path in own_books().iterdir()
            if NAME.fullmatch(path.name) and path.is_dir()
        )
    except OSError:
        return []


def check_book_name(name: str, taken: list[str]) -> str:
    """Refuse names that are no plain folder name, or that a shipped book has."""
    if not NAME.fullmatch(name) or name.endswith(".csv"):
        words = f"'{name}' is not the name of a book"
        raise PlacerError(words, "use lower-case letters, digits, '-', '_' and '.', as in aws-live")
    if name in taken:
        raise PlacerError(f"'{name}' is a shipped book", "choose another name")
    return name
