"""The loop closes on this machine: what was run makes the next estimate right."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")
from closed_loop import turn


def test_an_estimate_holds_for_the_run_it_was_calibrated_on(tmp_path: Path) -> None:
    """Two processes of one thread: profiled, planned as own machines, exported, started by the
    exported script. The plan knows nothing of gloo over loopback; the estimate that is calibrated
    on the run's log has its speed within 5 % and its interval, and says on what it rests.
    """
    got = turn(tmp_path)
    assert got.low <= got.runs[0] <= got.high
    assert abs(got.value / got.runs[0] - 1) < 0.05
    assert abs(got.value - got.planned) > 1e-9 * got.planned
    lines = [line for line in got.rests_on if "run.jsonl" in line]
    assert any(line.startswith("speed on CPU-1: measured: placer profile runs") for line in lines)
    assert any(line.startswith("averaging time: Gloo") for line in lines)
    assert any(line.startswith("speeds and exchange times are those of") for line in lines)
