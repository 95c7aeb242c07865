"""``placer profile exchange`` and ``runs``: calibrations of this machine and from runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placer.cli.command import Catalog, Json, as_command
from placer.cli.output import check_targets, print_json, tell, write_json
from placer.cli.screen.progress import bar
from placer.cli.screen.show import show, show_report
from placer.errors import PlacerError
from placer.records import replace
from placer.report.blocks import Cell, Report, Table, figure, section, table
from placer.units import format_plain

if TYPE_CHECKING:
    from placer.profiler.host.overlay import HostReport

EXCHANGE = """\b
Example:
  placer profile exchange --host a10 -o here.json
  placer estimate --model roberta-xlm --workers lambda/us-west-1=8xA10 --catalog erben-2023 \\
    --calibration here.json

\b
Averaging takes L(S, N) = l0 + l1 S + l2 N + l3 T seconds: S in GB, N workers, T tensors.
l1 and l3 follow from what is measured here; l0 and l2 need other machines and stay as published.
These are hivemind's. How fast a parameter server sums is measured as well, whatever the software.
"""
WORKERS = {"t4": "gcp/us-central1=8xT4:spot", "a10": "lambda/us-west-1=8xA10"}
"""Workers of the published runs with each class of hosts."""
BOOK = "erben-2023"


@as_command("exchange", EXCHANGE)
def exchange_command(
    *,
    host: str | None = None,
    model: str = "roberta-xlm",
    quick: bool = False,
    thorough: bool = False,
    output: str | None = None,
    as_json: Json,
) -> None:
    """Measure what averaging gradients costs this machine's processor, and scale the host
    constants.

    host (NAME): Class of hosts that this machine stands for: t4, a10, or a device such as A100-80.
    model (NAME|FILE): Model whose step is estimated with the result.
    quick: Measure for about 10 seconds instead of 30.
    thorough: Measure for about two minutes, with gradients up to 128 MB.
    output (FILE, -o --output): Write the calibration, to be given to --calibration.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.profiler.host.averaging import SECONDS, SIZES, measure_host, measure_sums
    from placer.profiler.host.overlay import host_class, host_report, warnings_of
    from placer.workload.profile import load_profile

    if quick and thorough:
        raise PlacerError("--quick and --thorough contradict each other", "give one")
    if host is None and output is not None:
        raise PlacerError(
            "--host is missing",
            "say what this machine stands for: t4 (hosts of T4), a10 (of all others), or a device",
        )
    kind = host_class(host or "a10", load_catalog("default"))
    load_profile(model)
    check_targets(output)
    length = "quick" if quick else "thorough" if thorough else "usual"
    with bar("averaging on one core") as progress:
        measured = measure_host(SIZES[length], seconds=SECONDS[length], progress=progress)
    if not measured.partial:
        with bar("sums of a parameter server") as progress:
            try:
                measured = replace(measured, sums=measure_sums(progress=progress))
            except KeyboardInterrupt:
                measured = replace(measured, partial=True)
    report = host_report(measured, kind)
    if output:
        write_json(output, report.to_dict())
    if as_json:
        print_json(report.to_dict())
        return
    show_report(_report(report, model))
    tell()
    for warning in warnings_of(report):
        tell(f"warning: {warning}", style="yellow")
    _say_where(output, "--host NAME -o here.json")


def _report(report: HostReport, model: str) -> Report:
    measured = report.measured
    devices = ", ".join(report.devices)
    tables = {
        "Measured: arithmetic of one peer on one core, 90 % intervals": _arithmetic(report),
        "Measured: sums of a parameter server; bytes of gradients in FP32, whatever arrives": (
            _sums(report)
        ),
        f"Averaging constants of {report.host} hosts under hivemind ({devices})": (
            _constants(report)
        ),
        f"A step of {model} with {WORKERS[report.host]} ({BOOK})": _steps(report, model),
    }
    return Report(
        title=measured.processor,
        subtitle="placer profile exchange",
        verdict=f"{measured.processor}, {measured.logical_cpus} logical CPUs, PyTorch "
        f"{measured.torch_version}",
        sections=tuple(part for title, block in tables.items() for part in section(title, block)),
    )


NAMES = {"none": "fp32", "fp16": "fp16"}
"""What messages are called by their compression."""


def _ends(low: float, high: float) -> str:
    return f"{format_plain(low)} to {format_plain(high)}"


def _arithmetic(report: HostReport) -> Table | None:
    rows: list[list[Cell]] = []
    for name, fit in report.fits.items():
        largest = max(report.measured.of(name), key=lambda p: (p.bytes, -p.tensors))
        stages = (largest.serialise_s, largest.average_s, largest.deserialise_s)
        a, b = fit.s_per_gb, fit.s_per_tensor
        rows.append(
            [
                NAMES[name],
                (format_plain(a.value), a.value),
                _ends(a.low, a.high),
                (format_plain(b.value * 1e6), b.value * 1e6),
                _ends(b.low * 1e6, b.high * 1e6),
                *((f"{s / largest.total_s:.0%}", s / largest.total_s) for s in stages),
            ]
        )
    parts = ("serialise", "average", "deserialise")
    columns = ("messages", "s/GB", "interval", "us/tensor", "interval", *parts)
    return table("Arithmetic", columns, rows)


