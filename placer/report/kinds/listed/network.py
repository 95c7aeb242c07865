"""Capacity of zones, and links between places: what was measured and what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.cost_model.capacity.supply import Stay
from placer.report.blocks import Cell, Report, figure, section, table, text
from placer.report.figures import Document, chance, hours_words, market_words
from placer.units import format_bandwidth, format_plain, format_seconds

MOST_ZONES = 20
"""Zones in the table, the most likely first."""
MOST_BLOCKS = 10
"""Blocks in the table; the file has all."""


def capacity(document: Document, today: date) -> Report:
    """List rows of capacity, of a ``placer.capacity/v1`` document."""
    listed = table(
        f"Capacity in catalog {document['catalog']}",
        ("where", "device", "market", "machines", "launch", "range", "stay", "basis", "as of"),
        [_row_cells(row) for row in document["rows"]],
        narrowed=("range",),
        units={"launch": "launch share", "stay": "stay h"},
    )
    sources = dict.fromkeys(row["source"] for row in document["rows"])
    note = (
        "launch: share of the time in which one zone has at least so many machines; stay: time "
        "after which half of such gangs have lost machines; empty: not observed"
    )
    return Report(
        title=f"Capacity in catalog {document['catalog']}",
        subtitle="placer capacity show",
        verdict="" if listed else f"no row of catalog {document['catalog']} fits",
        sections=(
            *section("", listed),
            *(section("", text(note), text(*(f"source: {s}" for s in sources))) if listed else ()),
        ),
    )


def _row_cells(row: Document) -> list[Cell]:
    place = "/".join(filter(None, (row["provider"], row.get("region"))))
    of = "" if row["machines"] == row["machines_asked"] else f" of {row['machines_asked']:,}"
    low, high = row.get("share_low"), row.get("share_high")
    a, b_h = row.get("survival_a"), row.get("survival_b_h")
    stay = None if a is None or b_h is None else Stay(a=a, b_h=b_h).median_h
    return [
        row.get("zone") or place,
        row["device"],
        market_words(row),
        (f"{row['machines']:,}{of}", row["machines"]),
        figure(row.get("share"), lambda share: f"{100 * share:.0f} %"),
        "" if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f} %",
        figure(stay, hours_words),
        row["basis"],
        row["as_of"],
    ]


def forecast(document: Document, today: date) -> Report:
    """Show how likely zones have enough machines, of a ``placer.capacity-forecast/v1`` document."""
    machines, asked, zones = document["machines"], document["asked"], document["zones"]
    alone, more = machines <= asked, len(zones) - MOST_ZONES
    figures = ["last", f"usually {min(machines, asked)}", "any"]
    figures += [f"all {machines}"] if alone else []
    keys = ("usual", "chance_any", *(("chance",) if alone else ()))
    single = [
        [row["zone"], figure(row["last"], str), *(figure(row[key], chance) for key in keys)]
        for row in zones[:MOST_ZONES]
    ]
    together = (f"{machines} in all", "to plan with", f"{machines} in one of them")
    sets = [
        [
            ", ".join(row["zones"]),
            *(figure(row[key], chance) for key in ("together", "planned", "one_zone")),
        ]
        for row in document["sets"]
    ]
    known, ahead = document["correlation"], document["hours_ahead"]
    later = f"{format_plain(ahead)} h" if ahead >= 1 else f"{format_plain(60 * ahead)} min"
    return Report(
        title=f"{machines} machines in {later}",
        subtitle="placer capacity forecast",
        verdict=f"Chance that spot machines can be launched {later} later",
        sections=(
            *section(
                "",
                text(
                    f"{document['observations']:,} observations of {len(zones)} zones, up to "
                    f"{asked} machines each, {document['first']} to {document['last']}"
                ),
                table("Zones by themselves", ("zone", *figures), single),
                text(f"and {more} more zones" if more > 0 else ""),
            ),
            *section("", table("Together", ("zones together", *together), sets)),
            *section(
                "",
                text(
                    "estimated: each zone from its own log, zones together in "
                    f"{document['scenarios']:,} scenarios with a correlation of "
                    f"{known['region']:g} in a region and {known['across']:g} across, "
                    f"{known['source']}; to plan with: days unlike those of the log are among the "
                    "scenarios"
                ),
            ),
        ),
    )


def blocks(document: Document, today: date) -> Report:
    """List blocks that can be bought, of a ``placer.import-blocks/v1`` document."""
    found = document["blocks"]
    columns = ("where", "machines", "start", "hours", "USD", "USD/h each")
    cells: list[list[Cell]] = [
        [
            row["place"],
            f"{row['machines']:,} x {row['instance_type']}",
            row["start"],
            (f"{row['hours']:g}", row["hours"]),
            (f"{row['usd']:,.2f}", row["usd"]),
            (f"{each:,.2f}", each),
        ]
        for row in found[:MOST_BLOCKS]
        for each in (row["usd"] / row["machines"] / row["hours"],)
    ]
    more = len(found) - MOST_BLOCKS
    return Report(
        title="Blocks that can be bought",
        subtitle="placer capacity import",
        verdict="" if found else "nothing can be bought",
        sections=section(
            "",
            table("Blocks", columns, cells),
            text(f"and {more:,} more (-o FILE has all)" if more > 0 else ""),
        ),
    )


MOST_LINES = 10
"""Most suspects and unknown places that are named."""


def links(document: Document, today: date) -> Report:
    """List the links of places, of a ``placer.network/v1`` document."""
    tiered = any(len(row["egress_tiers"]) > 1 for row in document["links"])
    marks = (" ", "*") if tiered else ("", "")  # digits stay below each other
    rows: list[list[Cell]] = [
        [
            row["from"],
            row["to"],
            (format_bandwidth(row["bytes_per_second"]), row["bytes_per_second"]),
            (format_seconds(row["rtt_seconds"]), row["rtt_seconds"]),
            (f"{row['usd_per_gib']:.3f}{marks[len(row['egress_tiers']) > 1]}", row["usd_per_gib"]),
            row["basis"],
        ]
        for row in document["links"]
    ]
    listed = table(
        f"Links of catalog {document['catalog']}",
        ("from", "to", "one stream", "rtt", "USD/GiB", "basis"),
        rows,
        narrowed=("from", "to"),
        units={"one stream": "one stream B/s", "rtt": "rtt s"},
    )
    note = "* first paid price of a month; other volumes cost otherwise: --json lists the tiers"
    return Report(
        title=f"Links of catalog {document['catalog']}",
        subtitle="placer network show",
        sections=section("", listed, text(note if tiered else "")),
    )


def check(document: Document, today: date) -> Report:
    """Show how far estimated links are from measured ones, of a ``placer.network-check/v1``
    document.
    """
    rows: list[list[Cell]] = []
    before = ""
    for row in document["errors"]:
        shown, before = ("" if row["figure"] == before else row["figure"]), row["figure"]
        rows.append(
            [
                (shown, before),
                row["group"],
                row["links"],
                *((f"{row[key]:.1%}", row[key]) for key in ("median_error", "p90_error")),
                (f"{row['worst_error']:+.1%}", row["worst_error"]),
                f"{row['worst_src']} > {row['worst_dst']}",
            ]
        )
    listed = table(
        "Estimated against measured",
        ("figure", "between", "links", "median", "p90", "worst", "worst link"),
        rows,
        narrowed=("worst link",),
    )
    grids = ", ".join(document["grids"])
    used = f"{document['rows']:,} rows of {grids}; places of catalog {document['catalog']}"
    return Report(
        title=f"Links of {grids}, estimated and measured",
        subtitle="placer network check",
        sections=(*section("", listed), *section("", text(used), text(*_left_out(document)))),
    )


def _left_out(document: Document) -> Iterator[str]:
    """Yield the rows that take no part, each kind with its number."""
    suspects, unknown = document["suspects"], document["unknown_places"]
    for row in suspects[:MOST_LINES]:
        words = f"{row['rtt_ms']:g} ms, light in fibre takes {row['light_ms']:.1f} ms"
        yield f"suspect: {row['where']}: {row['src']} > {row['dst']}: {words}"
    if len(suspects) > MOST_LINES:
        yield f"suspect: {len(suspects) - MOST_LINES:,} more; --json lists them"
    if unknown:
        named = [f"{place} ({rows:,} rows)" for place, rows in unknown.items()]
        more = f" and {len(named) - MOST_LINES:,} more" if len(named) > MOST_LINES else ""
        yield f"unknown places: {', '.join(named[:MOST_LINES])}{more}"
    estimated, empty = document["estimated_rows"], document["empty_rows"]
    if estimated or empty:
        yield f"left out: {estimated:,} estimated rows, {empty:,} without a figure"
