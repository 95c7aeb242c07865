"""Mixes of fast and slow machines around a server: whether any number of each speed could be an
improvement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._market.arrays import Array

MOST_MIXES = 200_000
"""With more partial mixes than this nothing is ruled out."""


def some_mix(
    calculation: Array,
    usd: Array,
    cap: Array,
    workers: int,
    share_s: float,
    longest_s: float,
    most_usd: float,
    taken: Sequence[tuple[float, int]] = (),
) -> bool:
    """Return whether any mix of speeds keeps within a time and a price.

    Parameters
    ----------
    calculation, usd, cap
        Seconds, least price and most machines of each pool; shape (pools,).
    workers
        How many are still to be chosen.
    share_s
        Seconds in which one gradient passes through the server.
    longest_s
        Most seconds until the last gradient is through.
    most_usd
        Most USD for these machines.
    taken
        Seconds and number of machines that are chosen already.

    Notes
    -----
    Slowest first: m machines that start at c or later keep the server busy until c + m s at least.
    The price of m machines of one speed is that of the m cheapest.

    Examples
    --------
    >>> two = np.array([4.0, 2.0]), np.array([1.0, 3.0]), np.array([2.0, 2.0])
    >>> # one of each: 4 + 1 s for 4 USD
    >>> some_mix(*two, 2, 1.0, 5.0, 4.0), some_mix(*two, 2, 1.0, 5.0, 3.9)
    (True, False)
    """
    classes = sorted({*calculation.tolist(), *(start for start, _ in taken)}, reverse=True)
    ladders = [_ladder(usd[calculation == c], cap[calculation == c], workers) for c in classes]
    room = [*np.cumsum([len(ladder) - 1 for ladder in ladders][::-1])[::-1].tolist(), 0]
    least = _ladder(usd, cap, workers)
    if len(least) <= workers:
        return False
    placed, paid = np.zeros(1, dtype=np.intp), np.zeros(1)
    for k, (start, ladder) in enumerate(zip(classes, ladders, strict=True)):
        if len(placed) * len(ladder) > MOST_MIXES:
            # Too many to look at: nothing is ruled out.
            return True
        chosen = sum(count for at, count in taken if at >= start)
        here = any(at == start for at, _ in taken)
        now = (placed[:, None] + np.arange(len(ladder))).ravel()
        cost = (paid[:, None] + ladder).ravel()
        fresh = np.tile(np.arange(len(ladder)) > 0, len(placed)) | here
        left = workers - now
        keep = (
            ~(fresh & (start + (now + chosen) * share_s > longest_s))
            & (left >= 0)
            & (left <= room[k + 1])
        )
        # The rest at its cheapest, whatever its speed: a mix that fails even then is out.
        keep[keep] &= cost[keep] + least[left[keep]] <= most_usd
        now, cost = now[keep], cost[keep]
        if len(now) == 0:
            return False
        # Of mixes with as many machines so far only the cheapest matters: later tests see their
        # number and their price alone.
        order = np.lexsort((cost, now))
        first = np.concatenate([[True], np.diff(now[order]) > 0])
        placed, paid = now[order][first], cost[order][first]
    return bool(np.any(placed == workers))


def _ladder(usd: Array, cap: Array, most: int) -> Array:
    """Return the least price of 0, 1, 2 ... machines of some pools, as many as there are."""
    order = np.argsort(usd, kind="stable")
    each = np.repeat(usd[order], cap[order].astype(np.intp))[:most]
    built: Array = np.concatenate([[0.0], np.cumsum(each)])
    return built
