"""Every figure with its source, basis and age."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from placer.report.blocks import Section, Table, section, table, text
from placer.report.figures import Document, age_words
from placer.units import format_usd

BASES = ("given", "measured", "published", "list", "estimated", "assumed", "mixed")
PROVENANCE = re.compile(
    rf"(?P<what>.+?): (?:(?P<how>.+?): )?(?P<basis>{'|'.join(BASES)})"
    r"(?:, (?P<as_of>\d{4}-\d\d-\d\d))?: (?P<source>.+)"
)
"""A line of ``provenance``: what, perhaps how, basis, perhaps the date, source."""


def sources(document: Document, estimates: Iterable[Document], today: date) -> tuple[Section, ...]:
    """List every figure with its source, basis and age."""
    data = document["data"]
    egress = ""
    if data.get("egress_as_of"):
        egress = f", egress prices of {data['egress_oldest']} to {data['egress_as_of']}"
    return section(
        "Every figure and its source",
        text(
            f"Price book {data['catalog']}, digest {data['digest']}: machine prices of "
            f"{data['oldest']} to {data['as_of']}{egress}; the newest is "
            f"{age_words(data['as_of'], today)} old."
        ),
        provenance_table(estimates, today),
        table(
            "Rows of the price book in this file",
            ("row", "value", "basis", "source", "as of", "age"),
            list(_book_rows(document, today)),
            folded=True,
        ),
        detail=True,
    )


def provenance_table(estimates: Iterable[Document], today: date) -> Table | None:
    """List the lines of ``provenance`` of some estimates, each once."""
    lines = dict.fromkeys(line for one in estimates for line in one.get("provenance", []))
    return table(
        "What the answer rests on",
        ("figure", "basis", "source", "as of", "age"),
        [_source_cells(line, today) for line in lines],
    )


def _source_cells(line: str, today: date) -> list[str]:
    match = PROVENANCE.fullmatch(line)
    if match is None:
        what, _, source = line.partition(": ")
        return [what, "", source, "", ""]
    how = f"{match['what']} ({match['how']})" if match["how"] else match["what"]
    how = how.replace(" on_demand ", " on-demand ")
    as_of = match["as_of"] or ""
    return [how, match["basis"], match["source"], as_of, age_words(as_of, today)]


LINK_FIGURES = {"gbps_one_stream": "Gb/s a stream", "rtt_ms": "ms of round trip"}
"""Figures of a link, of which the first that somebody gave is shown."""


def _book_rows(document: Document, today: date) -> Iterable[list[str]]:
    """List the rows of the price book that a saved document holds."""
    book = (document.get("problem") or {}).get("catalog", {})
    for row in book.get("offers", []):
        name = f"{row['provider']}/{row['region']} {row['instance_type']} {row['market']}"
        value = f"{format_usd(row['usd_per_hour'])}/h"
        yield [name, value, row["price_basis"], *_dated(row, today)]
    for row in book.get("egress", []):
        name = f"egress {row['provider']} {row['src']} to {row['dst']}"
        yield [name, f"{format_usd(row['usd_per_gib'])}/GiB", "list", *_dated(row, today)]
    for row in book.get("links", []):
        name = f"link {row['src']} to {row['dst']}"
        known = ((key, unit) for key, unit in LINK_FIGURES.items() if row.get(key) is not None)
        figure = next((f"{row[key]:g} {unit}" for key, unit in known), "")
        yield [name, figure, row["basis"], *_dated(row, today)]


def _dated(row: Document, today: date) -> list[str]:
    return [row["source"], row["as_of"], age_words(row["as_of"], today)]
