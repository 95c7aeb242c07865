"""Price books: which there are, what one covers, offers and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any

from placer.market.catalog import device_name
from placer.report.blocks import Cell, Report, Section, figure, section, table, text
from placer.report.figures import Document, market_words
from placer.units import format_plain

MOST_DOCUMENTS = 3
"""More documents of one kind that a book was made of are counted."""


def catalogs(document: Document, today: date) -> Report:
    """List the price books at hand, of a ``placer.catalogs/v1`` document."""
    rows: list[list[Cell]] = [
        [
            f"{row['name']}{'*' if row['used'] else ''}",
            *(row[key] for key in ("offers", "places", "links")),
            row["problem"] or (f"{row['oldest']} to {row['as_of']}" if row["as_of"] else "-"),
            ", ".join(row["providers"]),
            ", ".join(row["gpus"]),
        ]
        for row in document["catalogs"]
    ]
    lists = ("prices of", "providers", "devices")
    columns = ("catalog", "offers", "places", "links", *lists)
    listed = table("Price books", columns, rows, narrowed=lists)
    used = "* is used where no --catalog is given; your own books lie in"
    return Report(
        title="Price books",
        subtitle="placer catalog list",
        sections=section("", listed, text(f"{used} {document['folder']}")),
    )


def coverage(document: Document, today: date) -> Report:
    """Show what a price book covers, of a ``placer.coverage/v1`` document."""
    unsure = [
        f"{row['rows']:,} of {row['of']:,} rows of {row['kind']} are {row['words']}"
        for row in document["unsure"]
    ]
    ages = [
        f"{row['kind']}: {row['rows']:,} rows, {_span(row['oldest'], row['newest'], ' to ')}"
        for row in document["ages"]
    ]
    regions = ", ".join(f"{provider} {count}" for provider, count in document["regions"].items())
    return Report(
        title=f"Catalog {document['catalog']}",
        subtitle="placer catalog show",
        verdict=f"catalog {document['catalog']} (digest {document['digest']})",
        sections=(
            *section("Devices", _devices(document["coverage"]), text(*_community(document))),
            *section("Rows", text(f"regions of providers: {regions}", *ages)),
            *section("How sure", text(*unsure) or text("no row says that its figure is assumed")),
            *section("Sources, by the rows that name them", _sources(document)),
            *_origins(document["layers"]),
        ),
    )


def _devices(rows: Iterable[Document]) -> Any:
    price = "USD/h of a device"
    cells: list[list[Cell]] = [
        [
            row["provider"],
            row["gpu"],
            *(row[key] for key in ("regions", "on_demand", "spot", "estimated")),
            _span(f"{row['usd_per_gpu_hour_low']:.2f}", f"{row['usd_per_gpu_hour_high']:.2f}", "-"),
            row["newest"]
            if row["oldest"] == row["newest"]
            else _span(row["oldest"][:7], row["newest"][:7], ".."),
        ]
        for row in rows
    ]
    columns = (
        "provider",
        "device",
        "regions",
        "on-demand",
        "spot",
        "estimated",
        price,
        "prices of",
    )
    return table("Offers of each provider and device", columns, cells)


def _community(document: Document) -> Iterator[str]:
    rows = document["coverage"]
    for provider in dict.fromkeys(row["provider"] for row in rows if row["community"]):
        count = sum(row["community"] for row in rows if row["provider"] == provider)
        yield f"community: {count:,} rows of {provider}, beside those of the table"


def _span(oldest: str, newest: str, between: str) -> str:
    return newest if oldest == newest else f"{oldest}{between}{newest}"


def _sources(document: Document) -> Any:
    rows: list[list[Cell]] = []
    for row in document["sources"]:
        cut = " ...)" if row["source"].count("(") > row["source"].count(")") else ""
        mirror = " (mirror)" if row["kind"] == "mirror" else ""
        address = row["url"] or f"({row['kind']})"
        rows.append([row["rows"], f"{row['source']}{cut}{mirror}", address])
    if document["own_sources"]:
        own = document["own_sources"]
        rows.append([own, "the user's own", ""])
    return table("Sources", ("rows", "source", "address"), rows)


def _origins(layers: Iterable[Document]) -> tuple[Section, ...]:
    """Say when each layer was fetched, from which documents, and what was left out."""
    made: list[Section] = []
    for layer in layers:
        origin = layer["origin"]
        if origin is None:
            continue
        kinds: dict[str, list[Document]] = {}
        for entry in origin["documents"]:
            kinds.setdefault(_kind(entry["place"]), []).append(entry)
        lines = [line for kind, entries in kinds.items() for line in _documents(kind, entries)]
        lines += [f"left out {count:,}: {reason}" for reason, count in origin["left_out"].items()]
        title = f"{layer['name']}: retrieved {origin['retrieved']}"
        made += section(title, text(*lines, *origin["notes"]))
    return tuple(made)


def _kind(place: str) -> str:
    """Summarise documents by the name of the interface or file, and where it was asked."""
    head, _, name = place.split("?", maxsplit=1)[0].rpartition("/")
    server = "/".join(head.split("/")[:3]) if "://" in head else ""
    return f"{server} {name or place}".split(",")[0].strip()


def _documents(kind: str, entries: list[Document]) -> Iterator[str]:
    if len(entries) <= MOST_DOCUMENTS:
        for entry in entries:
            digest = entry["sha256"][:16]
            yield f"from {entry['place']} ({entry['size_bytes']:,} bytes, sha256 {digest})"
        return
    total = sum(entry["size_bytes"] for entry in entries)
    yield (
        f"from {entries[0]['place']} and {len(entries) - 1:,} more of {kind} ({total:,} bytes in "
        "all)"
    )


def differences(document: Document, today: date) -> Report:
    """List what changed from one book to another, of a ``placer.catalog-diff/v1`` document."""
    old, new, changes = document["old"]["catalog"], document["new"]["catalog"], document["changes"]
    counts = [
        f"{file}: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        for file, kinds in document["counts"].items()
    ]
    total = sum(count for kinds in document["counts"].values() for count in kinds.values())
    cut = f"{len(changes)} of {total:,} differences; --limit or --json shows more"
    figures = ("before", "after", "change")
    listed = table(
        f"From {old} to {new}",
        ("file", "row", "what", *figures),
        [_change_cells(row) for row in changes],
        narrowed=("row", *figures),
    )
    return Report(
        title=f"From catalog {old} to {new}",
        subtitle="placer catalog diff",
        verdict="" if changes else f"{old} and {new} agree in every figure",
        sections=section("", listed, text(*counts, cut if len(changes) < total else "")),
    )


def _change_cells(row: Document) -> list[Cell]:
    before, after = row["before"], row["after"]
    numbers = all(isinstance(one, int | float) for one in (before, after)) and before > 0
    share = after / before - 1 if numbers else None
    return [
        row["file"].removesuffix(".csv"),
        " ".join(row["key"]),
        row["field"] or row["kind"],
        (_shown(before), before),
        (_shown(after), after),
        figure(share, "{:+.1%}".format),
    ]


def _shown(value: Any) -> str:
    """Round a figure of a book to its six digits."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return format_plain(value, 6) if abs(value) < 1e6 else f"{value:.0f}"


