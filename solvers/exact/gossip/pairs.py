"""The bound of one node with what pairs of regions cost each other: a partner that one of them has,
the other has too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..._market.arrays import Array, Indices, Mask
from .node import Box, Node
from .pricing import SPEED
from .work import LOWEST, Work

ACTIVE = 2
"""Crews of each place that are looked at while prices of pairs are improved."""
STEPS = 8
"""Steps before other prices are tried."""
MOVED = 1
"""How often they are, between looks at all crews."""
TINY = 1e-12
"""Disagreement of pairs that is none."""
LOOKS = 1
"""Looks at all crews, after the first."""
PATIENCE = 3
"""Steps in a row without gain after which they are halved."""
GIVEN = 1e15
"""Taken from the costs of partners that a node gives, so that they come first."""
MOVES = ((1.06, 0.0), (1 / 1.06, 0.0), (1.0, 0.02), (1.0, -0.02))
"""Factors of the price of a dollar, and steps of that of a samples/s, that are tried in between."""
NEAREST = 0.995
"""Share of the best bound that steps aim at, at least."""


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


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What crews are worth at some prices, and their partners."""

    prices: tuple[float, float]
    transfers: Array
    worth: Array
    partners: Indices


@dataclass(kw_only=True)
class Pairs(Work):
    """A node whose regions choose their partners at prices of pairs.

    Notes
    -----
    ``transfers`` says what each place pays the other of a pair; what one pays the other gets, so
    that nothing changes for regions that all have each other, and a partner that only one of both
    wants is not had for less than it costs both. Shape (places, places), opposite across the
    diagonal. What a crew is worth is convex in the mean that it waits, so a chord between the
    shortest and the longest mean errs high, and is a sum over partners.
    """

    sends: Sends
    rules: tuple[Rules, ...]
    transfers: Array
    _kept: Kept | None = None

    def values(self, dollars: Array, speeds: Array) -> Array:
        """Return what each crew is worth at some prices; shape (prices, crews)."""
        prices = zip(dollars.tolist(), speeds.tolist(), strict=True)
        return np.array([self._at(*each)[0] for each in prices])

    def _at(self, dollar: float, speed: float) -> tuple[Array, Indices]:
        """Return what crews are worth at some prices, and their partners; the last ones are
        kept.
        """
        kept = self._kept
        if kept is None or kept.prices != (dollar, speed) or kept.transfers is not self.transfers:
            worth, partners = self._chosen(*self._parts(dollar, speed))
            self._kept = kept = Kept(
                prices=(dollar, speed), transfers=self.transfers, worth=worth, partners=partners
            )
        return kept.worth, kept.partners

    def _parts(self, dollar: float, speed: float) -> tuple[Array, Array]:
        """Return what crews are worth before their partners, and what each of these costs them;
        shapes (crews,), (crews, places).
        """
        sends, price = self.sends, np.array(dollar)
        most = self.crews.values(np.maximum(0.0, 1 / sends.shortest - speed), price)
        least = self.crews.values(np.maximum(0.0, 1 / sends.longest - speed), price)
        slope = np.maximum(0.0, (most - least) / (sends.longest - sends.shortest))
        cost = slope[:, None] * sends.waits
        if dollar > 0:
            cost += dollar * sends.usd
        return most + slope * sends.shortest - dollar * sends.home_usd, cost

    def _chosen(self, worth: Array, cost: Array) -> tuple[Array, Indices]:
        """Return what crews are worth with the cheapest partners that the boxes allow, and these;
        shapes (crews,), (crews, partners).
        """
        cost = cost + self.transfers[self.crews.place]
        partners, mean = self.rules[0].cheapest(cost)
        for rules in self.rules[1:]:
            others, figures = rules.cheapest(cost)
            dearer = figures > mean
            partners = np.where(dearer[:, None], others, partners)
            mean = np.where(dearer, figures, mean)
        return worth - mean, partners

    def relax(self, needed: float) -> None:
        """Improve the prices until the bound is below what is needed."""
        self.look()
        for _ in range(LOOKS):
            if self.reached < needed:
                return
            some = self._active()
            some.descend(needed)
            before = self.transfers, self.prices, self.reached, self._kept
            self.transfers, self.prices = some.transfers, some.prices
            self.look()
            if self.reached >= before[2]:
                self.transfers, self.prices, self.reached, self._kept = before
                return

    def _active(self) -> Pairs:
        """Return the node with the best crews of each place alone: no bound, but quick to try."""
        values, _ = self._at(*self.prices)
        order = np.lexsort((-values, self.crews.place))
        place = self.crews.place[order]
        rank = np.arange(len(order)) - np.searchsorted(place, place)
        kept = np.sort(order[rank < ACTIVE])
        return replace(
            self,
            node=replace(self.node, prices=self.prices),
            crews=self.crews.among(kept),
            weight=self.weight[kept],
            usd=self.usd[kept],
            sends=self.sends.among(kept),
            rules=tuple(rules.among(kept) for rules in self.rules),
            _kept=None,
        )

    def descend(self, needed: float) -> None:
        """Take steps along what pairs do not agree on, then try other prices."""
        for _ in range(MOVED):
            self._step(needed)
            if self.reached < needed:
                return
            self._move()

    def _step(self, needed: float) -> None:
        """Improve the transfers."""
        worth, cost = self._parts(*self.prices)
        vain, share, best, transfers = 0, 1.0, np.inf, self.transfers
        for _ in range(STEPS):
            values, partners = self._chosen(worth, cost)
            by_place = np.maximum.reduceat(values, self.starts)
            reached = self._reached(by_place)
            if reached < best * (1 - 1e-6):
                best, transfers, vain = reached, self.transfers, 0
                if best < needed:
                    break
            else:
                vain += 1
            if vain == PATIENCE:
                share, vain, self.transfers = share / 2, 0, transfers
                continue
            apart = self._apart(values, by_place, partners)
            norm = float((apart**2).sum()) / 2
            if norm < TINY:
                break
            aim = max(needed, NEAREST * best)
            self.transfers = self.transfers + share * max(0.0, reached - aim) / norm * apart
        self.transfers, self.reached = transfers, best

    def _apart(self, values: Array, by_place: Array, partners: Indices) -> Array:
        """Return by how much more often a place that is used has another one than the other way
        round; shape (places, places).
        """
        first, last = self.node.regions
        used = int(np.clip((by_place > 0).sum(), first, last))
        order = np.argsort(-np.where(self.forced, np.inf, by_place), kind="stable")[:used]
        best = np.flatnonzero(values == by_place[self.rank()])
        place = self.crews.place[best]
        own = np.full(len(self.transfers), -1)
        own[place[::-1]] = best[::-1]  # the first one where several are equal
        rows = own[self.places[order]]
        has = np.zeros_like(self.transfers)
        has[self.places[order][:, None], partners[rows]] = 1 / partners.shape[1]
        built: Array = has - has.T
        return built

    def lost(self, crews: Indices, weight: Array, usd: Array) -> float:
        """Return by how much the bound of some crews is above what they are worth among each
        other, with what a samples/s of each counts and what it pays besides its machines.
        """
        dollar, speed = self.prices
        among = self.crews.among(crews)
        real = among.values(np.maximum(0.0, weight - speed), np.array(dollar)) - dollar * usd
        values, _ = self._at(dollar, speed)
        return max(0.0, float((values[crews] - real).sum()))

    def _move(self) -> None:
        """Try prices of a dollar and of a samples/s beside those at hand."""
        dollar, speed = self.prices
        most = float(self.weight.max(initial=1e-9))
        speed = min(speed, SPEED * most)
        steps = np.array([0.0, *(add for _, add in MOVES)])
        speeds = np.clip(speed + steps, LOWEST * most, SPEED * most)
        factors = np.array([1.0, *(factor for factor, _ in MOVES)])
        dollars = dollar * factors * (most - speeds) / (most - speed)
        at = int(np.argmin(self.bounds(dollars, speeds)))
        self.prices = float(dollars[at]), float(speeds[at])

    def _reached(self, by_place: Array) -> float:
        dollar, speed = (np.array([price]) for price in self.prices)
        return float(self.within(by_place[None, :], dollar, speed)[0])
