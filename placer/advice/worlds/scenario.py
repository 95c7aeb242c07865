"""A changed world: words such as ``price:gcp/*:T4=x0.5`` and the question that they make of another
one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from msgspec import to_builtins

from placer.advice.worlds.market_changes import drop_offers, set_bandwidths, set_egress, set_prices
from placer.advice.worlds.model_changes import set_gradient, set_quota, set_rates
from placer.advice.worlds.wish_changes import set_wish
from placer.errors import PlacerError, unknown
from placer.problem.contradictions import without_contradictions
from placer.problem.problem import Problem
from placer.problem.words.tokens import in_sequences
from placer.problem.words.wishes import CHANGES
from placer.units import parse_bandwidth, parse_count, parse_rate

TARGETS = {
    "price": "price:PLACE:GPU[:spot|on-demand]=xF, +P%, -P% or USD/h of each GPU",
    "egress": (
        "egress:SRC:DST=xF, +P%, -P% or USD/GiB; DST is a place, internet, inter-region or "
        "inter-zone"
    ),
    "bandwidth": "bandwidth:SRC:DST[:one-way]=xF, +P%, -P% or a rate such as 250Mb/s",
    "rate": "rate:GPU[:COUNT]=xF, +P%, -P% or samples/s of one GPU, such as 400/s",
    "gradient": "gradient=xF, +P% or -P%",
    "quota": "quota:PLACE:GPU[:spot|on-demand]=N",
}
"""What is no wish, with its grammar."""
PARTS = {
    "price": (2, 3),
    "egress": (2, 2),
    "bandwidth": (2, 3),
    "rate": (1, 2),
    "gradient": (0, 0),
    "quota": (2, 3),
}
"""Fewest and most words between the name and the sign."""
MARKETS = ("spot", "on_demand", "*")
MOST_FACTOR = 1e6
"""Larger factors, and smaller ones than one over it, are a slip of the keyboard."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One change of the world.

    Notes
    -----
    ``what`` is a key of `TARGETS`, a wish, or ``drop``; ``target`` the patterns that say where it
    holds. Either ``factor`` multiplies what is there, or ``value`` takes its place: USD/h, USD/GiB,
    bytes/s, samples/s or a whole number; the text of a wish. A price is that of each GPU.
    """

    text: str
    what: str
    target: tuple[str, ...] = ()
    factor: float | None = None
    value: float | str | None = None


def change_document(change: Change) -> dict[str, Any]:
    """Build one change as it was written and as it was read."""
    return {**to_builtins(change), "target": list(change.target)}


def parse_changes(given: Iterable[str] = (), drop: Iterable[str] = ()) -> tuple[Change, ...]:
    """Read the words of ``--set`` and ``--drop``.

    Raises
    ------
    PlacerError
        Names the word that does not follow the grammar.

    Examples
    --------
    >>> [change.factor for change in parse_changes(["price:gcp/*:T4=x0.5", "gradient=-25%"])]
    [0.5, 0.75]
    """
    return (
        *(_set_of(_text(word)) for word in _words(given)),
        *(_drop_of(_text(word)) for word in _words(drop)),
    )


def apply(problem: Problem, changes: Sequence[Change]) -> Problem:
    """Make the question of a changed world; the one that is given stays as it is.

    Parameters
    ----------
    problem
        The question as it is.
    changes
        In order; each works on what those before it left.

    Raises
    ------
    PlacerError
        If a pattern matches nothing, or the changed wishes contradict each other.

    Notes
    -----
    Prices, links and speeds are changed in the rows of the book and of the profile, so that
    solvers, estimates and saved problems see one world. The age, basis and digest of the book are
    those of the original: a changed world is no price book.
    """
    for what, group in groupby(changes, key=lambda change: change.what):
        problem = _applied(problem, what, list(group))
    return (
        without_contradictions(problem)
        if any(change.what in CHANGES for change in changes)
        else problem
    )


def _applied(problem: Problem, what: str, changes: list[Change]) -> Problem:
    """Apply neighbours of one kind together."""
    rows = [(change.text, change.target, change.factor, change.value) for change in changes]
    for name, over_catalog in (
        ("price", set_prices),
        ("egress", set_egress),
        ("bandwidth", set_bandwidths),
    ):
        if what == name:
            return replace(
                problem,
                catalog=over_catalog(
                    problem.catalog, [(t, w, f, _number(v)) for t, w, f, v in rows]
                ),
            )
    if what == "drop":
        return replace(
            problem,
            catalog=drop_offers(problem.catalog, [(text, target) for text, target, _, _ in rows]),
        )
    if what == "rate":
        return replace(
            problem, profile=set_rates(problem, [(t, w, f, _number(v)) for t, w, f, v in rows])
        )
    for text, target, factor, value in rows:
        if what == "gradient":
            problem = replace(problem, profile=set_gradient(problem.profile, factor or 1.0))
        elif what == "quota":
            problem = replace(
                problem, requirements=set_quota(problem, target, int(_number(value) or 0))
            )
        else:
            changed = set_wish(problem, what, text, factor, None if value is None else str(value))
            problem = in_sequences(replace(problem, requirements=changed))
    return problem


def _number(value: float | str | None) -> float | None:
    return value if isinstance(value, int | float) else None


def _set_of(text: str) -> Change:
    left, sign, right = (part.strip() for part in text.partition("="))
    what, *target = (part.strip() for part in left.split(":"))
    if what not in TARGETS and what not in CHANGES:
        raise unknown(
            "change", what, [*TARGETS, *CHANGES], f"known: {', '.join([*TARGETS, *CHANGES])}"
        )
    if not sign or not right:
        raise PlacerError(
            f"change '{text}' says no new value", f"write {TARGETS.get(what, f'{what}=VALUE')}"
        )
    if what in CHANGES:
        if target:
            raise PlacerError(
                f"change '{text}': {what} is a wish and has no place", f"write {what}=VALUE"
            )
        factor = _factor(right, text) if CHANGES[what].scales else None
        return Change(text=text, what=what, factor=factor, value=None if factor else right)
    least, most = PARTS[what]
    if not least <= len(target) <= most or not all(target):
        raise PlacerError(f"change '{text}' is not complete", f"write {TARGETS[what]}")
    factor = _factor(right, text) if what != "quota" else None
    value = None if factor else _value(what, right, text)
    return Change(
        text=text, what=what, target=_target(what, tuple(target), text), factor=factor, value=value
    )


def _target(what: str, target: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Check the last word of a target."""
    if what in ("price", "quota"):
        market = target[2].replace("-", "_") if len(target) == 3 else "*"
        if market not in MARKETS:
            raise unknown("market", target[2], ["spot", "on-demand"])
        return (*target[:2], market)
    if what == "bandwidth" and len(target) == 3 and target[2] != "one-way":
        raise PlacerError(
            f"change '{text}': '{target[2]}' is not one-way", f"write {TARGETS[what]}"
        )
    if what == "rate" and len(target) == 2 and not re.fullmatch(r"[1-9][0-9]{0,3}", target[1]):
        raise PlacerError(
            f"change '{text}': '{target[1]}' is no number of GPUs", f"write {TARGETS[what]}"
        )
    return target


