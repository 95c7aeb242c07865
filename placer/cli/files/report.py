"""``placer report``: a page of what was saved, for people."""

from __future__ import annotations

from pathlib import Path

import click

from placer.cli.output import check_targets, read_json, write_bytes
from placer.errors import PlacerError

EXAMPLE = """\b
Examples:
  placer recommend --model roberta-xlm --budget 5/h -o result.json
  placer report result.json
  placer report result.json frontier.json -o report.html --interactive
  placer report result.json --pdf report.pdf
"""


@click.command("report", epilog=EXAMPLE)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o", "--output", metavar="FILE", help="Where the page goes; default: FILE with .html."
)
@click.option(
    "--interactive", is_flag=True, help="Charts with tooltips: about 1 MB, and still one file."
)
@click.option(
    "--pdf", metavar="FILE", help="Also print it as PDF, by Chromium or another such browser."
)
def command(files: tuple[str, ...], output: str | None, interactive: bool, pdf: str | None) -> None:
    """Write a report of saved documents: one HTML file that opens offline and loads nothing.

    FILE is what -o or --json wrote: a result, frontier, sweep, comparison, explanation, portfolio,
    rehearsal, replay or difference. Several files make one report.
    """
    from placer.report.page import page
    from placer.report.pdf import find_browser, pdf_of

    target = output or (None if pdf else str(Path(files[0]).with_suffix(".html")))
    check_targets(target, pdf)
    for path in (target, pdf):
        if path is not None and path in files:
            raise PlacerError(f"'{path}' is the document itself", "give the page another name")
    if pdf:
        find_browser()
    documents = {path: read_json(path) for path in files}
    text = page({Path(path).name: documents[path] for path in files}, interactive=interactive)
    if target:
        write_bytes(target, text.encode())
        click.echo(f"wrote {target} ({len(text.encode()) / 1e3:,.0f} kB, loads nothing)", err=True)
    if pdf:
        write_bytes(pdf, pdf_of(text))
        click.echo(f"wrote {pdf}", err=True)
