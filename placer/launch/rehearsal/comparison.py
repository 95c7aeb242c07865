"""A rehearsal line by line: seconds, bytes per link, requests, dollars; predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from placer.cost_model.dollars import components as cost
from placer.launch.rehearsal.function_runs import runs_of
from placer.launch.rehearsal.rehearsal import Rehearsal
from placer.launch.runtime.log.comparison import summary
from placer.problem.exchange.phase import bytes_by_link
from placer.records import replace
from placer.units import SECONDS_PER_HOUR
from placer.validation.calibration.run_log import Record, whole_rounds

SCHEMA = "placer.rehearsal/v1"
SECONDS_TOLERANCE, BYTES_TOLERANCE = 0.15, 0.02
"""Within these a rehearsal confirms its plan: the round, and what each link carries."""
LEAST_SHARE = 0.01
"""Pairs that carry less than this share of what the busiest carries have acknowledgements, polls
and greetings only: not judged.
"""

LEAST_BYTES, LEAST_BYTES_OF_A_STORE = 1e5, 1e6
"""Nor those of less in a round: headers and greetings, with a store also polls, are more than the
tolerance then.
"""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One figure: ``kind`` is seconds, bytes, requests or usd; ``within`` None: not judged."""

    kind: str
    what: str
    unit: str
    predicted: float | None
    measured: float | None
    within: bool | None = None

    @property
    def difference(self) -> float | None:
        """Return measured over predicted less 1."""
        return (
            self.measured / self.predicted - 1
            if self.predicted and self.measured is not None
            else None
        )


def lines_of(rehearsal: Rehearsal) -> list[Line]:
    """Compare a rehearsal with its prediction; nothing is judged where workers went on without one
    that died: all are predicted.
    """
    figures = summary(rehearsal.plan, rehearsal.settings, rehearsal.records)
    seconds = [_line("seconds", row["what"], row["unit"], row) for row in figures["seconds"]]
    judged = [
        _judged(line, SECONDS_TOLERANCE) if line.what == "round" else line for line in seconds
    ]
    round_s = next(line.measured for line in judged if line.what == "round")
    requests = [
        Line(
            kind="requests",
            what=row["what"],
            unit="a round",
            predicted=row["predicted"],
            measured=row["measured"],
            within=None if row["predicted"] is None else row["predicted"] == row["measured"],
        )
        for row in figures["requests"]
    ]
    lines = [
        *judged,
        *_functions(rehearsal),
        *_bytes(rehearsal),
        *requests,
        *_usd(rehearsal, round_s),
    ]
    return [replace(line, within=None) for line in lines] if rehearsal.went_on else lines


def _line(kind: str, what: str, unit: str, row: dict[str, Any]) -> Line:
    return Line(
        kind=kind, what=what, unit=unit, predicted=row["predicted"], measured=row["measured"]
    )


def _judged(line: Line, tolerance: float) -> Line:
    off = line.difference
    return replace(line, within=None if off is None else abs(off) <= tolerance)


def _bytes(rehearsal: Rehearsal) -> list[Line]:
    """Compare the bytes on the wire, as the relay counted them, with the payload of the exchange.

    Notes
    -----
    A link that is faster than the relay drops packets here, which are sent again: not judged.
    """
    small = rehearsal.small
    predicted = bytes_by_link(rehearsal.plan.phases(small.problem.gradient_bytes))
    share = LEAST_SHARE * max(predicted.values(), default=0.0)
    least = max(share, LEAST_BYTES if not rehearsal.plan.buckets else LEAST_BYTES_OF_A_STORE)
    lines = []
    for src, dst in sorted({*predicted, *rehearsal.sent}):
        should, did = predicted.get((src, dst)), rehearsal.sent.get((src, dst), 0.0)
        line = Line(
            kind="bytes", what=f"{src} -> {dst}", unit="B a round", predicted=should, measured=did
        )
        if should is None and did < share:
            continue
        judged = should is not None and should > least and (src, dst) not in rehearsal.slower
        lines.append(_judged(line, BYTES_TOLERANCE) if judged else line)
    return lines


