"""Nodes of the search of regions that send to each other in turn, and the least figures over the
partners that a node leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._market.arrays import Array, Indices, Mask


@dataclass(frozen=True, kw_only=True)
class Box:
    """Fewest and most regions of each class; shape (classes,)."""

    low: Indices
    high: Indices

    def below(self, kind: int, count: int) -> Box:
        """Return the box with at most so many of one class."""
        high = self.high.copy()
        high[kind] = count
        return Box(low=self.low, high=high)

    def above(self, kind: int, count: int) -> Box:
        """Return the box with more than so many of one class."""
        low = self.low.copy()
        low[kind] = count + 1
        return Box(low=low, high=self.high)


@dataclass(frozen=True, kw_only=True)
class Node:
    """Placements of so many regions and samples/s of all machines, both ends included, of some
    crews.

    Notes
    -----
    ``forced`` places are used; shape (places,). ``boxes`` are by nearness and by price. ``prices``
    of a dollar and of a samples/s, and ``transfers`` between pairs of places, fitted the node that
    this one is a part of.
    """

    regions: tuple[int, int]
    speeds: tuple[float, float]
    crews: Indices
    forced: Mask
    boxes: tuple[Box, Box]
    prices: tuple[float, float]
    transfers: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a relaxation of a node chooses: crews, one a place, and what it loses against sends
    among these, and against the samples/s that they do; where its slice is best cut.

    Notes
    -----
    ``counts`` is what a samples/s of each crew counts among the others, and ``paid`` what its sends
    cost.
    """

    crews: Indices
    weight: Array
    dollar: float
    usd: Array
    lost_time: Array
    lost_usd: Array
    lost_speed: float
    middle: float
    counts: Array
    paid: Array

    @property
    def lost(self) -> float:
        """What all of them lose against their sends."""
        return float(self.lost_time.sum() + self.lost_usd.sum())


def least_partners(figures: Array, kinds: Indices, box: Box, node: Node, able: Mask) -> Array:
    """Return the least figures of each place with its partners, in no order; shape (places,
    partners), infinite where it has too few.

    Parameters
    ----------
    figures
        Of each place with each other, infinite with itself; shape (places, places).
    kinds
        Class of each place; shape (places,).
    able
        Places that a placement of the node may use; shape (places,).

    Notes
    -----
    The mean over more partners than the fewest is at least that over the fewest smallest ones. With
    partners that are given it may be less: these count where the number of regions is known.
    """
    fewest, most = node.regions
    count, known = fewest - 1, fewest == most
    given = node.forced if known else np.zeros_like(node.forced)
    open_ = able & ~given
    parts, free = [], []
    taken = np.zeros(len(figures), dtype=np.intp)
    if known and given.any():
        own = figures[:, given]
        parts.append(own)
        taken += np.isfinite(own).sum(axis=1)
    for kind in range(len(box.low)):
        members = np.flatnonzero(open_ & (kinds == kind))
        if len(members) == 0:
            continue
        ranked = np.sort(figures[:, members], axis=1)
        here = kinds == kind
        inside = int((given & here).sum())
        at = np.arange(len(members))
        # A place that is not given takes a place of its own class itself.
        itself = (here & ~given).astype(np.intp)
        high = np.minimum(box.high[kind] - inside - itself, len(members))
        low = np.maximum(box.low[kind] - inside - itself, 0) if known else np.zeros_like(itself)
        must = at < low[:, None]
        if must.any():
            parts.append(np.where(must, ranked, np.inf))
            taken += np.minimum(low, len(members))
        free.append(np.where(~must & (at < high[:, None]), ranked, np.inf))
    if free:
        rest = np.sort(np.concatenate(free, axis=1), axis=1)[:, :count]
        left = np.arange(rest.shape[1]) < (count - taken)[:, None]
        parts.append(np.where(left, rest, np.inf))
    every = np.concatenate(parts, axis=1) if parts else np.zeros((len(figures), 0))
    if every.shape[1] > count:
        every = np.sort(every, axis=1)[:, :count]
    if every.shape[1] < count:
        every = np.full((len(figures), count), np.inf)
    return every
