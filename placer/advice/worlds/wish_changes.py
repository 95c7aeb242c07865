"""Wishes that a changed world may have: the words of ``--set`` beside prices, links and speeds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from placer.errors import PlacerError
from placer.market.selection import gpus_of, patterns_of
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, Requirements
from placer.units import parse_budget, parse_count, parse_range, parse_rate

NONE = "none"
"""Takes a limit away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """How a wish is read: fields of `Requirements` from its words; whether it may be multiplied,
    and left open with ``none``.
    """

    read: Callable[[str, Problem], dict[str, Any]]
    scales: str = ""
    may_be_none: dict[str, Any] | None = None


def _tbs(text: str, problem: Problem) -> dict[str, Any]:
    return {"target_batch_size": parse_count(text, "tbs")}


def _pair(low: str, high: str, what: str, most: int) -> Callable[[str, Problem], dict[str, Any]]:
    def read(text: str, problem: Problem) -> dict[str, Any]:
        least, highest = parse_range(text, what, most)
        return {low: least, high: highest}

    return read


WISHES: dict[str, Wish] = {
    "budget": Wish(
        read=lambda text, problem: {"budget_usd_per_hour": parse_budget(text)},
        scales="budget_usd_per_hour",
        may_be_none={"budget_usd_per_hour": None},
    ),
    "min-throughput": Wish(
        read=lambda text, problem: {"min_samples_per_second": parse_rate(text)},
        scales="min_samples_per_second",
        may_be_none={"min_samples_per_second": None},
    ),
    "tbs": Wish(read=_tbs, scales="target_batch_size"),
    "objective": Wish(read=lambda text, problem: {"objective": text}),
    "market": Wish(read=lambda text, problem: {"market": text.replace("-", "_")}),
    "gpu": Wish(
        read=lambda text, problem: {"gpus": gpus_of(text, problem.catalog)},
        may_be_none={"gpus": ()},
    ),
    "in": Wish(
        read=lambda text, problem: {"places_in": patterns_of(text, problem.catalog)},
        may_be_none={"places_in": ()},
    ),
    "not-in": Wish(
        read=lambda text, problem: {"places_not_in": patterns_of(text, problem.catalog)},
        may_be_none={"places_not_in": ()},
    ),
    "workers": Wish(read=_pair("min_workers", "max_workers", "workers", 64)),
    "regions": Wish(read=_pair("min_regions", "max_regions", "regions", ALL_REGIONS)),
    "exchange": Wish(read=lambda text, problem: {"exchange": text}),
    "local-steps": Wish(
        read=_pair("min_local_steps", "max_local_steps", "local-steps", 512),
        may_be_none={"min_local_steps": None, "max_local_steps": None},
    ),
    "compression": Wish(read=lambda text, problem: {"compression": text}),
    "streams": Wish(read=lambda text, problem: {"streams": parse_count(text, "streams")}),
}
"""Wishes by their name on the command line."""


def set_wish(
    problem: Problem, name: str, text: str, factor: float | None, words: str | None
) -> Requirements:
    """Change one wish.

    Parameters
    ----------
    problem
        The question whose wishes are changed.
    name
        Key of `WISHES`.
    text
        The whole word, for errors.
    factor, words
        What multiplies the wish, or its new words; ``none`` takes a limit away.

    Raises
    ------
    PlacerError
        If the words do not fit the wish, or there is nothing to multiply.
    """
    wish, known = WISHES[name], problem.requirements
    if factor is not None:
        now = problem.batch if name == "tbs" else getattr(known, wish.scales)
        if now is None:
            raise PlacerError(
                f"change '{text}': the request has no {name} to multiply",
                f"give --{name}, or write {name}=VALUE",
            )
        scaled: dict[str, Any] = {
            wish.scales: max(1, round(now * factor)) if name == "tbs" else now * factor
        }
        return replace(known, **scaled)
    assert words is not None
    if words == NONE and wish.may_be_none is not None:
        return replace(known, **wish.may_be_none)
    if name == "exchange" and not re.fullmatch(r"[a-z-]+", words):
        raise PlacerError(
            f"change '{text}': '{words}' is no exchange", "write it as exchange=all-reduce"
        )
    changed = wish.read(words, problem)
    if name == "exchange" and words != known.exchange:
        changed |= {"aggregator": None, "function": None, "storage": None}
    return replace(known, **changed)
