"""Calibration from a user's own measured runs: ``placer profile runs``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.records import replace
from placer.validation.calibration.equations import Equations, touches
from placer.validation.calibration.least_squares import solve
from placer.validation.calibration.local_run import local_report
from placer.validation.calibration.outcome import finished, fitted_figures
from placer.validation.calibration.parameter_choice import Pair
from placer.validation.calibration.quality import (
    CalibrationReport,
    check_runs,
    not_fitted,
    warnings_of,
)
from placer.validation.calibration.run_log import is_own_site, read_run
from placer.validation.calibration.runs import MeasuredRun, read_runs

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

    Parameters
    ----------
    runs
        CSV file; block ``measured.csv`` of catalogs/columns.csv lists its columns. Or the log of a
        run; one on a single machine tells the speed of the model there alone.
    catalog
        Name, folder or price book that has the machines and places of the runs.
    fit_links
        Links ``A:B`` to be fitted although the book has a measured figure.
    today
        Date of the overlay, ISO; None takes today.

    Raises
    ------
    PlacerError
        If SciPy is missing, a line is wrong, two lines contradict each other, or the runs tell
        nothing.
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
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    counts = {p: sum(touches(p, run) for run in measured) for p in solution.values}
    figures = fitted_figures(solution, counts, measured)
    source = f"placer profile runs {path.name} ({len(measured)} runs, {created})"
    overlay = finished(solution, figures, measured, source, created)
    overlay = replace(
        overlay,
        calibration=replace(overlay.calibration, name=f"{path.name} of {created} ({digest[:8]})"),
    )
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
