"""Kills one rank of a run with SIGKILL at a named phase, once; for `test_killed_at_each_phase.py`.

The user's function is called in each process before the first step: here it puts the kill into that
process, then returns the tiny model.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import run_plans

ORDER = Path(os.environ["PLACER_HOME"]) / "kill"
"""``rank|when|phase|time|file``: ``before`` or ``after`` the phase of that name comes for that
time; the file says that it is done.

A file, as processes are forked from one that has the environment of its own start.
"""


def _die(done: str) -> None:
    try:
        with Path(done).open("x"):
            os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        return


def _while_saving(times: int, done: str) -> None:
    """Die in the middle of a checkpoint: some of its bytes are on disk."""
    import torch

    save, left = torch.save, [times]

    def half(state: Any, file: Any) -> None:
        left[0] -= 1
        if left[0] == 0 and not Path(done).exists():
            file.write(b"PK half of a checkpoint")
            file.flush()
            _die(done)
        save(state, file)

    torch.save = half


def _at_mean(phase: str, step: int, done: str) -> None:
    """Die before a look for the mean of a step, or when it is there and not applied yet."""
    from placer.launch.runtime.stores.object_store import ObjectStore

    usual = ObjectStore.get

    def watched(self: Any, key: str) -> Any:
        due = "/means/" in key and key.endswith(f"-{step}")
        if due and phase == "poll":
            _die(done)
        found = usual(self, key)
        if due and found is not None:
            _die(done)
        return found

    ObjectStore.get = watched  # type: ignore[assignment, method-assign]


def _at_phase(when: str, phase: str, times: int, done: str) -> None:
    """Die at the beginning or at the end of a phase."""
    from placer.launch.runtime.wire.meter import Meter

    usual, left = Meter.phase, [times]

    @contextmanager
    def watched(self: Meter, name: str) -> Iterator[None]:
        left[0] -= name == phase
        due = name == phase and left[0] == 0
        if due and when == "before":
            _die(done)
        with usual(self, name):
            yield
        if due and when == "after":
            _die(done)

    Meter.phase = watched  # type: ignore[method-assign]


def tiny() -> Any:
    """The tiny model, in a process that may be killed."""
    words = ORDER.read_text() if ORDER.exists() else ""
    if words:
        rank, when, phase, times, done = words.split("|")
        if multiprocessing.current_process().name == f"placer rank {rank}":
            if phase == "checkpoint":
                _while_saving(int(times), done)
            elif phase in ("poll", "download"):
                _at_mean(phase, int(times), done)
            else:
                _at_phase(when, phase, int(times), done)
    return run_plans.tiny()
