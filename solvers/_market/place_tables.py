"""Egress prices and links between all places of a market, kept with the network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placer.cost_model.timing.transfer import transfer_seconds
from placer.problem.kept_answers import Recent
from placer.problem.problem import Problem

from .arrays import Array

KEPT_TABLES = 8
"""Tables of each kind that a network keeps."""
Places = tuple[str, ...]
Key = tuple[str, Places, object]
"""What a table holds, of which places, and what else it depends on."""


def egress_table(problem: Problem, places: Places) -> Array:
    """Return the egress price in USD per byte between places; shape (places, places)."""
    network, same_zone = problem.network, problem.requirements.same_zone

    def build() -> Array:
        return np.array(
            [[network.usd_per_byte(a, b, same_zone=same_zone) for b in places] for a in places]
        )

    return _kept(problem, ("egress", places, same_zone), build)


def stream_table(problem: Problem, places: Places, streams: int) -> Array:
    """Return the seconds per byte between places over so many streams, the slower direction, 0 from
    a place to itself; shape (places, places).
    """
    network = problem.network

    def build() -> Array:
        one_way = np.array(
            [
                [
                    0.0 if a == b else transfer_seconds(1.0, network.link(a, b), streams)
                    for b in places
                ]
                for a in places
            ]
        )
        built: Array = np.maximum(one_way, one_way.T)
        return built

    return _kept(problem, ("streams", places, streams), build)


def rtt_table(problem: Problem, places: Places) -> Array:
    """Return the round-trip time in seconds from place to place; shape (places, places)."""
    network = problem.network
    return _kept(
        problem,
        ("rtt", places, None),
        lambda: np.array([[network.link(a, b).rtt_s for b in places] for a in places]),
    )


def speed_table(problem: Problem, places: Places, streams: int) -> Array:
    """Return the bytes/s of so many streams from place to place; shape (places, places)."""
    network = problem.network
    return _kept(
        problem,
        ("speed", places, streams),
        lambda: np.array([[network.link(a, b).speed(streams) for b in places] for a in places]),
    )


def _kept(problem: Problem, key: Key, build: Callable[[], Array]) -> Array:
    """Return the table of a key; a part of a table of more places where one is kept."""
    kind, places, detail = key
    tables: Recent[Array] = problem.network.tables.setdefault(kind, Recent(KEPT_TABLES))

    def made() -> Array:
        part = _part(tables, places, detail)
        table = build() if part is None else part
        table.setflags(write=False)
        return table

    return tables.get((places, detail), made)


def _part(tables: Recent[Array], places: Places, detail: object) -> Array | None:
    """Return the rows and columns of some places out of a kept table that has them all; None if
    there is none.
    """
    for (others, same), table in tables.items():
        if same == detail and set(places) <= set(others):
            index = {place: i for i, place in enumerate(others)}
            at = [index[place] for place in places]
            part: Array = table[np.ix_(at, at)]
            return part
    return None
