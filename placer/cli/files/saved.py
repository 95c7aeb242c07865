"""Commands on saved documents: a page of them, what changes between two, a bill beside one, and a
question that is asked again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from placer.cli.command import Catalog, Table, as_command
from placer.cli.output import check_targets, say, tell, write_bytes, write_json
from placer.cli.screen.show import show
from placer.documents.json_file import read_json
from placer.errors import PlacerError
from placer.files.bounded_file import MOST_LINES_BYTES, read_file
from placer.files.json_text import parse_json
from placer.interface.saved import bill, diff

REPORT = """\b
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


@as_command("report", REPORT)
def report_command(
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


BILL = """\b
Examples:
  placer bill result.json focus.csv
  placer bill result.json focus.csv --period 2026-10-03/2026-10-05 --tag run=4711
  placer bill result.json focus.csv --hours 36 --cost effective --json
"""


@as_command("bill", BILL, of=bill)
def bill_command(result: str, charges: str, *, as_json: Table, **words: Any) -> None:
    """Compare what an answer predicted with what a bill charges, by component.

    RESULT is what 'placer recommend -o' or 'placer estimate --json' wrote, BILL an export in the
    FinOps format FOCUS, which AWS, Azure, Google Cloud and others write. Charges are matched by
    place, type and market of machines, and by what they are for; what matches nothing is listed, as
    is what of the plan has no charge. Taxes, credits and purchases stand apart.

    result (RESULT):
    charges (BILL):
    """
    billed = bill(read_json(result), charges, name=Path(result).name, **words)
    show(billed.to_dict(), as_json=as_json)


WATCH = """\b
Examples:
  placer watch result.json --when 'cost<-10%' --to alerts.jsonl
  placer catalog refresh aws && placer watch result.json --to https://hooks.example.org/placer
  placer watch result.json --every 6h --to 'smtp://localhost/team@example.org'

\b
A webhook gets the document of 'placer report --diff --json'. X-Placer-Signature is the HMAC-SHA256
of X-Placer-Timestamp, a dot and the body, with the secret of PLACER_WEBHOOK_SECRET or of the file
that PLACER_WEBHOOK_SECRET_FILE names. smtp://USER@HOST:587/... takes its password from
PLACER_SMTP_PASSWORD likewise. A delivery is tried three times. Exit code 6: a change was told.
"""
COLUMNS = 78
"""Width of a mail."""


@as_command("watch", WATCH, cls=click.Command)
def watch_command(
    ctx: click.Context,
    result: str,
    *,
    when: tuple[str, ...] = (),
    to: tuple[str, ...] = (),
    every: str | None = None,
    save: str | None = None,
    time_limit: str = "30s",
    catalog: Catalog,
    as_json: Table,
) -> None:
    """Ask the question of a saved result again on the present books, and tell what changes.

    result (RESULT):
    when (CONDITION): Tell only where a figure changes by more, as with 'placer report --diff
        --fail-on': cost<-10%, speed>5%. Default: any change of the machines or their price.
    to (TARGET): Where to tell it: https://..., smtp://HOST/TO, or a file that grows by a line.
    every (TIME): Go on, and ask again after so long; a change is told once. Default: ask once.
    save (FILE): Save the new result, from which the next watch counts.
    time_limit (TIME): Stop each search after this long with the best so far.
    """
    from placer.documents.difference import parse_condition
    from placer.documents.present_book import reopened_problem
    from placer.interface.advisor import recommend
    from placer.service.notices import sender
    from placer.units import parse_seconds

    for text in when:
        parse_condition(text)
    check_targets(save)
    senders = [sender(target) for target in to]
    pause_s = None if every is None else parse_seconds(every)
    before = read_json(result)
    while True:
        problem, notes = reopened_problem(before, result, catalog)
        after = recommend(problem, time_limit=time_limit).to_saved()
        changes = diff(before, after, fail_on=when, names=(result, "now"))
        news = bool(changes.failed) if when else not changes.to_dict()["same_placement"]
        told = news and _told(senders, changes.to_dict(), once=pause_s is None)
        if news or as_json:
            show(changes.to_dict(), as_json=as_json)
        else:
            say("nothing changed that was asked for")
        for note in notes:
            tell(f"warning: {note}", "yellow")
        if told:
            before = after
            if save:
                write_json(save, after)
        if pause_s is None:
            ctx.exit(REFUSED if news else 0)
        time.sleep(pause_s)


def _told(senders: list[Any], document: dict[str, Any], *, once: bool) -> bool:
    """Tell a change to all; where one does not take it, it is told to all again next time."""
    from placer.report.blocks import in_text
    from placer.report.contents import contents
    from placer.report.draw.terminal import plain_text

    text, problem = plain_text(in_text(contents(document)), COLUMNS), None
    for send in senders:
        try:
            send(document, text)
        except PlacerError as error:
            problem = error
            tell(f"error: {error.message}")
    if problem is not None and once:
        raise problem
    return problem is None
