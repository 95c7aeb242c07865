"""Python values of wishes: of which kinds they may be, and how they are written as words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from placer.errors import PlacerError
from placer.problem.words.meanings import unknown_word
from placer.problem.words.wishes import WISHES, Wish, Wishes
from placer.workload.constants import Calibration
from placer.workload.overlay import Overlay

HINTS: Mapping[str, Any] = get_type_hints(
    Wishes, localns={"Calibration": Calibration, "Overlay": Overlay}
)
"""Python types of every wish."""
KINDS: Mapping[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    tuple: "two whole numbers as a tuple",
    Sequence: "a list of such text",
    Mapping: "a mapping",
    os.PathLike: "a path",
    Calibration: "a calibration",
}
"""Kinds of values beside text, in words."""
LONGEST = 60
"""Characters of a wrong value that a message quotes."""


def check_words(given: Mapping[str, object]) -> dict[str, Any]:
    """Check the words of a request by the table, and write plain values as text; mappings and
    objects that a reader takes stay as they are.

    >>> check_words({"min_throughput": 400, "workers": (1, 4), "keep": {"gradients": "europe"}})
    {'min_throughput': '400/s', 'workers': '1..4', 'keep': ['gradients=europe']}
    """
    return {name: _written(name, value) for name, value in given.items()}


def is_kind(value: object, hint: Any) -> bool:
    """Tell whether a value is of a type as the table writes it; True and False are no numbers.

    >>> is_kind(4, str | int), is_kind(True, int), is_kind((1, 4), tuple[int, int])
    (True, False, True)
    >>> [is_kind(given, Mapping[str, int]) for given in ({"T4": 8}, {"T4": "8"}, {4: 8})]
    [True, False, False]
    """
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(is_kind(value, part) for part in parts)
    if isinstance(value, bool):
        return origin is bool
    if origin is tuple:
        return (
            isinstance(value, tuple)
            and len(value) == len(parts)
            and all(is_kind(one, part) for one, part in zip(value, parts, strict=True))
        )
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            is_kind(key, parts[0]) and is_kind(one, parts[1]) for key, one in value.items()
        )
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(is_kind(one, parts[0]) for one in value)
    return isinstance(value, {int: Integral, float: Real}.get(origin, origin))


def _written(name: str, value: Any) -> Any:
    wish = WISHES.get(name)
    if wish is None:
        raise unknown_word("word", name, list(WISHES))
    hint = HINTS[name]
    whole = wish.whole and isinstance(value, float) and value.is_integer()
    if not (is_kind(value, hint) or whole):
        quoted = " ".join(repr(value).split())
        shown = f"{quoted[:LONGEST]}{'...' * (len(quoted) > LONGEST)}"
        raise PlacerError(
            f"{name} {shown} is of type {type(value).__name__}", f"give {_kinds(wish, hint)}"
        )
    if isinstance(value, str | bool | NoneType):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, float) and wish.whole:
        value = int(value)
    if isinstance(value, Mapping):
        return value if name == "quota" else [_pair(key, one) for key, one in value.items()]
    if wish.number is None:
        return value
    each = value if isinstance(value, tuple) else (value,)
    return "..".join(wish.number.format(_digits(one)) for one in each)


def _digits(value: Real) -> str:
    return repr(int(value)) if isinstance(value, Integral) else repr(float(value))


def _pair(key: str | tuple[str, ...], value: object) -> str:
    """Write an entry of a mapping as ``KEY=VALUE``, with a colon between the parts of a key."""
    return f"{':'.join(key) if isinstance(key, tuple) else key}={value}"


def _kinds(wish: Wish, hint: Any) -> str:
    origins = [get_origin(part) or part for part in get_args(hint) or (hint,)]
    others = [words for kind, words in KINDS.items() if kind in origins]
    return " or ".join([*([f"text such as '{wish.example}'"] if str in origins else []), *others])
