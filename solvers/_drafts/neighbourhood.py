"""Neighbouring places, machines that must be used, small changes of a draft, and the descent that
takes these while they help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from operator import itemgetter

import numpy as np

from placer.market.network.link_model import great_circles_km
from placer.problem.exchange import traits
from placer.records import replace

from .._market.arrays import Array
from .draft import Draft, Judge

NEAR = 8
"""Neighbours of a place, whoever their provider is."""
AT_HOME = 3
"""Neighbours of the same provider, whose traffic is cheap."""
CHEAPEST = 4
"""Places that are tried from everywhere, because their machines are worth their price."""
KINDS = 6
"""Pools of a place that are tried for their price, and as many for their speed."""


class NearPlaces:
    """Neighbours by great circles, and the best pools of each place."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.market = judge, judge.market
        self._pools: dict[int, tuple[int, ...]] = {}

    @cached_property
    def km(self) -> Array:
        """Distances; infinite where no exchange may pass; shape (places, places)."""
        regions = [self.market.problem.catalog.region(place) for place in self.market.places]
        latitude = np.array([r.latitude_deg for r in regions])
        longitude = np.array([r.longitude_deg for r in regions])
        built = great_circles_km(latitude[:, None], longitude[:, None], latitude, longitude)
        built[self._parted] = np.inf
        np.fill_diagonal(built, 0.0)
        return built

    @cached_property
    def _parted(self) -> Array:
        """Places between which residency lets no exchange pass; shape (places, places)."""
        places = self.market.places
        blocked: dict[str, Array] = {}
        for rule in self.judge.wish.kept:
            inside = np.array([place in rule.places for place in places])
            blocked[rule.kind] = blocked.get(rule.kind, False) | (inside[:, None] != inside)
        payloads = {traits(name).payload for name, _ in self.judge.problem.modes}
        parts = [
            blocked.get(payload, np.zeros((len(places), len(places)), dtype=bool))
            for payload in sorted(payloads)
        ]
        return (
            np.logical_and.reduce(parts)
            if parts
            else np.zeros((len(places), len(places)), dtype=bool)
        )

    def bases(self) -> list[dict[int, int]]:
        """List the fewest machines that must be used: by value, price and speed, near or not."""
        usd, speed = self.market.usd, self.market.speed
        bases = [
            self._completed({}, ranking, near=near)
            for ranking in (usd / speed, usd, -speed)
            for near in (True, False)
        ]
        return list({tuple(sorted(base.items())): base for base in bases if base}.values())

    def with_used(self, draft: Draft) -> Draft:
        """Return the draft with the machines that must be used, if there is room."""
        counts = self._completed(dict(draft.counts), self.market.usd / self.market.speed)
        return (
            draft if counts is None else self.judge.fitted(Draft.of(counts, draft.mode, draft.hub))
        )

    def _completed(
        self, counts: dict[int, int], ranking: Array, *, near: bool = True
    ) -> dict[int, int] | None:
        """Return the counts with what they lack of the rules, of places in use, then of near ones,
        best first; None without room.
        """
        market, made = self.market, Draft.of(counts, ("", 1))
        for rule in sorted(market.required_machines.rules, key=lambda rule: int(rule.owns.sum())):
            lacking = rule.count - sum(n for i, n in made.counts if rule.owns[i])
            pools = np.flatnonzero(rule.owns)
            km = np.zeros(len(pools))
            if made.counts and near:
                used = market.place_of[[i for i, _ in made.counts]]
                km = self.km[np.ix_(used, market.place_of[pools])].min(axis=0)
                km[np.isin(market.place_of[pools], used)] = -1.0
            for i in pools[np.lexsort((pools, ranking[pools], km))].tolist():
                count = min(lacking, self.judge.room(made, i))
                if count > 0:
                    made, lacking = made.changed({i: count}), lacking - count
            if lacking > 0:
                return None
        return dict(made.counts)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Nearest places of each place, nearest first."""
        key = "neighbours", self._parted.tobytes() if self.judge.wish.kept else None
        if key not in self.market.kept:
            self.market.kept[key] = self._neighbours()
        return self.market.kept[key]

    def _neighbours(self) -> tuple[tuple[int, ...], ...]:
        away = self.km.copy()
        np.fill_diagonal(away, np.inf)
        providers = np.array([place.split("/")[0] for place in self.market.places])
        at_home = np.where(providers[:, None] == providers, away, np.inf)
        whole, own = (
            [[j for j in row if km[j] < np.inf] for row, km in zip(order, kms, strict=True)]
            for order, kms in (
                (np.argsort(away, axis=1, kind="stable")[:, :NEAR].tolist(), away),
                (np.argsort(at_home, axis=1, kind="stable")[:, :AT_HOME].tolist(), at_home),
            )
        )
        return tuple(
            tuple(dict.fromkeys([*near, *home])) for near, home in zip(whole, own, strict=True)
        )

    @cached_property
    def cheapest(self) -> tuple[int, ...]:
        """Places whose best machine has the best value of all."""
        value = self.market.usd / self.market.speed
        order = np.lexsort((np.arange(len(value)), value))
        return tuple(dict.fromkeys(self.market.place_of[order].tolist()))[:CHEAPEST]

    def pools(self, place: int) -> tuple[int, ...]:
        """List a place's pools of best value, and the fastest that are payable."""
        if place not in self._pools:
            market, there = self.market, self.by_place[place]
            payable = [i for i in there if market.usd[i] <= self.judge.target.budget_usd_per_hour]
            value = sorted(payable, key=lambda i: (market.usd[i] / market.speed[i], i))
            fast = sorted(payable, key=lambda i: (-market.speed[i], market.usd[i], i))
            self._pools[place] = tuple(dict.fromkeys([*value[:KINDS], *fast[:KINDS]]))
        return self._pools[place]

    def of(self, draft: Draft, reach: int = 4) -> list[int]:
        """List the pools worth adding to a draft: of its places and of some neighbours."""
        if self.judge.alike:
            return self._alike(draft, reach)
        own = list(dict.fromkeys(int(self.market.place_of[i]) for i, _ in draft.counts))
        pools = [i for place in own for i in self.pools(place)]
        if len(own) < self.judge.wish.max_regions:
            pools += [i for place in self._lacking(own) for i in self.pools(place)]
            around = [j for place in own for j in self.neighbours[place][:reach] if j not in own]
            around += [j for j in self.cheapest if j not in own and self.km[own[0], j] < np.inf]
            pools += [i for place in dict.fromkeys(around) for i in self._brief(place)]
        return list(dict.fromkeys(pools))

    def _alike(self, draft: Draft, reach: int) -> list[int]:
        """List the pools of a draft's device in its places and in some neighbours."""
        own = list(dict.fromkeys(int(self.market.place_of[i]) for i, _ in draft.counts))
        places = dict.fromkeys(own)
        if len(own) < self.judge.wish.max_regions:
            places.update(dict.fromkeys(self._lacking(own)))
            places.update(dict.fromkeys(j for i in own for j in self.neighbours[i][:reach]))
        device = self.judge.device[draft.counts[0][0]]
        return [
            i for place in places for i in self.by_place[place] if self.judge.device[i] == device
        ]

    def _brief(self, place: int) -> tuple[int, ...]:
        pools = self.pools(place)
        return tuple(
            dict.fromkeys((*pools[:1], *sorted(pools, key=lambda i: -self.market.speed[i])[:1]))
        )

    def _lacking(self, own: list[int]) -> list[int]:
        """List the places that need a worker and have none."""
        used = {self.market.places[place] for place in own}
        return [
            i
            for i, place in enumerate(self.market.places)
            if place in self.judge.wish.required_places and place not in used
        ]

    @cached_property
    def by_place(self) -> tuple[tuple[int, ...], ...]:
        """All pools of each place."""
        by_place: list[list[int]] = [[] for _ in self.market.places]
        for i, place in enumerate(self.market.place_of.tolist()):
            by_place[place].append(i)
        return tuple(tuple(pools) for pools in by_place)


Change = Callable[[Draft], Iterator[Draft]]
"""Changes of one kind."""
PATIENCE = 8
"""Changes that are tried after the first that helps."""


class Neighbourhood:
    """Drafts that differ from another by one change."""

    def __init__(self, judge: Judge, near: NearPlaces) -> None:
        self.judge, self.near, self.market = judge, near, judge.market

    def grown(self, draft: Draft) -> Iterator[Draft]:
        """Yield one machine more of some pool, or as many as there may be, or half of them."""
        for pool in self.near.of(draft):
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
        """Yield another pool for one machine or a group: as many, as fast, as dear."""
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


class Descent:
    """Takes the best change of each kind in turn while one helps."""

    def __init__(self, judge: Judge, kinds: tuple[Change, ...]) -> None:
        self.judge, self.kinds = judge, kinds

    def run(self, draft: Draft, most: int) -> Draft:
        """Follow changes until none helps, or so many drafts have been ranked in all."""
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
        """Return the best of the most promising changes, a few after the first."""
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
