"""What commands call with their answer: it is drawn in the format that was asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from placer.cli.screen.formats import keep_answer

if TYPE_CHECKING:
    from placer.report.blocks import Block, Report


def show(document: Any, *, as_json: bool = False, whole: bool = False) -> None:
    """Print an answer as JSON, or what its view says of it, in the format of ``--format``.

    ``document``: the JSON document of the answer. ``as_json``: print it as it is. ``whole``: also
    what is left to pages otherwise.
    """
    from placer.cli.output import print_json

    if as_json:
        print_json(document)
        return
    from placer.report.contents import contents

    show_report(contents(document), whole=whole)


def show_report(report: Report, *, whole: bool = False) -> None:
    """Print an answer on stdout, its warnings and hints on stderr."""
    from placer.report.blocks import asides, in_text

    if not keep_answer(report, whole=whole):
        _print(in_text(report, whole=whole))
    _print_asides(asides(report, whole=whole))


def show_blocks(*blocks: Block | None) -> None:
    """Print some blocks, as `show_report` does."""
    from placer.report.blocks import Report, section

    show_report(Report(title="", subtitle="", verdict="", sections=section("", *blocks)))


def _print(report: Report) -> None:
    from rich.text import Text

    from placer.cli.output import console
    from placer.report.draw.terminal import report_lines

    out = console()
    for line in report_lines(report, out.width):
        out.print(Text.assemble(*line), no_wrap=True, overflow="ignore", crop=False)


def _print_asides(rows: list[tuple[str, str]]) -> None:
    from placer.cli.output import console

    if not rows:
        return
    sys.stdout.flush()
    err = console(stderr=True)
    for tone, words in rows:
        warning = tone == "warning"
        style = "yellow" if warning else "dim"
        err.print(f"warning: {_uncapped(words)}" if warning else words, style=style)


def _uncapped(sentence: str) -> str:
    """Write a sentence as what follows a colon; names such as ``T4`` stay."""
    words = sentence.removesuffix(".")
    small = words[1:2].islower() or words[1:2] == " "
    return words[:1].lower() + words[1:] if small else words
