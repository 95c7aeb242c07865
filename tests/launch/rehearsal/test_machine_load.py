"""A rehearsal on a busy machine does not blame the plan."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from placer.cli.launch.rehearse import _verdict
from placer.launch.rehearsal.comparison import Line, blames_machine
from placer.launch.rehearsal.machine_load import MachineLoad, cpu_ticks, load_between
from placer.records import replace

QUIET, BUSY = MachineLoad(in_use=0.3, stolen=0.0), MachineLoad(in_use=0.97, stolen=0.02)
SLOW = Line(kind="seconds", what="round", unit="s", predicted=1.0, measured=1.4, within=False)
BYTES = Line(kind="bytes", what="a -> b", unit="B", predicted=1e6, measured=2e6, within=False)


@pytest.mark.parametrize(
    ("load", "lines", "verdict"),
    [
        (BUSY, [SLOW], "undecided: round +40.0%, but this machine was busy: its CPUs were 97% in"),
        (QUIET, [SLOW], "not confirmed: round +40.0%"),
        (None, [SLOW], "not confirmed: round +40.0%"),
        (BUSY, [replace(SLOW, measured=0.5)], "not confirmed: round -50.0%"),
        (BUSY, [SLOW, BYTES], "not confirmed: round +40.0%, a -> b +100.0%"),
        (BUSY, [replace(SLOW, measured=1.0, within=True)], "confirmed: 1 of 1 judged"),
    ],
)
def test_only_a_slow_round_is_the_machine_s(
    load: MachineLoad | None, lines: list[Line], verdict: str
) -> None:
    """A round that is too fast, or bytes that are off, are the plan's on any machine."""
    rehearsal: Any = SimpleNamespace(load=load)
    assert _verdict(rehearsal, lines).startswith(verdict)
    assert blames_machine(rehearsal, lines) == verdict.startswith("undecided")


@pytest.mark.parametrize(
    ("in_use", "stolen", "busy"),
    [(0.9, 0.0, False), (0.91, 0.0, True), (0.2, 0.05, False), (0.2, 0.06, True)],
)
def test_limits_of_a_busy_machine(in_use: float, stolen: float, busy: bool) -> None:
    """More than 90 % in use or stolen, or more than 5 % stolen."""
    assert MachineLoad(in_use=in_use, stolen=stolen).is_busy == busy


def test_this_machine_says_its_load_or_nothing() -> None:
    """Readings only grow; a system without them is None, as are two readings at once."""
    before = cpu_ticks()
    for _ in range(10):
        os.urandom(1 << 20)
    load = load_between(before, cpu_ticks())
    assert load is None or 0 <= load.in_use <= 1
    assert load_between((), ()) is None
    assert load_between(before, before) is None
