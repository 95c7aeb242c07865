"""Calibration from measured runs: the published ones through the same path, synthetic ones with
known constants, bad files.
"""

from __future__ import annotations

import builtins
import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import placer
from conftest import ROOT, Run
from placer.cost_model.estimate import estimate
from placer.documents.schemas import schema_text
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.market.books.csv_rows import file_columns, optional_columns
from placer.market.catalog import Catalog
from placer.records import replace
from placer.reproduction.comparison import PublishedRun, published_runs
from placer.validation.calibration.calibrate import calibrate
from placer.validation.calibration.equations import Equations
from placer.validation.calibration.least_squares import solve
from placer.validation.calibration.parameters import overlay_of
from placer.validation.calibration.quality import CalibrationReport, left_out_errors
from placer.validation.calibration.runs import MeasuredRun, read_runs
from placer.workload.constants import PUBLISHED, HostConstants
from placer.workload.overlay import (
    Overlay,
    as_overlay,
    overlay_document,
    overlay_from,
    read_overlay,
)
from placer.workload.profile import load_profile

COLUMNS = ("model", "workers", "samples_per_second", "calculation_s", "communication_s")
ONE_ROW = "model,workers,samples_per_second\nroberta-xlm,gcp/us-central1=4xT4,340\n"
TODAY = "2026-11-21"
PLACES = "gcp/us-central1"


def write(path: Path, rows: Sequence[Sequence[object]], columns: Sequence[str] = COLUMNS) -> Path:
    """Write a runs file."""
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([columns, *rows])
    return path


def published(path: Path, keep: Callable[[PublishedRun], bool], *, parts: bool = True) -> Path:
    """Write some runs of Erben et al. (2024) as a user would have them."""
    runs = [
        run for run in published_runs("erben-2023") if run.target_batch_size == 32_768 and keep(run)
    ]
    logged = [(run.calculation_s, run.communication_s) if parts else ("", "") for run in runs]
    return write(
        path,
        [
            (r.model, r.workers, r.samples_per_second, *part)
            for r, part in zip(runs, logged, strict=True)
        ],
    )


def fitted(report: CalibrationReport) -> dict[str, float]:
    """Fitted values by label."""
    return {figure.parameter.label: figure.value for figure in report.figures}


def errors(runs: Sequence[MeasuredRun], overlay: Overlay) -> tuple[list[float], list[float]]:
    """Absolute relative errors of samples/s and of exchange times."""
    steps = [run.step(overlay) for run in runs]
    speed = [abs(run.step_s / step.total - 1) for run, step in zip(runs, steps, strict=True)]
    exchange = [
        abs(step.communication / (run.communication_s or 1.0) - 1)
        for run, step in zip(runs, steps, strict=True)
    ]
    return speed, exchange


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)


CALIBRATING = ("A-2", "A-8", "B-2")


@pytest.fixture(scope="module")
def t4(erben: Catalog, tmp_path_factory: pytest.TempPathFactory) -> CalibrationReport:
    """Calibrate on the runs of 2 and 8 x T4 in one zone and of 2 on two continents only."""
    path = published(
        tmp_path_factory.mktemp("t4") / "runs.csv", lambda run: run.experiment in CALIBRATING
    )
    return calibrate(path, erben, today=TODAY)


@pytest.fixture(scope="module")
def a10(erben: Catalog, tmp_path_factory: pytest.TempPathFactory) -> CalibrationReport:
    """Calibrated on the runs of eight models on 2 and 8 x A10."""
    path = published(
        tmp_path_factory.mktemp("a10") / "runs.csv", lambda run: run.experiment.startswith("Lambda")
    )
    return calibrate(path, erben, today=TODAY)


def test_held_out_runs_are_met(t4: CalibrationReport, erben: Catalog, tmp_path: Path) -> None:
    """Six T4 runs calibrate; over the 28 other T4 and A10 runs samples/s are off by 1.7 % in the
    mean, 5.3 % at worst.

    Exchange times of the 12 held-out T4 runs are off by 4.7 % on average. Required: 3 %, 10 % and
    9 %.
    """
    path = published(
        tmp_path / "rest.csv",
        lambda run: run.experiment not in {*CALIBRATING, "C-3"} and "onprem" not in run.workers,
    )
    rest = read_runs(path, erben)
    speed, _ = errors(rest, t4.overlay)
    assert len(rest) == 28
    assert mean(speed) <= 0.018
    assert max(speed) <= 0.06
    own = [run for run in rest if "T4" in run.workers]
    speed, exchange = errors(own, t4.overlay)
    assert len(own) == 12
    assert mean(speed) <= 0.018
    assert max(speed) <= 0.045
    assert mean(exchange) <= 0.05


