"""How far the link model is from measured links: errors by pair of continents, and rows that cannot
be true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median, quantiles
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog, located_rows
from placer.market.books.layers import Layer, find_layer
from placer.market.catalog import Catalog, MeasuredLink
from placer.market.network.graph import Network
from placer.market.network.link_model import light_rtt_s
from placer.market.network.tables import GBPS
from placer.records import Count, replace

SAME_REGION, ALL = "same region", "all"
"""Names of the groups that are no pair of continents; `ALL` leaves the same region out."""
FIGURES = ("rtt", "one stream", "many streams")  # What is compared


class Miss(Struct, frozen=True, kw_only=True):
    """The relative error of one figure: 0.1 says that the model is 10 % above the measured one."""

    src: str
    dst: str
    figure: str
    group: str
    error: float


class ErrorGroup(Struct, frozen=True, kw_only=True):
    """Errors of one figure between two continents; ``worst_error`` with its sign."""

    figure: str
    group: str
    links: int
    median_error: float
    p90_error: float
    worst_error: float
    worst_src: str
    worst_dst: str


class Suspect(Struct, frozen=True, kw_only=True):
    """A measured round-trip time shorter than that of light in fibre along the great circle."""

    where: str
    src: str
    dst: str
    rtt_ms: float
    light_ms: float


class NetworkCheck(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="placer.network-check/v1"
):
    """The link model beside measured links; errors are shares of 1. Suspects take no part in them.

    unknown_places: Rows by place without coordinates.
    estimated_rows: Rows that nobody measured.
    empty_rows: Rows without a figure.
    """

    catalog: str
    grids: tuple[str, ...]
    rows: Count
    errors: tuple[ErrorGroup, ...]
    suspects: tuple[Suspect, ...]
    unknown_places: dict[str, Count]
    estimated_rows: Count
    empty_rows: Count


def check_network(grids: Sequence[str], catalog: str | Sequence[str] | None = None) -> NetworkCheck:
    """Compare the link model, never the measured rows, with measured links: of books, folders or
    CSV files with the columns of links.csv, or of the catalog itself. Its regions say where places
    are; regions of a grid replace them. PlacerError if no link can be compared.
    """
    book = load_catalog(catalog)
    layers = [find_layer(grid) for grid in grids]
    located = [row for layer in layers for row in _rows(layer, "links.csv")]
    if not layers:
        located = [(book.name, link) for link in book.links]
    names = tuple(layer.name for layer in layers) or (book.name,)
    if not located:
        words = f"{' and '.join(names)}: no measured links"
        raise PlacerError(words, "name a book or a CSV file with rows of links.csv")
    brought = [layer for layer in layers if "regions.csv" in layer.files]
    regions = {row.place: row for layer in brought for _, row in _rows(layer, "regions.csv")}
    known = replace(book, regions={**book.regions, **regions}, links=())
    return _checked(located, known, book.name, names)


def _rows(layer: Layer, file: str) -> list[tuple[str, Any]]:
    text = layer.files.get(file)
    if text is None:
        tip = "name a book or a CSV file with measured links; erben-2023 is a shipped one"
        raise PlacerError(f"'{layer.name}' has no {file}", tip)
    return located_rows([Layer(name=layer.name, files={file: text})])[file]


def _checked(
    located: Sequence[tuple[str, MeasuredLink]],
    known: Catalog,
    catalog: str,
    grids: tuple[str, ...],
) -> NetworkCheck:
    unknown = Counter(
        place for _, row in located for place in {row.src, row.dst} if place not in known.regions
    )
    measured = [(where, row) for where, row in located if row.basis != "estimated"]
    placed = [at for at in measured if {at[1].src, at[1].dst} <= known.regions.keys()]
    suspects, sound = [], []
    for where, row in placed:
        light_ms = light_rtt_s(known.region(row.src), known.region(row.dst)) * 1e3
        if row.rtt_ms is not None and row.rtt_ms < light_ms:
            ends = {"src": row.src, "dst": row.dst}
            suspects.append(Suspect(where=where, **ends, rtt_ms=row.rtt_ms, light_ms=light_ms))
        else:
            sound.append(row)
    network = Network(known)
    misses = [miss for row in sound for miss in _misses(row, known, network)]
    if not misses and not suspects:
        words = f"{' and '.join(grids)}: none of {len(located):,} rows can be compared"
        tip = (
            "a row needs basis measured or published, and rtt_ms, gbps_one_stream or "
            "gbps_many_streams"
        )
        if unknown:
            places = sorted(unknown)
            more = f" and {len(places) - 3} more" if len(places) > 3 else ""
            words = f"{words}: no book knows {', '.join(places[:3])}{more}"
            tip = (
                "add the places to regions.csv beside the grid, or name the book that has them "
                "with --catalog"
            )
        raise PlacerError(words, tip)
    return NetworkCheck(
        catalog=catalog,
        grids=grids,
        rows=len(located),
        errors=tuple(_errors(misses)),
        suspects=tuple(suspects),
        unknown_places=dict(sorted(unknown.items())),
        estimated_rows=len(located) - len(measured),
        empty_rows=sum(
            row.rtt_ms is row.gbps_one_stream is row.gbps_many_streams is None
            for _, row in measured
        ),
    )


def _misses(row: MeasuredLink, known: Catalog, network: Network) -> Iterator[Miss]:
    link = network.estimated_link(row.src, row.dst)
    continents = sorted((known.region(row.src).continent, known.region(row.dst).continent))
    group = SAME_REGION if row.src == row.dst else "-".join(continents)
    rtt_s = None if row.rtt_ms is None else row.rtt_ms / 1e3
    figures = (
        (link.rtt_s, rtt_s, 1.0),
        (link.bytes_per_second, row.gbps_one_stream, GBPS),
        (link.cap, row.gbps_many_streams, GBPS),
    )
    for name, (model, figure, unit) in zip(FIGURES, figures, strict=True):
        if figure is not None:
            error = model / (figure * unit) - 1
            yield Miss(src=row.src, dst=row.dst, figure=name, group=group, error=error)


def _errors(misses: Sequence[Miss]) -> Iterator[ErrorGroup]:
    """Yield errors of each figure: pairs of continents, the same region, all between regions."""
    for figure in FIGURES:
        groups: dict[str, list[Miss]] = {}
        for miss in misses:
            if miss.figure == figure:
                groups.setdefault(miss.group, []).append(miss)
                if miss.group != SAME_REGION:
                    groups.setdefault(ALL, []).append(miss)
        order = {SAME_REGION: 1, ALL: 2}
        for name, found in sorted(
            groups.items(), key=lambda item: (order.get(item[0], 0), item[0])
        ):
            sizes = [abs(miss.error) for miss in found]
            tenths = quantiles(sizes, n=10, method="inclusive") if len(sizes) > 1 else sizes
            worst = max(found, key=lambda miss: abs(miss.error))
            yield ErrorGroup(
                figure=figure,
                group=name,
                links=len(found),
                median_error=median(sizes),
                p90_error=tenths[-1],
                worst_error=worst.error,
                worst_src=worst.src,
                worst_dst=worst.dst,
            )
