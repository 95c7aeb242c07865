"""How far the link model is from measured links: errors by pair of continents, and rows that cannot
be true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog, located_rows
from placer.market.books.layers import Layer, find_layer
from placer.market.catalog import Catalog, MeasuredLink, Region
from placer.market.network.graph import Network
from placer.market.network.link_fit import fitted_factors
from placer.market.network.link_grid import GBPS
from placer.market.network.link_model import light_rtt_s, route_factor
from placer.records import Count, replace

SAME_REGION, ALL = "same region", "all"
"""Names of the groups that are no pair of continents; `ALL` leaves the same region out."""
FIGURES = ("rtt", "one stream", "many streams")
"""What is compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Miss:
    """One figure of the model and the measured one; seconds or bytes per second."""

    src: str
    dst: str
    figure: str
    group: str
    model: float
    measured: float

    @property
    def error(self) -> float:
        """Relative error: 0.1 says that the model is 10 % above what was measured."""
        return self.model / self.measured - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorGroup:
    """Errors of one figure between two continents; ``worst_error`` with its sign."""

    figure: str
    group: str
    links: int
    median_error: float
    p90_error: float
    worst_error: float
    worst_src: str
    worst_dst: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspect:
    """A measured round-trip time shorter than that of light in fibre along the great circle."""

    where: str
    src: str
    dst: str
    rtt_ms: float
    light_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Refit:
    """Factor of a pair of zones: the one in use and the one that a grid asks for."""

    zones: tuple[str, str]
    factor: float
    fitted: float


class NetworkCheck(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="placer.network-check/v1"
):
    """The link model beside measured links; errors are shares of 1. Suspects take no part in them.

    Parameters
    ----------
    unknown_places
        Rows by place without coordinates.
    estimated_rows
        Rows that nobody measured.
    empty_rows
        Rows without a figure.
    factors
        Only with --fit.
    """

    catalog: str
    grids: tuple[str, ...]
    rows: Count
    errors: tuple[ErrorGroup, ...]
    suspects: tuple[Suspect, ...]
    unknown_places: dict[str, Count]
    estimated_rows: Count
    empty_rows: Count
    factors: tuple[Refit, ...] = ()


def check_network(grids: Sequence[str], catalog: str | Sequence[str] | None = None) -> NetworkCheck:
    """Compare the link model, never the measured rows, with measured links.

    Parameters
    ----------
    grids
        Books, folders or CSV files with the columns of links.csv; none: the links of the catalog
        itself.
    catalog
        Book or books whose regions say where places are; regions of a grid replace them.

    Raises
    ------
    PlacerError
        If there is no such grid, it has no links, or none of them can be compared.
    """
    book = load_catalog(catalog)
    layers = [find_layer(grid) for grid in grids]
    located = (
        [(book.name, link) for link in book.links]
        if not layers
        else [row for layer in layers for row in _links(layer)]
    )
    names = tuple(layer.name for layer in layers) or (book.name,)
    if not located:
        raise PlacerError(
            f"{' and '.join(names)}: no measured links",
            "name a book or a CSV file with rows of links.csv",
        )
    known = replace(book, regions={**book.regions, **_regions(layers)}, links=())
    return _checked(located, known, book.name, names)


def _links(layer: Layer) -> list[tuple[str, MeasuredLink]]:
    """Return the rows of links.csv of a layer, with where they stand."""
    text = layer.files.get("links.csv")
    if text is None:
        raise PlacerError(
            f"'{layer.name}' has no links.csv",
            "name a book or a CSV file with measured links; erben-2023 is a shipped one",
        )
    return located_rows([Layer(name=layer.name, files={"links.csv": text})])["links.csv"]


