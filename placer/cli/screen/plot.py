"""The option ``--plot``: the chart of an answer as a file."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.output import check_targets, write_bytes


def check_plot(path: str | None) -> None:
    """Refuse a drawing that could not be made or written, before anything is computed; None is
    fine.
    """
    if path is not None:
        from placer.report.charts.drawing import check_drawing

        check_targets(path)
        check_drawing(path)


def write_plot(path: str | None, document: Any) -> bool:
    """Draw a document to a file and say so on stderr; tell whether there was anything to draw."""
    if path is None:
        return False
    from placer.report.charts.drawing import check_drawing
    from placer.report.plot import plotted

    drawing = plotted(document, check_drawing(path))
    if drawing is None:
        click.echo(f"nothing to draw: {path} was not written", err=True)
        return False
    write_bytes(path, drawing)
    click.echo(f"wrote {path}", err=True)
    return True
