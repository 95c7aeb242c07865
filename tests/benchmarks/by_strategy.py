"""Measure which search of `exact` takes the time: CPU seconds and nodes of each strategy.

Breaking ties is measured apart.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from placer.problem.exchange import STRATEGIES, traits
from placer.problem.placement import NO_EXCHANGE


def searched_classes(exact: Any) -> list[Any]:
    """List the classes of the searches of all strategies, each once."""
    transports = {traits(name).transport for name in STRATEGIES if name != NO_EXCHANGE}
    return list(dict.fromkeys(exact.search_of(each) for each in sorted(transports)))


@contextmanager
def watched(wanted: bool) -> Iterator[dict[str, dict[str, float]]]:
    """While this lasts, sum what the searches of `exact` take, by strategy, local steps and
    objective.

    Notes
    -----
    It wraps ``turns`` of each class of ``exact.search_of``; what lies outside of them (single
    machines, set-up, the bound of a stopped search) is not in the sums. The cost is two readings of
    a clock for each search.
    """
    exact = importlib.import_module("placer.solvers.exact.branch_and_bound")

    spent: dict[str, dict[str, float]] = {}
    kinds = searched_classes(exact) if wanted else []
    plain = {kind: kind.turns for kind in kinds}
    for kind in kinds:
        kind.turns = _timed(plain[kind], spent)
    try:
        yield spent
    finally:
        for kind, turns in plain.items():
            kind.turns = turns


def _timed(
    turns: Callable[[Any], Iterator[None]], spent: dict[str, dict[str, float]]
) -> Callable[[Any], Iterator[None]]:
    def timed(search: Any) -> Iterator[None]:
        under_way, going = turns(search), True
        while going:
            started, nodes, target = time.process_time(), search.target.ticks, search.target
            going = False
            try:
                for _ in under_way:
                    going = True
                    break
            finally:
                own = target.tied is None
                mode = search.mode
                steps = f" H {mode.local_steps}" if mode.local_steps > 1 else ""
                name = f"{mode.strategy}{steps}{'' if own else ' (tie)'}"
                part = spent.setdefault(name, {"cpu_s": 0.0, "nodes": 0})
                part["cpu_s"] += time.process_time() - started
                part["nodes"] += target.ticks - nodes
            if going:
                yield

    return timed
