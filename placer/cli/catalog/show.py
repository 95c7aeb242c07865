"""``placer catalog show``: what a catalog covers, how old it is and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.cli import one_line
from placer.cli.options import json_option
from placer.cli.output import console, print_json

if TYPE_CHECKING:
    from placer.layers import Layer


@dataclass(frozen=True, kw_only=True, slots=True)
class BookOrigin:
    """What stands in the origin.json of a book, as `placer.sources.save` writes it."""

    schema: str
    retrieved: str
    documents: list[Source]
    left_out: dict[str, int]
    notes: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """One document that a book was made of."""

    place: str
    sha256: str
    size_bytes: int


@click.command("show", epilog="Example: placer catalog show default")
@click.argument("names", nargs=-1, metavar="NAME|DIR|CSV...")
@json_option
def command(names: tuple[str, ...], as_json: bool) -> None:
    """Show offers by provider and device, regions, ages and origin of a catalog; several NAMEs lie over each other."""
    import msgspec

    from placer.coverage import ages, coverage, regions_by_provider
    from placer.layered import over_default

    book, layers = over_default(names)
    document = {
        "schema": "placer.coverage/v1",
        "catalog": book.name,
        "digest": book.digest,
        "coverage": msgspec.to_builtins(coverage(book)),
        "regions": regions_by_provider(book),
        "ages": msgspec.to_builtins(ages(book)),
        "layers": [{"name": layer.name, "digest": layer.digest, "origin": _origin(layer)} for layer in layers],
    }
    if as_json:
        print_json(document)
    else:
        _print(document)


def _origin(layer: Layer) -> Any:
    """What the command that wrote a book said of it; None for others, and for what no such command wrote."""
    import msgspec

    from placer.sources.save import ORIGIN

    path: Path = next(iter(layer.files.values())).path.parent / ORIGIN
    try:
        return msgspec.to_builtins(msgspec.json.decode(path.read_bytes(), type=BookOrigin)) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table

    out = console()
    out.print(f"catalog {document['catalog']} (digest {document['digest']})")
    table = Table(box=None, pad_edge=False, header_style="underline", title_justify="left")
    headers = ("provider", "device", "regions", "on demand", "spot", "estimated", "USD/device h", "prices of")
    for header in headers:
        table.add_column(header, justify="left" if header in ("provider", "device", "prices of") else "right", no_wrap=True)
    for row in document["coverage"]:
        table.add_row(
            row["provider"],
            row["gpu"],
            str(row["regions"]),
            str(row["on_demand"]),
            str(row["spot"]),
            str(row["estimated"]),
            f"{row['usd_per_gpu_hour_low']:.2f} .. {row['usd_per_gpu_hour_high']:.2f}",
            row["newest"] if row["oldest"] == row["newest"] else f"{row['oldest']} .. {row['newest']}",
        )
    out.print(table)
    out.print("regions: " + ", ".join(f"{provider} {count}" for provider, count in document["regions"].items()))
    for age in document["ages"]:
        out.print(f"{age['kind']}: {age['rows']:,} rows, {age['oldest']} to {age['newest']}")
    for layer in document["layers"]:
        _print_origin(layer)


def _print_origin(layer: dict[str, Any]) -> None:
    if layer["origin"] is None:
        return
    err = console()
    origin = layer["origin"]
    err.print(one_line(f"{layer['name']}: retrieved {origin['retrieved']}"))
    for entry in origin["documents"]:
        err.print(one_line(f"  from {entry['place']} ({entry['size_bytes']:,} bytes, sha256 {entry['sha256'][:16]})"))
    for reason, count in origin["left_out"].items():
        err.print(one_line(f"  left out {count:,}: {reason}"))
    for note in origin["notes"]:
        err.print(one_line(f"  {note}"))
