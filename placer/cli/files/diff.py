"""``placer report --diff``: what changes from one saved result to another."""

from __future__ import annotations

from pathlib import Path

import click

from placer.cli.command import Table, as_command
from placer.cli.output import read_json
from placer.cli.screen.show import show

EXAMPLE = """\b
Examples:
  placer report --diff main.json branch.json
  placer report --diff main.json branch.json --format md -o comment.md
  placer report --diff main.json branch.json --fail-on 'cost>10%' --fail-on 'speed<-5%'
  placer report --diff main.json branch.json --fail-on 'total>5%' --fail-on 'hours>12'
  placer report --diff main.json branch.json --json > diff.json && placer report diff.json
"""
REFUSED = 6
"""Exit code where a change is not accepted."""
HEADERS = ("", "what", "before", "after", "change")


@as_command("diff", EXAMPLE)
def command(
    ctx: click.Context, before: str, after: str, *, fail_on: tuple[str, ...] = (), as_json: Table
) -> None:
    """Show what changes from BEFORE to AFTER, two results of placer recommend -o: machines, cost a
    month, speed, emissions, wishes.

    Parameters
    ----------
    fail_on : CONDITION
        End with exit code 6 where a figure changes by more: cost>10%, speed<-5%, total>20.
        Figures: cost, machines, egress (USD/h); total (USD), hours of the whole run; speed
        (samples/s), price (USD per million samples), step (s), carbon (g/h).
    """
    from placer.documents.many.difference import difference_document, parse_condition

    conditions = [parse_condition(text) for text in fail_on]
    names = (Path(before).name, Path(after).name)
    document = difference_document(read_json(before), read_json(after), names, conditions)
    show(document, as_json=as_json)
    ctx.exit(REFUSED if document["failed"] else 0)
