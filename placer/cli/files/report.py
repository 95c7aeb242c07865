"""``placer report``: a page of what was saved, and what changes between two results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from placer.cli.command import Table, as_command
from placer.cli.output import check_targets, write_bytes
from placer.cli.screen.show import show
from placer.documents.json_file import read_json
from placer.errors import PlacerError
from placer.files.bounded_file import MOST_LINES_BYTES, read_file
from placer.files.json_text import parse_json
from placer.interface.saved import diff

EXAMPLE = """\b
Examples:
  placer recommend --model roberta-xlm --budget 5/h -o result.json
  placer report result.json
  placer report result.json frontier.json -o report.html --interactive
  placer report result.json --pdf report.pdf
  placer report --diff main.json branch.json --fail-on 'cost>10%'
  placer report sweep.jsonl plan-run/run.jsonl -o both.html
"""
LINES = ".jsonl"
"""Ending of files of JSON lines."""


@as_command("report", EXAMPLE)
def command(
    files: tuple[str, ...],
    *,
    output: str | None = None,
    interactive: bool = False,
    pdf: str | None = None,
) -> None:
    """Write a report of saved documents: one HTML file that opens offline and loads nothing.

    FILE is what -o or --json wrote: a result, frontier, estimate, sweep, comparison, explanation,
    portfolio, rehearsal, replay, replan or difference; or run.jsonl of placer run. Several files
    make one report; --diff compares two results instead (see placer report --diff --help).

    files (FILE...):
    output (FILE, -o --output): Where the page goes; default: FILE with .html.
    interactive: Charts with tooltips: about 1 MB, and still one file.
    pdf (FILE): Also print it as PDF, by Chromium or another such browser.
    """
    from placer.report.page import find_browser, page, pdf_of

    target = output or (None if pdf else str(Path(files[0]).with_suffix(".html")))
    check_targets(target, pdf)
    for path in (target, pdf):
        if path is not None and path in files:
            raise PlacerError(f"'{path}' is the document itself", "give the page another name")
    if pdf:
        find_browser()
    documents = {path: read_document(path) for path in files}
    text = page({Path(path).name: documents[path] for path in files}, interactive=interactive)
    if target:
        write_bytes(target, text.encode())
        click.echo(f"wrote {target} ({len(text.encode()) / 1e3:,.0f} kB, loads nothing)", err=True)
    if pdf:
        write_bytes(pdf, pdf_of(text))
        click.echo(f"wrote {pdf}", err=True)


def read_document(path: str) -> Any:
    """Read a document; files of JSON lines, of a sweep or a run, become one.

    Raise a `PlacerError` that names the file and the line that are wrong.
    """
    if Path(path).suffix.lower() != LINES:
        return read_json(path)
    from placer.advice.sweep import POINTS_SCHEMA, Sweep, merged
    from placer.validation.calibration.run_log import SCHEMA as RUN
    from placer.validation.calibration.run_log import read_run

    schema = first_schema(path)
    if schema == POINTS_SCHEMA:
        header, rows = merged([path])
        return Sweep(header=header, rows=tuple(rows)).to_dict()
    if schema == RUN:
        head, *records = read_run(Path(path))
        return {**head, "records": records}
    raise PlacerError(
        f"{path}: neither the points of a sweep nor the log of a run",
        "give what 'placer whatif --over -o' or 'placer run' wrote",
    )


def first_schema(path: str) -> str | None:
    """Return the schema that the first line of a file names; None where it names none."""
    first = read_file(path, most_bytes=MOST_LINES_BYTES).partition(b"\n")[0]
    try:
        header = parse_json(first)
    except (ValueError, RecursionError):
        return None
    return str(header.get("schema")) if isinstance(header, dict) else None


DIFF = """\b
Examples:
  placer report --diff main.json branch.json
  placer report --diff main.json branch.json --format md -o comment.md
  placer report --diff main.json branch.json --fail-on 'cost>10%' --fail-on 'speed<-5%'
  placer report --diff main.json branch.json --fail-on 'total>5%' --fail-on 'hours>12'
  placer report --diff main.json branch.json --json > diff.json && placer report diff.json
"""
REFUSED = 6
"""Exit code where a change is not accepted."""


@as_command("diff", DIFF, of=diff)
def diff_command(
    ctx: click.Context, before: str, after: str, *, as_json: Table, **words: Any
) -> None:
    """Show what changes from BEFORE to AFTER, two results of placer recommend -o: machines, cost a
    month, speed, emissions, wishes. Where a condition of --fail-on holds the exit code is 6.
    """
    names = (Path(before).name, Path(after).name)
    changes = diff(read_json(before), read_json(after), names=names, **words)
    show(changes.to_dict(), as_json=as_json)
    ctx.exit(REFUSED if changes.failed else 0)
