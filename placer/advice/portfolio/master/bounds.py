"""Bounds on a portfolio by its prices: Lagrange's, whatever produced the prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from placer.advice.portfolio.question.columns import Columns, Duals, Group
from placer.advice.portfolio.question.resources import Held, Limits

TINY = 1e-12
"""Dollars of a unit below are none."""


@dataclass(kw_only=True)
class Known:
    """What is proved of the reduced value of one group's columns, price by price.

    Notes
    -----
    Mutable. What a job takes costs no less at higher prices, so what is proved at lower ones holds;
    where a price was higher, it loses the difference for what a column can take of the resource.
    """

    group: Group
    limits: Limits
    proofs: list[tuple[Duals, float]] = field(default_factory=list)

    def at(self, duals: Duals) -> float:
        """Return a bound at some prices."""
        return max((self._moved(*proof, duals) for proof in self.proofs), default=-inf)

    def _moved(self, there: Duals, bound: float, duals: Duals) -> float:
        """Return a bound at some prices that follows from one at other prices.

        Notes
        -----
        A column that is worth less than ``bound`` at these prices takes no more of a resource than
        that pays for: its machines at their true price and at the price of the resource.
        """
        if bound == inf:
            return inf
        loss = max(0.0, there.budget - duals.budget)
        loss *= self.limits.portfolio.budget_usd or 0.0
        dropped = []
        for held, usd in there.prices.items():
            price = duals.prices.get(held, 0.0)
            if usd > price:
                each = (1 + duals.budget) * self.limits.usd_of_unit(held[0]) + price
                dropped.append((usd - price, each, held))
        return bound - loss - self._most_lost(dropped, max(0.0, bound))

    def _most_lost(self, dropped: list[tuple[float, float, Held]], usd: float) -> float:
        """Return the most that lower prices take off a column of no more than some dollars.

        Parameters
        ----------
        dropped
            By how much a price is lower, what a unit of the resource costs at least, and which.
        """
        if self.limits.portfolio.objective != "cost":
            return sum(drop * self.limits.capacity(held) for drop, _, held in dropped)
        # No machine counts in two quotas of one place each, so its dollars are spent once.
        apart = all(held[0].kind == "quota" for _, _, held in dropped)
        lost, left = 0.0, usd
        for drop, each, held in sorted(dropped, key=lambda row: -row[0] / max(row[1], TINY)):
            most = self.limits.capacity(held)
            taken = min(most, (left if apart else usd) / each) if each > TINY else most
            lost += drop * taken
            left -= taken * each
            if apart and left <= 0:
                break
        return lost

    def learn(self, duals: Duals, bound: float) -> None:
        """Keep what was proved at some prices, if that does not follow from what is known."""
        if bound > self.at(duals):
            self.proofs.append((duals, bound))


def lagrangean(
    columns: Columns, known: Sequence[Known], duals: Duals, out: Sequence[float]
) -> float:
    """Return a bound on the value of the portfolio: what each job costs at least at some prices,
    less what these prices are paid for.

    Parameters
    ----------
    out
        Value of leaving out one job of each group; infinite where it must run.

    Notes
    -----
    Geoffrion (1974), Lagrangean relaxation for integer programming. Any prices from 0 bound it.
    """
    portfolio, limits = columns.portfolio, columns.limits
    total = 0.0
    for group, proofs in zip(columns.groups, known, strict=True):
        least = min(out[group.number], proofs.at(duals))
        total += group.count * least
    for held, usd in duals.prices.items():
        if held[0] not in limits.blocks:
            total -= usd * limits.capacity(held)
    for block, resource in ((b, r) for r, numbers in limits.blocks.items() for b in numbers):
        bought = portfolio.blocks[block]
        worth = bought.machines * sum(duals.prices.get((resource, s), 0.0) for s in bought.slots)
        cost = bought.usd * (1 + duals.budget)
        total += min(0.0, cost - worth)
    if portfolio.budget_usd is not None:
        total -= duals.budget * portfolio.budget_usd
    return total
