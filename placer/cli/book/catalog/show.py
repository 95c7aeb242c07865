"""``placer catalog show``: what a catalog covers, how old it is and where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.cli import one_line
from placer.cli.options import table_option
from placer.cli.output import console, new_table, print_json
from placer.errors import PlacerError

if TYPE_CHECKING:
    from rich.console import Console

HEADERS = (
    "provider",
    "device",
    "regions",
    "on\ndemand",
    "spot",
    "esti-\nmated",
    "USD/h of\na device",
    "prices of",
)
"""On two lines, so that the table fits 80 columns."""
MOST_DOCUMENTS = 3
"""So many documents of a book are listed one by one; more of one kind share a line."""

if TYPE_CHECKING:
    from placer.market.books.layers import Layer


@click.command("show", epilog="Example: placer catalog show default")
@click.argument("names", nargs=-1, metavar="NAME|DIR|CSV...")
@table_option
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Show a catalog: offers by provider and device, regions, ages, sources and origin.

    Of several NAMEs, later books replace rows of earlier ones. Rows with figures not checked,
    assumed or estimated figures are counted.
    """
    import msgspec

    from placer.market.books.partial_books import over_default
    from placer.market.checks.coverage import ages, cited, coverage, regions_by_provider, unsure

    book, layers = over_default(names)
    sources, own = cited(book)
    document = {
        "schema": "placer.coverage/v1",
        "catalog": book.name,
        "digest": book.digest,
        "coverage": msgspec.to_builtins(coverage(book)),
        "regions": regions_by_provider(book),
        "ages": msgspec.to_builtins(ages(book)),
        "unsure": msgspec.to_builtins(unsure(book)),
        "sources": msgspec.to_builtins(sources),
        "own_sources": own,
        "layers": [
            {"name": layer.name, "digest": layer.digest, "origin": _origin(layer)}
            for layer in layers
        ],
    }
    if as_json:
        print_json(document)
    else:
        _print(document)


def _origin(layer: Layer) -> Any:
    """Read what the command that wrote a book recorded; None for other books."""
    import msgspec

    from placer.files.bounded_file import bounded
    from placer.market.sources.harvest import BookOrigin
    from placer.market.sources.save import ORIGIN

    path: Path = next(iter(layer.files.values())).path.parent / ORIGIN
    try:
        return (
            msgspec.to_builtins(msgspec.json.decode(bounded(path, "remove it"), type=BookOrigin))
            if path.is_file()
            else None
        )
    except (OSError, ValueError, RecursionError, PlacerError):
        return None


def _print(document: dict[str, Any]) -> None:
    out = console()
    out.print(f"catalog {document['catalog']} (digest {document['digest']})")
    _print_coverage(out, document["coverage"])
    out.print(
        "regions: "
        + ", ".join(f"{provider} {count}" for provider, count in document["regions"].items())
    )
    for age in document["ages"]:
        out.print(
            f"{age['kind']}: {age['rows']:,} rows, {_span(age['oldest'], age['newest'], ' to ')}"
        )
    out.print("how sure:" if document["unsure"] else "no row says that its figure is assumed")
    for count in document["unsure"]:
        out.print(
            f"  {count['rows']:,} of {count['of']:,} rows of {count['kind']} are {count['words']}"
        )
    _print_sources(out, document["sources"], document["own_sources"])
    for layer in document["layers"]:
        _print_origin(out, layer)


def _print_coverage(out: Console, rows: list[dict[str, Any]]) -> None:
    table = new_table(HEADERS, right=HEADERS[2:-1])
    for row in rows:
        table.add_row(
            row["provider"],
            row["gpu"],
            str(row["regions"]),
            str(row["on_demand"]),
            str(row["spot"]),
            str(row["estimated"]),
            _span(f"{row['usd_per_gpu_hour_low']:.2f}", f"{row['usd_per_gpu_hour_high']:.2f}", "-"),
            row["newest"]
            if row["oldest"] == row["newest"]
            else _span(row["oldest"][:7], row["newest"][:7], ".."),
        )
    out.print(table)
    for provider in dict.fromkeys(row["provider"] for row in rows if row["community"]):
        count = sum(row["community"] for row in rows if row["provider"] == provider)
        out.print(f"community: {count:,} rows of {provider}, beside those of the table")


def _span(oldest: str, newest: str, between: str) -> str:
    return newest if oldest == newest else f"{oldest}{between}{newest}"


def _print_sources(out: Console, sources: list[dict[str, Any]], own: int) -> None:
    """Print one source a line, its address below where the line would be too long."""
    out.print("sources, by the rows that name them:")
    for source in sources:
        cut = " ...)" if source["source"].count("(") > source["source"].count(")") else ""
        words = (
            f"{source['rows']:>7,}  "
            f"{source['source']}{cut}{' (mirror)' if source['kind'] == 'mirror' else ''}"
        )
        address = source["url"] or f"({source['kind']})"
        gap = "  " if len(words) + 2 + len(address) <= out.width else f"\n{'':9}"
        out.print(f"{words}{gap}{address}", soft_wrap=True)
    if own:
        out.print(f"{own:>7,}  of the user's own")


def _print_origin(out: Console, layer: dict[str, Any]) -> None:
    origin = layer["origin"]
    if origin is None:
        return
    out.print(one_line(f"{layer['name']}: retrieved {origin['retrieved']}"))
    kinds: dict[str, list[dict[str, Any]]] = {}
    for entry in origin["documents"]:
        kinds.setdefault(_kind(entry["place"]), []).append(entry)
    for kind, entries in kinds.items():
        _print_documents(out, kind, entries)
    for reason, count in origin["left_out"].items():
        out.print(one_line(f"  left out {count:,}: {reason}"))
    for note in origin["notes"]:
        out.print(one_line(f"  {note}"))


def _kind(place: str) -> str:
    """Summarise documents by the name of the interface or file, and where it was asked."""
    head, _, name = place.split("?", maxsplit=1)[0].rpartition("/")
    server = "/".join(head.split("/")[:3]) if "://" in head else ""
    return f"{server} {name or place}".split(",")[0].strip()


def _print_documents(out: Console, kind: str, entries: list[dict[str, Any]]) -> None:
    if len(entries) <= MOST_DOCUMENTS:
        for entry in entries:
            out.print(
                one_line(
                    f"  from {entry['place']} ({entry['size_bytes']:,} bytes, sha256 "
                    f"{entry['sha256'][:16]})"
                )
            )
        return
    total = sum(entry["size_bytes"] for entry in entries)
    out.print(
        one_line(
            f"  from {entries[0]['place']} and {len(entries) - 1:,} more of {kind} ({total:,} "
            f"bytes in all)"
        )
    )
