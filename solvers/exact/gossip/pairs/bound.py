"""The bound of one node with what pairs of regions cost each other: a partner that one of them has,
the other has too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placer.solving import allowance

from ...._market.arrays import Array, Indices
from ..work import Work
from .descent import Descent, Rows
from .lines import ENDS, Sends, lines_of
from .rules import Rules, least_of

ACTIVE = 3
"""Chords of each place that are looked at while prices are improved."""
LOOKS = 4
"""Looks at all crews, after the first."""
APART = 0.1
"""Steps go on with other chords where those at hand miss this much of what they gained."""


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
        each = np.empty(lines.worth.shape)
        for row, worth, slope in zip(each, lines.worth, lines.slope, strict=True):
            allowance.check()
            row[:] = worth - home - least_of(self.rules, fixed + slope[:, None] * self.sends.waits)
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
            descent = Descent(self, self._active(), self.transfers)
            descent.run(needed)
            self.transfers, self.prices = descent.transfers, descent.prices
            self.look()
            gained, missed = before[2] - descent.reached, self.reached - descent.reached
            if self.reached >= before[2]:
                self.transfers, self.prices, self.reached, self._kept = before
            if missed <= APART * gained and descent.reached >= needed:
                return

    def _active(self) -> Rows:
        """Return the best lines of each place."""
        values = self._at(*self.prices).each
        line, crew = (each.ravel() for each in np.indices(values.shape))
        order = np.lexsort((-values.ravel(), self.crews.place[crew]))
        place = self.crews.place[crew[order]]
        kept = order[np.arange(len(order)) - np.searchsorted(place, place) < ACTIVE]
        line, crew = line[kept], crew[kept]
        return Rows(
            crews=self.crews.among(crew),
            sends=self.sends.among(crew),
            rules=tuple(rules.among(crew) for rules in self.rules),
            ends=np.array([self.ends[line, crew], self.ends[line + 1, crew]]),
        )

    def lost(self, crews: Indices, weight: Array, usd: Array) -> float:
        """Return by how much the bound of some crews is above what they are worth among each
        other, with what a samples/s of each counts and what it pays besides its machines.
        """
        dollar, speed = self.prices
        among = self.crews.among(crews)
        real = among.values(np.maximum(0.0, weight - speed), np.array(dollar)) - dollar * usd
        return max(0.0, float((self._at(dollar, speed).worth[crews] - real).sum()))