def test_t4_constants_come_near_the_published_fit(t4: CalibrationReport) -> None:
    """Published 7.7 s per GB sent, 0.40 s/worker and 0.0086 s/tensor, which are fitted to nine
    times as many runs; kappa 0.73 (0.77 in all runs between clouds); no constant part.
    """
    got = fitted(t4)
    assert got["s_per_gb_sent of t4 hosts"] == pytest.approx(7.7, rel=0.05)
    assert got["s_per_peer of t4 hosts"] == pytest.approx(0.40, rel=0.06)
    assert got["s_per_tensor of t4 hosts"] == pytest.approx(0.0086, rel=0.05)
    assert got["kappa of links between regions"] == pytest.approx(0.73, abs=0.03)
    assert {parameter.label for parameter, _ in t4.unfitted} == {"base_s of t4 hosts"}
    assert t4.overlay.calibration.hosts["a10"] == PUBLISHED.hosts["a10"]


def test_the_report_counts_errors_before_after_and_left_out(t4: CalibrationReport) -> None:
    """Published figures are off by 0.9 % and 3.0 % at worst, calibrated by 0.4 % and 0.9 %, each
    run left out by 1.3 % and 3.7 %.
    """
    for found, (average, worst) in (
        (t4.before, (0.0085, 0.030)),
        (t4.after, (0.0039, 0.009)),
        (t4.left_out, (0.0129, 0.037)),
    ):
        assert found is not None
        assert found.runs == 6
        assert found.mean == pytest.approx(average, abs=0.001)
        assert found.worst == pytest.approx(worst, abs=0.002)


def test_a10_hosts_with_tensor_counts(a10: CalibrationReport) -> None:
    """Eight models tell seconds per tensor: 7 ms; samples/s of their 16 runs are met within 1.4 %
    on average (required: 2 %).
    """
    assert a10.after is not None
    assert a10.after.mean <= 0.018
    assert a10.after.worst <= 0.07
    got = fitted(a10)
    assert got["s_per_tensor of a10 hosts"] == pytest.approx(0.0064, rel=0.35)
    assert got["s_per_gb_sent of a10 hosts"] == pytest.approx(4.96, rel=0.1)


def test_leaving_a_model_out(erben: Catalog, tmp_path: Path) -> None:
    """Both runs of a model by host constants fitted to the other seven: 2.4 % off on average, 10.9
    % at worst (ResNet-152 on 8).

    The speed of the device is the published one of the left-out model, so only the averaging time
    is foreign to it.
    """
    runs = read_runs(
        published(tmp_path / "runs.csv", lambda run: run.experiment.startswith("Lambda")), erben
    )
    models = list(dict.fromkeys(run.model for run in runs))
    groups = [[run for run in runs if run.model == model] for model in models]
    found = [
        abs(error) for error in left_out_errors(Equations(runs), groups=groups) if error is not None
    ]
    print(  # noqa: T201
        [
            f"{run.workers} {run.model}: {100 * error:.1f} %"
            for run, error in zip(runs, found, strict=True)
        ]
    )
    assert len(found) == 16
    assert mean(found) <= 0.028
    assert max(found) <= 0.115


def test_one_row_fits_a_link_of_an_own_site(erben: Catalog, tmp_path: Path) -> None:
    """One row of its own says the line: the other exchange is met within 9 %, by the published
    factor of sites within 5 %.
    """
    runs = read_runs(published(tmp_path / "all.csv", lambda run: run.experiment == "E-A-1"), erben)
    path = published(
        tmp_path / "one.csv", lambda run: run.experiment == "E-A-1" and run.model == "roberta-xlm"
    )
    report = calibrate(path, erben, ["onprem/erben-eu:gcp/europe-west1"], today=TODAY)
    assert "link gcp/europe-west1:onprem/erben-eu" in fitted(report)
    other = [run for run in runs if run.model == "convnext-large"]
    before, after = (errors(other, overlay)[1][0] for overlay in (as_overlay(None), report.overlay))
    assert before <= 0.05
    assert after <= 0.09


KNOWN = HostConstants(1.2, 0.0, 0.6, 0.004, 6.0)
MODELS = ("resnet18", "resnet50", "resnet152", "roberta-base", "roberta-xlm", "convnext-large")


