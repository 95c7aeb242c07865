"""The ``placer.sweep/v1`` document and the table of ``placer sweep``: where the choice changes, and
how the figures move.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from placer.advice.sweep.run import Row, Sweep
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
        "breakpoints": [
            {"from": one["set"], "to": other["set"]} for one, other in breakpoints(sweep)
        ],
        "rows": list(sweep.rows),
    }


def choice(row: Row) -> tuple[str, ...]:
    """What decides whether two points have the same answer: workers and exchange, or that there is
    none.
    """
    if "workers" not in row:
        return (str(row["status"]),)
    return (*row["workers"], str(row["exchange"]), str(row["local_steps"]))


def along(sweep: Sweep) -> int:
    """Position of the range that the table goes along: that with the most values, of several the
    last.
    """
    counts = [len(axis["values"]) for axis in sweep.header["over"]]
    return max(range(len(counts)), key=lambda i: (counts[i], i))


def stretches(sweep: Sweep) -> list[list[Row]]:
    """Neighbouring points along one range that have the same choice; the values of the others are
    the same in a stretch.
    """
    found: list[list[Row]] = []
    at: tuple[tuple[int, ...], int] | None = None
    for row in sorted(sweep.rows, key=lambda row: _coordinates(sweep, row)):
        others, step = _coordinates(sweep, row)
        if at == (others, step - 1) and choice(row) == choice(found[-1][-1]):
            found[-1].append(row)
        else:
            found.append([row])
        at = (others, step)
    return found


def breakpoints(sweep: Sweep) -> list[tuple[Row, Row]]:
    """Neighbours along one range between which the choice changes."""
    found = []
    for one, other in pairwise(stretches(sweep)):
        (others, step), (there, after) = _coordinates(sweep, one[-1]), _coordinates(sweep, other[0])
        if others == there and after == step + 1:
            found.append((one[-1], other[0]))
    return found


def _coordinates(sweep: Sweep, row: Row) -> tuple[tuple[int, ...], int]:
    """Positions of a point on the other ranges, and on the one that the table goes along."""
    rest, found = int(row["point"]), []
    for axis in reversed(sweep.header["over"]):
        rest, position = divmod(rest, len(axis["values"]))
        found.append(position)
    step = found[::-1].pop(along(sweep))
    others = found[::-1]
    del others[along(sweep)]
    return tuple(others), step


def sweep_view(sweep: Sweep) -> RenderableType:
    """Table of stretches with one choice each, and where it changes."""
    order = sorted(range(len(sweep.header["over"])), key=lambda i: (i == along(sweep), i))
    table = Table(box=None, pad_edge=False, header_style="underline", padding=(0, 1))
    for name in (*(sweep.header["over"][i]["what"] for i in order), "chosen"):
        table.add_column(name, overflow="fold")
    for name in ("samples/s", "USD/h", "USD/M"):
        table.add_column(name, justify="right", no_wrap=True)
    runs = stretches(sweep)
    for run in runs[:MOST_ROWS]:
        table.add_row(*_where(run, order), _chosen(run[0]), *_figures(run))
    return Group(table, Text(""), Text(_summary(sweep, len(runs))))


def _summary(sweep: Sweep, runs: int) -> str:
    """How many points there are, and between which the choice changes."""
    rows, what = sweep.rows, sweep.header["over"][along(sweep)]["what"]
    missing = sweep.points - len(rows)
    said = [
        f"{counted(len(rows), 'point')}, {counted(len({choice(row) for row in rows}), 'choice')}"
    ]
    if missing:
        said.append(f"{counted(missing, 'point')} still to do")
    if runs > MOST_ROWS:
        said.append(f"{counted(runs - MOST_ROWS, 'line')} more with --json")
    between = [
        f"{_value(one, along(sweep))} and {_value(other, along(sweep))}"
        for one, other in breakpoints(sweep)
    ]
    if len(sweep.header["over"]) > 1:
        said.append(f"{counted(len(between), 'change')} of the choice along {what}")
    else:
        said.append(
            f"the choice changes between {what} {', '.join(between)}"
            if between
            else "the choice never changes"
        )
    refused = [row for row in rows if "message" in row]
    if refused:
        said.append(
            f"{counted(len(refused), 'point')} refused, as {refused[0]['key']}: "
            f"{refused[0]['message']}"
        )
    return "; ".join(said)


def _where(run: list[Row], order: list[int]) -> list[str]:
    """Values of each range: that which the table goes along from the first to the last point of a
    stretch.
    """
    first, last = _value(run[0], order[-1]), _value(run[-1], order[-1])
    return [
        *(_value(run[0], i) for i in order[:-1]),
        first if first == last else f"{first} .. {last}",
    ]


def _value(row: Mapping[str, Any], axis: int) -> str:
    return str(row["set"][axis].split("=", 1)[1])


def _chosen(row: Row) -> str:
    if "workers" not in row:
        return {
            "infeasible": "nothing fits",
            "refused": "refused",
            "time_limit": "stopped before any was found",
        }.get(row["status"], "none found")
    groups = row["workers"]
    text = (
        " + ".join(groups)
        if len(groups) <= BRIEF
        else f"{len(groups)} groups in {counted(row['regions'], 'region')}"
    )
    exchange = "" if row["exchange"] == "none" else f", {row['exchange']}"
    steps = f" H={row['local_steps']}" if row["local_steps"] > 1 else ""
    stopped = " (stopped early)" if row["status"] == "time_limit" else ""
    return f"{text}{exchange}{steps}{stopped}"


def _figures(run: list[Row]) -> list[str]:
    """Samples/s, USD/h and USD per million samples from the first to the last point."""
    if "workers" not in run[0]:
        return ["-", "-", "-"]
    found = []
    for key, words in (
        ("samples_per_second", format_number),
        ("usd_per_hour", format_usd),
        ("usd_per_million_samples", format_usd),
    ):
        one, other = words(run[0][key]), words(run[-1][key])
        found.append(one if one == other else f"{one} .. {other}")
    return found
