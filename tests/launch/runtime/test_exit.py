"""The end of a run's processes: no destructor runs, and a rank that hangs in exit is killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from lingering import MARK, NEVER_S  # noqa: E402
from run_plans import A, B, document, plan_of, settings_of  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.processes import launcher  # noqa: E402
from placer.launch.runtime.processes.run import run_here  # noqa: E402

sys.path.insert(0, str(ROOT / "tests"))


def ran(folder: Path, train: str) -> list[dict[str, Any]]:
    """Run two steps of an all-reduce of two workers; the run ends long before its processes do."""
    manifest, began = document("all-reduce", (A, 1), (B, 1)), time.monotonic()
    plan = plan_of(manifest)
    settings = settings_of(folder, plan, train=f"lingering:{train}", steps=2, checkpoints="")
    try:
        return run_here(plan, manifest, settings, folder, lambda record: None)
    finally:
        assert time.monotonic() - began < NEVER_S / 2


def digests(records: list[dict[str, Any]]) -> list[str]:
    """Parameters of the ranks that came to the end."""
    return [record["parameters_sha256"] for record in records if record["kind"] == "end"]


def test_no_destructor_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose destructor never returns is still referred to when the process ends: nobody
    has to be killed.
    """
    killed: list[int] = []
    usual = launcher.Launcher._kill_overdue

    def watched(self: launcher.Launcher, running: set[int]) -> None:
        usual(self, running)
        killed.extend(self.overdue)

    monkeypatch.setattr(launcher.Launcher, "_kill_overdue", watched)
    MARK.unlink(missing_ok=True)
    assert len(digests(ran(tmp_path, "held"))) == 2
    assert not MARK.exists()
    assert not killed


def test_a_rank_that_hangs_in_exit_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last record has come, so the run is whole: two equal models, and no rank was lost."""
    monkeypatch.setattr(launcher, "EXIT_S", 0.5)
    records = ran(tmp_path, "hanging")
    assert len(digests(records)) == 2
    assert len(set(digests(records))) == 1
    assert not [record for record in records if record["kind"] == "lost"]


def test_a_rank_that_hangs_after_an_error_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is the one that it reported, not that it was killed."""
    monkeypatch.setattr(launcher, "EXIT_S", 0.5)
    with pytest.raises(PlacerError, match="returns a step function") as caught:
        ran(tmp_path, "failing")
    assert caught.value.exit_code == 2
