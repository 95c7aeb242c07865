"""``placer catalog import`` and ``refresh``: books from files of any source, and from providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from placer.cli.book import harvest as harvests
from placer.cli.book.harvest import past_date, say_next, say_rest
from placer.cli.command import Json, as_command
from placer.cli.output import print_json, say
from placer.cli.screen.progress import telling
from placer.errors import PlacerError, unknown
from placer.units import counted, format_bytes, format_plain

if TYPE_CHECKING:
    from placer.market.sources.harvest import Harvest, Row
    from placer.market.sources.reading.mapping import SourceMap
    from placer.market.sources.refresh import Changes, Refreshed

EPILOG = """\b
Examples:
  placer catalog import skypilot ~/.sky/catalogs/v8 --dry-run
  placer catalog import vendor.toml machines.json --as vendor
  placer catalog import csv quote.csv --map instance_type=Machine,usd_per_hour=Price
    --set provider=aws --set market=on_demand --set price_basis=list
    --set source='quote 4711' --as-of 2026-11-01 --as quote
"""


@as_command("import", EPILOG)
def import_command(
    source: str,
    places: tuple[str, ...] = (),
    *,
    kind: str | None = None,
    maps: tuple[str, ...] = (),
    constants: tuple[str, ...] = (),
    provider: str | None = None,
    as_of: str | None = None,
    name: str | None = None,
    timeout: str = "20",
    skip_bad: bool = False,
    dry_run: bool = False,
    as_json: Json,
) -> None:
    """Make a book of your own from files or URLs of other tools and providers.

    A mapping file says where the rows lie in CSV, JSON or lines of JSON, and which of their names,
    units and values are which. With csv, columns are mapped by --map, set by --set, or have
    placer's names; files that AWS, Azure, Lambda, RunPod, Vast.ai and gpuhunt write, and bills in
    FOCUS, are recognised without a word. Prices are plain numbers in USD; a leading $ is removed,
    anything else beside a number is refused, and so are regions and devices that no book knows,
    machines that the book knows otherwise, and prices of another unit, term or licence.

    With skypilot, a folder with aws/vms.csv and so on, files or URLs of schema v5 to v8: a region
    has the spot price of its cheapest zone, and on Google Cloud the prices of a host and its
    devices are added. Regions and devices that no book knows are counted; put a regions.csv or
    gpus.csv with placer's columns into the folder to bring your own. The dates are those that
    placer-sources.csv beside says of prices that are still the same, else the file's.

    With gcp, saved answers of services.skus.list of the Cloud Billing API: parts are added up for
    the machines of the shipped book. With aws-advisor, spot-advisor-data.json of AWS: spot machines
    of the shipped book get its bands of interruptions.

    source (csv|skypilot|gcp|aws-advisor|NAME|FILE.toml):
    places (FILE|URL...):
    kind (NAME): offers (default), egress, stores, functions, regions.
    maps (FILE.toml|A=B,.., --map): Their column B is placer's column A; equal names need none.
    constants (A=VALUE, --set): The same value of placer's column A in every row.
    provider (NAME): skypilot: whose machines a file has; default: the name of its folder.
    as_of (DATE): Date of prices that say none; skypilot: default the file's.
    name (NAME, --as): Name of the book.
    timeout (SECONDS): Longest silence of a server.
    skip_bad: Leave out and count what is wrong, instead of refusing the file.
    dry_run: Read and check, write nothing.
    """
    from placer.market.books.folders import check_book_name
    from placer.market.books.layers import catalog_names
    from placer.market.sources.prices.skypilot.catalogs import read_skypilot
    from placer.market.sources.reading.book_rows import read_listing

    if name is not None:
        check_book_name(name, catalog_names())
    if not places:
        tip = "name the source first, as in 'placer catalog import csv quote.csv'"
        raise PlacerError("FILE is missing", tip)
    fixed = source in ("skypilot", "gcp", "aws-advisor")
    alien = (kind, *maps, *constants) if fixed else (provider,)
    if any(alien):
        words = "--kind, --map and --set are" if fixed else "--provider is"
        raise PlacerError(f"{words} not for {source}", "leave out what is not")
    day = None if as_of is None else past_date(as_of, "--as-of")
    wait = _seconds(timeout)
    if source == "skypilot":
        harvest = read_skypilot(
            places, provider=provider, skip_bad=skip_bad, as_of=day, read_seconds=wait
        )
        clouds = sorted({str(row["provider"]) for row in harvest.rows["offers.csv"]})
        default = f"skypilot-{clouds[0]}" if len(clouds) == 1 else "skypilot"
    elif source == "gcp":
        from placer.market.sources.prices.gcp import read_skus

        harvest, default = read_skus(places, day, wait), "gcp-skus"
    elif source == "aws-advisor":
        from placer.market.sources.prices.spot_advisor import read_advice

        if as_of is not None or len(places) > 1:
            words = "aws-advisor reads one file, whose machines keep the dates of their prices"
            raise PlacerError(words, "leave out --as-of and other files")
        harvest, default = read_advice(places[0], wait), "aws-advisor"
    elif source == "csv" and (listed := _known_list(places, kind, maps, constants, wait)):
        harvest, default = listed
    else:
        mapping = read_words(source, kind, maps, constants)
        harvest = read_listing(places, mapping, skip_bad=skip_bad, as_of=day, read_seconds=wait)
        default = f"imported-{mapping.kind}"
    harvests.finish(
        harvest,
        name or default,
        (),
        words=[*_read_words(harvest), *_tips(harvest)],
        dry_run=dry_run,
        as_json=as_json,
    )


def _known_list(
    places: Sequence[str],
    kind: str | None,
    maps: Sequence[str],
    constants: Sequence[str],
    read_seconds: float,
) -> tuple[Harvest, str] | None:
    """Return the book of a list that also names its places, and its provider; None for others."""
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.layers import DEFAULT_CATALOG
    from placer.market.sources.guessed.book import harvest_of, known_list, read_list
    from placer.market.sources.reading.fetch import read_document

    if kind or maps or constants or len(places) > 1:
        return None
    mapping = known_list(read_document(places[0], read_seconds=read_seconds))
    if mapping is None:
        return None
    book, provider = load_catalog(DEFAULT_CATALOG), mapping.set["provider"]
    return harvest_of(read_list(places[0], {}, book), provider, {}, book), provider


def read_words(
    source: str, kind: str | None, maps: Sequence[str], constants: Sequence[str]
) -> SourceMap:
    """Read which mapping the words of the command line mean.

    ``source``: ``csv``, the name of a shipped mapping, or a path that ends in ``.toml``. ``kind``:
    of the rows; None: what the mapping says, else offers. ``maps``: at most one path that ends in
    ``.toml``, and pairs ``placer_column=their_column`` with commas between. ``constants``: pairs
    ``placer_column=value``. Raise `PlacerError` if a source, kind, table or column is unknown, or a
    column is given twice.

    >>> read_words("csv", None, ["usd_per_hour=Price,region=Place"], ["provider=aws"]).columns
    {'usd_per_hour': 'Price', 'region': 'Place'}
    """
    from placer.market.books.csv_rows import BOOK_FILES
    from placer.market.sources.reading.mapping import (
        PRICES,
        SourceMap,
        columns_of,
        read_mapping,
        shipped_mapping,
        shipped_mappings,
        with_words,
    )
    from placer.records import replace

    files = [word for word in (source, *maps) if word.endswith(".toml")]
    shipped = [name for name in shipped_mappings() if shipped_mapping(name).kind in PRICES]
    if source not in shipped and not source.endswith(".toml"):
        raise unknown("source", source, shipped, "name a mapping file, or csv and the file")
    if len(files) > 1:
        raise PlacerError(f"'{files[1]}' is a second mapping file", "give one of the two")
    if kind is not None and kind not in PRICES and f"{kind}.csv" in {*BOOK_FILES, "links.csv"}:
        way = "use 'placer network import csv'" if kind == "links" else "give it as --catalog FILE"
        raise PlacerError(f"{kind} are not imported here", way)
    asked = kind or "offers"
    mapping = read_mapping(files[0], asked) if files else shipped_mapping(source)
    if source == "csv" and asked != "offers" and not files:
        mapping = SourceMap(kind=asked)
    elif files and mapping.kind == "offers":  # what any list may say of its prices
        mapping = replace(mapping, refuse=(*mapping.refuse, *shipped_mapping("csv").refuse))
    columns_of(mapping.kind)
    if mapping.kind not in PRICES:
        raise PlacerError(
            f"'{files[0]}' maps {mapping.kind}", f"use 'placer network import {files[0]}'"
        )
    return with_words(mapping, [word for word in maps if not word.endswith(".toml")], constants)


def _read_words(harvest: Harvest) -> Iterator[str]:
    for origin in harvest.origins:
        yield (
            f"read {origin.place} ({format_bytes(origin.size_bytes)}, sha256 {origin.sha256[:12]})"
        )
    for file, rows in harvest.rows.items():
        yield f"{counted(len(rows), 'row')} of {file}{_coverage(rows)}, prices of {_dates(rows)}"


def _coverage(rows: Sequence[Row]) -> str:
    if not rows or "region" not in rows[0]:
        return ""
    providers = sorted({str(row["provider"]) for row in rows})
    places = {(row["provider"], row["region"]) for row in rows}
    return f" in {counted(len(places), 'region')} of {', '.join(providers)}"


def _dates(rows: Sequence[Row]) -> str:
    days = sorted({str(row["as_of"]) for row in rows if row.get("as_of")})
    return "no date" if not days else days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _tips(harvest: Harvest) -> Iterator[str]:
    reasons = " ".join(harvest.left_out)
    if "gpus.csv does not know" in reasons:
        yield (
            "tip: describe unknown devices in a gpus.csv of the book's own (columns: "
            "catalogs/columns.csv)"
        )
    if "no book knows" in reasons:
        yield (
            "tip: give unknown regions coordinates: a regions.csv beside the providers' folders "
            "of SkyPilot"
        )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 600:
        raise PlacerError(
            f"--timeout '{text}' is not from 0.1 to 600 s", "give seconds, such as 20"
        )
    return value


@as_command("refresh", "Example: placer catalog refresh aws --in us-west-2,eu-west-1 --gpu T4,A10G")
def refresh_command(
    provider: str,
    *,
    places: str | None = None,
    gpu: str | None = None,
    name: str | None = None,
    partial: bool = False,
    dry_run: bool = False,
    as_json: Json,
) -> None:
    """Write today's prices of a provider as a book of your own.

    aws asks with boto3 and your own AWS credentials, gcp with an API key in PLACER_GCP_API_KEY,
    azure without an account. The new book replaces the one of the same name at once, or not at all.

    provider (aws|azure|gcp):
    places (REGION,.., --in): Only these regions; wildcards allowed.
    gpu (A,B): Only these devices; default: all, and CPU hosts.
    name (NAME, --as): Name of the book; default: the provider's.
    partial: aws: keep the old prices of regions that fail instead of failing.
    dry_run: Read and compare, write nothing.
    """
    import msgspec

    from placer.market.sources.refresh import refresh

    with telling("reading ...") as tell:
        done, rows = refresh(
            provider,
            places=places,
            gpu=gpu,
            name=name,
            partial=partial,
            dry_run=dry_run,
            tell=lambda words: tell(f"{words} ..."),
        )
    if as_json:
        print_json(msgspec.to_builtins(done))
    else:
        _print_refreshed(done, rows)


def _print_refreshed(done: Refreshed, rows: Sequence[Row]) -> None:
    spot = sum(row["market"] == "spot" for row in rows)
    verb = "would have" if done.written is None else "has"
    say(
        f"{done.catalog} {verb} {counted(done.offers, 'offer')} in "
        f"{counted(len(done.regions), 'region')}: {done.offers - spot:,} on-demand, {spot:,} spot"
    )
    say(_changes(done.changes, done.catalog), whole=True)
    say_rest(done.left_out, done.notes)
    say_next(done.catalog, dry_run=done.written is None)


def _changes(changes: Changes | None, name: str) -> str:
    if changes is None:
        return f"no book '{name}' to compare with"
    counts = {
        "dearer": changes.up,
        "cheaper": changes.down,
        "as before": changes.same,
        "new": changes.new,
        "gone": changes.gone,
    }
    text = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    if changes.not_asked:
        text += f", {changes.not_asked:,} dropped because they were not asked for this time"
    move = changes.largest
    if move is None:
        return text
    return (
        f"{text}; largest change {move.share:+.1%}: {move.place} {move.instance_type} "
        f"{move.market.replace('_', '-')}"
        f" {format_plain(move.before_usd_per_hour, 4)} -> "
        f"{format_plain(move.after_usd_per_hour, 4)} USD/h"
    )
