"""A bar on stderr while `placer profile` measures: what it measures, and how much time it takes at
most.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placer.cli.output import console


@contextmanager
def bar(seconds: float) -> Iterator[Callable[[str], None]]:
    """Show a bar on a terminal, elsewhere nothing.

    Parameters
    ----------
    seconds
        Time that is given to the whole; it may end before.

    Yields
    ------
    Callable[[str], None]
        Call it with what is being measured.
    """
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("at most"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task("starting", total=seconds)
        start = time.perf_counter()
        yield lambda words: shown.update(
            task, description=words, completed=min(seconds, time.perf_counter() - start)
        )
