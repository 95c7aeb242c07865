"""An explanation: what binds, why not something else, what one more is worth, why nothing fits."""

from __future__ import annotations

from datetime import date
from typing import Any

from placer.report.blocks import Report, Section, Table, Text, section, table
from placer.report.figures import Document, exchange_words, percent, placement_words
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.units import format_number, format_usd

NAMES = {"price": "price", "egress": "egress price", "bandwidth": "bandwidth"}
NO_FACTOR = {
    "price": "not even free",
    "egress": "not even with free egress",
    "bandwidth": "not with any bandwidth",
}


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.explanation/v1`` document."""
    best, conflict = document["best"], document["conflict"]
    return Report(
        title=f"Why this answer for {document['request']['model']}"
        if best
        else f"Why nothing fits for {document['request']['model']}",
        subtitle=f"placer explain, prices of {document['data']['oldest']} to "
        f"{document['data']['as_of']} ({document['data']['catalog']})",
        verdict=_verdict(best, conflict),
        tone="good" if best and document["complete"] else "warning" if best else "bad",
        sections=(
            *_conflict(conflict),
            *_binding(document["binding"]),
            *_why_not(document["why_not"]),
            *_worth(document["worth"]),
            *parts.wishes(document),
            *sources(document, [], today),
            *parts.reproduce(document, "explain"),
        ),
    )


def _verdict(best: Document | None, conflict: Document | None) -> str:
    if best:
        return f"The best is {placement_words(best['placement'])}: {_figures(best)}."
    if conflict and conflict["remedies"]:
        return (
            f"Nothing meets {_listed(conflict['wishes'])} together. A change that works: "
            f"{conflict['remedies'][0]['change']}."
        )
    return "Nothing was found that meets all wishes."


def _figures(option: Document) -> str:
    return (
        f"{format_number(option['samples_per_second'])} samples/s for "
        f"{format_usd(option['usd_per_hour'])}/h"
    )


def _listed(wishes: list[Document]) -> str:
    words = [str(wish["words"]) for wish in wishes]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _conflict(conflict: Document | None) -> tuple[Section, ...]:
    if conflict is None:
        return ()
    rows = [
        [row["change"], *_option(row["best"]), "proved" if row["proved"] else "not proved"]
        for row in conflict["remedies"]
    ]
    columns = ("change", "workers then", "samples/s", "USD/h", "proof")
    return section(
        "Wishes that contradict each other",
        Text(lines=tuple(str(wish["words"]) for wish in conflict["wishes"])),
        table("One change is enough", columns, rows, numbers=("samples/s", "USD/h")),
    )


def _option(option: Document | None) -> list[Any]:
    if option is None:
        return ["", ("", None), ("", None)]
    return [
        placement_words(option["placement"]),
        (format_number(option["samples_per_second"]), option["samples_per_second"]),
        (format_usd(option["usd_per_hour"]), option["usd_per_hour"]),
    ]


def _of(one: float | None, other: float | None, between: str) -> str:
    """Join two numbers; nothing is written of one that is not known."""
    return between.join(format_number(value) for value in (one, other) if value is not None)


def _binding(binding: Document | None) -> tuple[Section, ...]:
    if binding is None:
        return ()
    rows = [
        [
            row["words"],
            _of(row["used"], row["limit"], " of "),
            "yes" if row["binds"] else "no",
            "" if row["gain"] is None else percent(row["gain"], signed=True),
            *_option(row["without"]),
        ]
        for row in binding["limits"]
    ]
    columns = ("limit", "used", "binds", "gain without", "workers then", "samples/s", "USD/h")
    return section(
        "What binds",
        table(
            "Limits of the question", columns, rows, numbers=("gain without", "samples/s", "USD/h")
        ),
    )


def _why_not(rows: list[Document]) -> tuple[Section, ...]:
    cells = [
        [
            row["subject"],
            *_option(row["best_with_it"]),
            ("", None)
            if row["regret"] is None
            else (percent(-row["regret"], signed=True), -row["regret"]),
            _break_evens(row),
            row["status"] if row["proved"] else f"{row['status']}, not proved",
        ]
        for row in rows
    ]
    columns = ("instead", "best with it", "samples/s", "USD/h", "change", "enters when", "status")
    return section("Why not something else", _wide(columns, cells))


def _wide(columns: tuple[str, ...], cells: list[Any]) -> Table | None:
    return table(
        "The best answer with each of them",
        columns,
        cells,
        numbers=("samples/s", "USD/h", "change"),
    )


def _break_evens(row: Document) -> str:
    """Say from which price or bandwidth on it enters."""
    words = []
    for one in row["break_evens"]:
        if one["at_any_price"]:
            words.append("prices do not decide")
        elif one["factor"] is not None:
            words.append(f"{NAMES[one['what']]} x {one['factor']:.3g}")
        elif one["proved"]:
            words.append(NO_FACTOR[one["what"]])
    if row["never_by_network"]:
        words.append("no network would change it")
    return "; ".join(words)


def _worth(rows: list[Document]) -> tuple[Section, ...]:
    cells = [
        [
            row["code"].replace("_", " "),
            _of(row["limit"], row["step"], " + "),
            ("", None) if row["gain"] is None else (percent(row["gain"], signed=True), row["gain"]),
            *_option(row["best"]),
            "" if row["best"] is None else exchange_words(row["best"]["placement"]),
        ]
        for row in rows
    ]
    columns = ("limit", "one more", "gain", "workers then", "samples/s", "USD/h", "exchange")
    return section(
        "What one more is worth",
        table("Each limit by itself", columns, cells, numbers=("gain", "samples/s", "USD/h")),
    )