def _usd(rehearsal: Rehearsal, round_s: float | None) -> list[Line]:
    """Price the scaled plan per hour. Bytes and seconds shrink alike, so it costs about what the
    plan costs.

    Notes
    -----
    Machines and bytes are priced as measured. Of stores space and requests are, without polls,
    which come faster here; a function is paid from the first gradient that is there to its last
    write, with the memory of the plan.
    """
    usd, network = rehearsal.small.estimate.usd_per_hour, rehearsal.small.problem.network
    same_zone = rehearsal.small.problem.requirements.same_zone
    egress = sum(
        count * network.usd_per_byte(src, dst, same_zone=same_zone)
        for (src, dst), count in rehearsal.sent.items()
    )
    lines = [
        Line(kind="usd", what="machines", unit="USD/h", predicted=usd.compute, measured=usd.compute)
    ]
    if round_s:
        each = {"egress": (usd.egress, egress), **_services_usd(rehearsal, round_s)}
        rounds_per_hour = SECONDS_PER_HOUR / round_s
        lines += [
            Line(kind="usd", what=k, unit="USD/h", predicted=p, measured=m * rounds_per_hour)
            for k, (p, m) in each.items()
        ]
    return lines


def _functions(rehearsal: Rehearsal) -> list[Line]:
    """Compare the seconds of each run of a function: from the first upload that it hears of to the
    end of its last write.
    """
    rounds, predicted = _counted(rehearsal), rehearsal.small.estimate.step.functions
    return [
        Line(
            kind="seconds",
            what=f"{run.name} in {run.place}",
            unit="s",
            predicted=step.seconds,
            measured=run.seconds(rounds),
        )
        for run, step in zip(runs_of(rehearsal.plan), predicted, strict=True)
    ]


def _services_usd(rehearsal: Rehearsal, round_s: float) -> dict[str, tuple[float, float]]:
    """Price stores and functions of a serverless exchange: USD/h predicted, and USD of a round as
    measured.
    """
    problem, exchange, plan = (
        rehearsal.small.problem,
        rehearsal.small.placement.exchange,
        rehearsal.plan,
    )
    if not plan.buckets:
        return {}
    usd, rounds, memory_gib = (
        rehearsal.small.estimate.usd_per_hour,
        _counted(rehearsal),
        exchange.aggregator_memory_gib or 0.0,
    )
    store = fsum(
        cost.storage_usd(
            problem.catalog.store(hub.bucket.place),
            problem.gradient_bytes,
            len(hub.gathers),
            round_s,
            0,
        )
        for hub in plan.hubs
        if hub.bucket is not None
    )
    function = fsum(
        cost.function_usd(problem.function(run.place), memory_gib, run.seconds(rounds))
        for run in runs_of(plan)
    )
    return {"storage": (usd.storage, store), "functions": (usd.functions, function)}


def _counted(rehearsal: Rehearsal) -> list[list[Record]]:
    """Return the whole rounds after the first."""
    steps = (record for record in rehearsal.records if record["kind"] == "step")
    rounds = whole_rounds(steps, rehearsal.plan.workers, rehearsal.plan.steps_per_round)
    return rounds[1:] if len(rounds) > 1 else rounds


def document_of(rehearsal: Rehearsal, lines: Sequence[Line]) -> dict[str, Any]:
    """Build the JSON document of a rehearsal."""
    small = rehearsal.small
    return {
        "schema": SCHEMA,
        "plan": rehearsal.plan.name,
        "strategy": rehearsal.plan.exchange.strategy,
        "workers": rehearsal.plan.workers,
        "scale": small.scale,
        "gradient_bytes": small.problem.gradient_bytes,
        "network": {
            "method": rehearsal.method,
            "why_not": rehearsal.why_not,
            "slower": [list(pair) for pair in rehearsal.slower],
        },
        "lines": [
            {
                "kind": line.kind,
                "what": line.what,
                "unit": line.unit,
                "predicted": line.predicted,
                "measured": line.measured,
                "difference": line.difference,
                "within": line.within,
            }
            for line in lines
        ],
        "deaths": list(rehearsal.deaths),
        **_machine(rehearsal),
        "confirmed": confirmed(lines),
    }


def _machine(rehearsal: Rehearsal) -> dict[str, Any]:
    load = rehearsal.load
    if load is None:
        return {}
    return {"machine": {"in_use": load.in_use, "stolen": load.stolen, "busy": load.is_busy}}


def blames_machine(rehearsal: Rehearsal, lines: Sequence[Line]) -> bool:
    """Return whether all that is off is a round that took longer, on a machine that was busy: this
    says nothing about the plan.
    """
    off = [line for line in lines if line.within is False]
    slow = all(line.kind == "seconds" and (line.difference or 0.0) > 0 for line in off)
    return bool(off) and slow and rehearsal.load is not None and rehearsal.load.is_busy


def confirmed(lines: Sequence[Line]) -> bool:
    """Return whether every line that is judged is within its tolerance."""
    return all(line.within is not False for line in lines)
