"""Documents for tests of reports, each solved once."""

from functools import cache
from typing import Any

import placer
from placer.report.blocks import Chart, Report, Table

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


def tables(report: Report) -> dict[str, Table]:
    """Tables of a report by their caption, those of charts among them."""
    blocks = [block for part in report.sections for block in part.blocks]
    found = [block.table if isinstance(block, Chart) else block for block in blocks]
    return {table.caption: table for table in found if isinstance(table, Table)}
