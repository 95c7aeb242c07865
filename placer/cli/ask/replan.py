"""``placer replan``: lay what a run measured over the question of its plan, solve it again, and say
whether to move.
"""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import catalog_option, json_option, solve_options
from placer.cli.output import check_targets, console, print_json, progress, write_json
from placer.errors import PlacerError

EPILOG = """\b
Examples:
  placer replan plan.json --observed plan-run/run.jsonl
  placer replan plan.json --observed run.jsonl -m new.json \\
    --set 'price:gcp/us-central1:T4:spot=+60%'
  placer replan plan.json --observed run.jsonl --drop gcp/us-central1:T4:spot

\b
The log of a run in the places of the plan tells the speed of the machines and, with several
regions, of the links between them. Any log tells which workers were lost; they may be rented again
unless --drop says otherwise. Machines in use stay unless a plan without them is better by more
than 2 %.
"""


@click.command("replan", epilog=EPILOG)
@click.argument("manifest")
@click.option(
    "--observed",
    required=True,
    multiple=True,
    metavar="FILE",
    help="Log of its run: run.jsonl of 'placer run'. Repeat it for the logs of all machines of "
    "a run that stopped.",
)
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
    help="For so long a move stops the training.",
)
@click.option(
    "-m", "--manifest", "target", metavar="FILE", help="Write the manifest of the answer."
)
@catalog_option
@solve_options(limit_help="Stop each of the two searches after this long.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    manifest: str,
    observed: tuple[str, ...],
    sets: tuple[str, ...],
    drop: tuple[str, ...],
    move: str,
    target: str | None,
    catalog: tuple[str, ...],
    as_json: bool,
    **words: Any,
) -> None:
    """Solve the question of MANIFEST again with what its run measured: keep what runs, or move."""
    from placer.cli.report.replan import replan_view
    from placer.interface.worlds import replan
    from placer.units import parse_seconds

    check_targets(target)
    move_s = parse_seconds(move)
    with progress("searching twice") as better:
        replanned = replan(
            manifest,
            observed,
            set=sets,
            drop=drop,
            catalog=catalog,
            move_s=move_s,
            on_better=better,
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
    if as_json:
        print_json(replanned.to_dict())
    else:
        console().print(replan_view(replanned))
        if target is not None:
            click.echo(f"wrote the manifest to {target}", err=True)
    if replanned.verdict == "nothing":
        ctx.exit({"infeasible": 3}.get(str(replanned.answer.status), 4))
