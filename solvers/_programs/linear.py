"""A mixed-integer linear program in plain lists: what `milp` writes with PuLP and `cpsat` in whole
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Terms = Mapping[int, float]
"""Coefficient by variable; the key `CONSTANT` is a constant."""
CONSTANT = -1


def plus(*parts: Terms) -> dict[int, float]:
    """Add expressions.

    >>> plus({0: 1.0}, {0: 2.0, CONSTANT: 3.0})
    {0: 3.0, -1: 3.0}
    """
    total: dict[int, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def times(factor: float, terms: Terms) -> dict[int, float]:
    """Multiply an expression by a number."""
    return {name: factor * value for name, value in terms.items()} if factor else {}


@dataclass
class Model:
    """Variables with bounds, rows ``terms <= limit`` and an expression to minimise.

    Mutable while it is built. Variables have numbers, no names: names that a solver changes cannot
    clash.
    """

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float]] = field(default_factory=list)
    goal: dict[int, float] = field(default_factory=dict)

    def variable(self, low: float, high: float, *, whole: bool = False) -> int:
        """Add a variable and return its number."""
        self.low.append(low)
        self.high.append(max(low, high))
        self.whole.append(whole)
        return len(self.low) - 1

    def at_most(self, terms: Terms, limit: float = 0.0) -> None:
        """Add ``terms <= limit``."""
        kept = {name: value for name, value in terms.items() if name != CONSTANT and value}
        self.rows.append((kept, limit - terms.get(CONSTANT, 0.0)))

    @property
    def hopeless(self) -> bool:
        """Whether a row without variables cannot hold."""
        return any(not terms and limit < 0 for terms, limit in self.rows)

    def at_least(self, terms: Terms, limit: float = 0.0) -> None:
        """Add ``terms >= limit``."""
        self.at_most(times(-1.0, terms), -limit)

    def equal(self, terms: Terms, value: float = 0.0) -> None:
        """Add ``terms == value``."""
        self.at_most(terms, value)
        self.at_least(terms, value)

    def reach(self, terms: Terms) -> tuple[float, float]:
        """Return the range of an expression within the bounds of its variables."""
        least = most = terms.get(CONSTANT, 0.0)
        for name, value in terms.items():
            if name != CONSTANT:
                ends = value * self.low[name], value * self.high[name]
                least, most = least + min(ends), most + max(ends)
        return least, most

    def largest(self, items: list[Terms]) -> dict[int, float]:
        """Return an expression of at least every item."""
        items = [item for item in items if self.reach(item)[1] > 0]
        if not items:
            return {}
        top = self.variable(0.0, max(self.reach(item)[1] for item in items))
        for item in items:
            self.at_most(plus(item, {top: -1.0}))
        return {top: 1.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class Solved:
    """How one program ended, a bound on its goal, and values if there are any."""

    status: str
    bound: float = float("-inf")
    values: tuple[float, ...] = ()


class Engine(Protocol):
    """Solves one program within some seconds."""

    def __call__(self, model: Model, seconds: float) -> Solved:
        """Minimise the goal of a model."""


Report = Callable[[float, float | None], None]


def broken(model: Model, values: tuple[float, ...], tolerance: float = 1e-5) -> bool:
    """Return whether values break a bound or a row, or are not whole."""
    for value, low, high, whole in zip(values, model.low, model.high, model.whole, strict=True):
        slack = tolerance * max(1.0, high - low)
        if not low - slack <= value <= high + slack or (
            whole and abs(value - round(value)) > tolerance
        ):
            return True
    for terms, limit in model.rows:
        size = max(
            [
                abs(limit),
                *(abs(value) * (model.high[n] - model.low[n]) for n, value in terms.items()),
            ]
        )
        if sum(value * values[name] for name, value in terms.items()) - limit > tolerance * max(
            1e-9, size
        ):
            return True
    return False
