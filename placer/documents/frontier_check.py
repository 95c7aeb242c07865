"""Check of a frontier document by itself: its points rise, and none beats its own bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placer.errors import PlacerError

SAME = 1e-9
"""Relative difference up to which a figure counts as the same."""


def check_frontier(document: Mapping[str, Any], where: str) -> str:
    """Check that the points of a document rise in cost and throughput and that no bound is beaten.

    Raises
    ------
    PlacerError
        Names the first point that is wrong.
    """
    usd_before = speed_before = -1.0
    for number, point in enumerate(document["points"]):
        usd, speed = point["usd_per_hour"], point["samples_per_second"]
        most, least = point["most_samples_per_second"], point["least_usd_per_hour"]
        wrong = (
            (usd <= usd_before or speed <= speed_before, "is no better than the one before"),
            (most is not None and most < speed * (1 - SAME), "is faster than its own bound"),
            (least is not None and least > usd * (1 + SAME), "is cheaper than its own bound"),
        )
        for broken, words in wrong:
            if broken:
                raise PlacerError(
                    f"{where}: point {number} {words}",
                    "the file was edited, or made by another version",
                )
        usd_before, speed_before = usd, speed
    return f"frontier of {len(document['points'])} points, none beats another"
