"""The run log ``placer.run/v1``: JSON lines, a header, then records, each written whole."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from msgspec import structs

from placer.errors import PlacerError
from placer.launch.folder_lock import lock_log
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.training.context import Settings
from placer.validation.calibration.run_log import SCHEMA

OFFER = ("gpu", "gpu_count", "market")
"""What a log keeps of a group's offer."""


class RunLog:
    """A log file, and its records in memory.

    Parameters
    ----------
    path
        Of the log.
    plan, settings
        What is run, for the header.
    links
        ``loopback``, ``shaped`` or ``real``.
    """

    def __init__(self, path: Path, plan: RunPlan, settings: Settings, *, links: str) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open("wb", buffering=0)
        except OSError as error:
            raise PlacerError(
                f"cannot write '{path}': {error.strerror}", "choose another --out"
            ) from None
        try:
            lock_log(self.file.fileno(), path)
            self.write(header(plan, settings, links=links))
        except PlacerError:
            self.file.close()
            raise

    def write(self, record: dict[str, Any]) -> None:
        """Add a record: its whole line, or nothing of it.

        Raises
        ------
        PlacerError
            If the disk is full or gone.
        """
        self.records.append(record)
        _add_line(self.file, record, self.path)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def header(plan: RunPlan, settings: Settings, *, links: str) -> dict[str, Any]:
    """Build the first line of a log: which plan is run, and how."""
    exchange = plan.exchange
    return {
        "kind": "run",
        "schema": SCHEMA,
        "manifest": {"name": plan.name, "digest": plan.manifest.digest},
        "model": plan.manifest.model.name,
        "gradient_bytes": plan.manifest.model.gradient_bytes,
        "groups": [
            {
                "place": g.place,
                "count": g.count,
                **{key: getattr(g.offer, key) for key in OFFER},
                **(
                    {
                        "machines": g.machines,
                        "inner": None if g.inner is None else structs.asdict(g.inner),
                    }
                    if g.is_island
                    else {}
                ),
            }
            for g in plan.manifest.groups
        ],
        "strategy": exchange.strategy,
        "compression": exchange.compression,
        "local_steps": exchange.local_steps,
        "streams": exchange.streams,
        "overlap": exchange.overlap,
        "aggregator": exchange.aggregator,
        "storage": exchange.storage,
        "train": settings.train,
        "steps": settings.steps,
        "seed": settings.seed,
        "target_batch_size": settings.target_batch_size,
        "microbatch": settings.microbatch or plan.microbatch,
        "device": settings.device,
        "threads": settings.threads,
        "elastic": plan.quorum is not None,
        "links": links,
        "question": plan.manifest.question,
    }


def append(path: Path, record: dict[str, Any]) -> None:
    """Add a record to a log that is closed, as `RunLog.write` does."""
    try:
        with path.open("ab", buffering=0) as file:
            _add_line(file, record, path)
    except OSError as error:
        raise PlacerError(
            f"cannot write '{path}': {error.strerror}", "choose another --out", exit_code=1
        ) from None


def _add_line(file: FileIO, record: dict[str, Any], path: Path) -> None:
    """Write past Python's buffer, so that what does not fit can be taken back."""
    end = file.seek(0, os.SEEK_END)
    left = memoryview(json.dumps(record, allow_nan=True).encode() + b"\n")
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as error:
        with suppress(OSError):
            file.truncate(end)
        raise PlacerError(
            f"cannot write '{path}': {error.strerror}",
            "free some space or choose another --out",
            exit_code=1,
        ) from None
