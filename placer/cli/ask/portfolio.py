"""``placer portfolio``: many jobs that share quotas, budgets and reservations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from placer.cli.command import Json, Saved, as_command
from placer.cli.output import check_targets, tell, write_json
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


@as_command("portfolio", EXAMPLE, cls=GroupedCommand)
def command(
    ctx: click.Context,
    file: str,
    *,
    catalog: tuple[str, ...] = (),
    budget: str | None = None,
    objective: str | None = None,
    fair: bool | None = None,
    gap: str = "1%",
    time_limit: str = "60s",
    memory_limit: str | None = None,
    output: Saved,
    manifests: str | None = None,
    as_json: Json,
) -> None:
    """Choose where many jobs run, and when, under quotas, budgets and reservations that they share.

    JOBS.TOML has a [[job]] for each job, with the options of 'placer recommend'; docs/manual says
    what else it may have.

    file (JOBS.TOML):
    catalog (NAME|DIR|CSV): Price book, in place of the one that the file names.
    budget (USD[/h]): Budget of all jobs, in place of the one in the file.
    objective ({cost, throughput, time}): Least cost, or for a budget the most weighted samples/s or
        the least weighted hours, in place of the one in the file.
    fair (--fair/--no-fair): First make the smallest share of any job as large as possible: its
        speed over the speed that it would have with the budget and the quotas to itself.
    gap (SHARE): Relative gap to reach.
    time_limit (TIME): Stop after this long with the best so far and its bound.
    memory_limit (SIZE): As in 'placer recommend'.
    manifests (FOLDER): Write the launch manifest of each job here.
    """
    from placer.interface.question_file import portfolio_from_file

    check_targets(output)
    if manifests is not None and os.path.exists(manifests) and not os.path.isdir(manifests):  # noqa: PTH110, PTH112
        raise PlacerError(f"'{manifests}' is not a folder", "name a folder for the manifests")
    with progress("choosing"):
        answer = portfolio_from_file(
            file,
            catalog=catalog,
            budget=budget,
            objective=objective,
            fair=fair,
            gap=gap,
            time_limit=time_limit,
            memory_limit=memory_limit,
        )
    if output:
        write_json(output, answer.to_saved())
    written = _write_manifests(answer, manifests) if manifests else 0
    show(answer.to_dict(), as_json=as_json)
    if not as_json:
        if output:
            tell(f"wrote portfolio to {output}")
        if manifests:
            tell(f"wrote {written} manifests to {manifests}")
    ctx.exit(_code(answer))


def _code(answer: Any) -> int:
    """Return 3 where some jobs do not fit, 4 where time ended before that is known."""
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
