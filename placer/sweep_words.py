"""The words of a sweep, read and run: ranges, changes that hold everywhere, the file, the shard and who solves."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager

from placer.errors import PlacerError
from placer.problem import Problem
from placer.result import SolveOptions
from placer.scenario import apply, parse_changes
from placer.sweep_axes import parse_axis, parse_shard
from placer.sweep_workers import dask as on_dask
from placer.sweep_workers import processes
from placer.sweeping import Runner, Sweep, Tell, run_sweep


def sweep_problem(
    problem: Problem,
    over: Sequence[str],
    *,
    options: SolveOptions,
    solver: str = "exact",
    set: Sequence[str] = (),  # noqa: A002 - the word of the command line
    drop: Sequence[str] = (),
    output: str | None = None,
    shard: str | None = None,
    jobs: int = 1,
    dask: str | None = None,
    tell: Tell = lambda done, of: None,
) -> Sweep:
    """Run a sweep as `placer.sweep` describes it.

    Raises
    ------
    PlacerError
        Names the word that is wrong.
    """
    if not isinstance(jobs, int) or jobs < 1:
        raise PlacerError(f"jobs {jobs!r}", "give the number of processes, from 1")
    if dask is not None and jobs != 1:
        raise PlacerError(f"jobs {jobs} beside a Dask cluster", "use one of them")
    axes = [parse_axis(text) for text in ([over] if isinstance(over, str) else over)]
    problem = apply(problem, parse_changes(set, drop))
    where: AbstractContextManager[Runner | None] = contextlib.nullcontext()
    if dask is not None:
        where = on_dask(dask, problem, solver, options)
    elif jobs > 1:
        where = processes(problem, solver, options, jobs)
    with where as runner:
        return run_sweep(
            problem, axes, solver=solver, options=options, output=output, shard=parse_shard(shard), runner=runner, tell=tell
        )
