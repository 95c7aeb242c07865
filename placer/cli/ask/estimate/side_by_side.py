"""What to beware of in placements side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placer.advice.recommendation.notes import warnings_of
from placer.records import replace

if TYPE_CHECKING:
    from placer.problem.problem import Problem
    from placer.solving.answer import Warn
    from placer.solving.result import Option


def warnings_by_row(options: Sequence[Option], problem: Problem) -> list[Warn]:
    """Return each kind of warning once: what holds for some rows names them, and the first of
    several messages stands for all.
    """
    kinds: dict[str, list[tuple[str, Warn]]] = {}
    for row, option in enumerate(options, start=1):
        for warning in warnings_of(problem, option.placement, option.estimate):
            kinds.setdefault(warning.code, []).append((f"row {row}", warning))
    shown = []
    for told in kinds.values():
        (first, warning), rows = told[0], list(dict.fromkeys(row for row, _ in told))
        if len(rows) < len(options) or len({one.message for _, one in told}) > 1:
            like = f" (likewise {', '.join(rows[1:])})" if rows[1:] else ""
            warning = replace(warning, message=f"{first}: {warning.message}{like}")
        shown.append(warning)
    return shown
