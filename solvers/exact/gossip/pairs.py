"""The bound of one node with what pairs of regions cost each other: a partner that one of them has,
the other has too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from typing import Any

import numpy as np

from ..._market.arrays import Array, Indices, Mask
from .node import Box, Node
from .pricing import SPEED
from .work import LOWEST, Work

TINY = 1e-12
"""Disagreement of pairs, and relative width of a chord, that is none."""
ENDS = (1.0, 1.12, 1.4, 2.0, np.inf)
"""Ends of the chords of what a crew is worth, over the shortest mean that it waits."""
ACTIVE = 3
"""Chords of each place that are looked at while prices are improved."""
LOOKS = 2
"""Looks at all crews, after the first."""
APART = 0.1
"""Steps go on with other chords where those at hand miss this much of what they gained."""
STEPS = 80
"""Steps of one descent at most."""
KEPT_STEP = 0.7
"""Share of the last direction that the next one keeps."""
AIM = 0.96
"""Share of the best bound that steps aim at, at least."""
PATIENCE = 6
"""Steps in a row without gain after which they are halved."""
SHORTEST = 0.05
"""Share of a whole step below which they end."""
CHECKED, GAINED = 20, 0.1
"""Steps after which those end that gained less than this of what the bound is above what is needed.
"""
GIVEN = 1e15
"""Taken from the costs of partners that a node gives, so that they come first; what too few partners
cost.
"""


@dataclass(frozen=True, kw_only=True)
class Sends:
    """What each crew waits for its partners and pays for sends to them.

    Notes
    -----
    ``waits`` is the longer of its own round and a send, in rounds without any exchange; its mean
    over the partners is from ``shortest`` to ``longest``. ``usd`` is the price of the sends to a
    partner, if it were the only one, ``home_usd`` of those inside the region. Shapes (crews,
    places) and (crews,).
    """

    waits: Array
    usd: Array
    shortest: Array
    longest: Array
    home_usd: Array

    def among(self, crews: Indices) -> Sends:
        """Return those of some crews."""
        return Sends(
            waits=self.waits[crews],
            usd=self.usd[crews],
            shortest=self.shortest[crews],
            longest=self.longest[crews],
            home_usd=self.home_usd[crews],
        )


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Fewest and most partners of one class; ``members`` are its places that are not given. Shapes
    (rows,) and (members,).
    """

    members: Indices
    low: Indices
    high: Indices


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which partners a row may have: not its own place, those that are able, of those of a class as
    many as a box allows, and those that are given first.

    Notes
    -----
    As `least_partners` has it: partners that are given, and fewest of a class, count where the
    number of regions is known. Shape of ``barred``: (rows, places).
    """

    count: int
    barred: Mask
    given: Mask
    classes: tuple[Rule, ...]

    @staticmethod
    def of(rows: Indices, kinds: Indices, box: Box, node: Node, able: Mask) -> Rules:
        """Return the rules of a box for rows of some places."""
        fewest, most = node.regions
        known = fewest == most
        given = node.forced if known else np.zeros_like(node.forced)
        barred = np.broadcast_to(~able, (len(rows), len(able))).copy()
        barred[np.arange(len(rows)), rows] = True
        classes = []
        for kind in range(len(box.low)):
            here = kinds == kind
            members = np.flatnonzero(able & ~given & here)
            inside, itself = int((given & here).sum()), (here & ~given)[rows].astype(np.intp)
            high = box.high[kind] - inside - itself
            low = box.low[kind] - inside - itself if known else np.zeros_like(itself)
            if np.any(high < len(members) - itself) or np.any(low > 0):
                classes.append(Rule(members=members, low=low, high=high))
        return Rules(count=fewest - 1, barred=barred, given=given, classes=tuple(classes))

    def among(self, rows: Indices) -> Rules:
        """Return those of some rows."""
        classes = tuple(
            replace(rule, low=rule.low[rows], high=rule.high[rows]) for rule in self.classes
        )
        return replace(self, barred=self.barred[rows], classes=classes)

    def cheapest(self, cost: Array) -> tuple[Indices, Array]:
        """Return the cheapest partners and the mean of their costs; shapes (rows, partners),
        (rows,).
        """
        built = np.where(self.barred, np.inf, cost)
        if self.given.any():
            built[:, self.given] -= GIVEN
        for rule in self.classes:
            block = built[:, rule.members]
            order = np.argsort(block, axis=1)
            rank = np.empty_like(order)
            rank[np.arange(len(order))[:, None], order] = np.arange(len(rule.members))
            block = np.where(rank >= rule.high[:, None], np.inf, block)
            built[:, rule.members] = np.where(rank < rule.low[:, None], block - GIVEN, block)
        if self.count >= built.shape[1]:
            chosen = np.broadcast_to(np.arange(built.shape[1]), built.shape)
        else:
            chosen = np.argpartition(built, self.count - 1, axis=1)[:, : self.count]
        at = np.arange(len(cost))[:, None]
        return chosen, cost[at, chosen].mean(axis=1)

    def least(self, cost: Array) -> Array:
        """Return the mean of the costs of the cheapest partners, infinite where there are too few;
        shape (rows,).
        """
        built = np.where(self.barred, np.inf, cost)
        if not self.given.any() and not self.classes:
            ranked = np.sort(built, axis=1)[:, : self.count]
            enough = ranked.shape[1] == self.count
            return ranked.sum(axis=1) / self.count if enough else np.full(len(cost), np.inf)
        own = built[:, self.given]
        theirs = np.isfinite(own)
        total = np.where(theirs, own, 0.0).sum(axis=1)
        left = self.count - theirs.sum(axis=1)
        built[:, self.given] = np.inf
        for rule in self.classes:
            block = np.sort(built[:, rule.members], axis=1)
            rank = np.arange(len(rule.members))
            must = rank < rule.low[:, None]
            total += np.where(must, block, 0.0).sum(axis=1)
            left = left - np.clip(rule.low, 0, len(rule.members))
            built[:, rule.members] = np.where(must | (rank >= rule.high[:, None]), np.inf, block)
        ranked = np.sort(built, axis=1)
        rank = np.arange(ranked.shape[1])
        total += np.where(rank < left[:, None], ranked, 0.0).sum(axis=1)
        total = np.where(left > ranked.shape[1], np.inf, total)
        return np.where(left < 0, np.inf, total) / self.count


@dataclass(frozen=True, kw_only=True)
class Lines:
    """What some crews are worth by what they wait, as lines of which the highest one counts.

    Notes
    -----
    A crew is worth ``worth`` less ``slope`` times its mean; ``low`` and ``high`` are the means at
    which a line is as much as the crew is worth. Shape (lines, crews).
    """

    worth: Array
    slope: Array
    low: Array
    high: Array


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What crews are worth at some prices, and each of their lines."""

    prices: tuple[float, float]
    transfers: Array
    worth: Array
    each: Array


