"""Folders of data that come with placer, installed or in a checkout."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def shipped_folder(name: str) -> Path:
    """Find the folder of a data package such as ``catalogs``, which installs as ``placer.catalogs``."""
    spec = find_spec(f"placer.{name}")
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or [])))


def shipped_catalogs() -> Path:
    """Folder of the books that come with placer, installed or in a checkout."""
    return shipped_folder("catalogs")
