"""How a process ended, in words."""

from __future__ import annotations

import signal


def how(code: int) -> str:
    """Read an exit code as Python's ``subprocess`` and ``multiprocessing`` give it.

    Examples
    --------
    >>> how(-9), how(3)
    ('killed by SIGKILL', 'ended with code 3')
    """
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
