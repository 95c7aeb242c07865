"""Two figures of each place, computed when a search first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..._market.arrays import Array, Indices


class PerPlace:
    """Two columns over places; infinite where they have not been asked for.

    Parameters
    ----------
    places
        Names of the places.
    of
        Works out both figures of one place.

    Examples
    --------
    >>> lengths = PerPlace(["oslo", "rome"], lambda place: (float(len(place)), 0.0))
    >>> lengths.at(np.array([1]))
    (array([inf,  4.]), array([inf,  0.]))
    """

    def __init__(self, places: Sequence[str], of: Callable[[str], tuple[float, float]]) -> None:
        self._places, self._of = places, of
        self._known = np.zeros(len(places), dtype=bool)
        self._columns = np.full((2, len(places)), np.inf)

    def at(self, wanted: Indices | None = None) -> tuple[Array, Array]:
        """Return both columns, known at least at some places; at all if none are named; shapes
        (places,).
        """
        missing = ~self._known if wanted is None else np.zeros(len(self._known), dtype=bool)
        if wanted is not None:
            missing[wanted] = ~self._known[wanted]
        for place in np.flatnonzero(missing).tolist():
            self._columns[:, place] = self._of(self._places[place])
        self._known |= missing
        return self._columns[0], self._columns[1]
