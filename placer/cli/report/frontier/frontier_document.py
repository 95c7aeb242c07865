"""The ``placer.pareto/v1`` document of a frontier, its table and its check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from placer.advice.frontier.points import Frontier, FrontierPoint
from placer.documents.parts import data_document, estimate_document, placement_document
from placer.documents.request import request_document
from placer.errors import PlacerError
from placer.solving.result import option_document

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "placer.pareto/v1"
SAME = 1e-9
"""Relative difference up to which a figure counts as the same."""


def frontier_document(frontier: Frontier) -> dict[str, Any]:
    """Build the document of a frontier; within v1 keys are only added."""
    problem, failed = frontier.problem, frontier.failed
    marginal = frontier.marginal_usd_per_million_samples
    return {
        "schema": SCHEMA,
        "request": {
            key: value for key, value in request_document(problem).items() if key != "objective"
        },
        "data": data_document(problem),
        "axes": {"cost": "usd_per_hour", "gain": "samples_per_second"},
        "status": str(frontier.ending) if failed is None else str(failed.status),
        "proved": frontier.proved,
        "gap": frontier.gap,
        "solver": {
            "name": frontier.solver,
            "seconds": round(frontier.seconds, 6),
            "solves": frontier.solves,
        },
        "knee": frontier.knee,
        "best_value": frontier.best_value,
        "points": [
            {
                **_figures(point, marginal[at]),
                "placement": placement_document(point.placement, problem),
                "estimate": estimate_document(point.estimate),
            }
            for at, point in enumerate(frontier.points)
        ],
        "nearest": []
        if failed is None
        else [option_document(o, o.label, problem) for o in failed.nearest],
        "warnings": [{"code": w.code, "message": w.message} for w in frontier.warnings],
    }


def frontier_rows(frontier: Frontier) -> list[dict[str, Any]]:
    """Build one flat row for each point, from the cheapest on."""
    marginal = frontier.marginal_usd_per_million_samples
    return [
        {
            **_figures(point, marginal[at]),
            "mark": mark_of(frontier, at),
            "workers": " + ".join(group.spec for group in point.placement.groups),
            "exchange": point.placement.exchange.strategy,
            "local_steps": point.placement.exchange.local_steps,
        }
        for at, point in enumerate(frontier.points)
    ]


def frontier_frame(frontier: Frontier) -> pd.DataFrame:
    """Build a table of `frontier_rows`."""
    import pandas as pd

    return pd.DataFrame(frontier_rows(frontier))


def mark_of(frontier: Frontier, at: int) -> str:
    """What stands out about a point: ``knee``, ``value`` (lowest price of a sample), both or
    nothing.
    """
    marks = (("knee", frontier.knee), ("value", frontier.best_value))
    return " ".join(word for word, where in marks if where == at)


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


def _figures(point: FrontierPoint, marginal: float | None) -> dict[str, Any]:
    return {
        "usd_per_hour": point.usd_per_hour,
        "samples_per_second": point.samples_per_second,
        "usd_per_million_samples": point.usd_per_million_samples,
        "marginal_usd_per_million_samples": marginal,
        "least_usd_per_hour": point.least_usd_per_hour,
        "most_samples_per_second": point.most_samples_per_second,
        "gap": point.gap,
        "status": str(point.status),
    }