def synthetic(
    path: Path,
    book: Catalog,
    truth: Overlay,
    *,
    noise: float,
    seed: int,
    outlier: int | None = None,
) -> Path:
    """Write runs of six models on 2 to 8 x A10 whose steps follow known figures, with noise and one
    run 60 % too slow.
    """
    dice = random.Random(seed)
    asked = [(model, f"lambda/us-west-1={n}xA10", 1000) for model in MODELS for n in (2, 4, 8)]
    rows = []
    for number, run in enumerate(read_runs(write(path, asked, COLUMNS[:3]), book)):
        step = run.step(truth)
        slow = 1.6 if number == outlier else 1.0
        speed = run.problem.batch / step.total / slow * (1 + dice.gauss(0, noise))
        rows.append(
            (run.model, run.workers, speed, step.calculation * (1 + dice.gauss(0, noise)), "")
        )
    return write(path, rows)


def with_host(constants: HostConstants) -> Overlay:
    """An overlay that changes A10 hosts alone."""
    return Overlay(calibration=replace(PUBLISHED, hosts={**PUBLISHED.hosts, "a10": constants}))


def test_known_constants_are_found_beside_noise_and_an_outlier(
    erben: Catalog, tmp_path: Path
) -> None:
    """With 0.5 % of noise and one run 60 % too slow each constant counts within 15 % of the
    average, and the run is named.
    """
    path = synthetic(tmp_path / "runs.csv", erben, with_host(KNOWN), noise=0.005, seed=5, outlier=7)
    report = calibrate(path, erben, today=TODAY)
    assert [check.line for check in report.checks if check.outlier] == [9]
    assert any("line 9" in warning for warning in report.warnings)
    for run in (run for run in read_runs(path, erben) if run.line != 9):
        assert run.step(report.overlay).communication == pytest.approx(
            run.step(with_host(KNOWN)).communication, rel=0.15
        )
        assert run.step(report.overlay).total == pytest.approx(
            run.step(with_host(KNOWN)).total, rel=0.02
        )


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    base=st.floats(0.5, 3),
    per_gb=st.floats(4, 20),
    per_peer=st.floats(0.2, 2),
    per_tensor=st.floats(0.002, 0.02),
)
def test_exact_runs_give_exact_constants(
    erben: Catalog, tmp_path: Path, base: float, per_gb: float, per_peer: float, per_tensor: float
) -> None:
    """Without noise the four constants come back within 1 %."""
    constants = HostConstants(base, 0.0, per_peer, per_tensor, per_gb)
    runs = read_runs(
        synthetic(tmp_path / "runs.csv", erben, with_host(constants), noise=0.0, seed=1), erben
    )
    found = overlay_of(solve(Equations(runs)).values, runs).calibration.hosts["a10"]
    for name in ("base_s", "s_per_gb_sent", "s_per_peer", "s_per_tensor"):
        assert getattr(found, name) == pytest.approx(getattr(constants, name), rel=0.01), name


def test_speeds_are_found_without_calculation_times(erben: Catalog, tmp_path: Path) -> None:
    """Runs that only know samples/s tell speed and exchange apart: the one falls with the workers,
    the other does not.
    """
    asked = [("roberta-xlm", f"{PLACES}={n}xT4", 300) for n in (2, 3, 4, 5, 6, 8)]
    truth = Overlay(
        calibration=replace(
            PUBLISHED, hosts={**PUBLISHED.hosts, "t4": HostConstants(0.0, 0.0, 0.6, 0.0086, 11.0)}
        )
    )
    rows = [
        (run.model, run.workers, run.problem.batch / run.step(truth).total)
        for run in read_runs(write(tmp_path / "a.csv", asked, COLUMNS[:3]), erben)
    ]
    path = write(tmp_path / "b.csv", rows, COLUMNS[:3])
    report = calibrate(path, erben, today=TODAY)
    for run in read_runs(path, erben):
        assert run.step(report.overlay).total == pytest.approx(run.step_s, rel=0.01)
        assert run.step(report.overlay).communication == pytest.approx(
            run.step(truth).communication, rel=0.1
        )


