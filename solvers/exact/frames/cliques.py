"""Largest sets of places that are all near each other."""

from __future__ import annotations

import numpy as np

from ..._market.arrays import Mask


def maximal_cliques(near: Mask, most: int) -> list[list[int]] | None:
    """List the sets of places that are all near each other and that no further place fits; None if
    there are more than ``most``.

    Parameters
    ----------
    near
        Which pairs are near, symmetric; the diagonal does not count; shape (places, places).

    Notes
    -----
    Bron and Kerbosch (1973) with the pivot of Tomita et al. (2006).

    Examples
    --------
    >>> # a chain: 0 and 2 are not near each other
    >>> maximal_cliques(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool), 9)
    [[0, 1], [1, 2]]
    """
    places = len(near)
    linked = [
        sum(1 << int(other) for other in np.flatnonzero(row) if other != at)
        for at, row in enumerate(near)
    ]
    built: list[int] = []

    def grow(chosen: int, able: int, done: int) -> bool:
        if not able and not done:
            built.append(chosen)
            return len(built) <= most
        pivot = max(_bits(able | done), key=lambda at: (able & linked[at]).bit_count())
        for at in _bits(able & ~linked[pivot]):
            if not grow(chosen | 1 << at, able & linked[at], done & linked[at]):
                return False
            able, done = able & ~(1 << at), done | 1 << at
        return True

    if not grow(0, (1 << places) - 1, 0):
        return None
    return sorted(_bits(clique) for clique in built)


def _bits(members: int) -> list[int]:
    """List the places of a set, the first one first."""
    built = []
    while members:
        least = members & -members
        built.append(least.bit_length() - 1)
        members ^= least
    return built
