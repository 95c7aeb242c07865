"""The ``placer.sweep/v1`` document and the table of ``placer sweep``: where the choice changes, and how the figures move."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby, pairwise
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from placer.sweeping import Row, Sweep
from placer.units import counted, format_number, format_usd

SCHEMA = "placer.sweep/v1"
BRIEF = 3
"""More groups of workers are counted, not listed."""
MOST_ROWS = 60
"""Stretches that the table shows; --json has all points."""


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """Build the document; within v1 keys are only added."""
    header = {key: value for key, value in sweep.header.items() if key != "schema"}
    return {
        "schema": SCHEMA,
        **header,
        "complete": len(sweep.rows) == sweep.points,
        "breakpoints": [{"from": one["set"], "to": other["set"]} for one, other in breakpoints(sweep)],
        "rows": list(sweep.rows),
    }


def choice(row: Row) -> tuple[str, ...]:
    """What decides whether two points have the same answer: workers and exchange, or that there is none."""
    if "workers" not in row:
        return (str(row["status"]),)
    return (*row["workers"], str(row["exchange"]), str(row["local_steps"]))


def stretches(sweep: Sweep) -> list[list[Row]]:
    """Neighbouring points along the last range that have the same choice."""
    last = len(sweep.header["over"][-1]["values"])
    found = []
    for _, along in groupby(sweep.rows, key=lambda row: int(row["point"]) // last):
        run: list[Row] = []
        for row in along:
            if run and (choice(row) != choice(run[-1]) or row["point"] != run[-1]["point"] + 1):
                found.append(run)
                run = []
            run.append(row)
        found.append(run)
    return found


def breakpoints(sweep: Sweep) -> list[tuple[Row, Row]]:
    """Neighbours along the last range between which the choice changes."""
    last, runs = len(sweep.header["over"][-1]["values"]), stretches(sweep)
    pairs = [(one[-1], other[0]) for one, other in pairwise(runs)]
    return [
        (a, b) for a, b in pairs if b["point"] == a["point"] + 1 and a["point"] // last == b["point"] // last and choice(a) != choice(b)
    ]


def sweep_view(sweep: Sweep) -> RenderableType:
    """Table of stretches with one choice each, and where it changes."""
    names = [axis["what"] for axis in sweep.header["over"]]
    table = Table(box=None, pad_edge=False, header_style="underline", padding=(0, 1))
    for name in (*names, "chosen"):
        table.add_column(name, overflow="fold")
    for name in ("samples/s", "USD/h", "USD/M"):
        table.add_column(name, justify="right", no_wrap=True)
    runs = stretches(sweep)
    for run in runs[:MOST_ROWS]:
        table.add_row(*_where(run, names), _chosen(run[0]), *_figures(run))
    return Group(table, Text(""), Text(_summary(sweep, len(runs))))


def _summary(sweep: Sweep, runs: int) -> str:
    """How many points there are, and between which the choice changes."""
    rows, last = sweep.rows, sweep.header["over"][-1]["what"]
    missing = sweep.points - len(rows)
    said = [f"{counted(len(rows), 'point')}, {counted(len({choice(row) for row in rows}), 'choice')}"]
    if missing:
        said.append(f"{counted(missing, 'point')} still to do")
    if runs > MOST_ROWS:
        said.append(f"{counted(runs - MOST_ROWS, 'line')} more with --json")
    if len(sweep.header["over"]) == 1:
        between = [f"{_value(one, -1)} and {_value(other, -1)}" for one, other in breakpoints(sweep)]
        said.append(f"the choice changes between {last} {', '.join(between)}" if between else "the choice never changes")
    refused = [row for row in rows if "message" in row]
    if refused:
        said.append(f"{counted(len(refused), 'point')} refused, as {refused[0]['key']}: {refused[0]['message']}")
    return "; ".join(said)


def _where(run: list[Row], names: list[str]) -> list[str]:
    """Values of each range: the last one from the first to the last point of a stretch."""
    outer = [_value(run[0], i) for i in range(len(names) - 1)]
    first, last = _value(run[0], -1), _value(run[-1], -1)
    return [*outer, first if first == last else f"{first} .. {last}"]


def _value(row: Mapping[str, Any], axis: int) -> str:
    return str(row["set"][axis].split("=", 1)[1])


def _chosen(row: Row) -> str:
    if "workers" not in row:
        return {"infeasible": "nothing fits", "refused": "refused", "time_limit": "stopped before any was found"}.get(
            row["status"], "none found"
        )
    groups = row["workers"]
    text = " + ".join(groups) if len(groups) <= BRIEF else f"{len(groups)} groups in {counted(row['regions'], 'region')}"
    exchange = "" if row["exchange"] == "none" else f", {row['exchange']}"
    steps = f" H={row['local_steps']}" if row["local_steps"] > 1 else ""
    stopped = " (stopped early)" if row["status"] == "time_limit" else ""
    return f"{text}{exchange}{steps}{stopped}"


def _figures(run: list[Row]) -> list[str]:
    """Samples/s, USD/h and USD per million samples from the first to the last point."""
    if "workers" not in run[0]:
        return ["-", "-", "-"]
    found = []
    for key, words in (("samples_per_second", format_number), ("usd_per_hour", format_usd), ("usd_per_million_samples", format_usd)):
        one, other = words(run[0][key]), words(run[-1][key])
        found.append(one if one == other else f"{one} .. {other}")
    return found
