"""Read a catalog: a stack of price books, folders of CSV files as catalogs/columns.csv has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from placer.errors import PlacerError
from placer.market.books.cache import read_compiled, write_compiled
from placer.market.books.csv_rows import KEYS, header_of, read_numbered_rows
from placer.market.books.folders import shipped_catalogs
from placer.market.books.layers import (
    BOOK_FILES,
    DEFAULT_CATALOG,
    Layer,
    LayerFile,
    default_words,
    digest_of,
    find_layer,
)
from placer.market.books.offer_rules import (
    COLUMNS,
    Discount,
    MachineNetwork,
    Rows,
    connected,
    discounted,
)
from placer.market.capacity_table import CapacityRow, class_rows
from placer.market.catalog import TABLES, Catalog
from placer.market.checks.agreement import Located, check_book

CONTRACT = "discounts.csv"
NETWORKS = "networks.csv"
KINDS: dict[str, Callable[..., Any]] = {
    **{f"{table}.csv": kind for table, kind in TABLES.items()},
    CONTRACT: Discount,
    NETWORKS: MachineNetwork,
}
RULES = (CONTRACT, NETWORKS)
"""Files whose lines are about offers by wildcards: those of all layers count."""
REQUIRED_FILES = ("regions.csv", "offers.csv", "egress.csv")
"""What some layer of a catalog must have."""
KEPT_FROM_BELOW = {
    "offers.csv": ("network_gbps", "interruption_low", "interruption_high"),
    "regions.csv": ("grid_carbon_g_per_kwh", "carbon_year", "carbon_source"),
}
"""Columns that are no prices: a layer without such a column leaves what the row below says."""


def load_catalog(names: str | Sequence[str] | None = None) -> Catalog:
    """Read and check a catalog: one book, or several of which later ones win.

    names: Each a shipped book such as ``default``, a book of the user's own, or the path of a
        folder or of one CSV file; rows of later ones replace those of earlier ones with the same
        key. None or none: what is pinned, else ``default``.

    Raise `PlacerError` if there is no such book, or a cell is wrong: the message names file, line,
    column and value. Raise `What was read once is kept in the cache under the digest of its
    contents`:  Raise `(`placer.market.books.cache`).`:
    """
    words = (names,) if isinstance(names, str) else tuple(names or ()) or default_words()
    return stacked([find_layer(word) for word in words])


def over_default(words: Sequence[str]) -> tuple[Catalog, tuple[Layer, ...]]:
    """Read some layers, or what is pinned; if no one of them is whole, the default book lies under
    them. Return the catalog and its layers, the lowest first.
    """
    layers = tuple(find_layer(word) for word in words or default_words())
    if not all(any(file in layer.files for layer in layers) for file in REQUIRED_FILES):
        layers = (find_layer(DEFAULT_CATALOG), *layers)
    return stacked(layers), layers


def stacked(layers: Sequence[Layer]) -> Catalog:
    """Read, lay over each other and check some layers; see `load_catalog`."""
    stack = [devices(), *layers]
    digest, name = digest_of(stack), "+".join(layer.name for layer in layers)
    catalog = read_compiled(digest, name)
    if catalog is None:
        catalog = _merged(stack, digest, name)
        write_compiled(catalog)
    return catalog


def devices() -> Layer:
    """Return the devices of gpus.csv, which belong to every book."""
    path = shipped_catalogs() / "gpus.csv"
    return Layer(name="devices", files={"gpus.csv": LayerFile(path=path, data=path.read_bytes())})


def located_rows(layers: Sequence[Layer]) -> dict[str, list[Located]]:
    """Lay rows of layers over each other, with where each stands; PlacerError for a wrong cell."""
    rows: dict[str, Rows] = {file: {} for file in BOOK_FILES}
    unsaid: dict[tuple[Any, ...], list[str]] = {}
    for number, layer in enumerate(layers):
        for file, content in layer.files.items():
            if file in RULES:
                rows[file][number,] = _parsed(file, content)
                continue
            header = header_of(content.data)
            above = _by_key(file, _parsed(file, content))
            if file == "offers.csv":
                absent = [column for column in COLUMNS if column not in header]
                unsaid |= dict.fromkeys(above, absent)
            rows[file] |= _completed(file, above, rows[file], header)
        if CONTRACT in layer.files:
            contract = [row for _, row in rows[CONTRACT][number,]]
            rows["offers.csv"] = discounted(rows["offers.csv"], contract)
    networks = [row for lines in rows[NETWORKS].values() for _, row in lines]
    rows["offers.csv"] = connected(rows["offers.csv"], networks, unsaid)
    return {
        file: [at for group in groups.values() for at in group] for file, groups in rows.items()
    }


def _merged(stack: Sequence[Layer], digest: str, name: str) -> Catalog:
    located = located_rows(stack)
    for file in REQUIRED_FILES:
        if not located[file]:
            raise PlacerError(
                f"catalog '{name}' has no {file}",
                f"lay it over a whole book: --catalog default --catalog {stack[-1].name}; "
                f"catalogs/columns.csv lists the columns of {file}",
            )
    tables = {table: [row for _, row in located[f"{table}.csv"]] for table in TABLES}
    tables["capacity"] = _with_classes(tables["capacity"])
    catalog = Catalog.of_tables(name, digest, tables)
    check_book(located, catalog.regions, catalog.gpus)
    return catalog


def _with_classes(rows: Sequence[CapacityRow]) -> list[CapacityRow]:
    """Lay the rows of books over the class rows that come with placer."""
    columns = KEYS["capacity.csv"]
    keyed = {tuple(getattr(row, c) for c in columns): row for row in (*class_rows(), *rows)}
    return [*keyed.values()]


def _parsed(file: str, found: LayerFile) -> list[Located]:
    kind = KINDS[file]
    return [
        (f"{found.path}:{line}", kind(**row))
        for line, row in read_numbered_rows(found.path, file, found.data)
    ]


def _completed(file: str, above: Rows, below: Rows, header: Sequence[str]) -> Rows:
    """Give rows what their file has no column for: a quote says nothing about networks."""
    absent = [column for column in KEPT_FROM_BELOW.get(file, ()) if column not in header]
    for key in (above.keys() & below.keys()) if absent else ():
        known = {column: getattr(below[key][0][1], column) for column in absent}
        above[key] = [(where, msgspec.structs.replace(row, **known)) for where, row in above[key]]
    return above


def _by_key(file: str, rows: Sequence[Located]) -> Rows:
    """Group rows by the key that a later layer replaces: the volume tiers of a pair together."""
    columns = [column for column in KEYS[file] if column != "above_gib_per_month"]
    groups: Rows = {}
    for at in rows:
        groups.setdefault(tuple(getattr(at[1], column) for column in columns), []).append(at)
    return groups
