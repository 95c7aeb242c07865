"""``placer compare``: placements side by side."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import json_option, request_options
from placer.cli.output import console, print_json

EXAMPLE = """\b
Example:
  placer compare --model roberta-xlm --catalog erben-2023 --every-exchange \\
    gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot
  placer compare --model roberta-xlm --catalog erben-2023 lambda/us-west-1=8xA10 \\
    gcp/us-central1=8xT4:spot gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot
"""


@click.command("compare", epilog=EXAMPLE)
@click.argument("placements", nargs=-1, required=True, metavar="GROUPS...")
@request_options
@json_option
@click.option(
    "--every-exchange", "every", is_flag=True, help="One row for each exchange that can run."
)
def command(
    placements: tuple[str, ...],
    model: str,
    catalog: tuple[str, ...],
    as_json: bool,
    every: bool,
    **words: Any,
) -> None:
    """Put placements given by hand side by side; GROUPS are written as in 'placer estimate
    --workers'.
    """
    from placer.advice.recommendation.notes import warnings_of
    from placer.cli.report.recommend import terminal
    from placer.interface.advisor import Advisor
    from placer.interface.by_hand import check_every, comparison_document, side_by_side

    check_every(words["exchange"], every=every)
    problem = Advisor(catalog).problem(model, **words)
    options = side_by_side(problem, placements, every=every)
    if as_json:
        print_json(comparison_document(problem, options))
        return
    out = console()
    out.print(terminal.context(problem))
    out.print(terminal.comparison(options, problem, out.width))
    warnings = {
        w.message: w for o in options for w in warnings_of(problem, o.placement, o.estimate)
    }
    for line in terminal.warning_lines(warnings.values()):
        console(stderr=True).print(line, style="yellow")
