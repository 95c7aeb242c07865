"""The ``placer.whatif/v1`` document and the difference table of ``placer whatif``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from placer.advice.worlds.scenario import Change
from placer.advice.worlds.whatif import WhatIf
from placer.cli.report.recommend.sentences import brief, headline
from placer.cli.report.recommend.terminal import reading
from placer.cost_model.estimate import Estimate
from placer.documents.parts import data_document, estimate_document, placement_document
from placer.documents.request import request_document
from placer.problem.placement import Placement
from placer.solving.result import Result
from placer.units import format_number, format_usd

SCHEMA = "placer.whatif/v1"
NOTHING = "nothing fits"
STATUS_WORDS = {
    "optimal": "proved",
    "feasible": "not proved",
    "infeasible": "proved",
    "time_limit": "stopped early",
    "unknown": "not proved",
}
Figure = tuple[str, str, Callable[[Estimate], float], Callable[[float], str]]
FIGURES: tuple[Figure, ...] = (
    (
        "samples/s",
        "samples_per_second",
        lambda got: got.effective_samples_per_second.value,
        format_number,
    ),
    ("USD/h", "usd_per_hour", lambda got: got.usd_per_hour.total, format_usd),
    ("  of it egress", "egress_usd_per_hour", lambda got: got.usd_per_hour.egress, format_usd),
    (
        "USD per million samples",
        "usd_per_million_samples",
        lambda got: got.usd_per_million_samples,
        format_usd,
    ),
)
"""Label, key, figure and its words; samples are those that count towards the target."""


def whatif_document(got: WhatIf) -> dict[str, Any]:
    """Build the document; within v1 keys are only added."""
    kept, world = got.kept, got.after.problem
    return {
        "schema": SCHEMA,
        "request": request_document(got.before.problem),
        "data": data_document(got.before.problem),
        "changes": [change_document(change) for change in got.changes],
        "before": _side(got.before),
        "after": _side(got.after),
        "difference": _difference(got),
        "same_placement": got.same,
        "kept": None
        if kept is None
        else {
            "estimate": None if kept.estimate is None else estimate_document(kept.estimate),
            "objective": {"name": world.requirements.objective, "value": kept.value},
            "violations": list(kept.broken),
            "relative_regret": got.regret,
        },
    }


def change_document(change: Change) -> dict[str, Any]:
    """One change as it was written and as it was read."""
    return {
        "text": change.text,
        "what": change.what,
        "target": list(change.target),
        "factor": change.factor,
        "value": change.value,
    }


def _side(result: Result) -> dict[str, Any]:
    placement, problem = result.placement, result.problem
    return {
        "request": request_document(problem),
        "status": str(result.status),
        "objective": {
            "name": problem.requirements.objective,
            "value": result.value,
            "bound": result.bound,
            "gap": result.gap,
        },
        "placement": None if placement is None else placement_document(placement, problem),
        "estimate": None if result.estimate is None else estimate_document(result.estimate),
    }


def _difference(got: WhatIf) -> dict[str, float] | None:
    one, other = got.before.estimate, got.after.estimate
    if one is None or other is None:
        return None
    return {key: figure(other) - figure(one) for _, key, figure, _ in FIGURES}


def whatif_view(got: WhatIf) -> RenderableType:
    """What was asked and changed, the difference table, and what keeping the old choice would do."""
    said = [
        ("change" if i == 0 else "", f"{'without ' if c.what == 'drop' else ''}{c.text}")
        for i, c in enumerate(got.changes)
    ]
    lines = _reaction(got)
    if any(
        str(result.status) not in ("optimal", "infeasible") for result in (got.before, got.after)
    ):
        lines.append(
            (
                "proof",
                (
                    "not both answers are proved, so a part of the difference may be the search's: "
                    "raise --time-limit"
                ),
            )
        )
    return Group(
        reading(got.before.problem), _lines(said), Text(""), _table(got), Text(""), _lines(lines)
    )


def _table(got: WhatIf) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="underline", padding=(0, 1))
    for name in ("", "before", "after", "difference"):
        table.add_column(
            name, overflow="fold", justify="left" if name in ("", "before", "after") else "right"
        )
    before, after = got.before, got.after
    table.add_row(
        "chosen",
        _chosen(before.placement),
        _chosen(after.placement),
        "the same" if got.same else "another",
        style="bold",
    )
    for label, _, figure, words in FIGURES:
        one, other = (None if r.estimate is None else figure(r.estimate) for r in (before, after))
        table.add_row(
            label,
            *("-" if value is None else words(value) for value in (one, other)),
            _change_words(one, other, words),
        )
    regions = [None if r.placement is None else len(r.placement.places) for r in (before, after)]
    table.add_row(
        "regions", *("-" if n is None else str(n) for n in regions), _count_words(*regions)
    )
    table.add_row("exchange", *(_exchange(r.placement) for r in (before, after)), "")
    table.add_row("proof", *(STATUS_WORDS[str(r.status)] for r in (before, after)), "", style="dim")
    return table


def _chosen(placement: Placement | None) -> str:
    if placement is None:
        return NOTHING
    return (
        headline(placement)
        if len(placement.groups) == 1
        else brief(placement).replace(" + ", "\n+ ")
    )


def _exchange(placement: Placement | None) -> str:
    if placement is None or placement.exchange.strategy == "none":
        return "-"
    steps = placement.exchange.local_steps
    return placement.exchange.strategy + (f" H={steps}" if steps > 1 else "")


def _change_words(one: float | None, other: float | None, words: Callable[[float], str]) -> str:
    """A signed difference and its share of the old figure; ``=`` if there is none."""
    if one is None or other is None:
        return ""
    if abs(other - one) <= 1e-9 * max(abs(one), abs(other)):
        return "="
    sign = "+" if other > one else "-"
    share = f" ({100 * (other / one - 1):+.1f} %)" if one else ""
    return f"{sign}{words(abs(other - one))}{share}"


def _count_words(one: int | None, other: int | None) -> str:
    if one is None or other is None:
        return ""
    return "=" if one == other else f"{other - one:+d}"


def _reaction(got: WhatIf) -> list[tuple[str, str]]:
    """What not reacting would cost, in a sentence or two."""
    kept = got.kept
    if kept is None:
        return [("kept", "there is no old choice to keep: nothing fits the question as it is")]
    if got.same and not kept.broken:
        return [("kept", "the best choice stays the best: nothing to do")]
    if kept.estimate is None:
        return [("kept", f"the old choice cannot be kept: {kept.broken[0]}")]
    speed, usd = kept.estimate.effective_samples_per_second.value, kept.estimate.usd_per_hour.total
    figures = (
        f"{format_number(speed)} samples/s for {format_usd(usd)}/h "
        f"({format_usd(kept.estimate.usd_per_million_samples)} per million)"
    )
    said = [("kept", f"the old choice would do {figures}")]
    if kept.broken:
        return [*said, ("", f"and it breaks a limit: {'; '.join(kept.broken)}")]
    regret = got.regret
    if regret is None:
        return said
    name = {
        "throughput": "of the samples/s",
        "cost": "of the USD/h",
        "cost-per-sample": "of the USD per sample",
    }
    objective = got.after.problem.requirements.objective
    if regret <= (got.after.gap or 0.0) + 1e-9:
        return [*said, ("regret", "none: the old choice is as good as the new one")]
    return [*said, ("regret", f"{100 * regret:.1f} % {name[objective]} of the new choice")]


def _lines(lines: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(text))
    return table