def _drop_of(text: str) -> Change:
    target = [part.strip() for part in text.split(":")]
    if not 1 <= len(target) <= 3 or not all(target):
        raise PlacerError(
            f"drop '{text}' names no offers",
            "write PLACE or PLACE:GPU[:spot|on-demand], such as aws/us-east-1 or 'aws/*:H100:spot'",
        )
    market = target[2].replace("-", "_") if len(target) == 3 else "*"
    if market not in MARKETS:
        raise unknown("market", target[2], ["spot", "on-demand"])
    return Change(
        text=text, what="drop", target=(*target[:2], market) if len(target) > 1 else (target[0],)
    )


def _factor(right: str, text: str) -> float | None:
    """Read ``x0.5``, ``+10%`` or ``-10%``; None for a plain value."""
    times = re.fullmatch(r"[xX]\s*([0-9.eE+-]{1,40})", right)
    percent = re.fullmatch(r"([+-][0-9.eE+-]{1,40})\s*%", right)
    if not times and not percent:
        return None
    try:
        factor = float(times[1]) if times else 1 + float(percent[1]) / 100 if percent else math.nan
    except ValueError:
        factor = math.nan
    if not 1 / MOST_FACTOR <= factor <= MOST_FACTOR:
        raise PlacerError(
            f"change '{text}': '{right}' is no factor above 0",
            "write x0.5 for half of it, +10% or -10%",
        )
    return factor


def _value(what: str, right: str, text: str) -> float:
    """Read a new value in the unit of what is changed."""
    if what == "bandwidth":
        return parse_bandwidth(right)
    if what == "rate":
        return parse_rate(right)
    if what == "quota":
        return 0 if right == "0" else parse_count(right, "quota")
    unit = {"price": r"(?:/h)?", "egress": r"(?:/GiB)?"}.get(what)
    match = (
        None
        if unit is None
        else re.fullmatch(r"\$?\s*([0-9]{1,9}(?:\.[0-9]{0,12})?)\s*" + unit, right)
    )
    if match is None or (what == "price" and float(match[1]) == 0):
        raise PlacerError(f"change '{text}': '{right}' is no new value", f"write {TARGETS[what]}")
    return float(match[1])


def _words(given: Iterable[str]) -> Iterable[str]:
    return [given] if isinstance(given, str) else given


def _text(word: object) -> str:
    if not isinstance(word, str) or not word.strip():
        raise PlacerError(
            f"change {word!r} is not text",
            "write it as on the command line, such as 'price:gcp/*:T4=x0.5'",
        )
    return word.strip()
