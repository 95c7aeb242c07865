"""``placer whatif PLAN --observed LOG``: the question of a plan with what its run measured, and
whether to move.
"""

from __future__ import annotations

from typing import Any

import click

from placer.cli.command import Table, as_command
from placer.cli.output import check_targets, exit_code, write_json
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.errors import PlacerError
from placer.interface.worlds import replan

EPILOG = """\b
Examples:
  placer whatif plan.json --observed plan-run/run.jsonl
  placer whatif plan.json --observed run.jsonl -m new.json \\
    --set 'price:gcp/us-central1:T4:spot=+60%'
  placer whatif plan.json --observed run.jsonl --drop gcp/us-central1:T4:spot

\b
The log of a run in the places of the plan tells the speed of the machines and, with several
regions, of the links between them. Any log tells which workers were lost; they may be rented again
unless --drop says otherwise. Machines in use stay unless a plan without them is better by more
than 2 %.
"""


@as_command("replan", EPILOG, of=replan)
def command(
    ctx: click.Context, manifest: str, *, target: str | None = None, as_json: Table, **words: Any
) -> None:
    """Solve the question of MANIFEST again with what its run measured: keep what runs, or move.

    Parameters
    ----------
    target : FILE, -m --manifest
        Write the manifest of the answer.
    """
    check_targets(target)
    with progress("searching twice") as heard:
        replanned = replan(manifest, on_better=heard.better, on_bound=heard.bound, **words)
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
    ctx.exit(exit_code(replanned.answer) if replanned.verdict == "nothing" else 0)