def offers(document: Document, today: date) -> Report:
    """List machines with their prices, of a ``placer.offers/v1`` document."""
    rows = [_offer_cells(row) for row in document["offers"]]
    figures = ("USD/h", "USD/GPU h", "g CO2e/h", "Gb/s")
    columns = ("place", "machine", "GPU", "market", *figures, "fabric", "as of")
    listed = table(
        f"Offers of catalog {document['catalog']}",
        columns,
        rows,
        narrowed=("machine",),
        optional=("Gb/s", "fabric"),
    )
    return Report(
        title=f"Offers of catalog {document['catalog']}",
        subtitle="placer offers",
        sections=section(
            "",
            listed,
            text(
                f"{len(rows)} of {document['total']:,} offers; ~ is an estimate (--json names "
                "every source)"
            ),
        ),
    )


def _offer_cells(row: Document) -> list[Cell]:
    usd, gpus = row["usd_per_hour"], row["gpu_count"]
    mark = "~" if row["price_basis"] == "estimated" else ""
    return [
        f"{row['provider']}/{row['region']}",
        row["instance_type"],
        device_name(row["gpu"], gpus),
        market_words(row),
        (f"{usd:.3f}{mark}", usd),
        (f"{usd / gpus:.3f}", usd / gpus),
        figure(row["carbon_g_per_hour"], "{:.0f}".format, "-"),
        figure(row["network_gbps"], "{:g}".format, "-"),
        row["fabric"] or "-",
        row["as_of"],
    ]


def offer_groups(document: Document, today: date) -> Report:
    """List the prices of groups of machines, of a ``placer.offer-groups/v1`` document."""
    groups, keys = document["groups"], document["by"]
    figures = ("offers", "places", "low", "median", "high")
    prices = [f"usd_per_gpu_hour_{name}" for name in figures[2:]]
    rows: list[list[Cell]] = [
        [
            *row["group"],
            row["offers"],
            row["places"],
            *((f"{row[key]:.3f}", row[key]) for key in prices),
            row["cheapest"],
        ]
        for row in groups
    ]
    units = {name: f"{name} USD/GPU h" for name in figures[2:]}
    columns = (*keys, *figures, "cheapest")
    title = f"Offers of catalog {document['catalog']} by {', '.join(keys)}"
    counted = sum(row["offers"] for row in groups)
    return Report(
        title=title,
        subtitle="placer offers --group-by",
        sections=section(
            "",
            table(title, columns, rows, units=units),
            text(
                f"{len(groups)} of {document['total']:,} groups, {counted:,} offers; USD/h for "
                "each GPU"
            ),
        ),
    )
