"""A plan beside what its run measured: keep it, or move."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Literal

from placer.report.blocks import Block, Report, Section, facts, section, table, text
from placer.report.figures import Document, percent, tokens_per_sample
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.provenance import sources
from placer.report.places import map_blocks
from placer.units import counted, format_duration, format_number, format_seconds, speed_unit

MAXIMISED = ("throughput",)
"""Objectives whose gain is a share of the new figure; of the others, of the old one."""
TONES: Mapping[str, Literal["good", "bad"]] = {"nothing": "bad", "keep": "good"}
MOVES = {"restore": "Start the lost machines again", "move": "Move"}
RUNS = {
    "real": "a run on the plan's machines",
    "loopback": "a run on one machine",
    "shaped": "a rehearsal",
}


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.replan/v1`` document."""
    running, answer = document["running"], document["answer"]
    options = [
        (name, side)
        for name, side in (("what runs", running), ("best now", answer))
        if side is not None and side["placement"] is not None
    ]
    shown = answer if answer["placement"] is not None else options[0][1] if options else None
    changes = tuple(str(change["text"]) for change in document["changes"])
    places = [side["placement"] for _, side in options]
    where = map_blocks(document, shown["placement"], shown["estimate"], places) if shown else ()
    return Report(
        title=f"{document['manifest']['name']} after {RUNS[document['observed']['links']]}",
        subtitle=parts.subtitle(document, "whatif --observed"),
        verdict=_verdict(document),
        tone=TONES.get(document["verdict"], "warning"),
        sections=(
            *_observed(document),
            *section(
                "What runs, and what is best now",
                parts.option_table("Placements at the measured speeds", options),
                facts(*_move(document)),
            ),
            *section("Where", *where, detail=True),
            *section("What has changed since the plan", text(*changes)),
            *section("What may go wrong", *_doubts(document)),
            *parts.wishes(document),
            *sources(document, [side["estimate"] for _, side in options], today),
        ),
    )


def _verdict(document: Document) -> str:
    verdict, answer, running = document["verdict"], document["answer"], document["running"]
    if verdict == "nothing":
        return "Nothing fits and nothing can go on: relax a limit."
    gain = _gain(document)
    if verdict == "keep":
        if answer["placement"] is None or gain is None or gain <= 0:
            return "Keep what runs: nothing else is better."
        return f"Keep what runs: the best is {percent(gain)} better, too little for a move."
    to = f"{parts.option_words(answer)}."
    to = f"{MOVES[verdict]}{':' if verdict == 'restore' else ' to'} {to}"
    if gain is None:
        why = (
            "Nothing runs any more."
            if running is None
            else "What runs cannot go on."
            if running["estimate"] is None
            else "What runs breaks a limit."
        )
        return f"{to} {why}"
    after = document["break_even_seconds"]
    paid = "" if after is None else f" The move has paid off after {format_duration(after)}."
    return f"{to} That is {percent(gain)} better than what runs.{paid}"


def _gain(document: Document) -> float | None:
    """Return how much better the answer is, as a share of what runs."""
    gain: float | None = document["gain"]
    if gain is None or document["answer"]["objective"]["name"] not in MAXIMISED:
        return gain
    return gain / (1 - gain)


def _observed(document: Document) -> tuple[Section, ...]:
    """Show what the log tells: speeds of machines, the whole, the exchange, the lost."""
    seen = document["observed"]
    sides = [side for side in (document["running"], document["answer"]) if side is not None]
    known = [side["estimate"] for side in sides if side["estimate"] is not None]
    length = tokens_per_sample(known[0]) if known else None
    unit = speed_unit(length)
    rows = [("log", RUNS[seen["links"]], f"{counted(seen['rounds'], 'round')} that count")]
    if seen["samples_per_second"] is not None:
        speed = seen["samples_per_second"] * (length or 1)
        rows.append(("speed in all", f"{format_number(speed)} {unit}", ""))
    if seen["exchange_s"] is not None:
        rows.append(("exchange and waiting", f"{format_seconds(seen['exchange_s'])} a round", ""))
    lost = table(
        "Workers that were lost",
        ("rank", "place", "step", "reason"),
        [[one["rank"], one["place"] or "", one["step"], one["reason"]] for one in seen["lost"]],
    )
    return section(
        "What the run measured", facts(*rows), _speeds(seen["speeds"], unit, length or 1), lost
    )


def _speeds(speeds: list[Document], unit: str, factor: float) -> Block | None:
    """Show how fast each kind of machine is, against the plan, in ``factor`` units a sample."""
    listed = table(
        "Speed of one machine",
        ("machine", "workers", f"planned {unit}", f"measured {unit}", "difference"),
        [
            [
                one["device"],
                one["workers"],
                (format_number(one["planned"] * factor), one["planned"]),
                (format_number(one["measured"] * factor), one["measured"]),
                (percent(one["factor"] - 1, signed=True), one["factor"]),
            ]
            for one in speeds
        ],
    )
    off = [(one["device"], one["factor"] - 1, True) for one in speeds]
    title = "Measured speed of a machine against the plan"
    return parts.against("speeds", title, off, "% over the plan", listed)


def _move(document: Document) -> Iterator[tuple[str, str, str]]:
    if document["verdict"] not in MOVES:
        return
    running = document["running"]
    if running is not None and running["placement"] is not None:
        in_use = counted(running["placement"]["worker_count"], "machine")
        yield "machines that stay", f"{document['kept_machines']} of {in_use} in use", ""
    after = document["break_even_seconds"]
    yield "the move stops the training for", format_duration(document["move_seconds"]), ""
    if after is not None:
        yield "it has paid off after", format_duration(after), "counted from its beginning"


def _doubts(document: Document) -> list[Block | None]:
    running = document["running"]
    broken = () if running is None else running["violations"]
    return [
        text(*(f"What runs breaks a limit: {words}" for words in broken), tone="warning"),
        text(*(parts.sentence(str(words)) for words in document["notes"])),
    ]
