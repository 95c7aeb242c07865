"""Calibration from measured runs: the published ones through the same path, synthetic ones with
known constants, bad files.
"""

import csv
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conforming import validate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import placer
from conftest import ROOT, Run
from placer.documents.validate import check_document
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.records import replace
from placer.reproduction.comparison import PublishedRun, published_runs
from placer.validation.calibration.calibrate import calibrate
from placer.validation.calibration.least_squares import Solution, solve
from placer.validation.calibration.parameters import Equations, overlay_of, scale
from placer.validation.calibration.quality import CalibrationReport, left_out_errors
from placer.validation.calibration.runs import MeasuredRun, read_runs
from placer.workload.constants import PUBLISHED, HostConstants
from placer.workload.overlay import Overlay, overlay_from

COLUMNS = ("model", "workers", "samples_per_second", "calculation_s", "communication_s")
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
    return {figure.figure: figure.value for figure in report.figures}


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


def test_held_out_runs_are_met(t4: CalibrationReport, erben: Catalog, tmp_path: Path) -> None:
    """Six T4 runs calibrate; over the 28 other T4 and A10 runs samples/s are off by 1.7 % in the
    mean, 5.3 % at worst. Exchange times of the 12 held-out T4 runs are off by 4.7 % on average.
    Required: 3 %, 10 % and 9 %.
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


def test_leaving_a_model_out(erben: Catalog, tmp_path: Path) -> None:
    """Both runs of a model by host constants fitted to the other seven: 2.4 % off on average, 10.9
    % at worst (ResNet-152 on 8). The speed of the device is the published one of the left-out
    model, so only the averaging time is foreign to it.
    """
    runs = read_runs(
        published(tmp_path / "runs.csv", lambda run: run.experiment.startswith("Lambda")), erben
    )
    models = list(dict.fromkeys(run.model for run in runs))
    groups = [[run for run in runs if run.model == model] for model in models]
    found = [
        abs(error) for error in left_out_errors(Equations(runs), groups=groups) if error is not None
    ]
    assert len(found) == 16
    assert mean(found) <= 0.028
    assert max(found) <= 0.115


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
        ("resnet152,lambda/us-west-1=2xA10,420", "s_per_tensor of a10 hosts"),
    ],
)
def test_one_row_fits_one_figure(tmp_path: Path, erben: Catalog, row: str, label: str) -> None:
    """One region: the averaging time; measured links: kappa; an estimated link: that link; one
    machine: its speed; of a model with many small tensors on two hosts, their time for each tensor.
    It is then met.
    """
    report = one(tmp_path, erben, f"model,workers,samples_per_second\n{row}\n")
    assert list(fitted(report)) == [label]
    assert report.checks[0].error_after == pytest.approx(0.0, abs=1e-3)
    assert report.checks[0].error_left_out is None
    assert report.unfitted or "alone" in label
    assert any("nothing is left" in warning for warning in report.warnings)


@pytest.mark.parametrize(("speeds", "half"), [((200, 210), 0.0401), ((200, 200), 0.02)])
def test_two_runs_of_one_figure_say_how_far_it_is_known(
    tmp_path: Path, erben: Catalog, speeds: tuple[int, int], half: float
) -> None:
    """The standard error of a mean of two is half of their difference, here 2.44 %; times 1.645 for
    90 %. A speed that was measured varies by 2 % from day to day at least.
    """
    rows = "".join(f"roberta-xlm,gcp/us-central1=1xT4,{speed}\n" for speed in speeds)
    (figure,) = one(tmp_path, erben, f"{HEAD}\n{rows}").figures
    assert figure.value == pytest.approx(sum(speeds) / 2, rel=2e-3)
    assert figure.high / figure.value - 1 == pytest.approx(half, rel=0.02)


@pytest.mark.parametrize("pair", ["{}:{}", "{1}:{0}"])
def test_a_measured_link_is_fitted_where_it_is_asked_for(
    tmp_path: Path, erben: Catalog, pair: str
) -> None:
    """In whichever order its places are named; by itself a run over it says the factor of all. The
    figure is that of the slower way; both ways change by one factor, and their ends lie as far from
    them: 5 % at least.
    """
    places = "gcp/europe-west1", "gcp/us-central1"
    row = 'roberta-xlm,"gcp/us-central1=1xT4,gcp/europe-west1=1xT4",177'
    report = one(tmp_path, erben, f"{HEAD}\n{row}\n", [pair.format(*places)])
    assert list(fitted(report)) == ["link " + ":".join(places)]
    (figure,), network = report.figures, placer.Advisor().problem("niser", catalog=erben).network
    assert figure.low <= figure.value / 1.05
    assert figure.high >= figure.value * 1.05
    for link in report.overlay.links:
        speed = link.gbps_one_stream
        before = network.link(link.src, link.dst).bytes_per_second * 8e-9
        assert speed / before == pytest.approx(figure.value / figure.published)
        ends = (link.gbps_low, link.gbps_high)
        assert ends == pytest.approx(
            tuple(speed * end / figure.value for end in (figure.low, figure.high))
        )
    assert min(link.gbps_one_stream for link in report.overlay.links) == figure.value


HEAD = "model,workers,samples_per_second"


def test_document_follows_its_schema_and_reads_back(t4: CalibrationReport) -> None:
    """What is written is valid, holds the digest of the runs, and gives the same overlay again."""
    document = json.loads(json.dumps(t4.to_dict(), allow_nan=False))
    validate(document, "calibration")
    assert overlay_from(document, "file") == t4.overlay
    assert document["runs"]["sha256"] == t4.sha256
    assert check_document(document, "file").startswith("calibration runs.csv of 2026-11-21")


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


def test_runs_on_a_book_whose_machines_average_by_nccl(run: Run) -> None:
    """The averaging time of each ring is fitted as a whole, to the network of its machines."""
    done = run("profile", "runs", str(ROOT / "examples" / "runs.csv"), "--json")
    assert done.returncode == 0, done.stderr
    hosts = json.loads(done.stdout)["hosts"]
    assert set(hosts) == {"t4", "a10", "nccl 10 Gb/s", "nccl 16 Gb/s"}
    assert all(hosts[name]["s_per_gb_sent"] > 0 for name in hosts)


def test_the_time_of_a_ring_is_taken_from_runs_that_log_it(tmp_path: Path) -> None:
    """Two own processors exchange in 2 s where less than 0.1 s is expected: the estimate has the
    step of the run, and the file is read back as it was written.
    """
    own = "here=2xCPU-2@Berlin"
    words: dict[str, Any] = {"own": own, "exchange": "all-reduce"}
    problem = Advisor().problem("niser", places="onprem/here", **words)
    workers = "onprem/here=2xCPU-2"
    before = placer.estimate("niser", workers, **words)
    calculation = before.step.calculation
    rows = [("niser", workers, problem.batch / (calculation + 2), calculation, 2)]
    report = calibrate(write(tmp_path / "runs.csv", rows), problem.catalog, today=TODAY)
    overlay = report.overlay
    name = "gloo 10 Gb/s"
    assert set(overlay.calibration.hosts) == {*PUBLISHED.hosts, name}
    assert overlay_from(json.loads(json.dumps(report.to_dict())), "file") == overlay
    after = placer.estimate("niser", workers, calibration=overlay, **words)
    assert after.step.total == pytest.approx(calculation + 2, rel=0.03)
    assert before.step.communication < 0.1


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
    assert row.framework == "nccl"
    assert row.value == pytest.approx(32_768 / 31 / 8, rel=0.02)
    assert overlay.calibration.kappa == PUBLISHED.kappa
    here = placer.estimate("roberta-xlm", rows[0][1], calibration=overlay)
    assert here.step.calculation == pytest.approx(31, rel=0.02)


def test_a_value_at_the_end_of_its_range_is_told() -> None:
    """Within a thousandth of a step of either end."""
    factor = scale("T4")
    (low, high), near = factor.limits, 5e-4 * factor.step
    for value, told in ((low + near, True), (high - near, True), ((low + high) / 2, False)):
        found = Solution(values={factor: value}, errors={}, weights=(), freedom=0)
        assert found.at_limit(factor) == told
