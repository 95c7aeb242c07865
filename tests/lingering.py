"""Models of processes that do not end by themselves, for `test_exit.py`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import run_plans

NEVER_S = 3600.0
MARK = Path(os.environ["PLACER_HOME"]) / "destructor"
"""Written by the destructor of `held`."""


class Held:
    """An object whose destructor does not return, as gloo's may not."""

    def __del__(self) -> None:
        """Say that it runs, and hang."""
        MARK.write_text("runs")
        time.sleep(NEVER_S)


def held() -> Any:
    """Return the tiny model; it refers to an object that hangs where it is destroyed."""
    work = run_plans.tiny()
    work.module.held = Held()
    return work


def _hang(code: int) -> None:
    time.sleep(NEVER_S)


def hanging() -> Any:
    """Return the tiny model in a process that hangs in exit."""
    os._exit = _hang  # type: ignore[assignment]
    return run_plans.tiny()


def failing() -> Any:
    """Return what cannot be trained, in a process that hangs in exit."""
    os._exit = _hang  # type: ignore[assignment]
    return run_plans.stepping()
