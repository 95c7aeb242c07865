"""Read a catalog: a stack of price books, folders of CSV files as catalogs/columns.csv has them,
with lines about offers by wildcards: discounts.csv says what a contract takes off the prices of the
layers below it; networks.csv says once for a type of machine what offers.csv would say in each row
of its network and its local disks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import msgspec

from placer.errors import PlacerError
from placer.market.books.cache import read_compiled, write_compiled
from placer.market.books.csv_rows import (
    BOOK_FILES,
    header_of,
    key_columns,
    read_columns,
    read_numbered_rows,
)
from placer.market.books.folders import shipped_catalogs
from placer.market.books.layers import (
    DEFAULT_CATALOG,
    Layer,
    LayerFile,
    default_words,
    digest_of,
    find_layer,
)
from placer.market.capacity_table import class_rows
from placer.market.catalog import FREE, TABLES, Catalog, VmOffer
from placer.market.checks.agreement import Located, check_book
from placer.market.table import Column, Table

COLUMNS = ("network_gbps", "fabric", "max_island_machines", "local_disk_gb")
"""Columns of offers.csv that networks.csv fills in."""
Rows = dict[tuple[Any, ...], list[Located]]
"""Rows with where they stand, by their key; see `placer.market.books.csv_rows.key_columns`."""


class Discount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a contract; ``multiplier`` is what is paid: 0.82 for 18 % off."""

    provider: str
    region: str
    instance_type: str
    gpu: str
    market: str
    multiplier: float
    source: str
    as_of: str

    @property
    def words(self) -> str:
        """What the source of a price says that this line was applied to."""
        return f"x {self.multiplier:g}: {self.source}"

    def covers(self, offer: VmOffer) -> bool:
        """Tell whether the line is about an offer; owned and reserved machines have no price."""
        names = ("provider", "region", "instance_type", "gpu")
        return (
            offer.price_basis not in FREE
            and fnmatchcase(offer.market, self.market.replace("-", "_"))
            and all(fnmatchcase(getattr(offer, name), getattr(self, name)) for name in names)
        )


class MachineNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Network and local disks of types of machines; None or empty: unknown, see ``source``."""

    provider: str
    instance_type: str
    network_gbps: float | None
    fabric: str
    source: str
    as_of: str
    max_island_machines: int | None = None
    local_disk_gb: float | None = None

    def covers(self, kind: Sequence[str]) -> bool:
        """Return whether this line is about a provider and type of machine."""
        patterns = self.provider, self.instance_type
        return all(map(fnmatchcase, kind, patterns))


def discounted(offers: Rows, contract: Sequence[Discount]) -> Rows:
    """Apply a contract to offers: the last line that covers an offer counts, so that exceptions
    follow the rule.

    The date stays that of the price: a contract takes off an old price as well.
    """

    def priced(offer: VmOffer) -> VmOffer:
        discount = next((line for line in reversed(contract) if line.covers(offer)), None)
        if discount is None:
            return offer
        low, high = offer.usd_per_hour_low, offer.usd_per_hour_high
        return msgspec.structs.replace(
            offer,
            usd_per_hour=offer.usd_per_hour * discount.multiplier,
            usd_per_hour_low=low and low * discount.multiplier,
            usd_per_hour_high=high and high * discount.multiplier,
            price_basis="negotiated" if offer.price_basis != "estimated" else "estimated",
            source=f"{offer.source}; {discount.words}",
        )

    return {
        key: [(where, priced(offer)) for where, offer in found] for key, found in offers.items()
    }


def connected(
    offers: Rows,
    networks: Sequence[MachineNetwork],
    unsaid: Mapping[tuple[Any, ...], Sequence[str]],
) -> Rows:
    """Give offers the network of their type where no book has a column for it.

    Of the lines that cover a type the last one counts, so that exceptions follow the rule.
    ``unsaid`` are the columns of each offer that no layer has: an empty cell of a book says that
    nothing is known, and stays.
    """

    @cache
    def line_of(*kind: str) -> MachineNetwork | None:
        return next((line for line in reversed(networks) if line.covers(kind)), None)

    result = dict(offers)
    for key, columns in unsaid.items():
        first = offers[key][0][1]
        line = line_of(first.provider, first.instance_type) if columns else None
        if line is not None:
            result[key] = [(where, _filled(row, line, columns)) for where, row in offers[key]]
    return result


def _filled(row: Any, known: msgspec.Struct, columns: Sequence[str]) -> Any:
    """Give a row some columns of another one where it says nothing itself."""
    silent = [column for column in columns if getattr(row, column) in (None, "")]
    return msgspec.structs.replace(row, **{name: getattr(known, name) for name in silent})


OFFERS = "offers.csv"
RANGES = ("usd_per_hour_low", "usd_per_hour_high", "interruption_low", "interruption_high")
"""Columns of offers.csv whose values must agree with each other."""
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
    column and value. What was read once is kept in the cache under the digest of its contents
    (`placer.market.books.cache`).
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


def located_rows(layers: Sequence[Layer], without: str = "") -> dict[str, list[Located]]:
    """Lay rows of layers over each other, with where each stands; PlacerError for a wrong cell.
    ``without``: a file that is not read.
    """
    rows: dict[str, Rows] = {file: {} for file in BOOK_FILES}
    unsaid: dict[tuple[Any, ...], list[str]] = {}
    for number, layer in enumerate(layers):
        for file, content in layer.files.items():
            if file == without:
                continue
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
    whole = _offers_by_column(stack)
    located: dict[str, list[Located]] = located_rows(stack, without=OFFERS if whole else "")
    tables: dict[str, Any] = {t: [row for _, row in located[f"{t}.csv"]] for t in TABLES}
    if whole is not None:
        tables["offers"], located[OFFERS] = whole
    for file in REQUIRED_FILES:
        if not located[file]:
            raise PlacerError(
                f"catalog '{name}' has no {file}",
                f"lay it over a whole book: --catalog default --catalog {stack[-1].name}; "
                f"catalogs/columns.csv lists the columns of {file}",
            )
    columns = key_columns("capacity.csv")
    capacity = (*class_rows(), *tables["capacity"])  # the class rows lie below those of books
    tables["capacity"] = {tuple(getattr(r, c) for c in columns): r for r in capacity}.values()
    catalog = Catalog.of_tables(name, digest, tables)
    check_book(located, catalog.regions, catalog.gpus)
    return catalog


def _offers_by_column(stack: Sequence[Layer]) -> tuple[Table[VmOffer], list[Located]] | None:
    """Read the offers of a book that is alone with them, and return those that may be wrong with
    where they stand; None for a stack whose rows other layers or lines change, and for a file with
    a wrong row.
    """
    files = [layer.files[OFFERS] for layer in stack if OFFERS in layer.files]
    if len(files) != 1 or any(file in layer.files for layer in stack for file in RULES):
        return None
    import numpy as np  # only where a book is compiled

    read = read_columns(files[0].path, OFFERS, files[0].data)
    if read is None or not len(read[1]):
        return None
    columns, lines = read
    fields = VmOffer.__struct_fields__
    defaults = zip(reversed(fields), reversed(VmOffer.__struct_defaults__), strict=False)
    only = memoryview(bytes(len(lines)))  # which of its values each row of such a column has
    every = {name: Column([value], only) for name, value in defaults} | columns
    table = Table.of_columns(VmOffer, {name: every[name] for name in fields})
    if len(table.groups(key_columns(OFFERS)).first) < len(table):
        return None
    known = [table.column(name).where(lambda value: value is not None) for name in RANGES]
    odd = np.logical_or.reduce([table.column("usd_per_hour").numbers == 0, *known])
    for names in (("provider", "region"), ("gpu",)):
        odd[table.groups(names).first] = True
    rows = odd.nonzero()[0].tolist()
    return table, [(f"{files[0].path}:{lines[row]}", table[row]) for row in rows]


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
        known = below[key][0][1]
        above[key] = [(where, _filled(row, known, absent)) for where, row in above[key]]
    return above


def _by_key(file: str, rows: Sequence[Located]) -> Rows:
    """Group rows by the key that a later layer replaces: the volume tiers of a pair together."""
    columns = [column for column in key_columns(file) if column != "above_gib_per_month"]
    groups: Rows = {}
    for at in rows:
        groups.setdefault(tuple(getattr(at[1], column) for column in columns), []).append(at)
    return groups
