"""Read a TOML file of the user, bounded in size."""

from __future__ import annotations

import tomllib
from typing import Any

from placer.errors import PlacerError
from placer.files.bounded_file import read_file

MOST_BYTES = 1 << 20
"""Largest file: 200 hosts have about 20 kB."""


def read_toml(path: str, hint: str) -> dict[str, Any]:
    """Read a file.

    Parameters
    ----------
    path
        TOML file.
    hint
        What such a file has to look like, for messages.

    Raises
    ------
    PlacerError
        If it cannot be read, is too large or no TOML.
    """
    data = read_file(path, hint, MOST_BYTES)
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid TOML: {error}", hint) from None
