"""What the log of a run on one machine tells: the speed of the model there, and nothing of the
plan's machines and links.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from itertools import combinations
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from placer.documents.schemas.measured import Fitted, NotFitted
from placer.errors import PlacerError
from placer.market.accelerators import processor_name
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog, device_name
from placer.records import replace
from placer.units import counted
from placer.validation.calibration.least_squares import Pair, solve
from placer.validation.calibration.parameters import LINK, RATE, Equations, Parameter, scale
from placer.validation.calibration.quality import (
    LEAST_HALF_WIDTH,
    CalibrationReport,
    check_runs,
    finished,
    fitted_figures,
    not_fitted,
    warnings_of,
)
from placer.validation.calibration.run_log import (
    LEAST_ROUNDS,
    gradients_of,
    is_other_model,
    is_own_site,
    read_run,
    whole_rounds,
)
from placer.validation.calibration.runs import MeasuredRun, read_runs
from placer.workload.constants import PUBLISHED
from placer.workload.overlay import CalibratedRate, Overlay

ON_PLAN = "run it where the plan says: such a log tells speeds, averaging time and links"
Record = Mapping[str, Any]


def local_report(
    path: Path, records: Sequence[Record], catalog: Catalog, created: str
) -> CalibrationReport:
    """Take up the speed of a model on the machine that ran all processes of a plan. The processes
    share the processors, so only what they do together is a speed: the samples of a step over the
    seconds that its slowest process calculates. Raises `PlacerError` if the log does not tell it
    either: another model than the plan's, a GPU whose name is not in the log, or too few steps.
    """
    head = records[0]
    workers, model = sum(group["count"] for group in head["groups"]), head["model"]
    each = _samples_per_s(path, head, records, workers)
    rate = median(each)
    ends, half = quantiles(each, n=20, method="inclusive"), LEAST_HALF_WIDTH[RATE] * rate
    low, high = min(ends[0], rate - half), max(ends[-1], rate + half)
    gpu = processor_name(head["threads"] * workers) if head.get("threads") else "cpu"
    learnt = CalibratedRate(
        model=model,
        gpu=gpu,
        gpu_count=1,
        framework="none",
        value=rate,
        low=low,
        high=high,
        basis="measured",
        source=f"placer profile runs {path.name} ({counted(workers, 'worker')} together, "
        f"{created})",
    )
    digest, name = _identity(path, created)
    calibration = replace(PUBLISHED, name=name)
    figure = Fitted(
        **_speed(model, gpu, 1).said, value=rate, low=low, high=high, runs=1, at_limit=False
    )
    left_out = tuple(_left_out(head, catalog))
    return CalibrationReport(
        overlay=Overlay(calibration=calibration, rates=(learnt,)),
        file=path.name,
        sha256=digest,
        created=created,
        catalog=catalog,
        figures=(figure,),
        unfitted=left_out,
        checks=(),
        warnings=(
            f"all processes ran on one machine: took up the speed of {model} on its "
            f"processors; left out {', '.join(one.figure for one in left_out)}, which are of "
            f"the plan's machines and links",
        ),
    )


def _identity(path: Path, created: str) -> tuple[str, str]:
    """Return the digest of a file, and the name of a calibration on it."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return digest, f"{path.name} of {created} ({digest[:8]})"


def _samples_per_s(
    path: Path, head: Record, records: Sequence[Record], workers: int
) -> list[float]:
    """Return the samples/s of all processes together in each step but the first."""
    size, device = gradients_of(head, records), head.get("device", "cpu")
    if is_other_model(size, head["gradient_bytes"]):
        raise PlacerError(
            f"{path}: nothing to take up: all workers ran on one machine, whose links are not the "
            f"plan's, and trained another model: {size:,} bytes of gradients, {head['model']} has "
            f"{head['gradient_bytes']:,.0f}",
            f"train the plan's model, which tells its speed here, or {ON_PLAN}",
        )
    if device != "cpu":
        raise PlacerError(
            f"{path}: nothing to take up: all workers ran on one machine and its {device}",
            f"measure a GPU with placer profile, or {ON_PLAN}",
        )
    steps = whole_rounds((r for r in records if r["kind"] == "step"), workers, 1)[1:]
    each = []
    for step in steps:
        mine = [record for record in step if record["rank"] < workers]
        slowest = max(record["calculation_s"] for record in mine)
        if len(mine) == workers and slowest > 0:
            each.append(sum(record["samples"] for record in mine) / slowest)
    if len(each) < LEAST_ROUNDS or min(each) <= 0:
        raise PlacerError(
            f"{path}: {len(each)} steps of all workers after the first",
            f"run at least {LEAST_ROUNDS + 1} steps",
        )
    return each


