"""A user's measured runs: read from CSV, checked, each with its placement and the problem it
belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from placer.cost_model.estimate import exchange_phases, pool_of, workers_of
from placer.cost_model.timing.round_seconds import step_seconds
from placer.cost_model.timing.site_groups import EXPECTED, StepSeconds
from placer.errors import PlacerError
from placer.market.books.csv_rows import file_columns, read_numbered_rows
from placer.market.catalog import Catalog
from placer.problem.exchange import Phase
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.validation.calibration.run_log import run_log_row
from placer.workload.overlay import NOTHING, Overlay
from placer.workload.profile import ModelProfile, load_profile

TABLE = "measured.csv"
"""Block of catalogs/columns.csv that describes a runs file."""
CONTRADICTION = 1.25
"""Runs of one model on the same workers that are further apart than this factor cannot both be
right.
"""
SAME_SPEED = 0.05
"""samples_per_second and step_s of one row agree within this share."""
IMPLAUSIBLE = 20.0
"""A speed that is more than this factor from the published figures is a slip of units or of the
keyboard.
"""
PARTS_SPREAD = 0.2
"""Calculation and communication of a step sum to it within this share: logs of Erben et al. (2024)
do within 8 %.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredRun:
    """One measured run; times in seconds, ``line`` of its file. Spreads are half of the logarithm
    between the slowest and fastest twentieth of its rounds; 0 where the run was not logged round by
    round. ``slow_steps`` of its log took far longer than usual and are left out.
    """

    line: int
    step_s: float
    calculation_s: float | None
    communication_s: float | None
    problem: Problem
    placement: Placement
    phases: tuple[Phase, ...]
    calculation_spread: float = 0.0
    exchange_spread: float = 0.0
    slow_steps: int = 0

    @property
    def model(self) -> str:
        """Name of the profile."""
        return self.problem.profile.name

    @property
    def workers(self) -> str:
        """Groups as on the command line."""
        return ",".join(group.spec for group in self.placement.groups)

    @property
    def alone(self) -> bool:
        """One machine, nothing to exchange."""
        return self.placement.workers == 1

    @property
    def one_region(self) -> bool:
        """All workers are in one place."""
        return len(self.placement.places) == 1

    @property
    def samples_per_second(self) -> float:
        """Throughput that was measured."""
        return self.problem.batch / self.step_s

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of places with workers, each once, sorted."""
        return tuple(combinations(self.placement.places, 2))

    def hosts(self) -> set[str]:
        """Return the classes of averaging time of the workers."""
        return {pool_of(group, self.problem).host for group in self.placement.groups}

    def step(self, overlay: Overlay) -> StepSeconds:
        """Estimate the step with some figures over the published ones."""
        problem = replace(
            self.problem,
            profile=overlay.over_profile(self.problem.profile),
            catalog=overlay.over_catalog(self.problem.catalog),
            calibration=overlay.calibration,
        )
        machines = workers_of(self.placement, problem)
        return step_seconds(machines, self.placement, self.phases, problem, EXPECTED)


def read_runs(path: Path, catalog: Catalog) -> tuple[MeasuredRun, ...]:
    """Read a runs file or a log (``.jsonl``); a `PlacerError` names the wrong lines."""
    runs, profile_of = [], cache(load_profile)
    logged = path.suffix == ".jsonl"
    for line, row in [run_log_row(path)] if logged else read_numbered_rows(path, TABLE):
        try:
            whole = {**dict.fromkeys(file_columns(TABLE)), **row}
            runs.append(_run(line, whole, catalog, profile_of))
        except PlacerError as error:
            raise PlacerError(
                f"{path}:{line}: {error.message}", error.hint, exit_code=error.exit_code
            ) from None
    if not runs:
        raise PlacerError(
            f"{path} has no runs",
            "add one line for each measured run; catalogs/columns.csv lists the columns",
        )
    _check_contradictions(path, runs)
    return tuple(runs)


def _run(
    line: int, row: dict[str, Any], catalog: Catalog, profile_of: Callable[[str], ModelProfile]
) -> MeasuredRun:
    asked = row.get("question")
    wish = Requirements(
        compression=row["compression"] or None,
        streams=row["streams"] or 1,
        target_batch_size=row["target_batch_size"] or None,
    )
    if asked is None:
        profile = profile_of(row["model"])
    else:  # the plan's own profile and machines, which the book may not have
        whole = Problem.from_dict(asked)
        wish = replace(wish, transport=whole.requirements.transport)
        catalog, profile = whole.catalog, whole.profile
    problem = Problem(profile=profile, catalog=catalog, requirements=wish)
    placement = place_by_hand(row["workers"], problem)
    step_s = _step_s(row, problem.batch)
    run = MeasuredRun(
        line=line,
        step_s=step_s,
        calculation_s=row["calculation_s"],
        communication_s=row["communication_s"] if placement.workers > 1 else None,
        problem=replace(problem, catalog=_part_of(catalog, placement)),
        placement=placement,
        phases=exchange_phases(placement, problem),
        calculation_spread=row.get("calculation_spread") or 0.0,
        exchange_spread=row.get("exchange_spread") or 0.0,
        slow_steps=row.get("slow_steps") or 0,
    )
    _check_parts(run)
    _check_speed(run)
    return run


def _step_s(row: dict[str, Any], batch: int) -> float:
    """Read the seconds of a step from either column; both must agree."""
    speed, step = row["samples_per_second"], row["step_s"]
    if speed is None and step is None:
        raise PlacerError("samples_per_second and step_s are both empty", "give one of the two")
    if speed is None or step is None:
        return float(step if speed is None else batch / speed)
    if abs(batch / speed / step - 1) > SAME_SPEED:
        raise PlacerError(
            f"{speed:g} samples/s of {batch:,} samples are {batch / speed:.4g} s, but step_s is "
            f"{step:g}",
            "correct one, or give target_batch_size",
        )
    return float(batch / speed)


def _check_parts(run: MeasuredRun) -> None:
    """Refuse parts that cannot belong to the step."""
    calculation, communication = run.calculation_s, run.communication_s
    if calculation is not None and calculation > run.step_s * (1 + SAME_SPEED):
        raise PlacerError(
            f"calculation_s {calculation:g} is longer than the step, {run.step_s:.4g} s",
            "give seconds of one step",
        )
    parts = (calculation or 0.0) + (communication or 0.0)
    low = run.step_s * (1 - PARTS_SPREAD) if calculation and communication else 0.0
    if not low <= parts <= run.step_s * (1 + PARTS_SPREAD):
        raise PlacerError(
            f"calculation_s and communication_s sum to {parts:.4g} s, the step takes "
            f"{run.step_s:.4g} s",
            "give seconds of one step",
        )


def _check_speed(run: MeasuredRun) -> None:
    """Refuse a speed that no calibration could explain."""
    expected = run.problem.batch / run.step(NOTHING).total
    if not 1 / IMPLAUSIBLE <= run.samples_per_second / expected <= IMPLAUSIBLE:
        raise PlacerError(
            f"{run.samples_per_second:.4g} samples/s are more than a factor {IMPLAUSIBLE:g} from "
            f"the {expected:.4g} that placer expects",
            "check units and target_batch_size",
        )


def _part_of(catalog: Catalog, placement: Placement) -> Catalog:
    """Cut a book down to the places of a placement."""
    places = set(placement.places)
    return replace(
        catalog,
        regions={place: region for place, region in catalog.regions.items() if place in places},
        offers=tuple(offer for place in sorted(places) for offer in catalog.offers_at(place)),
        links=tuple(link for link in catalog.links if {link.src, link.dst} <= places),
    )


def _check_contradictions(path: Path, runs: Sequence[MeasuredRun]) -> None:
    """Refuse runs of the same thing whose results are a factor `CONTRADICTION` apart."""
    groups: dict[Any, list[MeasuredRun]] = {}
    for run in runs:
        same = (run.model, run.problem.batch, run.placement.canonical())
        groups.setdefault(same, []).append(run)
    for group in groups.values():
        a, b = min(group, key=lambda run: run.step_s), max(group, key=lambda run: run.step_s)
        if b.step_s > a.step_s * CONTRADICTION:
            speeds = f"{a.samples_per_second:.4g} and {b.samples_per_second:.4g} samples/s"
            raise PlacerError(
                f"{path}:{a.line} and {path}:{b.line} contradict each other: {a.model} on "
                f"{a.workers} did {speeds}",
                f"results of the same workers lie within a factor of {CONTRADICTION}: remove the "
                f"wrong line",
            )