def test_many_runs_narrow_the_spreads(erben: Catalog, tmp_path: Path) -> None:
    """18 runs with 0.2 % of noise: averaging times repeat better than the published -13 to +15 %,
    and the interval is narrower.
    """
    path = synthetic(tmp_path / "runs.csv", erben, with_host(KNOWN), noise=0.002, seed=2)
    overlay = calibrate(path, erben, today=TODAY).overlay
    _, slow, fast = overlay.calibration.spreads["a10"]
    assert PUBLISHED.averaging_spread[2] < fast < 1 < slow < PUBLISHED.averaging_spread[1]
    wide = placer.estimate(
        "roberta-xlm", "lambda/us-west-1=8xA10", catalog=erben
    ).samples_per_second
    narrow = placer.estimate(
        "roberta-xlm", "lambda/us-west-1=8xA10", catalog=erben, calibration=overlay
    ).samples_per_second
    assert narrow.high / narrow.low < wide.high / wide.low


def one(tmp_path: Path, book: Catalog, text: str, links: Sequence[str] = ()) -> CalibrationReport:
    """Calibrate on a text."""
    path = tmp_path / "runs.csv"
    path.write_text(text, encoding="utf-8")
    return calibrate(path, book, links, today=TODAY)


@pytest.mark.parametrize(
    ("row", "label"),
    [
        ("roberta-xlm,gcp/us-central1=4xT4,340", "averaging time of t4 hosts"),
        (
            'roberta-xlm,"gcp/us-central1=1xT4,gcp/europe-west1=1xT4",177',
            "kappa of links between regions",
        ),
        (
            'roberta-xlm,"gcp/us-central1=1xT4,azure/southcentralus=1xT4",177',
            "link azure/southcentralus:gcp/us-central1",
        ),
        ("roberta-xlm,gcp/us-central1=1xT4,200", "speed of roberta-xlm on T4 alone"),
    ],
)
def test_one_row_fits_one_figure(tmp_path: Path, erben: Catalog, row: str, label: str) -> None:
    """One region: the averaging time; measured links: kappa; an estimated link: that link; one
    machine: its speed. It is then met.
    """
    report = one(tmp_path, erben, f"model,workers,samples_per_second\n{row}\n")
    assert list(fitted(report)) == [label]
    assert report.checks[0].after == pytest.approx(0.0, abs=1e-3)
    assert report.checks[0].left_out is None
    assert report.unfitted or "alone" in label
    assert any("nothing is left" in warning for warning in report.warnings)


def test_the_common_factor_moves_all_constants(tmp_path: Path, erben: Catalog) -> None:
    """A slower run of 4 x T4 scales 0.0086, 7.7 and 0.40 alike; the report says by how much."""
    report = one(tmp_path, erben, ONE_ROW)
    found, factor = (
        report.overlay.calibration.hosts["t4"],
        fitted(report)["averaging time of t4 hosts"],
    )
    assert factor > 1.3
    assert (found.s_per_tensor, found.s_per_gb_sent, found.s_per_peer) == pytest.approx(
        (0.0086 * factor, 7.7 * factor, 0.40 * factor)
    )
    assert all(
        f"scaled by {factor:.3g}" in why
        for parameter, why in report.unfitted
        if parameter.kind == "constant"
    )


def test_machines_alone_say_nothing_about_exchanges(tmp_path: Path, erben: Catalog) -> None:
    """A row of one T4 replaces its published 208.76 samples/s; the constants stay."""
    report = one(
        tmp_path, erben, "model,workers,samples_per_second\nroberta-xlm,gcp/us-central1=1xT4,190\n"
    )
    assert report.overlay.calibration.hosts == PUBLISHED.hosts
    assert report.overlay.calibration.kappa == PUBLISHED.kappa
    assert placer.estimate(
        "roberta-xlm", "gcp/us-central1=1xT4", catalog=erben, calibration=report.overlay
    ).samples_per_second.value == pytest.approx(190)
    assert any("nothing about exchanges" in warning for warning in report.warnings)


def test_efficiency_carries_over_to_devices_nobody_measured(tmp_path: Path, erben: Catalog) -> None:
    """104.38 of 208.76 samples/s on T4 is 0.5: an unmeasured L4 in a group is expected at half of
    its speed alone.
    """
    text = (
        f"model,workers,step_s,calculation_s\nroberta-xlm,{PLACES}=2xT4,171,{32768 / 2 / 104.38}\n"
    )
    overlay = one(tmp_path, erben, text).overlay
    assert overlay.efficiencies[0].efficiency.value == pytest.approx(0.5, rel=0.01)
    profile, gpu = overlay.over_profile(load_profile("roberta-xlm")), erben.gpu("L4")
    alone, shared = (profile.rate(gpu, 1, framework, erben) for framework in ("none", "hivemind"))
    assert alone is not None
    assert shared is not None
    assert shared.value == pytest.approx(alone.value * overlay.efficiencies[0].efficiency.value)


