"""``placer compare``: placements side by side."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.options import json_option, request_options
from placer.cli.output import console, print_json
from placer.errors import PlacerError

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
    from placer.cost_model.estimate import estimate
    from placer.cost_model.limits import violations
    from placer.documents import result_parts as parts
    from placer.documents.request import request_document
    from placer.interface.advisor import Advisor
    from placer.solving.by_hand import every_exchange, place_by_hand
    from placer.solving.result import Option

    if every and words["exchange"] != "auto":
        raise PlacerError(
            f"--exchange {words['exchange']} beside --every-exchange", "use one of them"
        )
    problem = Advisor(catalog).problem(model, **words)
    options = []
    for number, text in enumerate(placements, start=1):
        for placement, asked in (
            every_exchange(text, problem) if every else ((place_by_hand(text, problem), problem),)
        ):
            note = "; ".join(v.message for v in violations(placement, asked))
            options.append(
                Option(
                    placement=placement,
                    estimate=estimate(placement, problem),
                    label=str(number),
                    note=note,
                )
            )
    if as_json:
        print_json(
            {
                "schema": "placer.comparison/v1",
                "request": request_document(problem),
                "data": parts.data_document(problem),
                "placements": [
                    {
                        "placement": parts.placement_document(o.placement, problem),
                        "estimate": parts.estimate_document(o.estimate),
                        "violations": [v for v in [o.note] if v],
                    }
                    for o in options
                ],
            }
        )
        return
    out = console()
    out.print(terminal.context(problem))
    out.print(terminal.comparison(options, problem, out.width))
    warnings = {
        w.message: w for o in options for w in warnings_of(problem, o.placement, o.estimate)
    }
    for line in terminal.warning_lines(warnings.values()):
        console(stderr=True).print(line, style="yellow")
