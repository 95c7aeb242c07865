"""``placer network``: links between places, and those that others measured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placer.cli.book import harvest as harvests
from placer.cli.book.harvest import past_date
from placer.cli.command import Catalog, Json, Table, as_command
from placer.cli.screen.show import show
from placer.errors import PlacerError, SourceError, unknown
from placer.units import counted

if TYPE_CHECKING:
    from placer.market.catalog import Region
    from placer.market.sources.harvest import Harvest
    from placer.market.sources.reading.mapping import SourceMap

TIER = ("above_gib_per_month", "usd_per_gib", "source", "as_of")
"""What is shown of a volume tier."""


@as_command(
    "show", "Example: placer network show gcp/us-central1 aws/us-west-2 --catalog erben-2023"
)
def show_command(places: tuple[str, ...], *, catalog: Catalog, as_json: Table) -> None:
    """Show bandwidth of one stream, round-trip time and egress price of each pair of PLACEs.

    Every ordered pair is shown; wildcards are allowed.

    places (PLACE...):
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.network.graph import network_of
    from placer.market.words.selection import match_places

    book = load_catalog(catalog)
    places_of_book = match_places(places, book)
    if len(places_of_book) > 40:
        raise PlacerError(
            f"{len(places_of_book)} places are {len(places_of_book) ** 2:,} links",
            "name at most 40 places",
        )
    network = network_of(book)
    links = []
    for a, b in product(sorted(places_of_book), repeat=2):
        link, tiers = network.link(a, b), network.egress_tiers(a, b)
        figures = {
            "from": a,
            "to": b,
            "bytes_per_second": link.bytes_per_second,
            "rtt_seconds": link.rtt_s,
            "usd_per_gib": network.egress_price(a, b).usd_per_gib,
            "egress_tiers": [{name: getattr(tier, name) for name in TIER} for tier in tiers],
            "basis": link.basis,
            "source": link.source,
        }
        links.append(figures)
    document = {"schema": "placer.network/v1", "catalog": book.name, "links": links}
    show(document, as_json=as_json)


@as_command("check", "Example: placer network check erben-2023")
def check_command(grids: tuple[str, ...] = (), *, catalog: Catalog, as_json: Table) -> None:
    """Compare estimated links with measured ones.

    A GRID is a book, a folder or a CSV file with the columns of links.csv; without one, the links
    of the catalog itself are compared. The estimate never uses the measured rows.

    grids ([GRID]...):
    """
    import msgspec

    from placer.market.network.measured_links import check_network

    show(msgspec.to_builtins(check_network(grids, catalog)), as_json=as_json)


EPILOG = """\b
Examples:
  placer network import skyplane throughput.csv latency.csv --date 2022-04-16
  placer network import iperf3 run.json --from aws/us-east-1 --to gcp/us-west1
  placer network import csv links.csv --map 'src=from,dst=to,rtt_ms=latency'
    --date 2026-08-03
"""


