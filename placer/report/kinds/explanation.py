"""An explanation: what binds, why not something else, what one more is worth, why nothing fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from placer.report.blocks import Report, Section, Text, section, table
from placer.report.figures import Document, exchange_words, percent, placement_words
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.units import counted, format_duration, format_number, format_usd

TOKENS = "effective_tokens_per_second"
"""Speed of a placement of a language model."""
AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "usd_per_hour": lambda value: f"{format_usd(value)}/h",
    "usd": format_usd,
    "usd_per_million_samples": lambda value: f"{format_usd(value)} per million samples",
    "samples_per_second": lambda value: f"{format_number(value)} samples/s",
    "seconds": format_duration,
    "megabits_per_second": lambda value: f"{format_number(value)} Mb/s",
    "g_per_hour": lambda value: f"{format_number(value)} g CO2e/h",
}
"""How an amount of a unit is written; of other units, things that are counted."""
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
        wishes = conflict["wishes"]
        return (
            f"Nothing meets {_listed(wishes)}{' together' if len(wishes) > 1 else ''}. "
            "A change that works: "
            f"{conflict['remedies'][0]['change']}."
        )
    return "Nothing was found that meets all wishes."


def _figures(option: Document) -> str:
    speed, unit = _speed(option)
    return f"{format_number(speed)} {unit} for {format_usd(option['usd_per_hour'])}/h"


def _speed(option: Document) -> tuple[float, str]:
    """Return the speed that counts, and its unit: tokens of a language model."""
    if TOKENS in option:
        return option[TOKENS], "tokens/s"
    return option["samples_per_second"], "samples/s"


def _unit(options: Iterable[Document | None]) -> str:
    """Return the unit of the speeds of some placements."""
    return next((_speed(one)[1] for one in options if one is not None), "samples/s")


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
    unit = _unit(row["best"] for row in conflict["remedies"])
    columns = ("change", "workers then", unit, "USD/h", "proof")
    return section(
        "Wishes that contradict each other"
        if len(conflict["wishes"]) > 1
        else "The wish that nothing meets",
        Text(lines=tuple(str(wish["words"]) for wish in conflict["wishes"])),
        table("One change is enough", columns, rows, numbers=(unit, "USD/h")),
    )


def _option(option: Document | None) -> list[Any]:
    if option is None:
        return ["", ("", None), ("", None)]
    speed, _ = _speed(option)
    return [
        placement_words(option["placement"]),
        (format_number(speed), speed),
        (format_usd(option["usd_per_hour"]), option["usd_per_hour"]),
    ]


def _of(row: Document, keys: tuple[str, str], between: str) -> str:
    """Join two amounts with their unit; nothing is written of one that is not known."""
    known = [row[key] for key in keys if row[key] is not None]
    write = AMOUNTS.get(row["unit"])
    if write is not None:
        return between.join(map(write, known))
    noun = row["unit"].removesuffix("s").replace("gpu", "GPU")
    words = [*map(format_number, known[:-1]), *(counted(round(n), noun) for n in known[-1:])]
    return between.join(words) if noun else between.join(map(format_number, known))


def _binding(binding: Document | None) -> tuple[Section, ...]:
    if binding is None:
        return ()
    rows = [
        [
            row["words"],
            _of(row, ("used", "limit"), " of "),
            "yes" if row["binds"] else "no",
            "" if row["gain"] is None else percent(row["gain"], signed=True),
            *_option(row["without"]),
        ]
        for row in binding["limits"]
    ]
    unit = _unit(row["without"] for row in binding["limits"])
    columns = ("limit", "used", "binds", "gain without", "workers then", unit, "USD/h")
    return section(
        "What binds",
        table("Limits of the question", columns, rows, numbers=("gain without", unit, "USD/h")),
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
    unit = _unit(row["best_with_it"] for row in rows)
    columns = ("instead", "best with it", unit, "USD/h", "change", "enters when", "status")
    listed = table(
        "The best answer with each of them", columns, cells, numbers=(unit, "USD/h", "change")
    )
    return section("Why not something else", listed)


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
            _of(row, ("limit", "step"), " + "),
            ("", None) if row["gain"] is None else (percent(row["gain"], signed=True), row["gain"]),
            *_option(row["best"]),
            "" if row["best"] is None else exchange_words(row["best"]["placement"]),
        ]
        for row in rows
    ]
    unit = _unit(row["best"] for row in rows)
    columns = ("limit", "one more", "gain", "workers then", unit, "USD/h", "exchange")
    return section(
        "What one more is worth",
        table("Each limit by itself", columns, cells, numbers=("gain", unit, "USD/h")),
    )
