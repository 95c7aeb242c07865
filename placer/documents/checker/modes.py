"""Strategies and local steps that a request admits, a second time: those a proof must speak of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placer.documents.checker.averages import transport_of
from placer.documents.checker.limits import LOCAL

SYNCHRONOUS = (
    "all-reduce",
    "hierarchical-all-reduce",
    "central",
    "hierarchical",
    "parameter-server",
)
"""Strategies that exchange every step; `auto` always tries them."""
OUTER = ("diloco", "streaming-diloco")
"""Strategies with an outer optimizer, which takes up what a coarse compression loses."""
MAY_OVERLAP = ("all-reduce", "hierarchical-all-reduce", "local-sgd", "streaming-diloco")
QUORUM = {False: ("local-sgd", *OUTER), True: ("streaming-diloco",)}
"""Strategies that go on with some of the workers: in turn, and beside the next step."""
COARSE = ("int4", "sparse")
"""Compressions whose loss must be added to the next message."""
MOST_LOCAL_STEPS = 64
"""Local steps that are tried at most where the request says no number."""
MOST_PUBLISHED = 512
"""Beyond these local steps only strategies whose samples to target the user gives are tried."""


def required_modes(problem: Mapping[str, Any]) -> set[tuple[str, int]]:
    """Return the strategies with local steps that a proof about a request must bound.

    Parameters
    ----------
    problem
        A ``placer.problem/v1`` document; its prices may be left out.

    Notes
    -----
    Single machines are required where the request surely admits them: rules about machines and data
    that name several places ask for several machines, and one machine has all of the speed, which
    no share below 100 % allows.
    """
    wish = problem["requirements"]
    strategies = [name for name in _named(problem) if _able(name, problem)]
    least = wish["min_local_steps"] or 1
    modes = {(name, 1) for name in strategies if name not in LOCAL and least == 1}
    given = {row[0] for row in wish["samples_to_target"]}
    modes |= {
        (name, steps)
        for name in strategies
        if name in LOCAL
        for steps in _local_steps(wish)
        if steps <= MOST_PUBLISHED or name in given
    }
    alone = wish["min_workers"] == 1 and wish["min_regions"] <= 1
    staying = {data["place"] for data in wish["datasets"] if not data["may_move"]}
    if alone and not wish["used"] and not wish.get("max_shares") and len(staying) < 2:
        modes.add(("none", 1))
    return modes


def _named(problem: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the strategies that the request names, or those among which it leaves the choice."""
    wish = problem["requirements"]
    if wish["exchange"] != "auto":
        return (wish["exchange"],)
    if wish["max_local_steps"] is None:
        return SYNCHRONOUS
    language = problem["profile"].get("architecture") is not None
    left_out = ("local-sgd",) if language else OUTER
    return (*SYNCHRONOUS, *(name for name in LOCAL if name not in left_out))


def _able(name: str, problem: Mapping[str, Any]) -> bool:
    wish = problem["requirements"]
    coarse = (wish["compression"] or problem["profile"]["compression"]) in COARSE
    if wish.get("quorum") is not None and name not in QUORUM[bool(wish["overlap"])]:
        return False
    late = name == "local-sgd" and wish["overlap"] and wish["exchange"] == "auto"
    if late and transport_of(problem) != "hivemind":  # no engine but hivemind does it
        return False
    return (name in MAY_OVERLAP or not wish["overlap"]) and (name in OUTER or not coarse)


def _local_steps(wish: Mapping[str, Any]) -> set[int]:
    """Return the ends of the range of local steps and the powers of two between."""
    least, most = wish["min_local_steps"] or 1, wish["max_local_steps"] or MOST_LOCAL_STEPS
    powers = {2**k for k in range(most.bit_length()) if least <= 2**k <= most}
    return {least, most, *powers}
