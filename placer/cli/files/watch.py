"""``placer watch``: tell when prices change an answer."""

from __future__ import annotations

import time
from typing import Any

import click

from placer.cli.command import Catalog, Table, as_command
from placer.cli.files.report import REFUSED
from placer.cli.output import check_targets, say, tell, write_json
from placer.cli.screen.show import show
from placer.documents.json_file import read_json
from placer.errors import PlacerError
from placer.interface.saved import diff

EXAMPLE = """\b
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


@as_command("watch", EXAMPLE, cls=click.Command)
def command(
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
