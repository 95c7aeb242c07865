"""Quota files: how many GPUs an account may have where."""

from __future__ import annotations

import csv
import re
from fnmatch import fnmatchcase
from pathlib import Path

from placer.catalog import Catalog
from placer.errors import PlacerError, unknown
from placer.requirements import Quota

QUOTA_COLUMNS = ["place", "gpu", "market", "gpus"]


def read_quotas(path: Path, catalog: Catalog | None = None) -> tuple[Quota, ...]:
    """Read a quota file: CSV with place, gpu, market, gpus; ``*`` matches all, the last matching row wins.

    Parameters
    ----------
    catalog
        If given, every row must match a place and a device of it.

    Raises
    ------
    PlacerError
        Names file, line, column and value.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise PlacerError(
            f"quota file '{path}' cannot be read ({type(error).__name__})", "give a CSV file with place,gpu,market,gpus"
        ) from None
    rows = csv.reader(lines)
    try:
        header = [c.strip() for c in next(rows, [])]
        if header != QUOTA_COLUMNS:
            raise PlacerError(f"{path}:1: columns {','.join(header) or '(none)'}", f"the columns are {','.join(QUOTA_COLUMNS)}")
        return tuple(_quota([cell.strip() for cell in row], f"{path}:{rows.line_num}", catalog) for row in rows if any(row))
    except csv.Error as error:
        raise PlacerError(f"{path}:{rows.line_num}: not valid CSV: {error}", "check this line") from None


def _quota(cells: list[str], where: str, catalog: Catalog | None) -> Quota:
    if len(cells) != len(QUOTA_COLUMNS):
        raise PlacerError(f"{where}: {len(cells)} cells instead of 4", f"the columns are {','.join(QUOTA_COLUMNS)}")
    place, gpu, market, gpus = (
        cells[0] if "/" in cells[0] or cells[0] == "*" else f"{cells[0]}/*",
        cells[1],
        cells[2].replace("-", "_"),
        cells[3],
    )
    if market not in ("*", "spot", "on_demand"):
        raise PlacerError(f"{where}: market '{cells[2]}'", "write spot, on-demand or *")
    if not re.fullmatch(r"[0-9]{1,9}", gpus):
        raise PlacerError(f"{where}: gpus '{gpus}' is not a whole number", "write 0 to allow none")
    if catalog is not None:
        if not any(fnmatchcase(known, place) for known in catalog.regions):
            raise unknown("place", f"{cells[0]}' in '{where}", catalog.regions)
        gpu = next((known for known in catalog.gpus if known.upper() == gpu.upper()), gpu)
        if not any(fnmatchcase(known, gpu) for known in catalog.gpus):
            raise unknown("GPU", f"{gpu}' in '{where}", catalog.rented_gpus)
    return Quota(place=place, gpu=gpu, market=market, gpus=int(gpus))
