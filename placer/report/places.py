"""Where the places of a document lie: from the document itself, else from its price book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.report.blocks import Block, chart, table, text
from placer.report.charts.world_map import Link, Site, world_map
from placer.report.figures import Document, devices_words
from placer.units import GIB, SECONDS_PER_HOUR, format_bytes, format_usd

Coordinates = Mapping[str, tuple[float, float]]
"""Latitude and longitude of each place in degrees."""


def coordinates(document: Document, places: Iterable[str]) -> Coordinates:
    """Find where places lie; those that no book here knows are left out."""
    question = document.get("problem") or {}
    regions = question.get("catalog", {}).get("regions", {})
    known = {
        place: (row["latitude_deg"], row["longitude_deg"])
        for place, row in regions.items()
        if row.get("latitude_deg") is not None and row.get("longitude_deg") is not None
    }
    missing = set(places) - set(known)
    for names in (str(document.get("data", {}).get("catalog", "")).split("+"), ["default"]):
        if not missing:
            break
        try:
            book = load_catalog(names).regions
        except PlacerError:
            continue
        known |= {
            place: (book[place].latitude_deg, book[place].longitude_deg)
            for place in missing & set(book)
        }
        missing -= set(known)
    return {place: known[place] for place in places if place in known}


def bytes_per_hour(link: Document, estimate: Document) -> float:
    """Return what a link carries in an hour: its bytes of a round over the seconds of one."""
    total = estimate["step_seconds"]["total"]
    return float(link["bytes_per_step"] * SECONDS_PER_HOUR / total) if total else 0.0


def usd_per_gib(link: Document, estimate: Document) -> float:
    """Return what a GiB over a link costs, on average over the tiers of its price."""
    carried = bytes_per_hour(link, estimate)
    return float(link["usd_per_hour"] / (carried / GIB)) if carried else 0.0


def map_blocks(
    document: Document, placement: Document, estimate: Document, considered: Iterable[Document] = ()
) -> list[Block | None]:
    """Draw where a placement lies and what its places send each other, with the same as a table.

    ``document``: the whole document. ``placement``, ``estimate``: the answer. ``considered``: other
    placements, whose places are shown as small circles.
    """
    workers: dict[str, list[Document]] = {}
    for group in placement["workers"]:
        workers.setdefault(group["place"], []).append(group)
    others = {g["place"] for one in considered for g in one["workers"]} - set(workers)
    at = coordinates(document, [*workers, *sorted(others)])
    sites = [
        Site(
            place=place,
            label=": ".join(filter(None, (place, ", ".join(map(devices_words, groups))))),
            latitude_deg=latitude_deg,
            longitude_deg=longitude_deg,
            workers=sum(group["count"] for group in groups),
        )
        for place, (latitude_deg, longitude_deg) in at.items()
        for groups in (workers.get(place, []),)
    ]
    missing = sorted(set(workers) - set(at))
    note = (
        f"Not on the map, as no book says where they lie: {', '.join(missing)}." if missing else ""
    )
    if not any(site.workers for site in sites):
        return [text(note)]
    links = [link for link in _links(estimate) if {*link.ends} <= set(at)]
    if any(not site.workers for site in sites):
        note = " ".join(
            filter(None, ("Small circles: regions of the other considered placements.", note))
        )
    title = f"Map: workers in {' and '.join(sorted(workers))}"
    listed = _link_table(estimate) or _site_table(workers, at)
    return [chart("map", title, lambda: world_map(sites, links), listed, note)]


def _links(estimate: Document) -> list[Link]:
    """Add both directions of each pair of places."""
    sums: dict[tuple[str, str], list[float]] = {}
    for row in estimate["links"]:
        if row["from"] == row["to"]:
            continue
        pair = (min(row["from"], row["to"]), max(row["from"], row["to"]))
        both = sums.setdefault(pair, [0.0, 0.0])
        both[0] += bytes_per_hour(row, estimate)
        both[1] += row["usd_per_hour"]
    return [
        Link(
            ends=pair, bytes_per_hour=carried, usd_per_gib=usd / (carried / GIB) if carried else 0.0
        )
        for pair, (carried, usd) in sums.items()
    ]


def _link_table(estimate: Document) -> Any:
    rows = [
        (
            row["from"],
            row["to"],
            (f"{format_bytes(bytes_per_hour(row, estimate))}/h", bytes_per_hour(row, estimate)),
            (format_usd(usd_per_gib(row, estimate)), usd_per_gib(row, estimate)),
            (f"{format_usd(row['usd_per_hour'])}/h", row["usd_per_hour"]),
            str(row["streams"]),
            row["basis"],
        )
        for row in estimate["links"]
    ]
    columns = ("from", "to", "carries", "USD/GiB", "egress", "streams", "bandwidth")
    numbers = ("carries", "USD/GiB", "egress", "streams")
    return table("What the places send each other", columns, rows, numbers=numbers)


def _site_table(workers: Mapping[str, list[Document]], at: Coordinates) -> Any:
    rows = [
        (
            place,
            ", ".join(devices_words(group) for group in groups),
            f"{at[place][0]:.1f}, {at[place][1]:.1f}" if place in at else "",
        )
        for place, groups in workers.items()
    ]
    return table("Where the workers are", ("place", "workers", "latitude, longitude"), rows)
