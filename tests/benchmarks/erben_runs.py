"""Every measured run of Erben et al. (2024) beside its estimate, and each series left out in turn.

    python tests/benchmarks/erben_runs.py DIR

DIR holds the runs as read from the public logs: `erben_dev.csv` and `erben_dev_2.csv`, with columns
exp, model, peers, tbs, sps, local_sps and sync_s. Nothing of them is shipped but the runs of
`catalogs/erben-2023/runs.csv` and the constants in `placer/workload/constants.py`, which
`--fit` finds again.

A series that is left out calibrates neither the costs of hosts nor the factors on links. Its speeds
come from other series that ran the same model on the same device; a device that no other series ran
keeps its own local rate, as `placer profile` would have measured it. Averages of a class of hosts
that no other series has are those of the T4 hosts, with the interval of hosts that nobody measured.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from placer.cost_model.estimate import exchange_phases, pool_of
from placer.cost_model.timing.round_seconds import step_seconds
from placer.cost_model.timing.site_groups import StepSeconds
from placer.market.books.book_reader import load_catalog
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.workload.constants import PUBLISHED, UNMEASURED_HOSTS, Calibration, HostConstants
from placer.workload.profile import Rate, load_profile

BOOK = "erben-2023"
FILES = ("erben_dev.csv", "erben_dev_2.csv")
MODELS = {
    "RN18": "resnet18",
    "RN50": "resnet50",
    "RN152": "resnet152",
    "WRN101": "wide-resnet101",
    "CONV": "convnext-large",
    "RBase": "roberta-base",
    "RLrg": "roberta-large",
    "RXLM": "roberta-xlm",
    "WhisperSmall": "whisper-small",
}
PLACES = {
    "US": "gcp/us-central1",
    "EU": "gcp/europe-west1",
    "ASIA": "gcp/asia-east1",
    "AUS": "gcp/australia-southeast1",
    "GC": "gcp/us-west1",
    "AWS": "aws/us-west-2",
    "AZURE": "azure/southcentralus",
    "LAM": "lambda/us-west-1",
    "ONP": "onprem/erben-eu",
    "ONPF": "onprem/erben-dgx2",
}
NODES = {"8xV100": "V100:8"}
SPEED_SPREAD = 0.02
"""Local rates of one model on one device differ by this share from run to run."""
Speeds = Mapping[tuple[str, str, int], float]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One measured run: seconds of a step, of its calculation and of the rest."""

    series: str
    label: str
    problem: Problem
    placement: Placement
    step_s: float
    calculation_s: float

    @property
    def communication_s(self) -> float:
        """What the calculation leaves of a step."""
        return self.step_s - self.calculation_s

    @property
    def devices(self) -> dict[tuple[str, str, int], int]:
        """Workers by model, GPU and GPUs of a machine."""
        found: dict[tuple[str, str, int], int] = {}
        for group in self.placement.groups:
            key = (self.problem.profile.name, group.gpu, group.gpu_count)
            found[key] = found.get(key, 0) + group.count
        return found

    def expected(self, speeds: Speeds, calibration: Calibration, case: int = 0) -> StepSeconds:
        """Estimate a step by some local rates and constants."""
        profile = self.problem.profile
        rows = [r for r in profile.rates if r.framework == "none" and r.gpu_count]
        rows += [
            Rate(
                gpu=gpu,
                gpu_count=count,
                framework="hivemind",
                value=speeds[profile.name, gpu, count],
                low=speeds[profile.name, gpu, count] * (1 - SPEED_SPREAD),
                high=speeds[profile.name, gpu, count] * (1 + SPEED_SPREAD),
                basis="measured",
                source="local rate",
            )
            for _, gpu, count in self.devices
        ]
        problem = replace(
            self.problem, profile=replace(profile, rates=tuple(rows)), calibration=calibration
        )
        machines = [(pool_of(group, problem), group.count) for group in self.placement.groups]
        phases = exchange_phases(self.placement, problem)
        return step_seconds(machines, self.placement, phases, problem, case)


