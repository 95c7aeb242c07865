"""``placer reproduce``: recompute a published paper."""

from __future__ import annotations

import click

from placer.cli.options import table_option
from placer.cli.output import console, print_json


@click.command("reproduce", epilog="Example: placer reproduce erben")
@click.argument("paper", metavar="PAPER")
@click.option(
    "--all", "all_rows", is_flag=True, help="Print every row, not only the best of each family."
)
@table_option
def command(paper: str, all_rows: bool, as_json: bool) -> None:
    """Recompute a published paper from the shipped books and compare.

    PAPER is erben, phalak, cloudless or intellect-1.
    """
    from placer.cli.report.reproduction import print_reproduction
    from placer.validation.reproduction import reproduce

    reproduction = reproduce(paper)
    if as_json:
        print_json(reproduction.to_dict())
    else:
        print_reproduction(console(), reproduction, all_rows=all_rows)
