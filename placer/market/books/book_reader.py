"""Read a catalog: a stack of price books, each a folder of CSV files whose columns and limits stand
in catalogs/columns.csv.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from placer.errors import PlacerError
from placer.market.books.cache import read_compiled, write_compiled
from placer.market.books.csv_rows import KEYS, header_of, read_numbered_rows
from placer.market.books.discounts import Discount, discounted
from placer.market.books.folders import shipped_catalogs
from placer.market.books.layers import BOOK_FILES, Layer, LayerFile, digest_of, find_layer
from placer.market.books.networks import COLUMNS, MachineNetwork, connected
from placer.market.books.pin import default_words
from placer.market.capacity_table import CapacityRow, class_rows
from placer.market.catalog import (
    Catalog,
    EgressPrice,
    FunctionOffer,
    Gpu,
    MeasuredLink,
    Region,
    Setting,
    StoreOffer,
    VmOffer,
)
from placer.market.checks.agreement import Located, check_book
from placer.records import replace

KINDS: dict[str, Callable[..., Any]] = {
    "gpus.csv": Gpu,
    "regions.csv": Region,
    "networks.csv": MachineNetwork,
    "offers.csv": VmOffer,
    "discounts.csv": Discount,
    "functions.csv": FunctionOffer,
    "stores.csv": StoreOffer,
    "egress.csv": EgressPrice,
    "links.csv": MeasuredLink,
    "settings.csv": Setting,
    "capacity.csv": CapacityRow,
}
CONTRACT = "discounts.csv"
NETWORKS = "networks.csv"
RULES = (CONTRACT, NETWORKS)
"""Files whose lines are about offers by wildcards: those of all layers count, none replaces
another.
"""
REQUIRED_FILES = ("regions.csv", "offers.csv", "egress.csv")
"""What some layer of a catalog must have."""
KEPT_FROM_BELOW = {
    "offers.csv": ("network_gbps", "interruption_low", "interruption_high"),
    "regions.csv": ("grid_carbon_g_per_kwh", "carbon_year", "carbon_source"),
}
"""Columns that are no prices: a layer without such a column leaves what the row below says."""


def load_catalog(names: str | Sequence[str] | None = None) -> Catalog:
    """Read and check a catalog: one book, or several of which later ones win.

    Parameters
    ----------
    names
        Each a shipped book such as ``default``, a book of the user's own, or the path of a folder
        or of one CSV file; rows of later ones replace those of earlier ones with the same key. None
        or none: what is pinned, else ``default``.

    Raises
    ------
    PlacerError
        If there is no such book, or a cell is wrong: the message names file, line, column and
        value.

    Notes
    -----
    What was read once is kept in the cache under the digest of its contents
    (`placer.market.books.cache`).
    """
    words = (names,) if isinstance(names, str) else tuple(names or ()) or default_words()
    return stacked([find_layer(word) for word in words])


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
    """Lay the rows of some layers over each other, each with the words that say where it stands.

    Raises
    ------
    PlacerError
        If a cell is wrong.
    """
    rows: dict[str, dict[tuple[Any, ...], list[Located]]] = {file: {} for file in BOOK_FILES}
    unsaid: dict[tuple[Any, ...], list[str]] = {}
    for number, layer in enumerate(layers):
        for file in layer.files:
            if file not in RULES:
                content = layer.files[file]
                header = header_of(content.data)
                above = _by_key(file, _parsed(file, content))
                if file == "offers.csv":
                    absent = [column for column in COLUMNS if column not in header]
                    unsaid |= dict.fromkeys(above, absent)
                rows[file] |= _completed(file, above, rows[file], header)
        for file in RULES:
            if file in layer.files:
                rows[file][number,] = _parsed(file, layer.files[file])
        if CONTRACT in layer.files:
            contract = [row for _, row in rows[CONTRACT][number,]]
            rows["offers.csv"] = _contracted(rows["offers.csv"], contract)
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
    plain = {file: tuple(row for _, row in found) for file, found in located.items()}
    gpus = {gpu.gpu: gpu for gpu in plain["gpus.csv"]}
    regions = {region.place: region for region in plain["regions.csv"]}
    check_book(located, regions, gpus)
    return Catalog(
        name=name,
        digest=digest,
        regions=regions,
        gpus=gpus,
        offers=plain["offers.csv"],
        functions=plain["functions.csv"],
        stores=plain["stores.csv"],
        egress=plain["egress.csv"],
        links=plain["links.csv"],
        settings=plain["settings.csv"],
        capacity=_with_classes(plain["capacity.csv"]),
    )


def _with_classes(rows: Sequence[CapacityRow]) -> tuple[CapacityRow, ...]:
    """Lay the rows of books over the class rows that come with placer."""
    columns = KEYS["capacity.csv"]
    below = {tuple(getattr(row, name) for name in columns): row for row in class_rows()}
    above = {tuple(getattr(row, name) for name in columns): row for row in rows}
    return (*{**below, **above}.values(),)


def _parsed(file: str, found: LayerFile) -> list[Located]:
    kind = KINDS[file]
    return [
        (f"{found.path}:{line}", kind(**row))
        for line, row in read_numbered_rows(found.path, file, found.data)
    ]


def _completed(
    file: str,
    above: dict[tuple[Any, ...], list[Located]],
    below: dict[tuple[Any, ...], list[Located]],
    header: Sequence[str],
) -> dict[tuple[Any, ...], list[Located]]:
    """Give rows what their file has no column for and the rows that they replace know: a quote says
    nothing about networks.
    """
    absent = [column for column in KEPT_FROM_BELOW.get(file, ()) if column not in header]
    if not absent:
        return above
    return {
        key: [(where, _with(row, absent, below[key][0][1])) for where, row in found]
        if key in below
        else found
        for key, found in above.items()
    }


def _with(row: Any, columns: Sequence[str], other: Any) -> Any:
    values = {column: getattr(other, column) for column in columns}
    return (
        msgspec.structs.replace(row, **values)
        if isinstance(row, msgspec.Struct)
        else replace(row, **values)
    )


def _by_key(file: str, rows: Sequence[Located]) -> dict[tuple[Any, ...], list[Located]]:
    """Group rows by the key that a later layer replaces: the volume tiers of a pair together."""
    columns = [column for column in KEYS[file] if column != "above_gib_per_month"]
    groups: dict[tuple[Any, ...], list[Located]] = {}
    for at in rows:
        groups.setdefault(tuple(getattr(at[1], column) for column in columns), []).append(at)
    return groups


def _contracted(
    offers: dict[tuple[Any, ...], list[Located]], contract: Sequence[Discount]
) -> dict[tuple[Any, ...], list[Located]]:
    return {
        key: [
            (where, offer)
            for (where, _), offer in zip(
                found, discounted([row for _, row in found], contract), strict=True
            )
        ]
        for key, found in offers.items()
    }
