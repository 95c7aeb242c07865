"""Checkpoints: one file per rank and step, tensors only, there whole or not at all."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.files.whole_files import whole_file

KEPT = 2
"""Newest steps whose checkpoints are kept: the last may be missing on another machine."""


def save_checkpoint(
    folder: Path, step: int, rank: int, state: dict[str, Any], needed: int | None = None
) -> None:
    """Write the state of a rank before a step, whole or not at all; remove all but the last `KEPT`.

    Parameters
    ----------
    needed
        A rank has come no further than this step: the newest checkpoint before it, and later ones,
        stay.

    Raises
    ------
    PlacerError
        If the folder cannot be written.
    """
    import torch

    target = _file(folder, step, rank)
    for left in folder.glob(f".writing-{rank}-*"):  # of an older version that was killed
        left.unlink(missing_ok=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A rank that is steps ahead may remove the folder of the step, not the one of all steps.
        with whole_file(target, made_in=folder) as file:
            torch.save({"step": step, **state}, file)
    except (OSError, RuntimeError) as error:
        words = f"cannot write the checkpoint {target}: {_cause(error)}"
        raise PlacerError(words, "free some space or choose another --out", exit_code=1) from None
    present = sorted(steps_of(folder, rank))
    oldest = max(
        (s for s in present if needed is not None and s <= needed),
        default=0 if needed is not None else step,
    )
    for old in (s for s in present[:-KEPT] if s < oldest):
        _file(folder, old, rank).unlink(missing_ok=True)
        with suppress(OSError):  # other ranks have files there, or were first
            _file(folder, old, rank).parent.rmdir()


def _cause(error: BaseException) -> str:
    """Return the system's message: torch puts an error about its own archive over that of a full
    disk.
    """
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__context__
    return " ".join(str(error).split())[:160]


def load_checkpoint(folder: Path, step: int, rank: int, *, replicated: bool) -> dict[str, Any]:
    """Read the state of a rank before a step; of replicas any rank's file will do.

    Raises
    ------
    PlacerError
        If the file is damaged or holds more than tensors and plain values.
    """
    import torch

    path = _file(folder, step, rank)
    if replicated and not path.exists():
        path = min(path.parent.glob("rank-*.pt"))
    try:
        loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        words = " ".join(str(error).split())[:160]
        raise PlacerError(
            f"cannot read the checkpoint {path}: {words}", "remove it: an older one is used then"
        ) from None
    return loaded


def abandon_later(folder: Path, start: int, last: int, rank: int) -> None:
    """Remove a rank's checkpoints after the step at which a run resumes: on several machines nobody
    else has them.

    Notes
    -----
    Such a file would count among the newest `KEPT` and push out one that all ranks have. ``last``
    is the run's last step: checkpoints after it are of a longer run, and stay.
    """
    for step in steps_of(folder, rank):
        if start < step <= last:
            _file(folder, step, rank).unlink(missing_ok=True)
            with suppress(OSError):  # other ranks have files there
                _file(folder, step, rank).parent.rmdir()


def steps_of(folder: Path, rank: int, *, replicated: bool = False) -> set[int]:
    """Return the steps before which a rank has a checkpoint to resume from."""
    pattern = "step-*/rank-*.pt" if replicated else f"step-*/rank-{rank}.pt"
    return {int(path.parent.name.removeprefix("step-")) for path in folder.glob(pattern)}


def _file(folder: Path, step: int, rank: int) -> Path:
    return folder / f"step-{step:08d}" / f"rank-{rank}.pt"
