"""How long enough spot machines stay, once they have been launched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from placer.errors import PlacerError
from placer.market.capacity_table import ZoneCapacity

Array = npt.NDArray[Any]


class Stay(Struct, frozen=True, kw_only=True):
    """Time until machines are lost, from any moment with all of them: the share that is left after
    t hours is (1 + t / b)^-a. Losses come soon or late: what has stayed for hours is likely to
    stay. A constant rate would say that neither is so.
    """

    a: float
    b_h: float

    def __post_init__(self) -> None:
        if not (0 < self.a < math.inf and 0 < self.b_h < math.inf):
            raise PlacerError(
                f"survival (1 + t / {self.b_h})^-{self.a} falls for no time",
                "give positive numbers",
            )

    def share(self, hours: float) -> float:
        """Return the share that is left after some hours.

        >>> round(Stay(a=0.42, b_h=0.95).share(24.0), 3)
        0.253
        """
        return float((1 + hours / self.b_h) ** -self.a)

    @property
    def median_h(self) -> float:
        """Hours after which half is lost.

        >>> round(Stay(a=0.58, b_h=2.31).median_h, 1)
        5.3
        """
        return float(self.b_h * (2 ** (1 / self.a) - 1))

    def hazard_per_h(self, hours: float) -> float:
        """Return the losses per hour of what has stayed so long."""
        return self.a / (self.b_h + hours)

    @property
    def losses_per_h(self) -> float:
        """Losses per hour of a run that launches anew after each loss: a / b. What is met at any
        moment has stayed for a while and will stay longer than what was just launched. In the long
        run the density of the time that is left, at 0, is one over the mean time between losses.

        >>> round(Stay(a=0.42, b_h=0.95).losses_per_h, 2)
        0.44
        """
        return self.a / self.b_h

    def times_h(self, chances: Array) -> Array:
        """Return the hours after which such shares are lost; shares from 0 to 1."""
        with np.errstate(divide="ignore"):
            built: Array = self.b_h * ((1 - chances) ** (-1 / self.a) - 1)
        return built


def stay_of(known: ZoneCapacity, machines: int) -> Stay | None:
    """Return how long so many machines of one zone stay together. Between rows by the logarithms of
    both figures; below the fewest machines that row's, which promises too little. None beyond the
    most machines of any row, or without rows: not observed.
    """
    rows = known.stays
    if not rows or machines > rows[-1].machines:
        return None
    counts = [row.machines for row in rows]
    a, b_h = (
        math.exp(np.interp(machines, counts, [math.log(getattr(row, name)) for row in rows]))
        for name in ("survival_a", "survival_b_h")
    )
    return Stay(a=a, b_h=b_h)


def first_loss_h(stays: Sequence[Stay], states: Array) -> Array:
    """Draw after how many hours the first of some groups of machines is lost; shape (draws,).
    ``stays``: of each group, the machines of one zone. ``states``: latent states as from `latent`;
    shape (draws, groups). A low one is lost soon, so that alike groups are lost together: never a
    product of their chances.
    """
    lost = _normal_cdf(states)
    built: Array = np.min([stay.times_h(lost[:, at]) for at, stay in enumerate(stays)], axis=0)
    return built


def _normal_cdf(states: Array) -> Array:
    chances = [0.5 * math.erfc(-state / math.sqrt(2)) for state in states.ravel().tolist()]
    return np.array(chances).reshape(states.shape)