def test_optional_columns_reach_the_problem(tmp_path: Path, erben: Catalog) -> None:
    """TBS, compression and streams of a row are those of its run; 1,000 samples in 10 s are 100
    samples/s.
    """
    columns = "model,workers,step_s,target_batch_size,compression,streams"
    path = tmp_path / "runs.csv"
    path.write_text(f"{columns}\nroberta-xlm,{PLACES}=2xT4,10,1000,int8,4\n", encoding="utf-8")
    (run,) = read_runs(path, erben)
    assert run.samples_per_second == pytest.approx(100)
    assert run.problem.compression == "int8"
    assert run.placement.exchange.streams == 4


@pytest.mark.parametrize(
    "encode", [lambda t: "\ufeff" + t, lambda t: t.replace("\n", "\r\n"), lambda t: t + "\n\n"]
)
def test_byte_order_mark_crlf_and_empty_lines_are_read(
    tmp_path: Path, erben: Catalog, encode: Callable[[str], str]
) -> None:
    """Files of spreadsheets."""
    path = tmp_path / "runs.csv"
    path.write_bytes(encode(ONE_ROW).encode())
    assert len(read_runs(path, erben)) == 1


HEAD = "model,workers,samples_per_second"
BAD = [
    (f"{HEAD}\n", ["no runs"]),
    ("", ["column 'model' is missing"]),
    ("model,samples_per_second\nroberta-xlm,3\n", ["column 'workers' is missing"]),
    (f"{HEAD},speed\nroberta-xlm,{PLACES}=2xT4,3,4\n", ["unknown column 'speed'"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=2xT4,-3\n", [":2", "'-3' is not above 0"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=2xT4,0\n", [":2", "'0' is not above 0"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=2xT4,nan\n", [":2", "'nan' is not a finite number"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=2xT4,inf\n", [":2", "not a finite number"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=2xT4,\n", [":2", "both empty"]),
    (f"model,workers\nroberta-xlm,{PLACES}=2xT4\n", [":2", "both empty"]),
    (
        f"{HEAD}\nroberta-xml,{PLACES}=2xT4,3\n",
        [":2", "unknown model 'roberta-xml'", "'roberta-xlm'"],
    ),
    (f"{HEAD}\nroberta-xlm,gcp/us-central=2xT4,3\n", [":2", "unknown place", "'gcp/us-central1'"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=2xT44,3\n", [":2", "unknown GPU", "'T4'"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=2,3\n", [":2", "is not a group"]),
    (
        f"{HEAD}\nroberta-xlm,{PLACES}=2xT4,170\nroberta-xlm,{PLACES}=2xT4,215\n",
        [":2", ":3", "contradict", "1.25"],
    ),
    (f"{HEAD},step_s\nroberta-xlm,{PLACES}=2xT4,211,1\n", [":2", "but step_s is 1"]),
    (f"{HEAD},calculation_s\nroberta-xlm,{PLACES}=2xT4,211,999\n", [":2", "longer than the step"]),
    (
        f"{HEAD},calculation_s,communication_s\nroberta-xlm,{PLACES}=2xT4,211,20,20\n",
        [":2", "sum to 40 s"],
    ),
    (f"{HEAD}\nroberta-xlm,{PLACES}=4xT4,9e8\n", [":2", "more than a factor 20 from the 369"]),
    (f"{HEAD}\nroberta-xlm,{PLACES}=4xT4,0.001\n", [":2", "more than a factor 20"]),
    (f"{HEAD},compression\nroberta-xlm,{PLACES}=2xT4,211,fp17\n", [":2", "compression 'fp17'"]),
]


@pytest.mark.parametrize(("text", "says"), BAD)
def test_wrong_files_are_refused(
    tmp_path: Path, erben: Catalog, text: str, says: list[str]
) -> None:
    """With file, line and value, and the nearest name that exists."""
    with pytest.raises(PlacerError) as caught:
        one(tmp_path, erben, text)
    for words in ["runs.csv", *says]:
        assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_repeated_runs_are_welcome(tmp_path: Path, erben: Catalog) -> None:
    """Two results of the same workers 6 % apart are both used: the fit lies between them."""
    report = one(
        tmp_path, erben, f"{HEAD}\nroberta-xlm,{PLACES}=4xT4,330\nroberta-xlm,{PLACES}=4xT4,350\n"
    )
    assert [check.after > 0 for check in report.checks] == [True, False]
    assert len(report.figures) == 1


def test_files_that_are_not_there(tmp_path: Path, erben: Catalog) -> None:
    """Named, with a tip to check the path; a folder is no file either."""
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(PlacerError, match="cannot be read: ") as caught:
            calibrate(path, erben)
        assert caught.value.hint == "check the path"


def test_a_row_over_many_estimated_links_fits_the_slowest(tmp_path: Path, erben: Catalog) -> None:
    """Four places, six links, one row: the link that the exchange waits for is fitted, the five
    others and kappa stay.
    """
    workers = (
        "gcp/us-central1=1xT4,gcp/europe-west1=1xT4,azure/southcentralus=1xT4,aws/us-west-2=1xT4"
    )
    report = one(tmp_path, erben, f'{HEAD}\nroberta-xlm,"{workers}",150\n')
    assert list(fitted(report)) == ["link aws/us-west-2:gcp/europe-west1"]
    assert {"kappa", "link"} <= {parameter.kind for parameter, _ in report.unfitted}


def test_latin_1_is_refused(tmp_path: Path, erben: Catalog) -> None:
    """As no UTF-8 text."""
    path = tmp_path / "runs.csv"
    path.write_bytes(f"{HEAD}\nmod\xe8le,x,3\n".encode("latin-1"))
    with pytest.raises(PlacerError, match="UTF-8"):
        calibrate(path, erben)


def test_a_run_whose_exchange_does_not_matter_tells_a_speed(tmp_path: Path, erben: Catalog) -> None:
    """ResNet-18 sends 23 MB in a step of 6,000 s: neither kappa nor a link can be read off, only
    the speed of a T4 in a group.
    """
    text = f'{HEAD},target_batch_size\nresnet18,"gcp/us-west1=1xT4,aws/us-west-2=1xT4",150,900000\n'
    assert list(fitted(one(tmp_path, erben, text))) == ["speed of resnet18 on T4 in a group"]


@pytest.mark.parametrize(
    ("link", "says"),
    [("a", "not a pair"), ("gcp/us-central1:gcp/europe-west1", "no run"), ("x:y", "unknown place")],
)
def test_links_to_be_fitted_are_checked(
    tmp_path: Path, erben: Catalog, link: str, says: str
) -> None:
    """A pair of known places that some run goes over."""
    with pytest.raises(PlacerError, match=says):
        one(tmp_path, erben, ONE_ROW, [link])


def test_without_scipy_the_extra_is_named(
    tmp_path: Path, erben: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint is the line to type."""
    real = builtins.__import__

    def without(name: str, *arguments: Any, **words: Any) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *arguments, **words)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PlacerError, match="pip install scipy"):
        one(tmp_path, erben, ONE_ROW)


def test_document_follows_its_schema_and_reads_back(
    t4: CalibrationReport, a10: CalibrationReport
) -> None:
    """What is written is valid, holds the digest of the runs, and gives the same overlay again."""
    for report in (t4, a10):
        document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
        jsonschema.validate(document, json.loads(schema_text("calibration")))
        assert overlay_from(document, "file") == report.overlay
        assert document["runs"]["sha256"] == report.sha256
        assert check_document(document, "file").startswith("calibration runs.csv of 2026-11-21")


def test_columns_are_documented() -> None:
    """Two columns must be there, the others may be."""
    assert set(file_columns("measured.csv")) - optional_columns("measured.csv") == {
        "model",
        "workers",
    }


def broken(
    change: Callable[[dict[str, Any]], object], report: CalibrationReport, tmp_path: Path
) -> str:
    """Error of an overlay file after a change."""
    document = json.loads(json.dumps(report.to_dict()))
    change(document)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(PlacerError) as caught:
        read_overlay(str(path))
    assert caught.value.exit_code == 2
    assert "calibration.json" in caught.value.message
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(schema="placer.calibration/v2"), "update placer"),
        (lambda d: d.update(schema="placer.result/v1"), "not a placer.calibration/v1 file"),
        (lambda d: d.update(kapa=1), "a similar key exists: 'kappa'"),
        (lambda d: d.pop("hosts"), "'hosts' is missing"),
        (lambda d: d["hosts"]["t4"].update(base_s=-1), "base_s is -1"),
        (lambda d: d["hosts"]["t4"].update(base_s="much"), "expected `float`"),
        (lambda d: d["hosts"].update(t5=d["hosts"]["t4"]), "unknown host class 't5'"),
        (lambda d: d["hosts"].update(t4=3), "not an object"),
        (lambda d: d["kappa"].update(slow=0.1), "kappa is"),
        (lambda d: d["rates"][0].update(value=0), "rates[0]: value is 0"),
        (lambda d: d["rates"][0].update(model=4), "model is not text"),
        (lambda d: d["rates"][0].pop("gpu"), "'gpu' is missing"),
        (lambda d: d.update(rates=3), "rates is not a list"),
        (lambda d: d.update(most_workers=0), "most_workers is 0"),
        (lambda d: d.update(links=[{"src": "a"}]), "links[0]: 'dst' is missing"),
    ],
)
def test_wrong_overlays_are_refused(
    t4: CalibrationReport, tmp_path: Path, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    """With the file and the key that is wrong."""
    assert says in broken(change, t4, tmp_path)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"schema": NaN}', b"[" * 100_000])
def test_files_that_are_no_overlays_are_refused(tmp_path: Path, data: bytes) -> None:
    """As PlacerError, not as a traceback."""
    path = tmp_path / "calibration.json"
    path.write_bytes(data)
    with pytest.raises(PlacerError, match=r"calibration\.json"):
        read_overlay(str(path))


def test_calibration_changes_an_estimate_and_its_sources(
    t4: CalibrationReport, erben: Catalog
) -> None:
    """Four T4 on two continents were measured at 316.49 samples/s: 302.9 by the published figures,
    within 2 % once calibrated.
    """
    workers = "gcp/us-central1=2xT4,gcp/europe-west1=2xT4"
    got = placer.estimate("roberta-xlm", workers, catalog=erben, calibration=t4.overlay)
    assert got.samples_per_second.value == pytest.approx(316.49, rel=0.02)
    assert any("calibrated: runs.csv of 2026-11-21" in line for line in got.provenance)
    assert any(
        line.startswith("speed on T4: measured: placer profile runs runs.csv")
        for line in got.provenance
    )
    bare = placer.estimate(
        "roberta-xlm", workers, catalog=erben, calibration=t4.overlay.calibration
    )
    assert bare.samples_per_second.value == pytest.approx(got.samples_per_second.value, rel=0.01)


def test_links_of_the_user_win_over_the_overlay(erben: Catalog, tmp_path: Path) -> None:
    """--link is the last word; else the overlay's link is used in both directions; a book without
    the place ignores it.
    """
    workers = "gcp/us-central1=1xT4,azure/southcentralus=1xT4"
    text = f'model,workers,samples_per_second\nroberta-xlm,"{workers}",177\n'
    overlay = one(tmp_path, erben, text).overlay
    pair = ("gcp/us-central1", "azure/southcentralus")
    problem = placer.Advisor().problem("roberta-xlm", catalog=erben, calibration=overlay)
    assert {problem.network.link(*p).basis for p in (pair, pair[::-1])} == {"measured"}
    given = placer.Advisor().problem(
        "roberta-xlm", catalog=erben, calibration=overlay, links=[f"{':'.join(pair)}=100Mb/s"]
    )
    assert given.network.link(*pair).bytes_per_second == pytest.approx(12.5e6)
    phalak = placer.load_catalog("phalak-2023")
    assert overlay.over_catalog(phalak) is phalak


def test_a_saved_problem_keeps_its_calibration(t4: CalibrationReport, erben: Catalog) -> None:
    """The problem of a result prices the same without the overlay file."""
    problem = placer.Advisor().problem("roberta-xlm", catalog=erben, calibration=t4.overlay)
    again = placer.Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    assert again.calibration == problem.calibration
    assert again.profile == problem.profile


def test_recommend_with_a_calibration_is_priced_by_it(
    t4: CalibrationReport, erben: Catalog
) -> None:
    """Solvers and estimate read the same constants: the value of the result is that of its
    estimate, and it is proved.
    """
    result = placer.recommend(
        "roberta-xlm", budget="2/h", gpu="T4", catalog=erben, calibration=t4.overlay
    )
    assert str(result.status) == "optimal"
    assert result.placement is not None
    assert result.value == pytest.approx(
        estimate(result.placement, result.problem).effective_samples_per_second.value
    )


def test_the_word_must_be_a_calibration() -> None:
    """Numbers are refused by name."""
    words: dict[str, Any] = {"catalog": "erben-2023", "calibration": 3}
    with pytest.raises(PlacerError, match="calibration 3 is of type int"):
        placer.estimate("roberta-xlm", "gcp/us-central1=2xT4", **words)


def test_command_line_from_runs_to_recommendation(run: Run, tmp_path: Path) -> None:
    """Calibrate, validate, compare, recommend: exit 0 each; the table names figures, runs and
    errors.
    """
    published(tmp_path / "runs.csv", lambda r: r.experiment in CALIBRATING)
    done = run(
        "profile",
        "runs",
        "runs.csv",
        "--catalog",
        "erben-2023",
        "-o",
        "calibration.json",
        cwd=tmp_path,
        columns=120,
    )
    assert done.returncode == 0, done.stderr
    for phrase in (
        "s_per_gb_sent of t4 hosts",
        "kappa",
        "left out",
        "Not fitted",
        "each run left out",
    ):
        assert phrase in done.stdout
    assert "wrote calibration to calibration.json" in done.stderr
    words = [
        "--model",
        "roberta-xlm",
        "--catalog",
        "erben-2023",
        "--calibration",
        "calibration.json",
    ]
    for arguments in (
        ["validate", "calibration.json"],
        ["estimate", *words, *("--workers", "gcp/us-central1=4xT4:spot") * 2],
        ["recommend", *words, "--budget", "1/h", "--gpu", "T4", "-o", "plan.json"],
        ["validate", "plan.json"],
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_runs_on_a_book_whose_machines_average_by_nccl(run: Run) -> None:
    """Rings have constants of their software and none of hosts, so nothing is fitted there; it was
    a KeyError.
    """
    done = run("profile", "runs", str(ROOT / "examples" / "runs.csv"), "--json")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["hosts"]) == {"t4", "a10"}


def test_speeds_measured_under_nccl_count_under_nccl(tmp_path: Path) -> None:
    """The default book's machines average by NCCL: 32,768 samples of 8 x T4 in 31 s of calculation
    are 132 a second and machine, and the estimate follows; before, they were noted as hivemind's
    and changed nothing. The factor on links is the rings' own, and hivemind's stays.
    """
    rows = [
        ("roberta-xlm", "aws/us-east-1=8xT4:spot", 32_768 / 32, 31, 1),
        ("roberta-xlm", "aws/us-east-1=4xT4:spot,aws/us-west-2=4xT4:spot", 32_768 / 48, 31, 17),
    ]
    path = write(tmp_path / "runs.csv", rows)
    overlay = calibrate(path, today=TODAY).overlay
    (row,) = overlay.rates
    assert row.rate.framework == "nccl"
    assert row.rate.value == pytest.approx(32_768 / 31 / 8, rel=0.02)
    assert overlay.calibration.kappa == PUBLISHED.kappa
    here = placer.estimate("roberta-xlm", rows[0][1], calibration=overlay)
    assert here.step.calculation == pytest.approx(31, rel=0.02)


def test_kappa_of_hivemind_is_hiveminds(t4: CalibrationReport) -> None:
    """Runs under hivemind say nothing of the links of NCCL and Gloo."""
    assert t4.overlay.calibration.kappa != PUBLISHED.kappa
    assert t4.overlay.calibration.ring_kappa == PUBLISHED.ring_kappa


def test_command_line_json_and_errors(run: Run, tmp_path: Path) -> None:
    """--json is the document alone; a missing or broken calibration is exit 2 with its name."""
    (tmp_path / "runs.csv").write_text(ONE_ROW, encoding="utf-8")
    done = run("profile", "runs", "runs.csv", "--catalog", "erben-2023", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["schema"] == "placer.calibration/v1"
    words = [
        "estimate",
        "--model",
        "roberta-xlm",
        "--workers",
        "gcp/us-central1=4xT4",
        "--catalog",
        "erben-2023",
    ]
    done = run(*words, "--calibration", "nowhere.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere.json" in done.stderr
    done = run(
        "profile",
        "runs",
        "runs.csv",
        "--catalog",
        "erben-2023",
        "-o",
        "no/such/folder.json",
        cwd=tmp_path,
    )
    assert done.returncode == 2


def test_the_document_of_published_constants_reads_back() -> None:
    """Writing and reading lose nothing."""
    document = {
        "schema": "placer.calibration/v1",
        "created": TODAY,
        "placer_version": "0",
        "catalog": {},
        "runs": {},
        "report": {},
    }
    assert overlay_from({**document, **overlay_document(as_overlay(None))}, "x") == as_overlay(None)
