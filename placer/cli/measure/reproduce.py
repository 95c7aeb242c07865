"""``placer reproduce``: recompute a published paper."""

from __future__ import annotations

import click

from placer.cli.options import table_option
from placer.cli.screen.interruption import nothing_kept
from placer.cli.screen.plot import check_plot, plot_option, write_plot
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show


@click.command("reproduce", epilog="Example: placer reproduce erben")
@click.argument("paper", metavar="PAPER")
@click.option(
    "--all", "all_rows", is_flag=True, help="Print every row, not only the best of each family."
)
@plot_option
@table_option
def command(paper: str, all_rows: bool, as_json: bool, plot: str | None) -> None:
    """Recompute a published paper from the shipped books and compare.

    PAPER is erben, phalak, cloudless or intellect-1.
    """
    check_plot(plot)
    with nothing_kept("a comparison needs every row"), progress("recomputing the paper"):
        from placer.reproduction import reproduce

        reproduction = reproduce(paper)
    write_plot(plot, reproduction.to_dict())
    document = reproduction.to_dict()
    if as_json:
        show(document, as_json=True)
    else:
        show({**document, "every_row": all_rows}, whole=all_rows)
