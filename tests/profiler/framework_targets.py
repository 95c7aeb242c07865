"""Targets that end or hang while they are loaded; they need no PyTorch."""

from __future__ import annotations

import ctypes
import os
import signal


def killed() -> None:
    """The system ends the process, as it does where memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def exits() -> None:
    """The process ends without an exception."""
    os._exit(3)


def hangs() -> None:
    """It sleeps for a day and keeps the GIL, so that no handler of Python can run."""
    ctypes.PyDLL(None).sleep(86_400)


def interrupted() -> None:
    """The user presses Ctrl-C while it hangs."""
    os.kill(os.getppid(), signal.SIGINT)
    hangs()
