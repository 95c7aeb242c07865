"""Read a TOML file of the user, bounded in size."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from placer.errors import PlacerError

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
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise PlacerError(
            f"cannot read '{path}': {getattr(error, 'strerror', None) or error}", hint
        ) from None
    if len(data) > MOST_BYTES:
        raise PlacerError(f"'{path}' has more than {MOST_BYTES / 2**20:g} MiB", hint)
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid TOML: {error}", hint) from None