def series_of(experiment: str) -> str:
    """Name the series of an experiment: A to D, E-A, F-A, Lambda or Whisper."""
    for start, name in (("Lambda", "Lambda"), ("W-", "Whisper"), ("E-", None), ("F-", None)):
        if experiment.startswith(start):
            return name or "-".join(experiment.split("-")[:2])
    return experiment.partition("-")[0]


def workers_of(peers: str) -> str:
    """Write the peers of a row as `--workers` does: ``US:T4x4;EU:T4x2``."""
    words = []
    for part in peers.split(";"):
        place, device = part.split(":")
        gpu, count = device.rsplit("x", 1)
        words.append(f"{PLACES[place]}={count}x{NODES.get(gpu, gpu)}")
    return ",".join(words)


def read_runs(folder: Path) -> list[Run]:
    """Read the runs of the files that the folder has."""
    book, runs = load_catalog(BOOK), []
    for path in (folder / name for name in FILES):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                batch = int(row["tbs"])
                problem = Problem(
                    profile=load_profile(MODELS[row["model"]]),
                    catalog=book,
                    requirements=Requirements(target_batch_size=batch),
                )
                runs.append(
                    Run(
                        series=series_of(row["exp"]),
                        label=f"{row['exp']} {row['model']} {batch}",
                        problem=problem,
                        placement=place_by_hand(workers_of(row["peers"]), problem),
                        step_s=batch / float(row["sps"]),
                        calculation_s=batch / float(row["local_sps"]),
                    )
                )
    return runs


def local_rates(runs: Sequence[Run], others: Sequence[Run]) -> dict[tuple[str, str, int], float]:
    """Return samples/s of a worker by model and device: the median of some runs, of others where
    those have none. Runs on two devices tell the one that is not known from the rest.
    """
    found: dict[tuple[str, str, int], float] = {}
    for source in (runs, others):
        for _ in range(2):
            seen: dict[tuple[str, str, int], list[float]] = {}
            for run in source:
                unknown = [key for key in run.devices if key not in found]
                if len(unknown) == 1:
                    known = sum(n * found[key] for key, n in run.devices.items() if key in found)
                    left = run.problem.batch / run.calculation_s - known
                    seen.setdefault(unknown[0], []).append(left / run.devices[unknown[0]])
            pure = {key for run in source if len(run.devices) == 1 for key in run.devices}
            for key, rates in seen.items():
                if key in pure or _ == 1:
                    found[key] = median(rates)
    return found


def calibration_of(values: Sequence[float]) -> Calibration:
    """Build the constants from six figures: s/GB, s/peer and s/tensor of T4 hosts, A10 hosts over
    these, kappa, and its multiple at sites. What no run here says, stays.
    """
    per_gb, per_peer, per_tensor, a10, kappa, site = (abs(float(v)) for v in values)

    def around(value: float, of: tuple[float, float, float]) -> tuple[float, float, float]:
        return value, value * of[1] / of[0], value * of[2] / of[0]

    return replace(
        PUBLISHED,
        hosts={
            "t4": replace(
                PUBLISHED.hosts["t4"],
                s_per_peer=per_peer,
                s_per_tensor=per_tensor,
                s_per_gb_sent=per_gb,
            ),
            "a10": HostConstants(0.0, 0.0, a10 * per_peer, a10 * per_tensor, a10 * per_gb),
        },
        kappa=around(kappa, PUBLISHED.kappa),
        site_kappa=around(site, PUBLISHED.site_kappa),
    )


START = (7.7, 0.40, 0.0086, 0.7, 0.77, 1.9)


