"""Checkpoints of machines that share no folder: after several losses all of them still have one
step in common.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placer.launch.runtime.training.checkpoint import abandon_later, save_checkpoint, steps_of

torch: Any = pytest.importorskip("torch")
LAST = 1000
"""Steps of the run."""


def kept(folder: Path, step: int, rank: int) -> None:
    """Keep a checkpoint of a few numbers."""
    save_checkpoint(folder, step, rank, {"module": {"weight": torch.zeros(2)}})


def resumed(folders: list[Path]) -> int:
    """The step from which all resume, as `placer.launch.runtime.processes.rank_run` agrees; each
    leaves behind what it had kept after it.
    """
    start = max(
        set.intersection(
            *(steps_of(folder, rank, replicated=True) for rank, folder in enumerate(folders))
        )
    )
    for rank, folder in enumerate(folders):
        abandon_later(folder, start, LAST, rank)
    return start


def test_two_losses_before_the_next_checkpoint_lose_nothing_more(tmp_path: Path) -> None:
    """Rank 1 is killed in steps 61, 55 and 99; rank 0 rescues its state each time, but step 50 is
    the newest that both have.

    Were 61 still there, it and 55 would be the two newest of rank 0, and then 61 and 100: nothing
    in common.
    """
    folders = [tmp_path / "a", tmp_path / "b"]
    for rank, folder in enumerate(folders):
        kept(folder, 50, rank)
    for rescued in (61, 55, 100):
        kept(folders[0], rescued, 0)
        assert resumed(folders) == 50
        assert steps_of(folders[0], 0) == {50}


def test_a_copy_of_another_machine_serves_and_longer_runs_stay(tmp_path: Path) -> None:
    """Of replicas any file will do; checkpoints after the run's last step are of a longer run."""
    folders = [tmp_path / "a", tmp_path / "b"]
    kept(folders[0], 61, 0)
    kept(folders[0], LAST + 1, 0)
    kept(folders[1], 61, 0)
    assert resumed(folders) == 61
    assert steps_of(folders[0], 0) == {61, LAST + 1}
