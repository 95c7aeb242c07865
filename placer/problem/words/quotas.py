"""Quotas, from a file or a mapping: how many GPUs an account may have where."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import bounded
from placer.market.catalog import MARKET_WORDS, MARKETS, Catalog
from placer.problem.requirements import Quota

QUOTA_COLUMNS = ["place", "gpu", "market", "gpus"]
GIVE = "give a CSV file with place,gpu,market,gpus"
SCOPES = ("each", "together")
"""A row holds for each place, device and market that it matches, or for all of them in sum."""


def read_quotas(path: Path, catalog: Catalog | None = None) -> tuple[Quota, ...]:
    """Read a quota file: CSV with place, gpu, market, gpus and perhaps scope; ``*`` matches all,
    the last matching row wins.

    Rows whose scope is ``together`` cap the sum of all that they match, beside the others.

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
        lines = bounded(path, GIVE).decode("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise PlacerError(
            f"quota file '{path}' cannot be read ({type(error).__name__})",
            GIVE,
        ) from None
    rows = csv.reader(lines)
    try:
        header = [c.strip() for c in next(rows, [])]
        if header not in (QUOTA_COLUMNS, [*QUOTA_COLUMNS, "scope"]):
            raise PlacerError(
                f"{path}:1: columns {','.join(header) or '(none)'}",
                f"the columns are {','.join(QUOTA_COLUMNS)} and, if wanted, scope",
            )
        return tuple(
            _quota([cell.strip() for cell in row], len(header), f"{path}:{rows.line_num}", catalog)
            for row in rows
            if any(row)
        )
    except csv.Error as error:
        raise PlacerError(
            f"{path}:{rows.line_num}: not valid CSV: {error}", "check this line"
        ) from None


def quotas_of(
    given: Mapping[str, int] | Mapping[tuple[str, str, str], int], catalog: Catalog
) -> tuple[Quota, ...]:
    """Read quotas by GPU, or by place, GPU and market; ``*`` matches all, the last match wins.

    Raises
    ------
    PlacerError
        Names the key and what is wrong with it.
    """
    rows = []
    for key, gpus in given.items():
        place, gpu, market = ("*", key, "*") if isinstance(key, str) else key
        cells = [place, gpu, market, str(gpus)]
        rows.append(_quota(cells, len(QUOTA_COLUMNS), f"quota {key!r}", catalog))
    return tuple(rows)


def quota_gpus(text: str, where: str) -> int:
    """Read a number of GPUs.

    Raises
    ------
    PlacerError
        If it is not a whole number of up to nine digits.

    Examples
    --------
    >>> quota_gpus("8", "quota")
    8
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise PlacerError(f"{where} '{text}' is not a whole number", "write 0 to allow none")
    return int(text)


def _quota(cells: list[str], columns: int, where: str, catalog: Catalog | None) -> Quota:
    if len(cells) != columns:
        raise PlacerError(
            f"{where}: {len(cells)} cells instead of {columns}",
            f"the columns are {','.join(QUOTA_COLUMNS)} and, if wanted, scope",
        )
    scope = cells[4] if columns > len(QUOTA_COLUMNS) and cells[4] else SCOPES[0]
    if scope not in SCOPES:
        raise unknown("scope", f"{scope}' in '{where}", SCOPES)
    place, gpu, market, gpus = (
        cells[0] if "/" in cells[0] or cells[0] == "*" else f"{cells[0]}/*",
        cells[1],
        cells[2].replace("-", "_"),
        cells[3],
    )
    if market not in ("*", *MARKETS):
        raise PlacerError(f"{where}: market '{cells[2]}'", f"write {', '.join(MARKET_WORDS)} or *")
    most = quota_gpus(gpus, f"{where}: gpus")
    if catalog is not None:
        if not any(fnmatchcase(known, place) for known in catalog.regions):
            raise unknown("place", f"{cells[0]}' in '{where}", catalog.regions)
        gpu = next((known for known in catalog.gpus if known.upper() == gpu.upper()), gpu)
        if not any(fnmatchcase(known, gpu) for known in catalog.gpus):
            raise unknown("GPU", f"{gpu}' in '{where}", catalog.rented_gpus)
    return Quota(place=place, gpu=gpu, market=market, gpus=most, scope=scope)
