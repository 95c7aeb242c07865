"""``placer network check``: how far the link model is from measured links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placer.cli.command import Catalog, Table, as_command
from placer.cli.screen.show import show

if TYPE_CHECKING:
    pass

MOST_LINES = 10
"""Most suspects and unknown places that are printed."""


@as_command("check", "Example: placer network check erben-2023")
def command(
    grids: tuple[str, ...] = (), *, catalog: Catalog, fit: bool = False, as_json: Table
) -> None:
    """Compare estimated links with measured ones.

    A GRID is a book, a folder or a CSV file with the columns of links.csv; without one, the links
    of the catalog itself are compared. The estimate never uses the measured rows.

    Parameters
    ----------
    grids : [GRID]...
    fit
        Also show the route factors that the grids ask for, beside those in use.
    """
    import msgspec

    from placer.market.network.measured_links import check_network

    check = check_network(grids, catalog)
    document = msgspec.to_builtins(check)
    if not fit:
        del document["factors"]
    show({"schema": "placer.network-check/v1", **document}, as_json=as_json)
