"""A run and a rehearsal: what was predicted and what was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from math import isfinite
from typing import Any

from placer.errors import PlacerError
from placer.report.blocks import (
    Block,
    Cell,
    Chart,
    Report,
    Section,
    Table,
    chart,
    facts,
    figure,
    section,
    table,
    text,
)
from placer.report.charts.curve import Point, curve_chart
from placer.report.figures import Document, percent, placement_words
from placer.report.kinds.shared.parts import against
from placer.units import counted, format_bytes, format_number, format_seconds

LINKS = {
    "real": "the plan's machines and links",
    "loopback": "processes on one machine",
    "shaped": "processes on one machine, their links shaped",
}
MOST_STEPS = 400
"""Points of a curve: of a longer run, evenly spaced ones."""
MOST_ROWS = 24
"""Steps in the table below a curve: what fits on a printed page beside it."""
COLUMNS = ("what", "predicted", "measured", "difference")
TITLE, AXIS = "Measured against predicted", "% over the prediction"


def run(document: Document, today: date) -> Report:
    """Build the report of a ``placer.run/v1`` log: its header, whose ``records`` are the others.

    Raise `PlacerError` if it is the last line of a log alone, as ``placer run --json`` prints it.
    """
    if document.get("kind") == "summary":
        raise PlacerError("the comparison of a run without its steps", "give its run.jsonl")
    records = document["records"]
    ended = _of(records, "summary")
    summary = ended[-1] if ended else None
    lost = [*_of(records, "lost"), *_of(records, "fault")]
    workers = sum(group["count"] for group in document["groups"])
    whole = all(
        rank in {record["rank"] for record in _of(records, "end")} for rank in range(workers)
    )
    site_group = placement_words({"workers": [dict(group) for group in document["groups"]]})
    return Report(
        title=f"Run of {document['manifest']['name']}",
        subtitle=f"placer run, {document['strategy']}, {counted(workers, 'worker')}, "
        f"{counted(document['steps'], 'step')} of {document['train']}",
        verdict=_verdict(document, summary, whole=whole, lost=len(lost)),
        tone="bad" if not whole else "warning" if lost else "good",
        sections=(
            *section(
                "The run",
                facts(
                    ("planned workers", site_group),
                    ("it ran on", LINKS[document["links"]], document["device"]),
                    ("model", document["train"], f"planned: {document['model']}"),
                    (
                        "batch",
                        f"{document['target_batch_size']:,} samples",
                        f"{document['microbatch']:,} at a time",
                    ),
                    ("seed", str(document["seed"])),
                ),
            ),
            *_compared(summary),
            *section("Step by step", *_steps(records)),
            *section("What the places send", *(traffic_tables(summary) if summary else ())),
            *section("What went wrong", *_faults(records, summary)),
        ),
    )


def _of(records: Sequence[Document], kind: str) -> list[Document]:
    return [record for record in records if record["kind"] == kind]


def _verdict(document: Document, summary: Document | None, *, whole: bool, lost: int) -> str:
    done = {record["step"] for record in _of(document["records"], "step")}
    steps = counted(document["steps"], "step")
    ended = (
        f"All {steps} are done."
        if whole
        else f"The log has {len(done)} of {steps}, and not the end of every worker."
    )
    gone = f" {counted(lost, 'worker')} stopped." if lost else ""
    speed = next(
        (row for row in (summary or {}).get("seconds", []) if row["what"] == "throughput"), None
    )
    if summary is None or speed is None or speed["measured"] is None:
        return f"{ended}{gone}"
    measured = f"{format_number(speed['measured'])} {speed['unit']}"
    off = _difference(speed)
    against = (
        f", {percent(off, signed=True)} against the prediction"
        if summary["seconds_compare"] and off is not None
        else "; the prediction is of other machines, links or another model"
    )
    return f"{ended}{gone} {measured}{against}."


def _difference(row: Document) -> float | None:
    """Return the measured figure over the predicted one, less 1."""
    predicted, measured = row["predicted"], row["measured"]
    return None if not predicted or measured is None else measured / predicted - 1


def _compared(summary: Document | None) -> tuple[Section, ...]:
    if summary is None:
        return ()
    off = [(row["what"], _difference(row), True) for row in summary["seconds"]]
    shown = off if summary["seconds_compare"] else []
    return section(
        "Predicted and measured", against("run", TITLE, shown, AXIS, seconds_table(summary))
    )


def seconds_table(summary: Document) -> Table | None:
    """List the seconds of a round, predicted and measured."""
    rows = [
        _cells(row["what"], row, lambda value, unit=row["unit"]: f"{format_number(value)} {unit}")
        if row["unit"] != "s"
        else _cells(row["what"], row, format_seconds)
        for row in summary["seconds"]
    ]
    if not summary["seconds_compare"]:
        rows = [[*row[:3], ("", None)] for row in rows]
    caption = f"One round, of {counted(summary['rounds'], 'round')} that count"
    return table(caption, COLUMNS, rows, numbers=COLUMNS[1:])


def _cells(name: str, row: Document, write: Any) -> list[Cell]:
    known = (row["predicted"], row["measured"])
    return [name, *(figure(value, write) for value in known), _off(_difference(row))]


def _off(share: float | None) -> Cell:
    return figure(share, lambda share: percent(share, signed=True))


def _steps(records: Sequence[Document]) -> list[Chart | None]:
    """Draw the loss and the seconds of each step: the sum and the slowest of all workers."""
    losses: defaultdict[int, float] = defaultdict(float)
    seconds: defaultdict[int, float] = defaultdict(float)
    for record in _of(records, "step"):
        at = record["step"] + 1
        seconds[at] = max(seconds[at], record["step_s"])
        loss = record.get("loss")
        # A loss that is no number any more stands in the log as NaN, which no axis has.
        if loss is not None and isfinite(loss):
            losses[at] += loss
    slowest = "Seconds of each step, of the slowest worker"
    return [
        _curve("losses", "Loss of each step", losses, "loss", format_number),
        _curve("seconds", slowest, seconds, "seconds", format_seconds),
    ]


def _curve(name: str, title: str, values: dict[int, float], unit: str, write: Any) -> Chart | None:
    pairs = sorted(values.items())
    rows, every = _spaced(pairs, MOST_ROWS)
    caption = title if every == 1 else f"{title}; every {every} steps"
    listed = table(caption, ("step", unit), [(step, (write(value), value)) for step, value in rows])
    shown, _ = _spaced(pairs, MOST_STEPS)
    points = [Point(x=step, y=value, words=write(value)) for step, value in shown]
    return chart(name, title, lambda: curve_chart(points, ("step", unit), zero=True), listed)


def _spaced(pairs: Sequence[Any], most: int) -> tuple[Sequence[Any], int]:
    """Return every n-th of some pairs, the last among them, and n.

    >>> _spaced("abcdefgh", 3)
    ('beh', 3)
    """
    every = max(1, -(-len(pairs) // most))
    return pairs[(len(pairs) - 1) % every :: every], every


def traffic_tables(summary: Document) -> list[Table | None]:
    """List bytes and requests of a round beside those of the plan."""
    sent = [_cells(f"{row['src']} to {row['dst']}", row, format_bytes) for row in summary["bytes"]]
    asked = [_cells(row["what"], row, format_number) for row in summary["requests"]]
    return [
        table("Bytes of a round", COLUMNS, sent, numbers=COLUMNS[1:]),
        table("Requests of a round to object stores", COLUMNS, asked, numbers=COLUMNS[1:]),
    ]


def _faults(records: Sequence[Document], summary: Document | None) -> list[Block | None]:
    """List who was lost, who came back, and what must be known to read the figures."""
    lines = [
        f"Rank {one['rank']} ({one['place']}) stopped in step {one['step']}: {one['reason']}"
        for one in _of(records, "lost")
    ]
    lines += [
        f"Rank {one['rank']} lost rank {one['lost']} in step {one['step']}: {one['reason']}"
        for one in _of(records, "fault")
    ]
    lines += [f"Rank {one['rank']}: {one['message']}" for one in _of(records, "error")]
    lines += [str(one["message"]) for one in (*_of(records, "notice"), *_of(records, "back"))]
    remarks = () if summary is None else summary["remarks"]
    return [text(*dict.fromkeys(lines), tone="warning"), text(*map(str, remarks))]


def rehearsal(document: Document, today: date) -> Report:
    """Build the report of a ``placer.rehearsal/v1`` document."""
    lines = document["lines"]
    judged = [line for line in lines if line["within"] is not None]
    right = sum(1 for line in judged if line["within"])
    busy = (document.get("machine") or {}).get("busy")
    return Report(
        title=f"Rehearsal of {document['plan']}",
        subtitle=f"placer run --rehearse, scale {document['scale']:g}, "
        f"{counted(document['workers'], 'worker')}, {document['strategy']}",
        verdict=f"{right} of {counted(len(judged), 'figure')} lie within their tolerance: the plan "
        f"is {'confirmed' if document['confirmed'] else 'not confirmed'}.",
        tone="good" if document["confirmed"] else "bad",
        sections=(
            *section("Predicted and measured", _lines(lines)),
            *section("What may go wrong", text(*_doubts(document, bool(busy)), tone="warning")),
        ),
    )


def _doubts(document: Document, busy: bool) -> Iterator[str]:
    network = document["network"]
    yield f"Links are shaped by {network['method']}. {network['why_not']}".strip()
    yield from (f"Slower here than in the plan: {' to '.join(pair)}." for pair in network["slower"])
    if busy:
        yield "The machine was busy: a slow round says nothing about the plan."


def _lines(lines: list[Document]) -> Block | None:
    columns = ("what", "unit", *COLUMNS[1:], "within")
    cells = [_line_cells(line) for line in lines]
    listed = table("Lines of the rehearsal", columns, cells, numbers=COLUMNS[1:])
    off = [
        (f"{one['kind']}: {one['what']}", one["difference"], one["within"] is not None)
        for one in lines
    ]
    note = "Blue: judged against a tolerance."
    return against("rehearsal", TITLE, off, AXIS, listed, note)


def _line_cells(line: Document) -> list[Cell]:
    in_bytes = line["kind"] == "bytes"
    write = format_bytes if in_bytes else format_number
    return [
        line["what"],
        line["unit"].removeprefix("B ") if in_bytes else line["unit"],
        *(figure(line[key], write) for key in ("predicted", "measured")),
        _off(line["difference"]),
        {True: "yes", False: "no", None: "not judged"}[line["within"]],
    ]
