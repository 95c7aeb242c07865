"""``placer capacity watch``: follow what zones launch, and say what to hold."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from placer.cli.command import Json, as_command
from placer.interface.watch import watch

EPILOG = """\b
Examples:
  placer capacity watch plan.json launches.csv --work 24h --deadline 30h
  tail -f launches.csv | placer capacity watch plan.json - --work 24h --slack 25%

\b
FEED is a log of launches that is read as it is written: a file, a folder of files, or - for the
output of a command. Spot machines are held in up to four zones as by 'placer capacity replay
--policy span', and each action is printed with what it costs. Nothing is rented: it says what to
do.
"""


@as_command("watch", EPILOG, of=watch)
def command(manifest: str, feed: str, *, as_json: Json, **words: Any) -> None:
    """Follow what zones launch for the plan of MANIFEST, and say which machines to hold."""
    from placer.cli.report.watch import change_line, closing_line

    last = None
    for last in watch(manifest, feed, **words):
        line = json.dumps(last.to_dict(), allow_nan=False) if as_json else change_line(last)
        click.echo(line)
        sys.stdout.flush()
    click.echo(closing_line(last), err=True)
