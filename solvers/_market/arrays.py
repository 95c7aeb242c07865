"""Array types of the solvers, named by what they hold, and a price for infinite ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Array = NDArray[Any]
"""Floats: seconds, dollars, samples/s."""
Indices = NDArray[Any]
"""Whole numbers: positions and counts."""
Mask = NDArray[np.bool_]
"""Which entries of another array are meant."""
NEVER_USD = 1e30
"""A price that nobody pays, in place of an infinite one: none of it is nothing."""


class Rows(Struct, frozen=True, eq=False, dict=True):
    """Figures of several things side by side, as arrays."""

    def at(self, chosen: Any) -> Self:
        """Return the figures of some of them: of a mask, a slice, positions, or a single one."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return type(self)(
            **{
                name: each[chosen] if isinstance(each, np.ndarray) else each
                for name, each in fields.items()
            }
        )
