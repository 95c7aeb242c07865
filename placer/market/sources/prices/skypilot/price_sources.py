"""What SkyPilot's vms.csv cannot say of prices, in a file of placer beside it: basis, source, date
and optional figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from placer.market.books.csv_rows import KEYS, file_columns, read_numbered_rows
from placer.market.catalog import FREE, Catalog
from placer.market.sources.harvest import FORMULA, Origin, Row
from placer.market.sources.reading.fetch import is_url, read_document

SOURCES = "placer-sources.csv"
"""Beside a vms.csv: the rows of offers.csv that it was made from, with the columns of offers.csv.
"""
SAID = (
    "price_basis",
    "source",
    "as_of",
    "available",
    "usd_per_hour_low",
    "usd_per_hour_high",
    "network_gbps",
    "interruption_low",
    "interruption_high",
    "fabric",
    "max_island_machines",
    "local_disk_gb",
)
"""Columns that are taken from there for an offer whose price is still the same."""
DIGITS = 9
"""Prices are compared to 1e-9 USD/h: the sums of Google Cloud's hosts and devices are rounded so.
"""

Key = tuple[Any, ...]


def source_rows(book: Catalog, providers: Iterable[str]) -> dict[str, list[Row]]:
    """Return the rows of each provider's `SOURCES`.

    Parameters
    ----------
    book
        The book that is exported.
    providers
        Those that get a vms.csv.

    Notes
    -----
    An offer with a text that a spreadsheet would take for a formula is left out: its price comes
    back as any of SkyPilot's does.
    """
    columns = list(file_columns("offers.csv"))
    rows: dict[str, list[Row]] = {provider: [] for provider in providers}
    for offer in book.offers:
        row = {column: getattr(offer, column) for column in columns}
        formula = any(isinstance(cell, str) and cell.startswith(FORMULA) for cell in row.values())
        if offer.provider in rows and offer.price_basis not in FREE and not formula:
            rows[offer.provider].append(
                {
                    column: repr(cell) if isinstance(cell, float) else cell
                    for column, cell in row.items()
                }
            )
    return rows


def read_sources(place: str, most_bytes: int) -> tuple[dict[Key, Row], list[Origin]]:
    """Read what lies beside a vms.csv, by the key of the offer; nothing beside a URL or where there
    is no such file.

    Raises
    ------
    PlacerError
        If the file cannot be read, or a cell is none of offers.csv.
    """
    path = Path(place).parent / SOURCES
    if is_url(place) or not path.is_file():
        return {}, []
    document = read_document(str(path), most_bytes=most_bytes)
    rows = (row for _, row in read_numbered_rows(path, "offers.csv", document.data))
    return {_key(row): row for row in rows if row["price_basis"] not in FREE}, [document.origin]


def with_sources(offers: Sequence[Row], known: Mapping[Key, Row]) -> tuple[list[Row], int]:
    """Give offers what is known of them, as long as their price is the one that it was said of.

    Returns
    -------
    tuple
        The offers in their order; how many of them nothing is known of.
    """
    source_lines: list[Row] = []
    plain = 0
    for offer in offers:
        row = known.get(_key(offer))
        if row is not None and _same_price(row, offer):
            source_lines.append({**offer, **{column: row.get(column) for column in SAID}})
        else:
            source_lines.append(offer)
            plain += 1
    return source_lines, plain


def _key(row: Row) -> Key:
    return tuple(row[column] for column in KEYS["offers.csv"])


def _same_price(first: Any, second: Any) -> bool:
    return bool(round(first["usd_per_hour"], DIGITS) == round(second["usd_per_hour"], DIGITS))
