"""Which runner a request asks for, and what each of its processes may take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from placer.advice.runner.runner import Opener, Runner, here
from placer.errors import PlacerError
from placer.records import replace
from placer.solving.allowance import default_memory_bytes
from placer.solving.answer import SolveOptions
from placer.units import format_bytes

LEAST_BYTES = 250_000_000
"""A process that solves gets at least so much memory: a hundred MB are placer and a book."""


def opener(jobs: int = 1, dask: str | None = None) -> Opener:
    """Return what opens the runner of a request: here, processes, or Dask at an address."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise PlacerError(
            f"jobs {jobs!r} is not a whole number from 1", "give the number of processes"
        )
    if dask is not None and jobs != 1:
        raise PlacerError(f"jobs {jobs} together with a Dask cluster", "use one of them")

    def opened(shared: Any) -> AbstractContextManager[Runner]:
        # Loaded where they are used: most requests need neither.
        if dask is not None:
            from placer.advice.runner.dask_cluster import dask as cluster

            return cluster(shared, dask)
        if jobs > 1:
            from placer.advice.runner.processes import processes

            return processes(shared, jobs)
        return here(shared)

    return opened


def options_of_each(options: SolveOptions, jobs: int, *, elsewhere: bool) -> SolveOptions:
    """Return the options of one of some processes, which share the memory and hear nobody."""
    if jobs == 1 and not elsewhere:
        return options.deaf
    limit = options.memory_limit_bytes
    if jobs > 1:
        share = int((default_memory_bytes() if limit is None else limit) / jobs)
        if limit is not None and share < LEAST_BYTES:
            raise PlacerError(
                f"memory limit {format_bytes(limit)}: each of {jobs} processes has "
                f"{format_bytes(share)}",
                f"give {format_bytes(LEAST_BYTES * jobs)} or more, or fewer --jobs",
            )
        limit = max(share, LEAST_BYTES)
    return replace(options.deaf, cancel=None, memory_limit_bytes=limit)


def stopping(options: SolveOptions, interrupted: Callable[[], bool]) -> Callable[[], bool]:
    """Return whether Ctrl-C came, or the caller's token is set."""
    return lambda: interrupted() or (options.cancel is not None and options.cancel.is_set())
