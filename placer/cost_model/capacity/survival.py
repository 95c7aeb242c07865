"""How long enough spot machines stay, once they have been launched."""

from __future__ import annotations

import math
from dataclasses import dataclass

from placer.errors import PlacerError


@dataclass(frozen=True, kw_only=True, slots=True)
class Stay:
    """Time until machines are lost: the share that is left after t hours is (1 + t / b)^-a.

    Notes
    -----
    Losses come soon or late: what has stayed for hours is likely to stay. A constant rate would say
    that neither is so.
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

        Examples
        --------
        >>> round(Stay(a=0.42, b_h=0.95).share(24.0), 3)
        0.253
        """
        return float((1 + hours / self.b_h) ** -self.a)

    @property
    def median_h(self) -> float:
        """Hours after which half is lost.

        Examples
        --------
        >>> round(Stay(a=0.58, b_h=2.31).median_h, 1)
        5.3
        """
        return float(self.b_h * (2 ** (1 / self.a) - 1))

    def hazard_per_h(self, hours: float) -> float:
        """Return the losses per hour of what has stayed so long."""
        return self.a / (self.b_h + hours)
