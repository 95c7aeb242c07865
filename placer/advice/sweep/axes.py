"""The ranges of a sweep: words such as ``budget=2/h..20/h:7`` and the points that they span."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from placer.errors import PlacerError
from placer.problem.words.changes import parse_changes
from placer.problem.words.wishes import CHANGES
from placer.units import parse_count

STEPS = 5
"""Points of a range that does not say how many."""
MOST_AXES = 3
MOST_POINTS = 100_000
"""More points are a slip of the keyboard."""
WHOLE = ("quota", *(word for word, wish in CHANGES.items() if wish.whole))
"""What is changed by whole numbers."""
_NUMBER = (
    r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})"
    r"(?:[eE][+-]?[0-9]{1,2})?(?![0-9]|[eE][+-]?[0-9])"
)
_RANGE = re.compile(
    rf"(?P<times>[xX]?)(?P<low>{_NUMBER})(?P<unit>[^.:]*)\.\.(?P<again>[xX]?)(?P<high>{_NUMBER})(?P<last>[^.:]*)(?::(?P<log>log)?\s*(?P<steps>[0-9]{{1,6}})?)?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """What is varied, and the words of ``--set`` for each of its values, in order."""

    what: str
    words: tuple[str, ...]


def parse_axis(text: str) -> Axis:
    """Read ``WHAT=LOW..HIGH``, with ``:STEPS`` or ``:log STEPS`` behind it, or ``WHAT=a,b,c``.

    >>> parse_axis("budget=2/h..8/h:3").words
    ('budget=2/h', 'budget=5/h', 'budget=8/h')
    >>> parse_axis("price:gcp/*:T4=x0.5..2:log 3").words
    ('price:gcp/*:T4=x0.5', 'price:gcp/*:T4=x1', 'price:gcp/*:T4=x2')
    """
    if not isinstance(text, str) or not text.strip():
        raise PlacerError(
            f"over {text!r} is not a range", "write WHAT=LOW..HIGH, such as budget=2/h..20/h:7"
        )
    what, sign, values = (part.strip() for part in text.partition("="))
    if not sign or not values:
        raise PlacerError(
            f"over '{text}' gives no values",
            f"write {what or 'WHAT'}=LOW..HIGH or {what or 'WHAT'}=a,b,c",
        )
    listed = [value.strip() for value in values.split(",") if value.strip()]
    spread = _spread(what, values, text) if ".." in values else listed
    words = tuple(dict.fromkeys(f"{what}={value}" for value in spread))
    parse_changes(words)
    return Axis(what=what, words=words)


def points_of(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    """Return every combination of the values of one to three axes, the last one fastest."""
    names = [axis.what for axis in axes]
    if not 1 <= len(axes) <= MOST_AXES:
        raise PlacerError(
            f"{len(axes)} ranges", f"give --over WHAT=LOW..HIGH one to {MOST_AXES} times"
        )
    if len(set(names)) < len(names):
        raise PlacerError(
            f"two ranges for {next(name for name in names if names.count(name) > 1)}",
            "give one range for each",
        )
    size = math.prod(len(axis.words) for axis in axes)
    if size > MOST_POINTS:
        raise PlacerError(f"{size:,} points", f"at most {MOST_POINTS:,}: take fewer steps")
    return list(product(*(axis.words for axis in axes)))


def parse_shard(text: str | None) -> tuple[int, int]:
    """Read ``i/n``: every n-th point from the i-th on; None is all of them.

    >>> parse_shard("2/3"), parse_shard(None)
    ((2, 3), (1, 1))
    """
    if text is None:
        return 1, 1
    match = re.fullmatch(r"\s*([0-9]{1,5})\s*/\s*([0-9]{1,5})\s*", str(text))
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise PlacerError(f"shard '{text}' is not one of so many", "write it as 1/4, 2/4, 3/4, 4/4")
    return int(match[1]), int(match[2])


def _spread(what: str, values: str, text: str) -> Iterable[str]:
    """Return the values between two ends, as words."""
    match = _RANGE.fullmatch(values)
    if match is None or (match["log"] and not match["steps"]) or values.endswith(":"):
        raise PlacerError(
            f"over '{text}' is not a range",
            f"write {what}=LOW..HIGH:STEPS or {what}=LOW..HIGH:log STEPS",
        )
    units = [match["unit"].strip(), match["last"].strip()]
    if units[0] and units[1] and units[0] != units[1]:
        raise PlacerError(
            f"over '{text}': the ends are in {units[0]} and {units[1]}", "give both in one unit"
        )
    unit, steps = units[0] or units[1], int(match["steps"] or STEPS)
    times = "x" if match["times"] or match["again"] else ""
    whole = what.partition(":")[0] in WHOLE and not times
    if whole:
        low, high = (
            float(parse_count(f"{match[end]}{unit}", what)) if float(match[end]) else 0.0
            for end in ("low", "high")
        )
        unit = ""
    else:
        low, high = float(match["low"]), float(match["high"])
    if steps < 2 or high <= low:
        raise PlacerError(
            f"over '{text}' goes from {match['low']} to {match['high']} in {steps}",
            "give the lower end first, and two steps or more",
        )
    if match["log"] and low <= 0:
        raise PlacerError(f"over '{text}': a logarithmic range starts above 0", "leave out log")
    if steps > MOST_POINTS:
        raise PlacerError(f"{steps:,} points", f"at most {MOST_POINTS:,}: take fewer steps")
    shares = [step / (steps - 1) for step in range(steps)]
    between = [
        low * (high / low) ** share if match["log"] else low + share * (high - low)
        for share in shares
    ]
    if whole:
        return [str(round(value)) for value in between]
    return [f"{times}{value:{'+' if unit == '%' else ''}.6g}{unit}" for value in between]
