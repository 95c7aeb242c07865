"""Branch and bound over the regions of a hierarchical all-reduce, whose machines are chosen whole
and together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from placer.cost_model.timing.plain_streams import direct_phase_seconds
from placer.problem.exchange.allreduce import broadcast

from ..._market.arrays import Array, Indices
from ..bounds.relaxation import margin, priced_rows
from ..frames.group_fronts import GroupFronts, Question, most_usd_per_speed, within_budget
from ..frames.leader_frames import LeaderFrame, LeaderFrames
from ..frames.place_fronts import PlaceFront
from ..leaves.interleaving import BREATH, Groups, Tree
from .split_tree import FRONT_NODES, OFFERED, TIGHT

PAUSE = 20
"""Nodes after which other trees may have their turn."""


class LeaderTree:
    """Branch and bound within one frame.

    Parameters
    ----------
    frames
        Worth of the places.
    frame
        Number of regions, workers of the largest one, and places.
    leaf
        Enumerates the machines of some regions, by index of their places.

    Notes
    -----
    A node has regions that are used and others that may be. With the prices of a dendrogram whole
    machines are chosen for all regions together; most nodes have no choice left. Else a region is
    used or not: known ones pay their true prices with all others.
    """

    def __init__(
        self,
        frames: LeaderFrames,
        frame: LeaderFrame,
        leaf: Callable[[tuple[int, ...]], Tree],
    ) -> None:
        self.frames, self.frame, self.leaf = frames, frame, leaf
        self.market, self.mode = frames.market, frames.mode
        self.target, self.nodes = frames.relaxation.target, 0

    def improvements(self) -> Tree:
        """Yield groups that may improve."""
        yield from self._grow((), np.array(self.frame.places, dtype=np.intp))

    def _grow(self, used: tuple[int, ...], able: Indices) -> Tree:
        """Use one more region, or leave it out; ``able`` includes those that are used."""
        self.target.tick()
        self.target.check_time()
        regions = self.frame.regions
        if len(used) > regions or len(able) < regions:
            return
        place = yield from self._open_place(used, able)
        if place is None:
            return
        if place < 0:
            yield from self.leaf(tuple(sorted(self.frames.places[list(used)].tolist())))
            return
        yield from self._grow((*used, place), able)
        yield from self._grow(used, able[able != place])

    def _open_place(
        self, used: tuple[int, ...], able: Indices
    ) -> Generator[Groups | None, None, int | None]:
        """Yield choices that may improve; return the place to branch on, -1 if all are known, None
        if the node holds no improvement.
        """
        while True:
            limits = self.target.limits
            fronts = self._fronts(used, able)
            if fronts is None:
                return None
            self.target.tables += FRONT_NODES * len(able)
            choices = fronts.choices()
            self.nodes += 1
            yield None if self.nodes % PAUSE == 0 else BREATH
            chosen: list[int] = []
            if choices is not None:
                open_ = np.flatnonzero(
                    within_budget(choices, self.target, self.mode, self._longest_s(able))
                )
                if len(open_) == 0:
                    return None
                best = open_[np.argsort(-choices.speed[open_], kind="stable")[:OFFERED]]
                for choice in best.tolist():
                    yield fronts.machines(choice)
                names = self.market.places
                at = {names[self.frames.places[own]]: own for own in able.tolist()}
                chosen = [at[group.place] for group in fronts.machines(int(best[0]))]
            if self.target.limits != limits:
                continue
            if len(used) == self.frame.regions:
                return -1
            left = [own for own in dict.fromkeys(chosen) if own not in used]
            left = left or [own for own in able.tolist() if own not in used]
            return max(left, key=lambda own: float(self._extra[able.tolist().index(own)]))

    def _fronts(self, used: tuple[int, ...], able: Indices) -> GroupFronts | None:
        """Return the whole machines of a node; None if its best sums exclude an improvement."""
        frames, frame, target = self.frames, self.frame, self.target
        regions, tree = np.array([frame.regions]), frames.dendrograms.of(able)
        rows = priced_rows(frames.grid.weights, self.mode, target)
        weights = frames.grid.weights[rows]
        needed = frames.needed(target, rows, regions, frame.fewest, frame.below)[:, 0]
        charge = frames.charge(target, rows, regions)[:, 0]
        leaves = frames.leaves(target, rows, able, regions, frame.most, frame.level)
        extra = self._known_usd_per_byte(used, able, tree.prices)
        self._extra = extra
        own = []
        for leaf, place, usd in zip(leaves, able.tolist(), extra.tolist(), strict=True):
            worth = leaf[:, 0].copy()
            worth[:, 1] -= charge * usd
            if place in used:
                worth[:, 0] = -np.inf
            own.append(worth)
        inside = tree.best(own, charge, frame.regions)
        if inside[-1].shape[1] <= frame.regions:
            return None
        total = inside[-1][:, frame.regions]
        if margin(total[:, None], needed[:, None])[0] < 0:
            return None
        some = _chosen_rows(weights, needed, total)
        usd_per_byte = frames.rounds_per_hour(target) * float(frames.pair_bytes(regions)[0])
        heads, followers = np.minimum(np.arange(frame.most + 1), 1), np.arange(-1, frame.most)
        fronts = []
        for place, usd in zip(able.tolist(), extra.tolist(), strict=True):
            egress = np.zeros(frame.most + 1)
            egress[1:] = usd * usd_per_byte
            home = float(frames.home_usd[place])
            if home > 0:
                egress[2:] += home * frames.rounds_per_hour(target) * followers[2:]
            fronts.append(
                PlaceFront(
                    self.market,
                    int(frames.places[place]),
                    frames.grid.hosts,
                    heads=heads,
                    egress=egress,
                )
            )
        question = Question(
            weights=weights[some],
            needed=needed[some],
            charge=charge[some],
            pair_usd=usd_per_byte,
            inside=[sums[some] for sums in inside],
            heads=frame.regions,
            usd_per_speed=most_usd_per_speed(
                target, weights, needed, frames.grid.everywhere[rows].max(axis=1)
            ),
        )
        return GroupFronts(self.market, tree, fronts, question)

    def _known_usd_per_byte(self, used: tuple[int, ...], able: Indices, prices: Array) -> Array:
        """Return what a byte each way with all known regions costs each place above the prices of
        the dendrogram; pairs of known regions count once; shape (able,).
        """
        at = self.frames.places[able]
        above = np.maximum(self.market.both_ways[np.ix_(at, at)] - prices, 0.0)
        known = np.isin(able, used)
        above[known] = np.where(known, np.triu(above[:, :], 1)[known], above[known])
        built: Array = above[:, known].sum(axis=1)
        return built

    def _longest_s(self, able: Indices) -> float:
        """Return the most seconds of an exchange of the frame."""
        frames, frame, problem = self.frames, self.frame, self.market.problem
        family = frames.family
        longest = float(family.slowest_averaging_s[frame.most])
        longest += frames.relaxation.mode.least_period_s
        longest += float(family.slowest_averaging_s[frame.regions])
        pair = float(frames.pair_bytes(np.array([frame.regions]))[0])
        pair *= float(frames.relaxation.most_growth(np.array([frame.regions]))[0])
        longest += max(frame.level * pair, frames.relaxation.most_load_s)
        places = [(self.market.places[frames.places[own]], frame.most) for own in able.tolist()]
        for phase in broadcast(places, frames.rounds.size):
            longest += direct_phase_seconds(phase, problem.network, problem.requirements.streams)
        return longest


def _chosen_rows(weights: Array, needed: Array, total: Array) -> Indices:
    """Return the rows that have least to spare, and those of speed and price alone."""
    with np.errstate(invalid="ignore"):
        spare = (total - needed) / np.maximum(np.abs(needed), 1e-9)
    ends, says = (weights[:, 0] == 0) | (weights[:, 1] == 0), np.isfinite(needed)
    tight = [at for at in np.argsort(spare, kind="stable").tolist() if says[at]][:TIGHT]
    rows = dict.fromkeys([*tight, *np.flatnonzero(ends & says).tolist()])
    return np.array(list(rows), dtype=np.intp)
