"""Whole machines of an all-reduce over several regions: what groups of places reach for their
dollars, with the prices of a dendrogram.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from placer.problem.placement import WorkerGroup
from placer.problem.problem import groups_of
from placer.solving import allowance

from ..._market.arrays import Array, Mask
from ..._market.market import Market
from ..._mode import Mode
from ..._target import Target
from ..bounds.dendrogram import Dendrogram
from .place_fronts import Choices, PlaceFront, best_choices

MOST_CHOICES = 20_000
"""Choices of one group that are kept at most: with more of them nothing is said."""
ROUNDING = 1e-9
"""Relative slack of a budget against rounding."""
SAME_USD = 1e-3
"""USD/h, more than what `place_fronts.CENT` rounds off in all groups together."""


class Question(Struct, frozen=True, kw_only=True, dict=True):
    """What the machines of a frame must reach.

    Notes
    -----
    ``weights`` and ``needed`` are rows of a Lagrangian bound with their thresholds; ``charge`` is
    what a byte each way between all pairs of two heads takes off in each row, ``pair_usd`` the same
    in dollars an hour. ``inside`` are the best sums of all groups of the dendrogram, by heads;
    shape (rows, heads) each. ``heads`` is how many there are.
    """

    weights: Array
    needed: Array
    charge: Array
    pair_usd: float
    inside: Sequence[Array]
    heads: int
    usd_per_speed: float = 0.0


class GroupFronts:
    """Choices of whole machines of the groups of a dendrogram that may be part of an improvement.

    Parameters
    ----------
    market
        Pools.
    tree
        Places merged by the price of their pairs.
    fronts
        One for each place: what its machines reach for their dollars.
    question
        What an improvement needs.

    Notes
    -----
    Other bounds take fractions of machines, because a sort of weighted sums takes no whole ones.
    Here a choice is a number of heads with speed and dollars; one that is as fast and no dearer
    beats others with as many heads and as much egress, and one that cannot reach the thresholds
    with the best sums of all other groups is left out. Pairs pay the prices of the dendrogram,
    which are no larger than the true ones, so that no choice is left out whose machines are an
    improvement, unless another one is at least as good.
    """

    def __init__(
        self,
        market: Market,
        tree: Dendrogram,
        fronts: Sequence[PlaceFront],
        question: Question,
    ) -> None:
        self.market, self.tree, self.fronts, self.question = market, tree, fronts, question
        needed = np.where(np.isfinite(question.needed), question.needed, 0.0)
        slack = 1e-9 * np.maximum(1.0, np.abs(needed))
        self.floor = np.where(question.needed == -np.inf, -np.inf, question.needed - slack)

    def choices(self) -> Choices | None:
        """Return the choices of all places together that may be an improvement; None if they are
        too many to say.
        """
        question, tree = self.question, self.tree
        outside = tree.outside(list(question.inside), question.charge, question.heads)
        groups: list[Choices] = []
        for at, front in enumerate(self.fronts):
            own = question.inside[at]
            able = np.full_like(outside[at], -np.inf)
            able[:, : own.shape[1]] = np.where(
                np.isfinite(own), outside[at][:, : own.shape[1]], -np.inf
            )
            built = front.choices(
                question.weights, self.floor, able, question.usd_per_speed, MOST_CHOICES
            )
            if built is None:
                return None
            groups.append(built)
        for number, merge in enumerate(tree.merges, start=tree.places):
            joined = self._joined(
                groups[merge.one], groups[merge.other], merge.usd, outside[number]
            )
            if joined is None:
                return None
            groups.append(joined)
        self.groups = groups
        return groups[-1]

    def _joined(self, one: Choices, other: Choices, usd: float, outside: Array) -> Choices | None:
        """Return the choices of two groups together, of which every pair of heads pays."""
        weights, floor = self.question.weights, self.floor
        pair_usd, most = self.question.pair_usd * usd, self.question.heads
        parts: list[Choices] = []
        held = 0
        values = one.values(weights), other.values(weights)
        runs = one.runs(), other.runs()
        for heads, first, end in runs[0]:
            for more, start, stop in runs[1]:
                total = heads + more
                if total > most:
                    break
                paid = pair_usd * heads * more
                ahead = outside[:, total] - weights[:, 1] * paid - floor
                mine, theirs = values[0][:, first:end], values[1][:, start:stop]
                if np.any(mine.max(axis=1) + theirs.max(axis=1) + ahead < 0):
                    continue
                keep = np.ones((end - first, stop - start), dtype=bool)
                for row in range(len(weights)):
                    keep &= mine[row][:, None] + (theirs[row] + ahead[row]) >= 0
                a, b = np.nonzero(keep)
                if not len(a):
                    continue
                a, b = a + first, b + start
                parts.append(
                    Choices(
                        heads=np.full(len(a), total),
                        speed=one.speed[a] + other.speed[b],
                        usd=one.usd[a] + other.usd[b] + paid,
                        egress=one.egress[a] + other.egress[b] + paid,
                        one=a,
                        other=b,
                    )
                )
                held += len(a)
                if held > 20 * MOST_CHOICES:
                    return None
            allowance.check()
        built = best_choices(Choices.all_of(parts), self.question.usd_per_speed)
        return built if len(built.speed) <= MOST_CHOICES else None

    def machines(self, choice: int) -> tuple[WorkerGroup, ...]:
        """Return the machines of a choice of all places."""
        counts: dict[int, int] = {}
        self._gather(len(self.groups) - 1, choice, counts)
        pools = sorted(counts)
        return groups_of([self.market.pools[i] for i in pools], [counts[i] for i in pools])

    def _gather(self, group: int, choice: int, counts: dict[int, int]) -> None:
        if group < self.tree.places:
            for pool, count in self.fronts[group].machines(int(self.groups[group].one[choice])):
                counts[pool] = counts.get(pool, 0) + count
            return
        merge, own = self.tree.merges[group - self.tree.places], self.groups[group]
        self._gather(merge.one, int(own.one[choice]), counts)
        self._gather(merge.other, int(own.other[choice]), counts)


def most_usd_per_speed(target: Target, weights: Array, needed: Array, most: Array) -> float:
    """Return what one more sample/s of an improvement brings along in egress (USD/h) at most; 0
    where no budget is kept.

    Parameters
    ----------
    weights, needed
        Rows and their thresholds.
    most
        The most that any machines reach in each row; shape (rows,).

    Notes
    -----
    Rounds per hour are concave in the speed V of all machines, and none at V = 0: from the least V
    on they grow by less than they are for each sample/s. Egress is what the budget leaves after the
    cheapest machines with that speed.
    """
    least = float(needed[(weights[:, 1] == 0) & (weights[:, 0] > 0)].max(initial=0.0))
    if not _keeps_budget(target) or not 0 < least < np.inf:
        return 0.0
    some = (weights[:, 0] > 0) & (weights[:, 1] > 0) & ~np.any(weights[:, 2:] > 0, axis=1)
    machines = ((weights[some, 0] * least - most[some]) / weights[some, 1]).max(initial=0.0)
    return max(0.0, target.max_usd_per_hour - float(machines)) / least


def within_budget(choices: Choices, target: Target, mode: Mode, longest_s: float) -> Mask:
    """Return which choices keep the budget at the rounds per hour that their speed brings along,
    where an exchange takes no longer than so many seconds; shape (choices,).
    """
    if not _keeps_budget(target):
        return np.ones(len(choices.speed), dtype=bool)
    with np.errstate(divide="ignore"):
        rounds = mode.seconds_at(target.min_speed) / mode.round_s(
            mode.samples / choices.speed, longest_s
        )
    usd = choices.usd + choices.egress * np.maximum(rounds - 1, 0.0)
    built: Mask = usd <= target.max_usd_per_hour * (1 + ROUNDING) + SAME_USD
    return built


def _keeps_budget(target: Target) -> bool:
    """Return whether an improvement has a least number of rounds per hour and a budget for them,
    and whether no store can hold its machines back.
    """
    paid = target.min_speed > 0 and 0 < target.max_usd_per_hour < np.inf
    return paid and target.problem.data_store is None
