"""Places of hubs that are worth a try for some regions."""

from __future__ import annotations

from functools import cached_property

from placer.problem.exchange import traits
from placer.problem.problem import Problem

Hub = tuple[str | None, str | None]
"""Places of the aggregator and the store; None where the strategy has none."""
NEAREST = 2
"""Pairs of function and store that are tried for each region with workers."""


class HubPlaces:
    """Hubs by strategy and regions, near the regions that it serves.

    Parameters
    ----------
    problem
        Its wishes may name the places.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._near: dict[str, list[Hub]] = {}
        self._found: dict[tuple[str, tuple[str, ...]], list[Hub]] = {}

    def of(self, strategy: str, places: tuple[str, ...]) -> list[Hub]:
        """List the hubs of a strategy for workers in some places; empty if it cannot be had."""
        key = strategy, places
        if key not in self._found:
            self._found[key] = self._list(strategy, places)
        return self._found[key]

    def _list(self, strategy: str, places: tuple[str, ...]) -> list[Hub]:
        chosen, wanted = traits(strategy), self.problem.requirements.aggregator
        if chosen.hub == "function":
            if chosen.transport == "regional-stores" and not all(
                p in self.problem.serverless_places for p in places
            ):
                return []
            return list(dict.fromkeys(hub for place in places for hub in self._nearest(place)))
        if chosen.hub == "server":
            return [(place, None) for place in (places if wanted is None else (wanted,))]
        if chosen.hub == "region":
            return [(place, None) for place in places if wanted in (None, place)]
        return [(None, None)]

    def _nearest(self, place: str) -> list[Hub]:
        if place not in self._near:
            stores = list(self._by_store)
            away = self.problem.network.rtts_s([place, *stores])[0, 1:].tolist()
            nearest = [store for _, store in sorted(zip(away, stores, strict=True))]
            self._near[place] = [
                pair for store in nearest[:NEAREST] for pair in self._by_store[store][:NEAREST]
            ]
        return self._near[place]

    @cached_property
    def _by_store(self) -> dict[str, list[Hub]]:
        hubs: dict[str, list[Hub]] = {}
        for function, store in sorted(
            self.problem.aggregator_places, key=lambda pair: (pair[0] != pair[1], pair)
        ):
            hubs.setdefault(store, []).append((function, store))
        return hubs
