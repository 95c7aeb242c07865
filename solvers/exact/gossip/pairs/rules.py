"""Which partners a region may have, and the cheapest of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placer.records import replace

from ...._market.arrays import Array, Indices, Mask
from ..node import Box, Node

GIVEN = 1e15
"""Taken from the costs of partners that a node gives, so that they come first; what too few
partners cost.
"""


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
