"""``placer portfolio``: many jobs that share quotas, budgets and reservations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from placer.cli.options import json_option, memory_option, output_option
from placer.cli.output import check_targets, console, write_json
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.errors import PlacerError

EXAMPLE = """\b
Examples:
  placer portfolio examples/jobs.toml
  placer portfolio examples/jobs.toml --objective throughput --fair
  placer portfolio jobs.toml --time-limit 5min -o portfolio.json --manifests plans
"""


@click.command("portfolio", cls=GroupedCommand, epilog=EXAMPLE)
@click.argument("file", metavar="JOBS.TOML")
@click.option(
    "--catalog",
    multiple=True,
    metavar="NAME|DIR|CSV",
    help="Price book, in place of the one that the file names.",
)
@click.option(
    "--budget", metavar="USD[/h]", help="Budget of all jobs, in place of the one in the file."
)
@click.option(
    "--objective",
    type=click.Choice(["cost", "throughput", "time"]),
    help="Least cost, or for a budget the most weighted samples/s or the least weighted hours, in "
    "place of the one in the file.",
)
@click.option(
    "--fair/--no-fair",
    default=None,
    help="First make the smallest share of any job as large as possible: its speed over the speed "
    "that it would have with the budget and the quotas to itself.",
)
@click.option(
    "--gap", default="1%", show_default=True, metavar="SHARE", help="Relative gap to reach."
)
@click.option(
    "--time-limit",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Stop after this long with the best so far and its bound.",
)
@memory_option
@output_option("the portfolio")
@click.option("--manifests", metavar="FOLDER", help="Write the launch manifest of each job here.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str,
    output: str | None,
    manifests: str | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Choose where many jobs run, and when, under quotas, budgets and reservations that they share.

    JOBS.TOML has a [[job]] for each job, with the options of 'placer recommend'; docs/manual says
    what else it may have.
    """
    from placer.interface.job_file import portfolio_from_file

    check_targets(output)
    if manifests is not None and os.path.exists(manifests) and not os.path.isdir(manifests):  # noqa: PTH110, PTH112
        raise PlacerError(f"'{manifests}' is not a folder", "name a folder for the manifests")
    with progress("choosing"):
        answer = portfolio_from_file(file, **words)
    if output:
        write_json(output, answer.to_saved())
    written = _write_manifests(answer, manifests) if manifests else 0
    show(answer.to_dict(), as_json=as_json)
    if not as_json:
        err = console(stderr=True)
        if output:
            err.print(f"wrote portfolio to {output}")
        if manifests:
            err.print(f"wrote {written} manifests to {manifests}")
    ctx.exit(_code(answer))


def _code(answer: Any) -> int:
    """Return 0 where all jobs run, 3 where some do not fit, 4 where time ended before that is
    known.
    """
    if not answer.left_out:
        return 0
    return 4 if answer.stopped and not answer.left_out_proved else 3


def _write_manifests(answer: Any, folder: str) -> int:
    """Write the manifest of each job that runs; return how many."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    running = [placed for placed in answer.jobs if placed.result is not None]
    for placed in running:
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in placed.name)
        write_json(str(Path(folder) / f"{name}.json"), placed.result.to_manifest())
    return len(running)