@as_command("import", EPILOG)
def import_command(
    source: str,
    files: tuple[str, ...] = (),
    *,
    src: str | None = None,
    dst: str | None = None,
    pairs: str | None = None,
    maps: tuple[str, ...] = (),
    rate_unit: str | None = None,
    rtt_unit: str | None = None,
    name: str | None = None,
    catalog: Catalog,
    date: str | None = None,
    skip_bad: bool = False,
    dry_run: bool = False,
    as_json: Json,
) -> None:
    """Import measured links as a book of your own.

    skyplane reads Skyplane's public grids, several of which merge; iperf3 runs of 'iperf3 --json'
    or --json-stream, or its text with --date, where -P 1 gives one stream, more give many, and -R
    and --bidir are understood; csv a file with the columns of links.csv, or those that --map names.
    A mapping file of your own reads any other source. The book holds links only: use it on top of
    another one.

    source (csv|iperf3|skyplane|FILE.toml):
    files (PATH|URL...):
    src (PLACE, --from): iperf3: where the client ran (iperf3 -c).
    dst (PLACE, --to): iperf3: where the server ran (iperf3 -s).
    pairs (FILE): iperf3: CSV with file,src,dst, one row a run, in place of PATH, --from and --to.
    maps (OURS=THEIRS,.., --map): Columns of links.csv and of the file:
        src=from,dst=to,rtt_ms=latency.
    rate_unit (UNIT): csv: b/s, Mb/s, MB/s ...; default: Gb/s.
    rtt_unit (UNIT): csv: us, ms or s; default: ms.
    name (NAME, --as): Name of the book.
    date (YYYY-MM-DD): Day of the measurement, where the file does not say it.
    skip_bad: Leave out and count what is wrong, instead of refusing the file.
    dry_run: Read and check, write nothing.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.folders import check_book_name
    from placer.market.books.layers import catalog_names
    from placer.market.sources.links import import_links
    from placer.market.sources.machine_files import refuse_known
    from placer.market.sources.reading.fetch import is_url, read_document
    from placer.market.sources.reading.iperf3_text import as_document
    from placer.records import replace

    name = check_book_name(
        name or (source if source in SOURCES and source != "csv" else "links"), catalog_names()
    )
    mapping = _mapping(source, maps, rate_unit, rtt_unit)
    day = None if date is None else past_date(date, "--date").isoformat()
    regions: dict[str, Region] = dict(load_catalog(catalog).regions)
    runs = _runs(files, src, dst, pairs, needs_ends=source == "iperf3")
    for file, _ in runs:
        if source == "csv" and not is_url(file) and Path(file).is_file():
            refuse_known(file)  # logs of tools that measure inside a machine
    documents = [(read_document(file), ends) for file, ends in runs]
    if source == "iperf3":
        documents = [(replace(one, data=as_document(one.data)), ends) for one, ends in documents]
    harvest = import_links(documents, mapping, regions, date=day, skip_bad=skip_bad)
    _finish(harvest, name, catalog, dry_run=dry_run, as_json=as_json)


SOURCES = ("csv", "iperf3", "skyplane")


def _mapping(
    source: str, maps: Sequence[str], rate_unit: str | None, rtt_unit: str | None
) -> SourceMap:
    from placer.market.sources.reading.mapping import (
        SourceMap,
        read_mapping,
        shipped_mapping,
        unit_factors,
        with_words,
    )
    from placer.records import replace

    if source == "csv":
        mapping = SourceMap(kind="links", needs=(), unknown_names="counted")
    elif source in SOURCES:
        mapping = shipped_mapping(source)
    elif source.endswith(".toml"):
        mapping = read_mapping(source, "links")
    else:
        raise unknown("source", source, SOURCES, "name csv, iperf3, skyplane or a mapping file")
    if mapping.kind != "links":
        raise PlacerError(
            f"'{source}' maps {mapping.kind}", f"use 'placer catalog import {source}'"
        )
    rates = ("gbps_one_stream", "gbps_many_streams", "gbps_low", "gbps_high")
    units = dict(mapping.units) | (dict.fromkeys(rates, rate_unit) if rate_unit else {})
    mapping = replace(mapping, units=units | ({"rtt_ms": rtt_unit} if rtt_unit else {}))
    unit_factors(mapping)
    return with_words(mapping, maps, ())


def _runs(
    files: Sequence[str], src: str | None, dst: str | None, pairs: str | None, *, needs_ends: bool
) -> list[tuple[str, dict[str, str]]]:
    """Return the files with the places between which they were measured."""
    from placer.market.sources.links import read_pairs
    from placer.market.sources.reading.fetch import read_document

    if pairs is not None:
        if files or src or dst:
            raise PlacerError(
                "--pairs names the files and places already",
                "give either --pairs, or FILE with --from and --to",
            )
        found = read_pairs(read_document(pairs))
        return [(file, {"from": one, "to": other}) for file, one, other in found]
    if not files or (needs_ends and not (src and dst)):
        raise PlacerError(
            "FILE, --from or --to is missing" if needs_ends else "FILE is missing",
            "give all three, or --pairs with a CSV of file,src,dst" if needs_ends else "name one",
        )
    return [(file, {"from": src or "", "to": dst or ""}) for file in files]


def _finish(
    harvest: Harvest, name: str, catalog: tuple[str, ...], *, dry_run: bool, as_json: bool
) -> None:
    """Save a harvest of links unless this is a dry run, and say what it holds."""
    rows = harvest.rows["links.csv"]
    if not rows:
        most = max(
            harvest.left_out.items(), key=itemgetter(1), default=("the source has no row", 0)
        )
        left_out = f"{counted(most[1], 'row')} left out: " if most[1] else ""
        words = f"nothing was found for '{name}': {left_out}{most[0]}"
        raise SourceError(words, "check the file and --catalog; an old book stays as it was")
    places = {str(row[end]) for row in rows for end in ("src", "dst")}
    counts = [(sum(row[column] is not None for row in rows), words) for column, words in _FIGURES]
    figures = ", ".join(f"{count:,} with {words}" for count, words in counts if count)
    fields: dict[str, Any] = {"links": [dict(row) for row in rows]}
    pairs, found = counted(len(rows), "ordered pair"), counted(len(places), "place")
    harvests.finish(
        harvest,
        name,
        catalog,
        fields=fields,
        words=[f"{pairs} of {found}: {figures or 'nothing'}"],
        commands=["placer network check"],
        dry_run=dry_run,
        as_json=as_json,
    )


_FIGURES: Sequence[tuple[str, str]] = (
    ("gbps_one_stream", "one stream"),
    ("gbps_many_streams", "many streams"),
    ("rtt_ms", "a round-trip time"),
)
