"""``placer replan``: lay what a run measured over the question of its plan, solve it again, and say
whether to move; or watch a feed of launches, and say what to hold.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from placer.cli.book.capacity.replay import job_options, price_options
from placer.cli.options import catalog_option, solve_options, table_option
from placer.cli.output import check_targets, write_json
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.errors import PlacerError

EPILOG = """\b
Examples:
  placer replan plan.json --observed plan-run/run.jsonl
  placer replan plan.json --observed run.jsonl -m new.json \\
    --set 'price:gcp/us-central1:T4:spot=+60%'
  placer replan plan.json --observed run.jsonl --drop gcp/us-central1:T4:spot
  placer replan plan.json --watch launches.csv --work 24h --deadline 30h

\b
The log of a run in the places of the plan tells the speed of the machines and, with several
regions, of the links between them. Any log tells which workers were lost; they may be rented again
unless --drop says otherwise. Machines in use stay unless a plan without them is better by more
than 2 %.

\b
--watch reads a log of launches as it is written: a file, a folder of files, or - for the output of
a command. It holds spot machines in up to four zones as 'placer capacity replay --policy
span' does, and prints what each action costs. Nothing is rented: it says what to do.
"""


@click.command("replan", cls=GroupedCommand, epilog=EPILOG)
@click.argument("manifest")
@click.option(
    "--observed",
    multiple=True,
    metavar="FILE",
    help="Log of its run: run.jsonl of 'placer run'. Repeat it for the logs of all machines of "
    "a run that stopped.",
)
@click.option(
    "--watch",
    "feed",
    metavar="FEED",
    help="Log of launches that grows: a file, a folder of files, or - for standard input.",
)
@click.option("--gpu", metavar="GPU[:COUNT]", help="Watch: device; default: the plan's.")
@click.option(
    "--machines", type=click.IntRange(1), help="Watch: how many of them; default: the plan's."
)
@click.option("--work", metavar="TIME", help="Watch: time that all machines of the plan need.")
@click.option("--deadline", metavar="TIME", help="Watch: from the first line to the deadline.")
@click.option("--slack", metavar="SHARE", help="Watch: the same as a share beyond the work.")
@click.option("--done", metavar="TIME", help="Watch: work that is done already.")
@click.option(
    "--held",
    multiple=True,
    metavar="ZONE=N",
    help="Watch: spot machines that run already. Repeatable.",
)
@click.option(
    "--tick",
    default="10min",
    show_default=True,
    metavar="TIME",
    help="Watch: time between lines, until some have come.",
)
@click.option("--idle", metavar="TIME", help="Watch: end after so long without a new line.")
@price_options
@job_options
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="WHAT=CHANGE",
    help="What else has changed, as in 'placer whatif'.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="PLACE[:GPU[:MARKET]]",
    help="Offers that are gone, as in 'placer whatif'.",
)
@click.option(
    "--move",
    "move",
    default="10min",
    show_default=True,
    metavar="TIME",
    help="How long a move stops the training.",
)
@click.option(
    "-m", "--manifest", "target", metavar="FILE", help="Write the manifest of the answer."
)
@catalog_option
@solve_options(limit_help="Stop each of the two searches after this long.")
@table_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    manifest: str,
    observed: tuple[str, ...],
    feed: str | None,
    target: str | None,
    catalog: tuple[str, ...],
    as_json: bool,
    **words: Any,
) -> None:
    """Solve the question of MANIFEST again with what its run measured: keep what runs, or move.

    With --watch: follow what zones launch, and say which machines to hold.
    """
    given = {
        name
        for name in words
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    watching = {name: words.pop(name) for name in WATCHING}
    other = sorted(given - WATCHING if feed is not None else given & WATCHING)
    if (feed is None) == (not observed):
        raise PlacerError(
            "neither --observed nor --watch is given"
            if feed is None
            else "--observed and --watch are both given",
            "give --observed run.jsonl for a run, or --watch FEED for a log of launches",
        )
    if other or (feed is not None and target is not None):
        name = _option(ctx, other[0] if other else "target")
        raise PlacerError(
            f"{name} {'with' if feed is not None else 'without'} --watch",
            f"leave {name} out: see placer replan --help",
        )
    if feed is not None:
        _watch(manifest, feed, catalog, as_json, watching)
    else:
        _replan(ctx, manifest, observed, target, catalog, as_json, words)


WATCHING = frozenset({
    "gpu", "machines", "work", "deadline", "slack", "done", "held", "tick", "idle", "prices",
    "on_demand", "egress", "restart", "reform", "efficiency", "checkpoint", "exchange",
})  # fmt: skip
"""Options that go with --watch; all others go with --observed."""


def _option(ctx: click.Context, name: str) -> str:
    return next(p.opts[-1] for p in ctx.command.params if p.name == name)


def _watch(
    manifest: str, feed: str, catalog: tuple[str, ...], as_json: bool, words: dict[str, Any]
) -> None:
    """Print a line for each tick that changes something, as it happens."""
    import json

    from placer.cli.report.watch import change_line, closing_line
    from placer.interface.watch import watch

    last = None
    for last in watch(manifest, feed, catalog=catalog, **words):
        line = json.dumps(last.to_dict(), allow_nan=False) if as_json else change_line(last)
        click.echo(line)
        sys.stdout.flush()
    click.echo(closing_line(last), err=True)


def _replan(
    ctx: click.Context,
    manifest: str,
    observed: tuple[str, ...],
    target: str | None,
    catalog: tuple[str, ...],
    as_json: bool,
    words: dict[str, Any],
) -> None:
    from placer.interface.worlds import replan
    from placer.units import parse_seconds

    check_targets(target)
    move_s = parse_seconds(words.pop("move"))
    with progress("searching twice") as heard:
        replanned = replan(
            manifest,
            observed,
            set=words.pop("sets"),
            catalog=catalog,
            move_s=move_s,
            on_better=heard.better,
            on_bound=heard.bound,
            **words,
        )
    if target is not None:
        if replanned.answer.placement is None:
            raise PlacerError(
                "nothing fits, so there is no manifest",
                "leave out -m, or relax a limit",
                exit_code=3,
            )
        write_json(target, replanned.answer.to_manifest())
    show(replanned.to_dict(), as_json=as_json)
    if target is not None and not as_json:
        click.echo(f"wrote the manifest to {target}", err=True)
    if replanned.verdict == "nothing":
        ctx.exit({"infeasible": 3}.get(str(replanned.answer.status), 4))
