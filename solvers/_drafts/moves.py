"""Small changes of a draft, and the descent that takes them while they help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter

from placer.records import replace

from .draft import Draft, Judge
from .neighbours import NearPlaces

Change = Callable[[Draft], Iterator[Draft]]
"""Changes of one kind."""
PATIENCE = 8
"""Changes that are tried after the first that helps."""
MOVED_TO = 10
"""Places that the workers of one place are tried at."""


class Neighbourhood:
    """Drafts that differ from another by one change.

    Parameters
    ----------
    judge, near
        The market with its limits, and which of its places are neighbours.
    barred
        Pools that are not added.
    """

    def __init__(
        self, judge: Judge, near: NearPlaces, barred: frozenset[int] = frozenset()
    ) -> None:
        self.judge, self.near, self.market, self.barred = judge, near, judge.market, barred

    def grown(self, draft: Draft) -> Iterator[Draft]:
        """Yield one machine more of some pool, or as many as there may be, or half of them."""
        for pool in self.near.of(draft):
            if pool in self.barred:
                continue
            room = self.judge.room(draft, pool)
            payable = self._payable(draft, pool)
            for count in sorted({1, min(room, payable), min(room, payable) // 2}):
                if 0 < count <= room:
                    yield draft.changed({pool: count})

    def shrunk(self, draft: Draft) -> Iterator[Draft]:
        """Yield one machine less of some pool, or none of it."""
        for pool, count in draft.counts:
            for less in sorted({1, count}):
                if len(draft.counts) > 1 or less < count:
                    yield draft.changed({pool: -less})

    def swapped(self, draft: Draft) -> Iterator[Draft]:
        """Yield another pool for one machine or for all of a group: as many, as fast together, or
        as dear together.
        """
        others = self.near.of(draft)
        for pool, count in draft.counts:
            for other in others:
                if other == pool:
                    continue
                as_fast = self.market.speed[pool] * count / self.market.speed[other]
                as_dear = self.market.usd[pool] * count / max(1e-9, self.market.usd[other])
                without = draft.changed({pool: -count})
                room = self.judge.room(without, other)
                for n in sorted(
                    {count, int(as_fast) + 1, int(as_dear), room if room < as_dear else count}
                ):
                    if 0 < n <= room:
                        yield without.changed({other: n})
                if count > 1 and self.judge.room(draft.changed({pool: -1}), other):
                    yield draft.changed({pool: -1, other: 1})

    def moved(self, draft: Draft) -> Iterator[Draft]:
        """Yield all workers of one place at another: the same kinds of machines where it has them,
        else its best ones.
        """
        own = list(dict.fromkeys(int(self.market.place_of[i]) for i, _ in draft.counts))
        for place in own:
            rest = [p for p in own if p != place]
            around = [j for p in (rest or own) for j in self.near.neighbours[p]] + list(
                self.near.neighbours[place]
            )
            for other in list(dict.fromkeys(j for j in around if j != place))[
                : MOVED_TO + len(own)
            ]:
                yield from self._at(draft, place, other)

    def exchanged(self, draft: Draft) -> Iterator[Draft]:
        """Yield the same machines with every exchange and hub that may be."""
        places = tuple(sorted(self.judge.by_place(draft)))
        for mode in self.judge.problem.modes:
            for hub in self.judge.hubs.of(mode[0], places):
                yield replace(draft, mode=mode, hub=hub)

    def _payable(self, draft: Draft, pool: int) -> int:
        """Count the machines that the rest of the budget pays for; many without a budget."""
        left = self.judge.target.budget_usd_per_hour - sum(
            float(self.market.usd[i]) * n for i, n in draft.counts
        )
        return int(max(0.0, min(left / max(1e-9, float(self.market.usd[pool])), 1e6)))

    def _at(self, draft: Draft, place: int, other: int) -> Iterator[Draft]:
        staying = {i: n for i, n in draft.counts if self.market.place_of[i] != place}
        leaving = [(i, n) for i, n in draft.counts if self.market.place_of[i] == place]
        there = self.near.pools(other)
        if not there:
            return
        for alike in (True, False):
            counts = dict(staying)
            for i, n in leaving:
                pool = self._kind_at(i, other) if alike else there[0]
                if pool is None:
                    break
                counts[pool] = counts.get(pool, 0) + min(n, self.market.pools[pool].max_count)
            else:
                yield Draft.of(counts, draft.mode, draft.hub)

    def _kind_at(self, pool: int, place: int) -> int | None:
        """Return the cheapest pool of a place with the same devices."""
        name = self.market.pools[pool].name
        alike = [i for i in self.near.pools_at(place) if self.market.pools[i].name == name]
        return min(alike, key=lambda i: (self.market.usd[i], i), default=None)


class Descent:
    """Takes the best change of each kind in turn while one helps.

    Parameters
    ----------
    judge
        Ranks drafts.
    kinds
        Kinds of changes, in the order in which they are tried.
    """

    def __init__(self, judge: Judge, kinds: tuple[Change, ...]) -> None:
        self.judge, self.kinds = judge, kinds

    def run(self, draft: Draft, most: int) -> Draft:
        """Follow the changes from a draft until none helps, or so many drafts have been ranked in
        all.
        """
        idle, turn = 0, 0
        while idle < len(self.kinds) and self.judge.tried < most:
            better = self._best(draft, self.kinds[turn % len(self.kinds)])
            turn += 1
            idle = idle + 1 if better is None else 0
            draft = better or draft
            if better is not None:
                turn -= 1
        return draft

    def _best(self, draft: Draft, kind: Change) -> Draft | None:
        """Return the best of the changes that promise most; a few more are tried after the first
        that helps.
        """
        best, improved, patience = self.judge.rank(draft), None, PATIENCE
        promised = sorted(
            (
                (self.judge.bound(other), other.counts, other)
                for other in kind(draft)
                if other.counts
            ),
            key=itemgetter(0, 1),
        )
        for bound, _, other in promised:
            if bound >= best or patience == 0:
                break
            fitted = self.judge.fitted(other)
            rank = self.judge.rank(fitted)
            patience -= improved is not None
            if rank < best:
                best, improved = rank, fitted
        return improved
