"""Documents for tests of reports, each solved once."""

from __future__ import annotations

from functools import cache
from typing import Any

import placer

SMALL: dict[str, Any] = {"catalog": "erben-2023", "gpu": ["T4", "A10"]}
"""A book of a few regions, whose answers take some milliseconds."""


@cache
def saved(kind: str) -> dict[str, Any]:
    """Solve a small question of a kind, as ``-o`` saves it."""
    if kind == "one":
        return placer.recommend("roberta-xlm", budget="5/h", **SMALL).to_saved()
    if kind == "several":
        return placer.recommend("roberta-xlm", budget="8/h", regions=2, **SMALL).to_saved()
    if kind == "nothing":
        return placer.recommend("roberta-xlm", budget="0.01/h", **SMALL).to_saved()
    assert kind == "islands"
    wishes: dict[str, Any] = {"budget": "120/h", "points": 3, "time_limit": "20s"}
    return placer.pareto("llama-3.1-8b", **wishes).to_saved()


FOUR = ("one", "several", "islands", "nothing")
"""One region, several regions, a frontier of islands, no answer."""