def fitted(runs: Sequence[Run], speeds: Speeds) -> tuple[float, ...]:
    """Fit the six figures to some runs: logarithms of steps count 2 %, those of exchanges 10 %."""
    has_a10 = any(gpu == "A10" for run in runs for _, gpu, _ in run.devices)

    def residuals(values: Any) -> Any:
        if not has_a10:
            values = [*values[:3], 1.0, *values[4:]]
        calibration, found = calibration_of(values), []
        for run in runs:
            step = run.expected(speeds, calibration)
            found.append(math.log(step.total / run.step_s) / 0.02)
            found.append(math.log(step.communication / run.communication_s) / 0.1)
        return np.array(found)

    best = least_squares(
        residuals, START, x_scale=START, loss="soft_l1", diff_step=1e-3, xtol=1e-4, ftol=1e-4
    ).x
    return tuple(abs(float(v)) for v in ([*best[:3], 1.0, *best[4:]] if not has_a10 else best))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Relative errors of one run, and whether its interval holds it."""

    run: Run
    speed: float
    communication: float
    inside: bool

    @property
    def of_step(self) -> float:
        """The error of the exchange as a share of the whole step."""
        return abs(self.communication) * self.run.communication_s / self.run.step_s


def compared(run: Run, step: Callable[[int], StepSeconds]) -> Outcome:
    """Compare a run with what is expected of it: 0 expected, 1 slow, 2 fast."""
    expected, slow, fast = (step(case) for case in range(3))
    return Outcome(
        run=run,
        speed=run.step_s / expected.total - 1,
        communication=expected.communication / run.communication_s - 1,
        inside=fast.total <= run.step_s <= slow.total,
    )


def shipped(runs: Iterable[Run]) -> list[Outcome]:
    """Compare every run with what placer answers today."""

    def step(run: Run) -> Callable[[int], StepSeconds]:
        machines = [(pool_of(g, run.problem), g.count) for g in run.placement.groups]
        phases = exchange_phases(run.placement, run.problem)
        return lambda case: step_seconds(machines, run.placement, phases, run.problem, case)

    return [compared(run, step(run)) for run in runs]


def left_out(runs: Sequence[Run]) -> list[Outcome]:
    """Compare each series with what all others say of it."""
    outcomes = []
    for series in dict.fromkeys(run.series for run in runs):
        own = [run for run in runs if run.series == series]
        rest = [run for run in runs if run.series != series]
        speeds = local_rates(rest, own)
        calibration = calibration_of(fitted(rest, speeds))
        if not any(gpu == "A10" for run in rest for _, gpu, _ in run.devices):
            calibration = replace(calibration, spreads={"a10": UNMEASURED_HOSTS})
        outcomes += [compared(run, partial(run.expected, speeds, calibration)) for run in own]
    return outcomes


def table(title: str, outcomes: Sequence[Outcome]) -> str:
    """Write errors by series, and of all."""
    lines = [
        title,
        f"{'series':10}{'runs':>5}{'samples/s':>11}{'worst':>9}{'exchange':>10}{'worst':>9}"
        f"{'of step':>9}{'inside':>8}",
    ]
    groups = {
        s: [o for o in outcomes if o.run.series == s]
        for s in dict.fromkeys(o.run.series for o in outcomes)
    }
    for name, rows in {**groups, "all": list(outcomes)}.items():
        worst = max((o.speed for o in rows), key=abs)
        lines.append(
            f"{name:10}{len(rows):5}{fmean(abs(o.speed) for o in rows):11.1%}{worst:+9.1%}"
            f"{fmean(abs(o.communication) for o in rows):10.1%}"
            f"{max((o.communication for o in rows), key=abs):+9.1%}"
            f"{max(o.of_step for o in rows):9.1%}"
            f"{fmean(o.inside for o in rows):8.0%}"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", action="store_true", help="fit the constants to all runs first")
    parser.add_argument("--runs", action="store_true", help="print each run")
    given = parser.parse_args()
    runs = read_runs(given.folder)
    if given.fit:
        print(fitted(runs, local_rates(runs, ())))
    for title, outcomes in (
        ("As shipped", shipped(runs)),
        ("Each series left out", left_out(runs)),
    ):
        print(table(title, outcomes))
        if given.runs:
            for o in outcomes:
                mark = "" if o.inside else " *"
                print(f"  {o.run.label:44}{o.speed:+8.1%}{o.communication:+8.1%}{mark}")


if __name__ == "__main__":
    main()
