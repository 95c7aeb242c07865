"""What a process of a run tells its launcher: records, exit codes, and the errors behind them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.run_plan import RunPlan

FAILED, LOST = 1, 75
"""Exit codes: this process failed; another was lost (EX_TEMPFAIL)."""
Report = Callable[[dict[str, Any]], None]


def reporter(fd: int) -> Report:
    """Return a function that writes a record to the pipe of this process."""

    def report(record: dict[str, Any]) -> None:
        line = json.dumps(record).encode() + b"\n"
        while line:
            line = line[os.write(fd, line) :]

    return report


def error_record(rank: int, error: PlacerError) -> dict[str, Any]:
    """Return the record of an error that ends a process."""
    words = {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    return {"kind": "error", "rank": rank, **words}


def unlike_models(plan: RunPlan, rank: int, first: int) -> PlacerError:
    """Build the error of a run whose workers end with different models."""
    return PlacerError(
        f"{plan.rank_name(rank)} ends with another model than rank {first}",
        "this should not be: keep the log and report it",
        exit_code=1,
    )