def _regions(layers: Sequence[Layer]) -> dict[str, Region]:
    """Return the regions that the grids bring along."""
    files = [
        Layer(name=layer.name, files={"regions.csv": layer.files["regions.csv"]})
        for layer in layers
        if "regions.csv" in layer.files
    ]
    return {region.place: region for _, region in located_rows(files)["regions.csv"]}


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
    placed = [
        (where, row)
        for where, row in measured
        if row.src in known.regions and row.dst in known.regions
    ]
    suspects = tuple(_suspects(placed, known))
    wrong = {(suspect.where, suspect.src, suspect.dst) for suspect in suspects}
    sound = [row for where, row in placed if (where, row.src, row.dst) not in wrong]
    network = Network(known)
    misses = [miss for row in sound for miss in _misses(row, known, network)]
    if not misses and not suspects:
        raise PlacerError(
            f"{' and '.join(grids)}: none of {len(located):,} rows can be compared"
            + (f": {_named(unknown)}" if unknown else ""),
            "add the places to regions.csv beside the grid, or name the book that has them with "
            "--catalog"
            if unknown
            else "a row needs basis measured or published, and rtt_ms, gbps_one_stream or "
            "gbps_many_streams",
        )
    return NetworkCheck(
        catalog=catalog,
        grids=grids,
        rows=len(located),
        errors=tuple(_errors(misses)),
        suspects=suspects,
        unknown_places=dict(sorted(unknown.items())),
        estimated_rows=len(located) - len(measured),
        empty_rows=sum(
            row.rtt_ms is row.gbps_one_stream is row.gbps_many_streams is None
            for _, row in measured
        ),
        factors=tuple(_refits(sound, known)),
    )


def _named(unknown: Mapping[str, int]) -> str:
    places = sorted(unknown)
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return f"no book knows {', '.join(places[:3])}{more}"


def _suspects(placed: Iterable[tuple[str, MeasuredLink]], known: Catalog) -> Iterator[Suspect]:
    for where, row in placed:
        light_ms = light_rtt_s(known.region(row.src), known.region(row.dst)) * 1e3
        if row.rtt_ms is not None and row.rtt_ms < light_ms:
            yield Suspect(
                where=where, src=row.src, dst=row.dst, rtt_ms=row.rtt_ms, light_ms=light_ms
            )


def _misses(row: MeasuredLink, known: Catalog, network: Network) -> Iterator[Miss]:
    """Yield each measured figure of a row beside the model's."""
    link = network.estimated_link(row.src, row.dst)
    ends = sorted((known.region(row.src).continent, known.region(row.dst).continent))
    group = SAME_REGION if row.src == row.dst else "-".join(ends)
    models = (link.rtt_s, link.bytes_per_second, link.cap)
    rtt_s = None if row.rtt_ms is None else row.rtt_ms / 1e3
    streams = [
        None if gbps is None else gbps * GBPS
        for gbps in (row.gbps_one_stream, row.gbps_many_streams)
    ]
    for figure, model, measured in zip(FIGURES, models, (rtt_s, *streams), strict=True):
        if measured is not None:
            yield Miss(
                src=row.src, dst=row.dst, figure=figure, group=group, model=model, measured=measured
            )


def _errors(misses: Sequence[Miss]) -> Iterator[ErrorGroup]:
    """Yield the errors of each figure: pairs of continents by name, then the same region, then all
    between regions.
    """
    for figure in FIGURES:
        groups: dict[str, list[Miss]] = {}
        for miss in misses:
            if miss.figure == figure:
                groups.setdefault(miss.group, []).append(miss)
        between = [miss for name, found in groups.items() if name != SAME_REGION for miss in found]
        ordered = sorted(groups.items(), key=lambda item: (item[0] == SAME_REGION, item[0]))
        for name, found in [*ordered, *([(ALL, between)] if between else [])]:
            yield _error_group(figure, name, found)


def _error_group(figure: str, group: str, misses: Sequence[Miss]) -> ErrorGroup:
    sizes = [abs(miss.error) for miss in misses]
    worst = max(misses, key=lambda miss: abs(miss.error))
    return ErrorGroup(
        figure=figure,
        group=group,
        links=len(misses),
        median_error=median(sizes),
        p90_error=quantiles(sizes, n=10, method="inclusive")[-1] if len(sizes) > 1 else sizes[0],
        worst_error=worst.error,
        worst_src=worst.src,
        worst_dst=worst.dst,
    )


def _refits(rows: Sequence[MeasuredLink], known: Catalog) -> Iterator[Refit]:
    """Yield the factors that the measured round-trip times ask for; both directions of a pair count
    as one.
    """
    pairs: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.rtt_ms is not None and row.src != row.dst:
            pairs.setdefault((min(row.src, row.dst), max(row.src, row.dst)), []).append(
                row.rtt_ms / 1e3
            )
    measured = [
        (known.region(a), known.region(b), sum(rtts) / len(rtts)) for (a, b), rtts in pairs.items()
    ]
    for zones, fitted in sorted(fitted_factors(measured).items()):
        yield Refit(zones=zones, factor=route_factor(*zones), fitted=fitted)
