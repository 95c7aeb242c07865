"""The runs of cloud functions in a rehearsal: how often, how long, and in which phases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from placer.launch.runtime.run_plan import RunPlan

GATHERED = ("wait", "fetch", "put")
REGIONAL = (("sum", ("wait", "fetch in regions", "forward")), ("copy", ("copy", "put in regions")))
"""A function of a region is called twice a round."""
Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run per round: its rank, its name, and the phases that are paid for (waiting, but not
    deletes).
    """

    rank: int
    place: str
    name: str
    phases: tuple[str, ...]

    def seconds(self, rounds: Sequence[Sequence[Record]]) -> float:
        """Return the median over rounds, s."""
        each = [
            sum(r["exchange_s"].get(p, 0.0) for p in self.phases)
            for records in rounds
            for r in records
            if r["rank"] == self.rank
        ]
        return median(each) if each else 0.0


def runs_of(plan: RunPlan) -> tuple[Run, ...]:
    """List the runs of all functions in the order of
    `placer.cost_model.timing.step.StepSeconds.functions`: those of each region, then the global
    one.
    """
    return tuple(_runs(plan)) if plan.hub == "function" else ()


def _runs(plan: RunPlan) -> Iterator[Run]:
    for rank in range(plan.workers, plan.ranks):
        last = rank == plan.ranks - 1
        for name, phases in (("mean", GATHERED),) if last else REGIONAL:
            yield Run(rank=rank, place=plan.place_of(rank), name=name, phases=phases)
