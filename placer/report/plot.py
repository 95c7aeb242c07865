"""The chart of a document as a file of its own."""

from __future__ import annotations

from typing import Any

from placer.report.blocks import Chart
from placer.report.charts.drawing import drawn
from placer.report.contents import contents


def plotted(document: Any, ending: str) -> bytes | None:
    """Draw the first chart of a document's report.

    ``document``: as for `placer.report.contents.contents`. ``ending``: ``svg``, ``png`` or ``pdf``.
    Return bytes or None: contents of the file; None where the document has nothing to draw, such as
    a frontier without points.
    """
    blocks = (block for part in contents(document).sections for block in part.blocks)
    chart = next((block for block in blocks if isinstance(block, Chart)), None)
    return None if chart is None else drawn(chart.draw(), ending)
