"""What crews are worth by what they wait for their partners, as chords."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...._market.arrays import Array, Indices
from ..crews import Crews

ENDS = (1.0, 1.12, 1.4, 2.0, np.inf)
"""Ends of the chords, over the shortest mean that a crew waits."""
NARROW = 1e-12
"""Width of a chord that is none."""


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


def lines_of(crews: Crews, ends: Array, dollar: float, speed: float) -> Lines:
    """Return the chords of what some crews are worth before their partners.

    Parameters
    ----------
    ends
        Means that they wait, in rising order; shape (lines + 1, crews).
    """
    values = crews.values(np.maximum(0.0, 1 / ends - speed), np.array(dollar))
    low, high = ends[:-1], ends[1:]
    wide = high - low > NARROW
    fall = np.maximum(0.0, values[:-1] - values[1:])
    slope = np.where(wide, fall / np.where(wide, high - low, 1.0), 0.0)
    # No line where the longest mean is passed: what is left of it is level, and the least.
    return Lines(
        worth=np.where(wide, values[:-1] + slope * low, values[1:]), slope=slope, low=low, high=high
    )
