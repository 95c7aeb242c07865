"""``placer reproduce``: recompute a published paper."""

from __future__ import annotations

from placer.cli.command import Plot, Table, as_command
from placer.cli.screen.progress import nothing_kept, progress
from placer.cli.screen.show import check_plot, show, write_plot


@as_command("reproduce", "Example: placer reproduce erben")
def command(paper: str, *, all_rows: bool = False, plot: Plot, as_json: Table) -> None:
    """Recompute a published paper from the shipped books and compare.

    PAPER is erben, phalak, cloudless or intellect-1.

    paper (PAPER):
    all_rows (--all): Print every row, not only the best of each family.
    """
    check_plot(plot)
    with nothing_kept("a comparison needs every row"), progress("recomputing the paper"):
        from placer.reproduction import reproduce

        reproduction = reproduce(paper)
    write_plot(plot, reproduction.to_dict())
    show(reproduction.to_dict(), as_json=as_json, whole=all_rows, every_row=all_rows)
