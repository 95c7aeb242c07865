"""Machines that price books offer, one by one and in groups."""

from __future__ import annotations

from datetime import date

from placer.market.catalog import device_name
from placer.report.blocks import Cell, Report, figure, section, table, text
from placer.report.figures import Document, market_words


def offers(document: Document, today: date) -> Report:
    """List machines with their prices, of a ``placer.offers/v1`` document."""
    rows = [_offer_cells(row) for row in document["offers"]]
    figures = ("USD/h", "USD/GPU h", "g CO2e/h", "Gb/s")
    columns = ("place", "machine", "GPU", "market", *figures, "fabric", "as of")
    listed = table(
        f"Offers of catalog {document['catalog']}",
        columns,
        rows,
        numbers=figures,
        narrowed=("machine",),
        optional=("Gb/s", "fabric"),
    )
    return Report(
        title=f"Offers of catalog {document['catalog']}",
        subtitle="placer offers",
        verdict="",
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
            (f"{row['offers']:,}", row["offers"]),
            (str(row["places"]), row["places"]),
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
        verdict="",
        sections=section(
            "",
            table(title, columns, rows, numbers=figures, units=units),
            text(
                f"{len(groups)} of {document['total']:,} groups, {counted:,} offers; USD/h for "
                "each GPU"
            ),
        ),
    )
