"""The exit code of a process, in words."""

from __future__ import annotations

import signal


def how_ended(code: int) -> str:
    """Read an exit code as Python's ``subprocess`` and ``multiprocessing`` give it.

    Examples
    --------
    >>> how_ended(-9), how_ended(3)
    ('killed by SIGKILL', 'ended with code 3')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
