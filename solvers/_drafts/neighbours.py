"""Neighbouring places, and the machines of each that are worth a try."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from placer.market.network.geography import EARTH_RADIUS_KM
from placer.problem.exchange import traits

from .._market.arrays import Array
from .._market.required_start import RequiredStart
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
    """Neighbours by great circles, and the best pools of each place.

    Parameters
    ----------
    judge
        Its market and rules of residency.
    """

    def __init__(self, judge: Judge) -> None:
        self.judge, self.market = judge, judge.market
        self._pools: dict[int, tuple[int, ...]] = {}

    @cached_property
    def km(self) -> Array:
        """Distances; infinite where no exchange may pass; shape (places, places)."""
        regions = [self.market.problem.catalog.region(place) for place in self.market.places]
        latitude, longitude = (
            np.radians([r.latitude_deg for r in regions]),
            np.radians([r.longitude_deg for r in regions]),
        )
        half = (
            np.sin((latitude[:, None] - latitude) / 2) ** 2
            + np.cos(latitude[:, None])
            * np.cos(latitude)
            * np.sin((longitude[:, None] - longitude) / 2) ** 2
        )
        built: Array = 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(half, 0, 1)))
        built[self._parted] = np.inf
        np.fill_diagonal(built, 0.0)
        return built

    @cached_property
    def _parted(self) -> Array:
        """Pairs of places between which rules of residency let no admitted exchange pass; shape
        (places, places).
        """
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

    @cached_property
    def bases(self) -> RequiredStart:
        """Machines that must be used."""
        return RequiredStart(self.market, lambda a, b: float(self.km[a, b]))

    def with_used(self, draft: Draft) -> Draft:
        """Return the draft with the machines that must be used; unchanged if there is no room for
        them.
        """
        counts = self.bases.completed(dict(draft.counts))
        return (
            draft if counts is None else self.judge.fitted(Draft.of(counts, draft.mode, draft.hub))
        )

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Nearest places of each place, nearest first."""
        key = "neighbours", self._parted.tobytes() if self.judge.wish.kept else None
        if key not in self.market.kept:
            self.market.kept[key] = self._neighbours()
        built: tuple[tuple[int, ...], ...] = self.market.kept[key]
        return built

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
        """List the pools of a place with the best value, and the fastest ones that the budget pays;
        best value first.
        """
        if place not in self._pools:
            market, there = self.market, self._by_place[place]
            payable = [i for i in there if market.usd[i] <= self.judge.target.budget_usd_per_hour]
            value = sorted(payable, key=lambda i: (market.usd[i] / market.speed[i], i))
            fast = sorted(payable, key=lambda i: (-market.speed[i], market.usd[i], i))
            self._pools[place] = tuple(dict.fromkeys([*value[:KINDS], *fast[:KINDS]]))
        return self._pools[place]

    def pools_at(self, place: int) -> tuple[int, ...]:
        """List all pools of a place."""
        return self._by_place[place]

    def of(self, draft: Draft, reach: int = 4) -> list[int]:
        """List the pools worth adding to a draft: of its own places, and of a few neighbours if it
        may use more.
        """
        own = list(dict.fromkeys(int(self.market.place_of[i]) for i, _ in draft.counts))
        pools = [i for place in own for i in self.pools(place)]
        if len(own) < self.judge.wish.max_regions:
            pools += [i for place in self._lacking(own) for i in self.pools(place)]
            around = [j for place in own for j in self.neighbours[place][:reach] if j not in own]
            around += [j for j in self.cheapest if j not in own and self.km[own[0], j] < np.inf]
            pools += [i for place in dict.fromkeys(around) for i in self._brief(place)]
        return list(dict.fromkeys(pools))

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
    def _by_place(self) -> tuple[tuple[int, ...], ...]:
        by_place: list[list[int]] = [[] for _ in self.market.places]
        for i, place in enumerate(self.market.place_of.tolist()):
            by_place[place].append(i)
        return tuple(tuple(pools) for pools in by_place)
