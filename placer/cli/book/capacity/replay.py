"""``placer capacity replay``: policies over a trace, and what each pays to finish in time."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.command import Json, Saved, as_command
from placer.cli.output import check_targets, write_json
from placer.cli.screen.show import show
from placer.interface.replay import replay

EPILOG = """\b
Examples:
  placer capacity replay trace.csv --machines 16 --work 24h --slack 25% --gpu H100
  placer capacity replay trace.csv --machines 16 --work 24h --deadline 30h --prices prices.csv
  placer capacity replay trace.csv --machines 8 --work 2d --slack 10% --gpu V100 --policy span

\b
TRACE is a log of launches as in 'placer capacity forecast': a column utc and one for each zone.
Every policy begins at many times of the trace and ends with on-demand machines where the slack
would not cover one more restart: none misses a deadline. It is assumed that
on-demand machines are always available.
"""


@as_command("replay", EPILOG, of=replay)
def command(trace: str, *, output: Saved, as_json: Json, **words: Any) -> None:
    """Run policies over a TRACE of capacity: what each pays to finish by the deadline."""
    from placer.interface.replay import replay

    check_targets(output)
    document = replay(trace, **words).to_dict()
    if output is not None:
        write_json(output, document)
        click.echo(f"wrote the replay to {output}", err=True)
    show(document, as_json=as_json)
