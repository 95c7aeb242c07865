"""The run log ``placer.run/v1``: JSON lines, a header and then records, each whole on its line as soon as it is known."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from placer.errors import PlacerError
from placer.fitting.run_log import SCHEMA
from placer.runtime.context import Settings
from placer.runtime.plan import Plan

OFFER = ("gpu", "gpu_count", "market")
"""What a log keeps of a group's offer."""


class RunLog:
    """Writes records to a file and keeps them.

    Parameters
    ----------
    path
        Of the log.
    plan, settings
        What is run, for the header.
    links
        ``loopback``, ``shaped`` or ``real``.
    """

    def __init__(self, path: Path, plan: Plan, settings: Settings, *, links: str) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open("w", encoding="utf-8")
        except OSError as error:
            raise PlacerError(f"cannot write '{path}': {error.strerror}", "choose another --out") from None
        self.write(header(plan, settings, links=links))

    def write(self, record: dict[str, Any]) -> None:
        """Add a record."""
        self.records.append(record)
        try:
            self.file.write(json.dumps(record, allow_nan=True) + "\n")
            self.file.flush()
        except OSError as error:
            raise PlacerError(
                f"cannot write '{self.path}': {error.strerror}", "free some space or choose another --out", exit_code=1
            ) from None

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.file.close()


def header(plan: Plan, settings: Settings, *, links: str) -> dict[str, Any]:
    """First line of a log: which plan is run, and how."""
    exchange = plan.exchange
    return {
        "kind": "run",
        "schema": SCHEMA,
        "manifest": {"name": plan.name, "digest": plan.digest},
        "model": plan.model,
        "gradient_bytes": plan.gradient_bytes,
        "groups": [{"place": g.place, "count": g.count, **{key: getattr(g.offer, key) for key in OFFER}} for g in plan.groups],
        "strategy": exchange.strategy,
        "compression": exchange.compression,
        "local_steps": exchange.local_steps,
        "streams": exchange.streams,
        "aggregator": exchange.aggregator,
        "storage": exchange.storage,
        "train": settings.train,
        "steps": settings.steps,
        "seed": settings.seed,
        "target_batch_size": settings.target_batch_size,
        "microbatch": settings.microbatch,
        "device": settings.device,
        "elastic": settings.elastic,
        "links": links,
    }


def append(path: Path, record: dict[str, Any]) -> None:
    """Add a record to a log that is closed."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
