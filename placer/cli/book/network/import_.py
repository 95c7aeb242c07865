"""``placer network import``: links that others measured, as a book of the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from placer.cli import harvest as harvests
from placer.cli.harvest import import_options, past_date
from placer.cli.options import catalog_option
from placer.errors import PlacerError
from placer.units import counted

if TYPE_CHECKING:
    from placer.market.catalog import Region
    from placer.market.sources.harvest import Harvest


@click.group(
    "import",
    epilog="Example: placer network import skyplane throughput.csv latency.csv --date 2022-04-16",
)
def command() -> None:
    """Import measured links as a book of your own.

    The book holds links only: use it on top of another one.
    """


_DATE = click.option(
    "--date", metavar="YYYY-MM-DD", help="Day of the measurement, where the file does not say it."
)


@command.command(
    "skyplane",
    epilog="Example: placer network import skyplane throughput.csv latency.csv --date 2022-04-16",
)
@click.argument("files", nargs=-1, required=True, metavar="PATH|URL...")
@import_options(catalog_option, _DATE, name="skyplane")
def skyplane(
    files: tuple[str, ...],
    name: str,
    catalog: tuple[str, ...],
    date: str | None,
    skip_bad: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import Skyplane's public grids: throughput of 64 connections and round-trip times; several
    files merge.
    """
    from placer.market.sources.links.skyplane import import_skyplane
    from placer.market.sources.reading.fetch import read_document

    regions, day = _given(catalog, name, date)
    harvest = import_skyplane(
        [read_document(file) for file in files], regions, date=day, skip_bad=skip_bad
    )
    finish(harvest, name, catalog, dry_run=dry_run, as_json=as_json)


@command.command(
    "iperf3",
    epilog="Example: placer network import iperf3 run.json --from aws/us-east-1 --to gcp/us-west1",
)
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--from", "src", metavar="PLACE", help="Where the client ran (iperf3 -c).")
@click.option("--to", "dst", metavar="PLACE", help="Where the server ran (iperf3 -s).")
@click.option(
    "--pairs",
    metavar="FILE",
    help="CSV with file,src,dst, one row a run, in place of FILE, --from and --to.",
)
@import_options(catalog_option, _DATE, name="iperf3")
def iperf3(
    files: tuple[str, ...],
    src: str | None,
    dst: str | None,
    pairs: str | None,
    name: str,
    catalog: tuple[str, ...],
    date: str | None,
    skip_bad: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import runs of 'iperf3 --json': -P 1 gives one stream, more give many; -R and --bidir are
    understood.
    """
    from placer.market.sources.links.iperf3 import import_iperf3
    from placer.market.sources.links.link_csv import read_pairs
    from placer.market.sources.reading.fetch import read_document

    regions, day = _given(catalog, name, date)
    if pairs is not None:
        if files or src or dst:
            raise PlacerError(
                "--pairs names the files and places already",
                "give either --pairs, or FILE with --from and --to",
            )
        runs = read_pairs(read_document(pairs))
    else:
        if not (files and src and dst):
            raise PlacerError(
                "FILE, --from or --to is missing",
                "give all three, or --pairs with a CSV of file,src,dst",
            )
        runs = [(file, src, dst) for file in files]
    documents = [(read_document(file), a, b) for file, a, b in runs]
    finish(
        import_iperf3(documents, regions, date=day, skip_bad=skip_bad),
        name,
        catalog,
        dry_run=dry_run,
        as_json=as_json,
    )


@command.command(
    "csv",
    epilog="Example: placer network import csv links.csv --map 'src=from,dst=to,rtt_ms=latency' "
    "--date 2026-08-03",
)
@click.argument("files", nargs=-1, required=True, metavar="PATH|URL...")
@click.option(
    "--map",
    "columns",
    metavar="OURS=THEIRS,..",
    help="Columns of links.csv and of the file: src=from,dst=to,rtt_ms=latency.",
)
@click.option(
    "--rate-unit",
    default="Gb/s",
    show_default=True,
    metavar="UNIT",
    help="Unit of throughputs: b/s, Mb/s, MB/s ...",
)
@click.option(
    "--rtt-unit",
    default="ms",
    show_default=True,
    metavar="UNIT",
    help="Unit of round-trip times: us, ms, s.",
)
@import_options(catalog_option, _DATE, name="links")
def csv(
    files: tuple[str, ...],
    columns: str | None,
    rate_unit: str,
    rtt_unit: str,
    name: str,
    catalog: tuple[str, ...],
    date: str | None,
    skip_bad: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import links from a CSV file with the columns of links.csv, or those that --map names."""
    from placer.market.sources.links.link_csv import import_links, parse_map
    from placer.market.sources.reading.fetch import read_document

    regions, day = _given(catalog, name, date)
    mapped = None if columns is None else parse_map(columns)
    documents = [read_document(file) for file in files]
    harvest = import_links(
        documents,
        regions,
        columns=mapped,
        rate_unit=rate_unit,
        rtt_unit=rtt_unit,
        date=day,
        skip_bad=skip_bad,
    )
    finish(harvest, name, catalog, dry_run=dry_run, as_json=as_json)


def _given(catalog: tuple[str, ...], name: str, date: str | None) -> tuple[Any, str | None]:
    """Check what is cheap to check before anything is read: the name of the book, the day, the
    places.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.folders import check_book_name
    from placer.market.books.layers import catalog_names

    check_book_name(name, catalog_names())
    day = None if date is None else past_date(date, "--date").isoformat()
    regions: dict[str, Region] = dict(load_catalog(catalog).regions)
    return regions, day


def finish(
    harvest: Harvest, name: str, catalog: tuple[str, ...], *, dry_run: bool, as_json: bool
) -> None:
    """Save a harvest of links unless this is a dry run, and say what it holds; see
    `placer.cli.harvest.finish`.
    """
    rows = harvest.rows["links.csv"]
    if not rows:
        raise _nothing(harvest, name)
    places = {str(row[end]) for row in rows for end in ("src", "dst")}
    counts = [(sum(row[column] is not None for row in rows), words) for column, words in _FIGURES]
    figures = ", ".join(f"{count:,} with {words}" for count, words in counts if count)
    harvests.finish(
        harvest,
        name,
        catalog,
        fields={"links": [dict(row) for row in rows]},
        words=[
            (
                f"{counted(len(rows), 'ordered pair')} of {counted(len(places), 'place')}: "
                f"{figures or 'nothing'}"
            )
        ],
        commands=["placer network check"],
        dry_run=dry_run,
        as_json=as_json,
    )


def _nothing(harvest: Harvest, name: str) -> PlacerError:
    from placer.market.sources.reading.fetch import FAILED

    reason, count = max(
        harvest.left_out.items(), key=lambda item: item[1], default=("the source has no row", 0)
    )
    words = (
        f"nothing was found for '{name}': {f'{count:,} rows left out: ' if count else ''}{reason}"
    )
    return PlacerError(
        words, "check the file and --catalog; an old book stays as it was", exit_code=FAILED
    )


_FIGURES: Sequence[tuple[str, str]] = (
    ("gbps_one_stream", "one stream"),
    ("gbps_many_streams", "many streams"),
    ("rtt_ms", "a round-trip time"),
)