def _sums(report: HostReport) -> Table | None:
    from placer.workload.constants import PUBLISHED

    shipped = (PUBLISHED.services.server_sum_bytes_per_s or 0.0) / 1e9
    rows: list[list[Cell]] = []
    for point in report.measured.sums:
        counts = point is report.measured.server_sum
        least, most, usual = (
            point.bytes_per_s(s) / 1e9 for s in (point.most_s, point.least_s, point.seconds)
        )
        rows.append(
            [
                NAMES[point.compression],
                point.threads,
                (format_plain(usual), usual),
                (format_plain(usual / point.threads), usual / point.threads),
                figure(shipped if counts else None, format_plain),
                f"{point.rounds}, from {_ends(least, most)} GB/s" + (": counts" if counts else ""),
            ]
        )
    columns = ("messages", "threads", "GB/s", "each vCPU", "shipped", "rounds")
    return table("Sums", columns, rows)


def _constants(report: HostReport) -> Table | None:
    from placer.documents.schemas.measured import Fitted, NotFitted
    from placer.profiler.host.overlay import BASE
    from placer.workload.constants import PUBLISHED

    classes = list(PUBLISHED.hosts)
    rows: list[list[Cell]] = []
    here = report.overlay.calibration.hosts[report.host]
    ends = {one.key[1]: _ends(one.low, one.high) for one in report.scaled if one.high > one.low}
    figures: list[Fitted | NotFitted] = [*report.scaled, *report.kept]
    for one in figures:
        name = one.key[1]
        values = [getattr(host, name) for host in (*PUBLISHED.hosts.values(), here)]
        if isinstance(one, NotFitted):
            why = one.because
        else:
            times = one.value / getattr(PUBLISHED.hosts[BASE], name)
            why = f"estimated: {BASE} x {times:.2f}, the arithmetic here over the reference"
        shown = [(format_plain(value), value) for value in values]
        rows.append([name, one.unit, *shown, ends.get(name, ""), why])
    _, slow, fast = report.overlay.calibration.spreads[report.host]
    why = "assumed: how far the rest of hivemind follows the arithmetic"
    missing: list[Cell] = [("", None)] * len(classes)
    rows.append(["averaging time", "x", *missing, ("1", 1), f"{fast:.2f} to {slow:.2f}", why])
    shipped = (f"shipped {name}" for name in classes)
    columns = ("constant", "unit", *shipped, "here", "interval", "basis")
    return table("Constants", columns, rows, narrowed=("basis",))


def _steps(report: HostReport, model: str) -> Table | None:
    import placer

    rows: list[list[Cell]] = []
    for name, overlay in (("shipped", None), ("here", report.overlay)):
        estimate = placer.estimate(model, WORKERS[report.host], catalog=BOOK, calibration=overlay)
        rate = estimate.samples_per_second
        averaging = dict(estimate.step.parts).get("averaging", 0.0)
        rows.append(
            [
                name,
                (f"{averaging:.2f}", averaging),
                (f"{estimate.step.total:.2f}", estimate.step.total),
                (f"{rate.value:,.1f}", rate.value),
                f"{rate.low:,.1f} to {rate.high:,.1f}",
            ]
        )
    return table("Steps", ("constants", "averaging s", "step s", "samples/s", "interval"), rows)


def _say_where(output: str | None, how: str) -> None:
    """Name the file of a calibration, or say how to keep one."""
    if output:
        tell(f"wrote calibration to {output}")
    else:
        kept = "keeps it for --calibration of recommend, estimate and compare"
        tell(f"next: {how} {kept}", style="dim")


RUNS = """\b
Example:
  placer profile runs runs.csv -o calibration.json
  placer estimate --model roberta-xlm --workers gcp/us-central1=8xT4:spot \\
    --calibration calibration.json

\b
RUNS is a CSV file with one measured run of an all-reduce a line:
  model,workers            as in 'placer estimate', such as roberta-xlm,gcp/us-central1=8xT4:spot
  samples_per_second       or step_s
  calculation_s            optional: wall-clock calculation of a step; gives the machines' speed
  communication_s          optional: wall-clock exchange of a step
  target_batch_size,compression,streams   optional
RUNS may also be the log of one such run, run.jsonl of 'placer run'. That of a run with --local
tells the speed of the model on this machine's processors, and nothing of the plan's machines.
"""


@as_command("runs", RUNS)
def runs_command(
    runs: str,
    *,
    catalog: Catalog,
    fit_links: tuple[str, ...] = (),
    output: str | None = None,
    as_json: Json,
) -> None:
    """Fit the timing model to your own measured runs, and report how good the fit is.

    fit_links (A:B, --fit-link): Fit this link even if the book has a figure for it; repeatable.
    output (FILE, -o --output): Write the calibration, to be given to --calibration.
    """
    from placer.validation.calibration.calibrate import calibrate

    check_targets(output)
    report = calibrate(runs, catalog, fit_links)
    if output:
        write_json(output, report.to_dict())
    show(report.to_dict(), as_json=as_json)
    if as_json:
        return
    _say_where(output, "-o calibration.json")