@dataclass(kw_only=True)
class Pairs(Work):
    """A node whose regions choose their partners at prices of pairs.

    Notes
    -----
    ``transfers`` says what each place pays the other of a pair; what one pays the other gets, so
    that nothing changes for regions that all have each other, and a partner that only one of both
    wants is not had for less than it costs both. Shape (places, places), opposite across the
    diagonal. What a crew is worth is convex in the mean that it waits, so chords from the shortest
    to the longest mean err high, and each of them is a sum over partners.
    """

    sends: Sends
    rules: tuple[Rules, ...]
    transfers: Array
    _kept: Kept | None = None

    @cached_property
    def ends(self) -> Array:
        """Means between which chords are drawn; shape (lines + 1, crews)."""
        shortest, longest = self.sends.shortest, self.sends.longest
        built: Array = np.minimum(np.array(ENDS)[:, None] * shortest, longest)
        return built

    def values(self, dollars: Array, speeds: Array) -> Array:
        """Return what each crew is worth at some prices; shape (prices, crews)."""
        prices = zip(dollars.tolist(), speeds.tolist(), strict=True)
        return np.array([self._at(*each).worth for each in prices])

    def _at(self, dollar: float, speed: float) -> Kept:
        """Return what crews are worth at some prices; the last ones are kept."""
        kept = self._kept
        if kept is None or kept.prices != (dollar, speed) or kept.transfers is not self.transfers:
            self._kept = kept = self._looked(dollar, speed)
        return kept

    def _looked(self, dollar: float, speed: float) -> Kept:
        lines = lines_of(self.crews, self.ends, dollar, speed)
        fixed = self.transfers[self.crews.place] + dollar * self.sends.usd
        home = dollar * self.sends.home_usd
        each = np.array([
            worth - home - least_of(self.rules, fixed + slope[:, None] * self.sends.waits)
            for worth, slope in zip(lines.worth, lines.slope, strict=True)
        ])  # fmt: skip
        return Kept(
            prices=(dollar, speed), transfers=self.transfers, worth=each.max(axis=0), each=each
        )

    def relax(self, needed: float) -> None:
        """Improve the prices until the bound is below what is needed."""
        self.look()
        for _ in range(LOOKS):
            if self.reached < needed:
                return
            before = self.transfers, self.prices, self.reached, self._kept
            descent = Descent(self, self._active())
            descent.run(needed)
            self.transfers, self.prices = descent.transfers, descent.prices
            self.look()
            gained, missed = before[2] - descent.reached, self.reached - descent.reached
            if self.reached >= before[2]:
                self.transfers, self.prices, self.reached, self._kept = before
            if missed <= APART * gained:
                return

    def _active(self) -> tuple[Indices, Indices]:
        """Return the best lines of each place, and of which crews they are, those of one place side
        by side.
        """
        values = self._at(*self.prices).each
        line, crew = (each.ravel() for each in np.indices(values.shape))
        order = np.lexsort((-values.ravel(), self.crews.place[crew]))
        place = self.crews.place[crew[order]]
        rank = np.arange(len(order)) - np.searchsorted(place, place)
        kept = order[rank < ACTIVE]
        return line[kept], crew[kept]

    def lost(self, crews: Indices, weight: Array, usd: Array) -> float:
        """Return by how much the bound of some crews is above what they are worth among each
        other, with what a samples/s of each counts and what it pays besides its machines.
        """
        dollar, speed = self.prices
        among = self.crews.among(crews)
        real = among.values(np.maximum(0.0, weight - speed), np.array(dollar)) - dollar * usd
        return max(0.0, float((self._at(dollar, speed).worth[crews] - real).sum()))


