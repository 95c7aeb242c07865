"""What commands call with their answer: it is drawn in the format that was asked for, and its chart
as the file of ``--plot``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from placer.cli.output import check_targets, print_json, screen_width, styled, tell, write_bytes
from placer.cli.screen.formats import keep_answer

if TYPE_CHECKING:
    from placer.report.blocks import Block, Report


def show(document: Any, *, as_json: bool = False, whole: bool = False, **more: Any) -> None:
    """Print an answer as JSON, or what its view says of it, in the format of ``--format``.

    ``document``: the JSON document of the answer. ``as_json``: print it as it is. ``whole``: also
    what is left to pages otherwise. ``more``: what its view says besides the document.
    """
    if as_json:
        print_json(document)
        return
    from placer.report.contents import contents

    show_report(contents({**document, **more}), whole=whole)


def show_report(report: Report, *, whole: bool = False) -> None:
    """Print an answer on stdout, its warnings and hints on stderr."""
    from placer.report.blocks import asides, in_text
    from placer.report.draw.terminal import report_lines

    out = sys.stdout
    if not keep_answer(report, whole=whole):
        for line in report_lines(in_text(report, whole=whole), screen_width(out)):
            click.echo("".join(styled(text, style, out) for text, style in line).rstrip())
    out.flush()
    for tone, words in asides(report, whole=whole):
        if tone == "warning":
            tell(f"warning: {_uncapped(words)}", "yellow")
        else:
            tell(words, "dim")


def show_blocks(*blocks: Block | None) -> None:
    """Print some blocks, as `show_report` does."""
    from placer.report.blocks import Report, section

    show_report(Report(title="", subtitle="", sections=section("", *blocks)))


def _uncapped(sentence: str) -> str:
    """Write a sentence as what follows a colon; names such as ``T4`` stay."""
    words = sentence.removesuffix(".")
    small = words[1:2].islower() or words[1:2] == " "
    return words[:1].lower() + words[1:] if small else words


def check_plot(path: str | None) -> None:
    """Refuse a drawing that could not be made or written, before anything is computed; None is
    fine.
    """
    if path is not None:
        from placer.report.charts.drawing import check_drawing

        check_targets(path)
        check_drawing(path)


def write_plot(path: str | None, document: Any) -> None:
    """Draw a document to a file and say so on stderr, or that there is nothing to draw."""
    if path is None:
        return
    from placer.report.charts.drawing import check_drawing
    from placer.report.contents import plotted

    drawing = plotted(document, check_drawing(path))
    if drawing is None:
        click.echo(f"nothing to draw: {path} was not written", err=True)
        return
    write_bytes(path, drawing)
    click.echo(f"wrote {path}", err=True)
