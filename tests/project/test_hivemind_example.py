"""examples/hivemind_roberta_tiny.py: its parts always, the whole with real hivemind where it is
installed.

The whole takes minutes. The tests' own Python has no hivemind; CI makes an environment that has it.
Elsewhere set ``PLACER_HIVEMIND_PYTHON`` to one with hivemind 1.1, PyTorch and what placer needs.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from other_pythons import other_python

from conftest import PROCESS_TIMEOUT_S, ROOT, completed

SCRIPT = ROOT / "examples" / "hivemind_roberta_tiny.py"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules of the example."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    from hivemind_parts import swarm, trial

    yield swarm, trial
    for name in [name for name in sys.modules if name.startswith("hivemind_")]:
        del sys.modules[name]


def inside(folder: Path) -> list[str]:
    """Processes that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve(strict=True).is_relative_to(folder):
                found.append((process / "cmdline").read_text())
        except OSError:  # ended, or another user's
            continue
    return found


def left(folder: Path, limit_s: float = 10.0) -> list[str]:
    """Processes that still work in a folder when those that were killed had time to end."""
    deadline = time.monotonic() + limit_s
    while inside(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    return inside(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_machines_end_with_all_that_they_started(parts: Any, tmp_path: Path) -> None:
    """One ends when asked, and what it left behind is ended too."""
    machines = parts[0].Machines(tmp_path)
    machines.start(
        "peer", ["bash", "-c", 'echo "{\\"step\\": 1}"; sleep 300 & echo ready; wait'], {}
    )
    machines.wait_for_words("peer", "ready", 60)
    assert machines.rows("peer") == [{"step": 1}]
    assert len(inside(tmp_path)) == 2
    machines.end()
    assert left(tmp_path) == []


@pytest.mark.timeout(400)  # two peers that load PyTorch and meet, on cores that others use too
def test_two_peers_train_from_an_exported_plan(tmp_path: Path) -> None:
    """The loss falls, the peers end with the same weights up to FP16, the time-outs of the plan
    hold, no process is left.
    """
    python = other_python("hivemind", "PLACER_HIVEMIND_PYTHON")
    words = ["--steps", "3", "--calculation", "8", "--dir", str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = completed(
        [python, str(SCRIPT), *words], timeout=2.4 * PROCESS_TIMEOUT_S, env=environment
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "run" / "trial.json").read_text())["trial"]
    assert found["steps"] == [3]
    assert found["loss"][1] < found["loss"][0]
    assert found["apart"] < 0.01
    assert min(found["rounds"]["averaged"]) >= 3
    assert "communication, s" in done.stdout
    assert left(tmp_path) == []
