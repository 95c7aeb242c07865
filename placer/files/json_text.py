"""JSON as documents of placer hold it: each key once, and no number that JSON does not have."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""Halves of a character, as an escape or in UTF-8 that is none."""
_LARGE = re.compile(rb"\d{300}")
"""Digits of a whole number that may be larger than any float."""


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text; ValueError if an object has a key twice, a number is NaN, infinite or larger
    than any float, or a text has half a character (a surrogate without its other half), which
    cannot be printed.

    >>> parse_json('{"usd": 1, "usd": 2}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'usd' appears twice in an object
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    if _LARGE.search(raw):  # seldom, as below
        _refuse_large(document)
    if _SURROGATE.search(raw):  # seldom: so the search is all that most documents cost
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text has half a character") from None
    return document


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of JSON; ValueError if a key stands twice: readers differ in which value they
    take, so a document could show one value and mean another.
    """
    built = dict(pairs)
    if len(built) < len(pairs):
        keys = [key for key, _ in pairs]
        key = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key '{key[:40]}' appears twice in an object")
    return built


def misfit(error: Exception, document: Any) -> str:
    """Say where a document does not fit its type, by an error of msgspec, and what stands there.

    >>> misfit(ValueError("Expected `int` >= 1 - at `$.rows[0].count`"), {"rows": [{"count": 0}]})
    'rows[0].count is 0: expected `int` >= 1'
    >>> misfit(ValueError("Object missing required field `count` - at `$.rows[0]`"), {})
    'rows[0]: object missing required field `count`'
    """
    words, _, path = str(error).partition(" - at `$")
    words, path = words[:1].lower() + words[1:], path.rstrip("`")
    value = document
    try:
        for index, key in re.findall(r"\[(\d+)\]|\.([^.\[]+)", path):
            value = value[int(index)] if index else value[key]
        named = isinstance(value, dict) or words.startswith("invalid")
        shown = "" if named else f" is {json.dumps(value)[:40]}"
    except (KeyError, IndexError, TypeError, ValueError):
        shown = ""
    return f"{path.lstrip('.')}{shown}: {words}" if path else words


def _refuse_large(document: Any) -> None:
    left = [("a number", document)]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += value.items()
        elif isinstance(value, list):
            left += [(name, each) for each in value]
        elif isinstance(value, int) and abs(value) > sys.float_info.max:
            digits = str(abs(value))
            raise ValueError(f"{name[:40]} is {digits[:12]}... and has {len(digits):,} digits")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")
