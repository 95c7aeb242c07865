"""``placer estimate``: a placement given by hand."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import json_option, request_options
from placer.cli.output import console, print_json

EXAMPLE = """\b
Example:
  placer estimate --model roberta-xlm --catalog erben-2023 --exchange all-reduce \\
    --workers gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot
"""


@click.command("estimate", epilog=EXAMPLE)
@click.option("--workers", required=True, metavar="GROUPS", help="place=COUNTxGPU[:GPUS][:spot|on-demand], comma between groups.")
@request_options
@json_option
@click.pass_context
def command(ctx: click.Context, /, model: str, workers: str, catalog: str, as_json: bool, **words: Any) -> None:
    """Time and price a placement given by hand; nothing is searched, limits are reported."""
    from placer.advisor import Advisor, place_by_hand
    from placer.estimator import estimate
    from placer.report import document, terminal
    from placer.violations import violations

    problem = Advisor(catalog).problem(model, **words)
    placement = place_by_hand(workers, problem)
    broken = violations(placement, problem)
    got = estimate(placement, problem)
    if as_json:
        print_json(
            {
                "schema": document.ESTIMATE_SCHEMA,
                "request": document.request_document(problem),
                "data": document.data_document(problem),
                "placement": document.placement_document(placement, problem),
                "estimate": document.estimate_document(got),
                "violations": [{"code": v.code, "message": v.message} for v in broken],
            }
        )
    else:
        out = console()
        out.print(f"{terminal.headline(placement)}", style="bold")
        out.print(terminal.estimate_lines(placement, got, problem))
    for violation in broken:
        click.echo(f"error: {violation.message}", err=True)
    ctx.exit(2 if broken else 0)
