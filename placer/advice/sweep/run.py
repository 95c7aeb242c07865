"""A sweep: one solve for each point of one to three ranges, here, in processes or on Dask, in a
file that can be taken up again.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import FileIO
from typing import TYPE_CHECKING, Any

from placer.advice.sweep.answer import Row, Sweep
from placer.advice.sweep.axes import Axis, points_of
from placer.advice.sweep.file import SCHEMA, append, open_points, question_digest
from placer.advice.worlds.scenario import apply
from placer.advice.worlds.wish_changes import set_wish
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.problem.words.changes import Change, parse_changes
from placer.problem.words.wishes import CHANGES
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import check_solver, require_pools, solve
from placer.version import __version__

if TYPE_CHECKING:
    pass

AHEAD = 4
"""Points for each process that are handed out before the oldest one is back: rows are written in
order.
"""
CHECK_S = 0.5
"""Between two looks whether anybody is left who solves."""
REFUSED = "refused"
"""Status of a point whose question contradicts itself or admits no machine."""
Tell = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Where points are solved: here, or by an executor of `concurrent.futures`.

    Notes
    -----
    ``submit`` hands one point to the executor, however the question has got there; ``workers`` is
    how many points run side by side; ``stop`` ends what is being solved when Ctrl-C came; ``check``
    raises an error if nobody is left who could solve, and is called while a point is waited for.
    """

    submit: Callable[[tuple[str, ...]], Future[Row]]
    workers: int
    stop: Callable[[], None] = lambda: None
    check: Callable[[], None] = lambda: None


def solve_point(
    problem: Problem, words: tuple[str, ...], solver: str, options: SolveOptions
) -> Row:
    """Solve the question of one point; what it refuses is an answer as well."""
    try:
        changed = apply(problem, parse_changes(words))
        require_pools(changed)
        return {**_head(words), **_row(solve(changed, solver, options))}
    except PlacerError as error:
        return {**_head(words), "status": REFUSED, "message": error.message}


def _head(words: tuple[str, ...]) -> Row:
    return {"key": " ".join(words), "set": list(words)}


def _row(result: Result) -> Row:
    """Return the figures of one answer; no times, so that equal questions have equal rows."""
    wish, placement, estimate = result.problem.requirements, result.placement, result.estimate
    row: Row = {
        "status": str(result.status),
        "objective": wish.objective,
        "value": result.value,
        "bound": result.bound,
    }
    if placement is None or estimate is None:
        return row
    return row | {
        "workers": [group.spec for group in placement.groups],
        "offers": [group.instance_type for group in placement.groups],
        "exchange": placement.exchange.strategy,
        "local_steps": placement.exchange.local_steps,
        "regions": len(placement.places),
        "samples_per_second": estimate.effective_samples_per_second.value,
        "usd_per_hour": estimate.usd_per_hour.total,
        "egress_usd_per_hour": estimate.usd_per_hour.egress,
        "usd_per_million_samples": estimate.usd_per_million_samples,
        **estimate.token_figures,
    }


def check_axes(problem: Problem, axes: Sequence[Axis]) -> None:
    """Refuse what no point could be solved with, before the first is: wrong values of wishes,
    patterns that match nothing.

    Raises
    ------
    PlacerError
        Names the value or the pattern.
    """
    for axis in axes:
        changes: tuple[Change, ...] = parse_changes(axis.words)
        for change in changes:
            if change.what in CHANGES:
                set_wish(
                    problem,
                    change.what,
                    change.text,
                    change.factor,
                    None if change.value is None else str(change.value),
                )
        if changes[0].what not in CHANGES:
            apply(problem, changes[:1])


def header_of(
    problem: Problem, axes: Sequence[Axis], solver: str, options: SolveOptions
) -> dict[str, Any]:
    """Return the first line of the file: the question, its digest, and the number of points."""
    from placer.documents.request import request_document
    from placer.documents.result_parts import data_document

    points = [" ".join(words) for words in points_of(axes)]
    solving = {
        "solver": solver,
        "gap": options.gap,
        "time_limit_s": options.time_limit_s,
        "seed": options.seed,
    }
    return {
        "schema": SCHEMA,
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
    """Solve every point of some ranges that is not solved yet.

    Parameters
    ----------
    problem
        The question that the ranges change.
    axes
        One to three ranges; every combination is a point.
    solver, options
        As in `placer.solving.solve.solve`.
    output
        File of points; those in it are not solved again.
    shard
        (i, n): every n-th point from the i-th on.
    runner
        Processes or Dask; None: one point after the other, here.
    tell
        Hears how many points of how many are done.

    Raises
    ------
    PlacerError
        If a range or the solver is wrong, or the file is another question's.
    """
    check_solver(solver)
    options = replace(options or SolveOptions(), on_better=None)
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
            with _interrupts() as interrupted:
                cancel = options.cancel

                def asked_to_stop() -> bool:
                    return interrupted() or (cancel is not None and cancel.is_set())

                solved = _solved(missing, runner or Here(problem, solver, options), asked_to_stop)
                for row in solved:
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
    return Sweep(
        header=header,
        rows=tuple(sorted(rows, key=lambda row: int(row["point"]))),
        interrupted=stopped,
    )


class Here(Runner):
    """Solve one point after the other in this process."""

    def __init__(self, problem: Problem, solver: str, options: SolveOptions) -> None:
        def submit(words: tuple[str, ...]) -> Future[Row]:
            future: Future[Row] = Future()
            future.set_result(solve_point(problem, words, solver, options))
            return future

        super().__init__(submit=submit, workers=0)


def _solved(
    points: Sequence[tuple[int, tuple[str, ...]]], runner: Runner, asked_to_stop: Callable[[], bool]
) -> Iterator[Row]:
    """Yield the rows of some points, in order; a point during which Ctrl-C came is not kept, as its
    search was cut short.
    """
    waiting: deque[tuple[int, Future[Row]]] = deque()
    rest = iter(points)
    try:
        while True:
            for i, words in rest:
                waiting.append((i, runner.submit(words)))
                if len(waiting) > AHEAD * runner.workers:
                    break
            if not waiting or asked_to_stop():
                return
            i, future = waiting.popleft()
            row = _awaited(future, runner, asked_to_stop)
            if row is None or asked_to_stop():
                return
            yield {"point": i, **row}
    except BrokenExecutor:
        raise PlacerError(
            "a process of the sweep died",
            "what is done is kept: run the same command again",
            exit_code=1,
        ) from None
    finally:
        for _, future in waiting:
            future.cancel()


def _awaited(future: Future[Row], runner: Runner, asked_to_stop: Callable[[], bool]) -> Row | None:
    """Wait for a point as long as there is somebody to solve it; None if it is no longer wanted."""
    while not wait([future], CHECK_S).done:
        runner.check()
        if asked_to_stop():
            return None
    return future.result()


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Remember that Ctrl-C came: a solver takes the exception for itself and returns its best so
    far.
    """
    came: list[bool] = []

    def remember(number: int, frame: object) -> None:
        came.append(True)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    old = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGINT, old)


def on_executor(
    executor: Executor,
    problem: Problem | Any,
    solver: str,
    options: SolveOptions,
    workers: int,
    check: Callable[[], None],
) -> Runner:
    """Solve points with an executor that is given the question with each of them (Dask: a future of
    it, scattered once).
    """
    return Runner(
        submit=lambda words: executor.submit(solve_point, problem, words, solver, options),
        workers=workers,
        check=check,
    )