def _left_out(head: Record, catalog: Catalog) -> Iterator[NotFitted]:
    """Yield the figures of the plan that a run on its machines would tell."""
    groups, model = head["groups"], head["model"]
    several = sum(group["count"] for group in groups) > 1
    for gpu, count in dict.fromkeys((g["gpu"], g["gpu_count"]) for g in groups):
        machine = device_name(gpu, count)
        because = f"the run used other processors than those of {machine}"
        speed = _speed(model, gpu, count, "group" if several else "none")
        yield NotFitted(**speed.said, because=because)
    if not several:
        return
    hosts = {catalog.gpus[g["gpu"]].host for g in groups if g["gpu"] in catalog.gpus}
    loopback = "the processes exchanged over loopback"
    for host in sorted(hosts):
        yield NotFitted(**scale(host).said, because=loopback)
    for pair in combinations(sorted({group["place"] for group in groups}), 2):
        yield NotFitted(**Parameter(LINK, pair, 0.0, "Gb/s").said, because=loopback)


def _speed(model: str, gpu: str, count: int, framework: str = "none") -> Parameter:
    """Build the figure of a speed; what is published of it is not asked for."""
    return Parameter(RATE, (model, gpu, str(count), framework), 0.0, "samples/s", False)


TOLD = (
    "a run of two workers or more tells the averaging time, a link or kappa; "
    "calculation_s or one machine alone tells a speed"
)

ONE_MACHINE = (
    "all processes ran on one machine: averaging time and speed are those of {place} if it is this "
    "machine; if it is several, run there"
)


def calibrate(
    runs: str | os.PathLike[str],
    catalog: str | Sequence[str] | Catalog | None = None,
    fit_links: Sequence[str] = (),
    today: str | None = None,
) -> CalibrationReport:
    """Fit constants, speeds and links to measured runs.

    ``runs``: CSV file; block ``measured.csv`` of catalogs/columns.csv lists its columns. Or the log
    of a run; one on a single machine tells the speed of the model there alone. ``catalog``: name,
    folder or price book that has the machines and places of the runs. ``fit_links``: links ``A:B``
    to be fitted although the book has a measured figure. ``today``: date of the overlay, ISO; None
    takes today. Raise `PlacerError` if SciPy is missing, a line is wrong, two lines contradict each
    other, or the runs tell nothing.
    """
    path, book = Path(runs), catalog if isinstance(catalog, Catalog) else load_catalog(catalog)
    shared = False
    created = date.today().isoformat() if today is None else today
    if path.suffix == ".jsonl":
        records = read_run(path)
        if records[0]["links"] != "real" and not is_own_site(records[0]):
            return local_report(path, records, book, created)
        shared = records[0]["links"] != "real"
    measured = read_runs(path, book)
    asked = [_pair(word, book, measured) for word in fit_links]
    equations = Equations(measured)
    solution = solve(equations, asked)
    if not solution.values:
        raise PlacerError(f"{path}: the runs do not tell any figure", TOLD)
    digest, name = _identity(path, created)
    figures = fitted_figures(solution, measured)
    source = f"placer profile runs {path.name} ({len(measured)} runs, {created})"
    overlay = finished(solution, figures, measured, name, source, created)
    checks = check_runs(equations, solution, overlay, asked)
    return CalibrationReport(
        overlay=overlay,
        file=path.name,
        sha256=digest,
        created=created,
        catalog=book,
        figures=figures,
        unfitted=not_fitted(equations, solution, asked),
        checks=checks,
        warnings=(
            *warnings_of(figures, solution, checks, equations),
            *(
                f"{counted(run.slow_steps, 'step')} of the log took far longer than usual: left out"
                for run in measured
                if run.slow_steps
            ),
            *([ONE_MACHINE.format(place=measured[0].placement.places[0])] if shared else []),
        ),
    )


def _pair(word: str, book: Catalog, runs: Collection[MeasuredRun]) -> Pair:
    """Read ``A:B`` and check that some run goes over the link."""
    a, colon, b = word.partition(":")
    if not colon or not a or not b or a == b:
        raise PlacerError(
            f"link '{word}' is not a pair of places", "write it as onprem/erben-eu:gcp/europe-west1"
        )
    pair = (min(a, b), max(a, b))
    for place in pair:
        book.region(place)
    if not any(pair in run.pairs for run in runs):
        raise PlacerError(
            f"no run has workers in {a} and in {b}",
            "add a run over this link, or leave out --fit-link",
        )
    return pair
