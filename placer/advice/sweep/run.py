"""A sweep: one solve for each point of one to three ranges, here, in processes or on Dask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from typing import TYPE_CHECKING, Any

from placer.advice.runner.runner import Runner, answers, here, interrupts, stopping
from placer.advice.sweep.file import (
    POINTS_SCHEMA,
    Axis,
    append,
    open_points,
    points_of,
    question_digest,
)
from placer.advice.worlds.whatif import apply, figures_of, set_wish
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.problem.words.changes import parse_changes
from placer.problem.words.wishes import CHANGES
from placer.report.shown import Shown
from placer.report.stretches import breakpoints
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import load_solver, require_pools, solve
from placer.version import __version__

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "placer.sweep/v1"
Row = dict[str, Any]
"""Figures of one point, as its file has them."""
REFUSED = "refused"
"""Status of a point whose question contradicts itself or admits no machine."""
Tell = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Sweep(Shown):
    """The points of a sweep that are solved: ``rows``, one a point, in order."""

    header: Mapping[str, Any]
    rows: tuple[Row, ...] = field(repr=False)
    interrupted: bool = False

    def __repr__(self) -> str:
        over = " x ".join(axis["what"] for axis in self.header["over"])
        return f"<Sweep over {over}: {len(self.rows)} of {self.points} points>"

    @property
    def points(self) -> int:
        """Points that the ranges span."""
        return int(self.header["points"])

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.sweep/v1`` document."""
        return {
            **self.header,
            "schema": SCHEMA,
            "complete": len(self.rows) == self.points,
            "breakpoints": [
                {"from": one["set"], "to": other["set"]}
                for one, other in breakpoints(self.header["over"], self.rows)
            ],
            "rows": list(self.rows),
        }

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row a point (pandas)."""
        import pandas as pd

        return pd.DataFrame(
            [{**dict(word.split("=", 1) for word in row["set"]), **row} for row in self.rows]
        )


def solve_point(shared: tuple[Problem, str, SolveOptions], words: tuple[str, ...]) -> Row:
    """Solve the question of one point; what it refuses is an answer as well."""
    problem, solver, options = shared
    head: Row = {"key": " ".join(words), "set": list(words)}
    try:
        changed = apply(problem, parse_changes(words))
        require_pools(changed)
        return head | _row(solve(changed, solver, options))
    except PlacerError as error:
        return head | {"status": REFUSED, "message": error.message}


def _row(result: Result) -> Row:
    """Return the figures of one answer; no times, so that equal questions have equal rows."""
    row: Row = {"status": str(result.status), "objective": result.problem.requirements.objective}
    row |= {"value": result.value, "bound": result.bound}
    if result.placement is None:
        return row
    placement, got = result.found
    return row | {
        "workers": [group.spec for group in placement.groups],
        "offers": [group.instance_type for group in placement.groups],
        "exchange": placement.exchange.strategy,
        "local_steps": placement.exchange.local_steps,
        "regions": len(placement.places),
        **figures_of(got),
    }


def check_axes(problem: Problem, axes: Sequence[Axis]) -> None:
    """Refuse wrong values of wishes and patterns that match nothing, before a point is solved."""
    for axis in axes:
        changes = parse_changes(axis.words)
        if changes[0].what not in CHANGES:
            apply(problem, changes[:1])
            continue
        for change in changes:
            set_wish(problem, change)


def header_of(
    problem: Problem, axes: Sequence[Axis], solver: str, options: SolveOptions
) -> dict[str, Any]:
    """Return the first line of the file: the question, its digest, and the number of points."""
    from placer.documents.result_parts import data_document, request_document

    points = [" ".join(words) for words in points_of(axes)]
    named = {name: getattr(options, name) for name in ("gap", "time_limit_s", "seed")}
    solving = {"solver": solver, **named}
    return {
        "schema": POINTS_SCHEMA,
        "question": question_digest(problem, points, solving, __version__),
        "placer_version": __version__,
        "request": request_document(problem),
        "data": data_document(problem),
        "over": [
            {"what": axis.what, "values": [word.split("=", 1)[1] for word in axis.words]}
            for axis in axes
        ],
        "points": len(points),
        **solving,
    }


def run_sweep(
    problem: Problem,
    axes: Sequence[Axis],
    *,
    solver: str = "exact",
    options: SolveOptions | None = None,
    output: str | None = None,
    shard: tuple[int, int] = (1, 1),
    runner: Runner | None = None,
    tell: Tell = lambda done, of: None,
) -> Sweep:
    """Solve every point of some ranges that is not in the output file yet.

    ``shard`` (i, n) takes every n-th point from the i-th on. Without a ``runner`` one is solved
    after the other, here. ``tell`` hears how many points of how many are done. Raises PlacerError
    if a range or the solver is wrong, or the file is another question's.
    """
    load_solver(solver)
    options = (options or SolveOptions()).deaf
    points = points_of(axes)
    check_axes(problem, axes)
    header = header_of(problem, axes, solver, options)
    mine = [(i, words) for i, words in enumerate(points) if i % shard[1] == shard[0] - 1]
    with ExitStack() as stack:
        rows: list[Row] = []
        handle: FileIO | None = None
        if output is not None:
            rows, handle = stack.enter_context(open_points(output, header))
        known = {row["key"] for row in rows}
        missing = [(i, words) for i, words in mine if " ".join(words) not in known]
        done, stopped = len(mine) - len(missing), False
        tell(done, len(mine))
        try:
            with interrupts() as interrupted:
                place = runner or stack.enter_context(here((problem, solver, options)))
                stop, words_of = stopping(options, interrupted), [words for _, words in missing]
                solved = answers(solve_point, words_of, place, stop)
                for (point, _), solved_row in zip(missing, solved, strict=False):
                    row = {"point": point, **solved_row}
                    rows.append(row)
                    if handle is not None:
                        append(handle, row)
                    done += 1
                    tell(done, len(mine))
        except KeyboardInterrupt:
            stopped = True
    stopped = stopped or done < len(mine)
    if stopped and runner is not None:
        runner.stop()
    rows.sort(key=lambda row: int(row["point"]))
    return Sweep(header=header, rows=tuple(rows), interrupted=stopped)