def lines_of(crews: Crews, ends: Array, dollar: float, speed: float) -> Lines:
    """Return the chords of what some crews are worth before their partners.

    Parameters
    ----------
    ends
        Means that they wait, in rising order; shape (lines + 1, crews).
    """
    values = crews.values(np.maximum(0.0, 1 / ends - speed), np.array(dollar))
    low, high = ends[:-1], ends[1:]
    wide = high - low > TINY
    fall = np.maximum(0.0, values[:-1] - values[1:])
    slope = np.where(wide, fall / np.where(wide, high - low, 1.0), 0.0)
    # No line where the longest mean is passed: what is left of it is level, and the least.
    return Lines(
        worth=np.where(wide, values[:-1] + slope * low, values[1:]), slope=slope, low=low, high=high
    )


def least_of(rules: Sequence[Rules], cost: Array) -> Array:
    """Return the mean of the costs of the cheapest partners, by the rules that say most."""
    built: Array = np.minimum(np.max([each.least(cost) for each in rules], axis=0), GIVEN)
    return built


def cheapest_of(rules: Sequence[Rules], cost: Array) -> Indices:
    """Return the cheapest partners, by the rules that say most."""
    partners, mean = rules[0].cheapest(cost)
    for each in rules[1:]:
        others, figures = each.cheapest(cost)
        dearer = figures > mean
        partners = np.where(dearer[:, None], others, partners)
        mean = np.where(dearer, figures, mean)
    return partners


