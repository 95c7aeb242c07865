"""From a document to what is said of it: the one view of each kind of answer."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from datetime import date
from typing import Any

from placer.errors import PlacerError
from placer.report.blocks import Chart, Report

KINDS = {
    "placer.result/v1": "result",
    "placer.pareto/v1": "pareto",
    "placer.estimate/v1": "by_hand:estimate",
    "placer.replan/v1": "trials.replan",
    "placer.run/v1": "trials.run:run",
    "placer.explanation/v1": "explanation",
    "placer.comparison/v1": "by_hand:comparison",
    "placer.sweep/v1": "worlds:sweep",
    "placer.robust/v1": "robust",
    "placer.whatif/v1": "worlds:whatif",
    "placer.diff/v1": "changes:difference",
    "placer.bill/v1": "changes:bill",
    "placer.portfolio/v1": "portfolio",
    "placer.rehearsal/v1": "trials.run:rehearsal",
    "placer.replay/v1": "trials.validation:replay",
    "placer.reproduction/v1": "trials.reproduction",
    "placer.simulation/v1": "trials.validation:simulation",
    "placer.calibration/v1": "trials.validation:calibration",
    "placer.offers/v1": "listed.book:offers",
    "placer.offer-groups/v1": "listed.book:offer_groups",
    "placer.catalogs/v1": "listed.book:catalogs",
    "placer.coverage/v1": "listed.book:coverage",
    "placer.catalog-diff/v1": "listed.book:differences",
    "placer.network/v1": "listed.network:links",
    "placer.network-check/v1": "listed.network:check",
    "placer.models/v1": "listed.models:listed",
    "placer.profile/v1": "listed.models:shown",
    "placer.capacity/v1": "listed.network:capacity",
    "placer.capacity-forecast/v1": "listed.network:forecast",
    "placer.import-blocks/v1": "listed.network:blocks",
}
"""View of each document that can be shown: a module of `placer.report.kinds`, and its function if
that is not ``report``.
"""
BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError)
"""What a document that was edited by hand may raise."""


def contents(document: Any, name: str = "the document", today: date | None = None) -> Report:
    """Build what a page shows of a document, by its kind.

    ``document``: plain types, as JSON has them. ``name``: of the file, for errors. ``today``: from
    when ages are counted; None: today. Raise `PlacerError` if there is no report of such documents,
    or a part is missing.
    """
    schema = document.get("schema") if isinstance(document, Mapping) else None
    kind = KINDS.get(str(schema))
    if kind is None:
        known = ", ".join(sorted(word.removeprefix("placer.").partition("/")[0] for word in KINDS))
        what = "no document of placer" if schema is None else f"a {str(schema)[:60]} document"
        raise PlacerError(f"{name}: {what}, of which there is no report", f"known: {known}")
    module, _, name_of_view = kind.partition(":")
    view = getattr(
        importlib.import_module(f"placer.report.kinds.{module}"), name_of_view or "report"
    )
    try:
        made: Report = view(document, today or date.today())
    except BROKEN as error:
        raise PlacerError(
            f"{name}: not a whole {schema} document ({type(error).__name__}: {str(error)[:80]})",
            "the file was edited, or made by another version",
        ) from error
    return made


def plotted(document: Any, ending: str) -> bytes | None:
    """Draw the first chart of a document's report as the contents of a file, ``svg``, ``png`` or
    ``pdf``; None where the document has nothing to draw, such as a frontier without points.
    """
    from placer.report.charts.drawing import drawn

    blocks = (block for part in contents(document).sections for block in part.blocks)
    chart = next((block for block in blocks if isinstance(block, Chart)), None)
    return None if chart is None else drawn(chart.draw(), ending)
