"""Capacity of zones: what they launch and keep, and whether they will."""

from __future__ import annotations

from datetime import date

from placer.cost_model.capacity.supply import Stay
from placer.report.blocks import Cell, Report, figure, section, table, text
from placer.report.figures import Document, chance, hours_words, market_words
from placer.units import format_plain

MOST_ZONES = 20
"""Zones in the table, the most likely first."""
MOST_BLOCKS = 10
"""Blocks in the table; the file has all."""


def rows(document: Document, today: date) -> Report:
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
