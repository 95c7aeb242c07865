"""A JSON file of the user."""

from __future__ import annotations

import json
from typing import Any

from placer.errors import PlacerError
from placer.files.bounded_file import read_file
from placer.files.json_text import parse_json


def read_json(path: str) -> Any:
    """Read a JSON file.

    Raise a `PlacerError` that names the file, line and column that are wrong.
    """
    data = read_file(path)
    try:
        return parse_json(data)
    except json.JSONDecodeError as error:
        from placer.market.sources.machine_files import refuse_known

        refuse_known(path)
        raise PlacerError(
            f"{path}:{error.lineno}:{error.colno}: not valid JSON: {error.msg}", "correct the file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid JSON: {error}", "correct the file") from None
