"""``placer catalog show``: what a catalog covers, how old it is and where it comes from."""

from __future__ import annotations

import json
from typing import Any

import click

from placer.cli.options import json_option
from placer.cli.output import console, new_table, print_json


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


def _origin(layer: Any) -> Any:
    """What the command that wrote a book said of it; None for others."""
    from placer.sources.save import ORIGIN

    path = next(iter(layer.files.values())).path.parent / ORIGIN
    try:
        return json.loads(path.read_bytes()) if path.is_file() else None
    except (OSError, ValueError):
        return None


def _print(document: dict[str, Any]) -> None:
    out = console()
    out.print(f"catalog {document['catalog']} (digest {document['digest']})")
    headers = ("provider", "device", "regions", "on demand", "spot", "estimated", "USD/device h", "prices of")
    table = new_table(headers, right=headers[2:-1], wrap=())
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
    err.print(f"{layer['name']}: retrieved {layer['origin'].get('retrieved')}")
    for entry in layer["origin"].get("documents", []):
        err.print(f"  from {entry.get('place')} ({entry.get('size_bytes', 0):,} bytes, sha256 {str(entry.get('sha256'))[:16]})")
    for reason, count in layer["origin"].get("left_out", {}).items():
        err.print(f"  left out {count:,}: {reason}")
    for note in layer["origin"].get("notes", []):
        err.print(f"  {note}")