class Descent:
    """Steps of all prices of a node at once, along what a choice disagrees on.

    Parameters
    ----------
    pairs
        The node, with the prices to begin at.
    rows
        Lines and crews that are looked at, those of one place side by side: less than the bound,
        but quick to try.

    Notes
    -----
    Subgradient steps with the length of Polyak, each with a part of the direction before
    (Camerini, Fratta & Maffioli, 1975). Prices of pairs are taken as they are, that of a samples/s
    over the most of the slice, that of a dollar over the budget, so that all are alike.
    """

    def __init__(self, pairs: Pairs, rows: tuple[Indices, Indices]) -> None:
        self.pairs = pairs
        line, crew = rows
        self.crews, sends = pairs.crews.among(crew), pairs.sends.among(crew)
        self.sends, self.place = sends, self.crews.place
        self.ends = np.array([pairs.ends[line, crew], pairs.ends[line + 1, crew]])
        self.rules = tuple(each.among(crew) for each in pairs.rules)
        self.starts = np.flatnonzero(np.diff(self.place, prepend=-1))
        self.places = self.place[self.starts]
        self.transfers, self.prices, self.reached = pairs.transfers, pairs.prices, np.inf
        self.scale = pairs.node.speeds[1], pairs.most_usd
        self.most = max(float(pairs.weight.max(initial=0.0)), 1e-9)

    def run(self, needed: float) -> None:
        """Take steps until the bound is below what is needed, or they gain little."""
        share, vain, last = 1.0, 0, np.inf
        best = self.transfers, self.prices
        direction: tuple[Array, float, float] | None = None
        for step in range(STEPS):
            reached, found = self._look()
            if reached < self.reached * (1 - 1e-6):
                self.reached, best, vain = reached, (self.transfers, self.prices), 0
                if reached < needed:
                    break
            else:
                vain += 1
            if step % CHECKED == CHECKED - 1:
                if last - self.reached < GAINED * (self.reached - needed):
                    break
                last = self.reached
            if vain == PATIENCE:
                share, vain, direction = share / 2, 0, None
                self.transfers, self.prices = best
                if share < SHORTEST:
                    break
                continue
            direction = found if direction is None else _bent(found, direction)
            norm = float((direction[0] ** 2).sum()) / 2 + direction[1] ** 2 + direction[2] ** 2
            if norm < TINY:
                break
            aim = max(needed * (1 - 1e-3), AIM * self.reached)
            self._move(share * max(0.0, reached - aim) / norm, direction)
        self.transfers, self.prices = best

    def _move(self, length: float, direction: tuple[Array, float, float]) -> None:
        apart, per_dollar, per_speed = direction
        dollar, speed = self.prices
        dollar += length * per_dollar / self.scale[1]
        speed += length * per_speed / self.scale[0]
        self.transfers = self.transfers + length * apart
        self.prices = max(0.0, dollar), float(np.clip(speed, LOWEST * self.most, SPEED * self.most))

    def _look(self) -> tuple[float, tuple[Array, float, float]]:
        """Return the bound by the lines at hand, and the direction in which it falls."""
        (dollar, speed), pairs, sends = self.prices, self.pairs, self.sends
        lines = lines_of(self.crews, self.ends, dollar, speed)
        cost = lines.slope[0][:, None] * sends.waits
        cost += dollar * sends.usd
        cost += self.transfers[self.place]
        values = lines.worth[0] - least_of(self.rules, cost) - dollar * sends.home_usd
        by_place = np.maximum.reduceat(values, self.starts)
        reached = pairs.within(by_place[None, :], np.array([dollar]), np.array([speed]))
        first, last = pairs.node.regions
        used = int(np.clip((by_place > 0).sum(), first, last))
        order = np.argsort(-np.where(pairs.forced, np.inf, by_place), kind="stable")[:used]
        rank = np.searchsorted(self.places, self.place)
        tops = np.flatnonzero(values == by_place[rank])
        own = np.empty(len(self.places), dtype=np.intp)
        own[rank[tops[::-1]]] = tops[::-1]  # the first one where several are equal
        rows = own[order]
        partners = cheapest_of(tuple(each.among(rows) for each in self.rules), cost[rows])
        has = np.zeros_like(self.transfers)
        has[self.place[rows][:, None], partners] = 1 / partners.shape[1]
        total, paid = self._used(rows, partners)
        fewest, most = pairs.node.speeds
        per_dollar = (paid - pairs.most_usd) / self.scale[1] if np.isfinite(self.scale[1]) else 0.0
        per_speed = (total - (fewest if speed < 0 else most)) / self.scale[0]
        return float(reached[0]), (has - has.T, per_dollar, per_speed)

    def _used(self, rows: Indices, partners: Indices) -> tuple[float, float]:
        """Return samples/s and USD/h of a choice of lines with their partners."""
        (dollar, speed), sends = self.prices, self.sends
        crews, (low, high) = self.crews.among(rows), self.ends[:, rows]
        mean = sends.waits[rows[:, None], partners].mean(axis=1)
        wide = high - low > TINY
        share = np.where(wide, (high - mean) / np.where(wide, high - low, 1.0), 0.0)
        fast, dear = crews.best(np.maximum(0.0, 1 / low - speed), dollar)
        slow, cheap = crews.best(np.maximum(0.0, 1 / high - speed), dollar)
        usd = share * dear + (1 - share) * cheap + sends.home_usd[rows]
        usd += sends.usd[rows[:, None], partners].mean(axis=1)
        return float((share * fast + (1 - share) * slow).sum()), float(usd.sum())


def _bent(found: tuple[Array, float, float], last: tuple[Array, float, float]) -> Any:
    return tuple(new + KEPT_STEP * old for new, old in zip(found, last, strict=True))
