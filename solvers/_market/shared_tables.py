"""Tables that markets with the same machines share, whatever the limits and exchanges of their
questions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, Self, TypeVar, overload

from placer.problem.kept_answers import Recent
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements

KEPT_MARKETS = 8
"""Markets that a catalog keeps, of some 10 MB each: one for each model of a mixed load."""
SMALL = 400
"""Pools of a market that takes little memory, such as that of one kind of machine."""
KEPT_SMALL = 40
"""Such markets that a catalog keeps: five kinds of each large one."""
APART = frozenset(
    {
        "aggregator",
        "budget_usd",
        "budget_usd_per_hour",
        "deadline_s",
        "exchange",
        "function",
        "interruption",
        "max_carbon_g_per_hour",
        "max_local_steps",
        "max_regions",
        "min_local_steps",
        "min_regions",
        "min_samples_per_second",
        "min_workers",
        "most_usd_per_million_samples",
        "objective",
        "overlap",
        "samples",
        "samples_to_target",
        "storage",
        "streams",
        "unavailable",
        "uniform",
    }
)
"""Wishes that say nothing about the machines themselves: markets that differ in these alone share
their tables.
"""
ALIKE = tuple(name for name in Requirements.__struct_fields__ if name not in APART)


def shared_tables(problem: Problem) -> dict[Any, Any]:
    """Return the tables of the market of a problem, filled as they are asked for; each thread has
    its own.

    The key holds every wish but those of `APART`, so that a new one keeps markets apart until
    somebody knows better.
    """
    wish = problem.requirements
    wishes = (*(getattr(wish, name) for name in ALIKE), wish.counts_carbon)
    same = id(problem.profile), id(problem.pools), problem.batch, problem.joint_limits
    key = *same, wishes, threading.get_ident()
    small = len(problem.pools) <= SMALL
    held: Recent[tuple[object, object, dict[Any, Any]]] = problem.catalog.memo.setdefault(
        "small markets" if small else "markets", Recent(KEPT_SMALL if small else KEPT_MARKETS)
    )
    return held.get(key, lambda: (problem.profile, problem.pools, {}))[
        2
    ]  # while these two are held, nothing else has their ids


class Sharing(Protocol):
    """Something with tables."""

    @property
    def tables(self) -> dict[Any, Any]:
        """By name."""

    @property
    def problem(self) -> Problem:
        """The question."""


T = TypeVar("T")


class shared_property(Generic[T]):  # noqa: N801 - used as functools.cached_property is
    """A property that is worked out once for all that share their tables."""

    def __init__(self, build: Callable[[Any], T]) -> None:
        self.build, self.__doc__, self.name = build, build.__doc__, build.__name__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: Sharing, kind: type) -> T: ...
    def __get__(self, owner: Sharing | None, kind: type) -> Self | T:
        """Return the value of an object, the property itself of a class."""
        if owner is None:
            return self
        tables, key = owner.tables, self.key(owner)
        if key not in tables:
            tables[key] = self.value(owner)
        value: T = tables[key][0]
        # The object's own entry is looked up first from now on, as with functools.cached_property.
        owner.__dict__[self.name] = value
        return value

    def key(self, owner: Sharing) -> object:
        """Return what the value depends on among those that share their tables."""
        return self.name

    def value(self, owner: Sharing) -> tuple[object, ...]:
        """Return the value, and what must live as long as it is kept."""
        return (self.build(owner),)


class network_property(shared_property[T]):  # noqa: N801
    """A shared property that depends on egress prices too."""

    def key(self, owner: Sharing) -> object:
        """Return what the value depends on among those that share their tables."""
        return self.name, id(owner.problem.network)

    def value(self, owner: Sharing) -> tuple[object, ...]:
        """Return the value, and what must live as long as it is kept."""
        return self.build(owner), owner.problem.network
