"""The table of ``placer sweep``: where the choice changes, and
how the figures move.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from placer.advice.sweep.answer import Row, Sweep, along, breakpoints, choice, stretches
from placer.cli.screen.tables import Sheet
from placer.units import counted, format_number, format_usd

BRIEF = 3
"""More groups of workers are counted, not listed."""
MOST_ROWS = 60
"""Stretches that the table shows; --json has all points."""


def sweep_view(sweep: Sweep) -> RenderableType:
    """Build the table of stretches with one choice each, and say where it changes."""
    if not sweep.rows:
        return Text(f"no point is solved; {counted(sweep.points, 'point')} still to do")
    order = sorted(range(len(sweep.header["over"])), key=lambda i: (i == along(sweep), i))
    text = (*(sweep.header["over"][i]["what"] for i in order), "chosen")
    language = any("usd_per_billion_tokens" in row for row in sweep.rows)
    figures = ("tokens/s", "USD/h", "USD/Gtok") if language else ("samples/s", "USD/h", "USD/M")
    table = Sheet((*text, *figures), right=figures, wrap=text)
    runs = stretches(sweep)
    for run in runs[:MOST_ROWS]:
        table.add_row(*_where(run, order), _chosen(run[0]), *_figures(run))
    return Group(table, Text(""), Text(_summary(sweep, len(runs))))


def _summary(sweep: Sweep, runs: int) -> str:
    """Say how many points there are, and between which the choice changes."""
    rows, what = sweep.rows, sweep.header["over"][along(sweep)]["what"]
    missing = sweep.points - len(rows)
    lines = [
        f"{counted(len(rows), 'point')}, {counted(len({choice(row) for row in rows}), 'choice')}"
    ]
    if missing:
        lines.append(f"{counted(missing, 'point')} still to do")
    if runs > MOST_ROWS:
        lines.append(f"{counted(runs - MOST_ROWS, 'line')} more with --json")
    between = [
        f"{_value(one, along(sweep))} and {_value(other, along(sweep))}"
        for one, other in breakpoints(sweep)
    ]
    if len(sweep.header["over"]) > 1:
        lines.append(f"{counted(len(between), 'change')} of the choice along {what}")
    else:
        lines.append(
            f"the choice changes between {what} = {', '.join(between)}"
            if between
            else "the choice never changes"
        )
    refused = [row for row in rows if "message" in row]
    if refused:
        lines.append(
            f"{counted(len(refused), 'point')} refused, as {refused[0]['key']}: "
            f"{refused[0]['message']}"
        )
    return "; ".join(lines)


def _where(run: list[Row], order: list[int]) -> list[str]:
    """Return the values of each range: that which the table goes along from the first to the last
    point of a stretch.
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
            "memory_limit": "out of memory before any was found",
        }.get(row["status"], "none found")
    groups = row["workers"]
    text = (
        " + ".join(groups)
        if len(groups) <= BRIEF
        else f"{len(groups)} groups in {counted(row['regions'], 'region')}"
    )
    exchange = "" if row["exchange"] == "none" else f", {row['exchange']}"
    steps = f" H={row['local_steps']}" if row["local_steps"] > 1 else ""
    stopped = " (stopped early)" if row["status"] in ("time_limit", "memory_limit") else ""
    return f"{text}{exchange}{steps}{stopped}"


def _figures(run: list[Row]) -> list[str]:
    """Give samples/s, USD/h and USD per million samples from the first to the last point; of a
    language model tokens/s and USD per billion tokens.
    """
    if "workers" not in run[0]:
        return ["-", "-", "-"]
    changes = []
    language = "usd_per_billion_tokens" in run[0]
    for key, words in (
        ("effective_tokens_per_second" if language else "samples_per_second", format_number),
        ("usd_per_hour", format_usd),
        ("usd_per_billion_tokens" if language else "usd_per_million_samples", format_usd),
    ):
        one, other = words(run[0][key]), words(run[-1][key])
        changes.append(one if one == other else f"{one} .. {other}")
    return changes
