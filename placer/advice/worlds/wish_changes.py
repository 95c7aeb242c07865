"""Wishes of a changed world: the words of ``--set`` beside prices, links and speeds."""

from __future__ import annotations

from typing import Any

from placer.errors import PlacerError
from placer.market.words.selection import words as split
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.words.data import in_plain_words
from placer.problem.words.readers import read_wish
from placer.problem.words.wishes import CHANGES, Wish
from placer.records import replace
from placer.units import parse_bytes

NONE = "none"
"""Takes a limit away."""
PLAIN = Requirements()
"""A request without wishes."""
HUB = ("aggregator", "function", "storage")
"""Fields that belong to one exchange and fall with it."""


def set_wish(
    problem: Problem, name: str, text: str, factor: float | None, words: str | None
) -> Requirements:
    """Change one wish.

    Parameters
    ----------
    problem
        The question whose wishes are changed.
    name
        Key of `CHANGES`.
    text
        The whole word, for errors.
    factor, words
        What multiplies the wish, or its new words; ``none`` takes a limit away.

    Raises
    ------
    PlacerError
        If the words do not fit the wish, or there is nothing to multiply.
    """
    wish, known = CHANGES[name], problem.requirements
    if name == "samples":
        known = replace(known, tokens=None)
    if name == "data":  # it lies where the change says
        known = replace(known, data_source=None, copy_s=0.0)
    if factor is not None:
        return replace(known, **_scaled(wish, problem, factor, text))
    assert words is not None
    if words == NONE and wish.removable:
        return replace(known, **{field: getattr(PLAIN, field) for field in wish.fields})
    if name == "data":
        listed, size = in_plain_words(split(words, name), problem.profile)
        words = ",".join(listed)
        if size is not None:
            known = replace(known, data_bytes=parse_bytes(size))
    samples = None if known.samples is None else str(known.samples)
    changed = read_wish(wish, words, problem.catalog, {"samples": samples})
    if name == "exchange" and words != known.exchange:
        changed |= {field: getattr(PLAIN, field) for field in HUB}
    return replace(known, **changed)


def _scaled(wish: Wish, problem: Problem, factor: float, text: str) -> dict[str, Any]:
    """Multiply the amounts of a wish; whole numbers stay whole, at least 1."""
    known = problem.requirements
    now = {field: getattr(known, field) for field in wish.fields}
    if wish.name == "tbs":
        now = {"target_batch_size": problem.batch}
    amounts = {field: v for field, v in now.items() if isinstance(v, int | float)}
    if not amounts:
        raise PlacerError(
            f"change '{text}': the request has no {wish.word} to multiply",
            f"give {wish.flag}, or write {wish.word}=VALUE",
        )
    changed: dict[str, Any] = {
        field: max(1, round(value * factor)) if wish.whole else value * factor
        for field, value in amounts.items()
    }
    return changed | ({"batch_tokens": None} if wish.name == "tbs" else {})
