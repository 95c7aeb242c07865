"""``placer profile exchange``: what averaging costs the processor of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from placer.cli.options import json_option
from placer.cli.output import check_targets, console, new_table, print_json, write_json
from placer.errors import PlacerError
from placer.records import replace
from placer.units import format_plain

if TYPE_CHECKING:
    from rich.console import Console

    from placer.cli.screen.tables import Sheet
    from placer.profiler.host.overlay import HostReport

EPILOG = """\b
Example:
  placer profile exchange --host a10 -o here.json
  placer estimate --model roberta-xlm --workers lambda/us-west-1=8xA10 --catalog erben-2023 \\
    --calibration here.json

\b
Averaging takes L(S, N) = l0 + l1 S + l2 N + l3 T seconds: S in GB, N workers, T tensors.
l1 and l3 follow from what is measured here; l0 and l2 need other machines and stay as published.
These are hivemind's. How fast a parameter server sums is measured as well, whatever the software.
"""
EXAMPLES = {"t4": "gcp/us-central1=8xT4:spot", "a10": "lambda/us-west-1=8xA10"}
"""Workers of the published runs with each class of hosts."""
BOOK = "erben-2023"


@click.command("exchange", epilog=EPILOG)
@click.option(
    "--host",
    metavar="NAME",
    help="Class of hosts that this machine stands for: t4, a10, or a device such as A100-80.",
)
@click.option(
    "--model",
    default="roberta-xlm",
    show_default=True,
    metavar="NAME|FILE",
    help="Model whose step is estimated with the result.",
)
@click.option("--quick", is_flag=True, help="Measure for about 10 seconds instead of 30.")
@click.option(
    "--thorough", is_flag=True, help="Measure for about two minutes, with gradients up to 128 MB."
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write the calibration, to be given to --calibration."
)
@json_option
def command(
    host: str | None, model: str, quick: bool, thorough: bool, output: str | None, as_json: bool
) -> None:
    """Measure what averaging gradients costs this machine's processor, and scale the host
    constants.
    """
    from placer.market.books.book_reader import load_catalog
    from placer.profiler.host.averaging import SECONDS, SIZES, measure_host
    from placer.profiler.host.overlay import host_class, host_report
    from placer.profiler.host.summing import measure_sums
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
    with _bar("averaging on one core") as progress:
        measured = measure_host(SIZES[length], seconds=SECONDS[length], progress=progress)
    if not measured.partial:
        with _bar("sums of a parameter server") as progress:
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
    _print(console(), report, model)
    _after(console(stderr=True), report, output)


@contextmanager
def _bar(words: str) -> Iterator[Callable[[float], None]]:
    """Show a transient bar with the time that is left, on a terminal only."""
    import sys

    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _print(out: Console, report: HostReport, model: str) -> None:
    measured = report.measured
    out.print(
        f"{measured.processor}, {measured.logical_cpus} logical CPUs, PyTorch "
        f"{measured.torch_version}",
        style="bold",
    )
    out.print("\nMeasured: arithmetic of one peer on one core, 90 % intervals", style="bold")
    out.print(_arithmetic(report))
    if report.measured.sums:
        out.print(
            "\nMeasured: sums of a parameter server; bytes of gradients in FP32, whatever arrives",
            style="bold",
        )
        out.print(_sums(report))
    devices = ", ".join(report.devices)
    out.print(
        f"\nAveraging constants of {report.host} hosts under hivemind ({devices})", style="bold"
    )
    out.print(_constants(report))
    out.print(f"\nA step of {model} with {EXAMPLES[report.host]} ({BOOK})", style="bold")
    out.print(_steps(report, model))


def _arithmetic(report: HostReport) -> Sheet:
    right = ("s/GB", "us/tensor", "serialise", "average", "deserialise")
    table = new_table(
        (
            "messages",
            "s/GB",
            "interval",
            "us/tensor",
            "interval",
            "serialise",
            "average",
            "deserialise",
        ),
        right=right,
    )
    for name, fit in report.fits.items():
        largest = max(report.measured.of(name), key=lambda p: (p.bytes, -p.tensors))
        stages = [
            f"{seconds / largest.total_s:.0%}"
            for seconds in (largest.serialise_s, largest.average_s, largest.deserialise_s)
        ]
        a, b = fit.s_per_gb, fit.s_per_tensor
        per_tensor = (
            format_plain(b.value * 1e6),
            f"{format_plain(b.low * 1e6)} to {format_plain(b.high * 1e6)}",
        )
        table.add_row(
            {"none": "fp32"}.get(name, name),
            format_plain(a.value),
            f"{format_plain(a.low)} to {format_plain(a.high)}",
            *per_tensor,
            *stages,
        )
    return table


def _sums(report: HostReport) -> Sheet:
    from placer.workload.constants import PUBLISHED

    right = ("threads", "GB/s", "each vCPU", "shipped")
    table = new_table(("messages", *right, "rounds"), right=right)
    shipped = PUBLISHED.services.server_sum_bytes_per_s or 0.0
    for point in report.measured.sums:
        counts = point is report.server_sum
        least, most = point.bytes_per_s(point.most_s), point.bytes_per_s(point.least_s)
        table.add_row(
            {"none": "fp32"}.get(point.compression, point.compression),
            str(point.threads),
            format_plain(point.bytes_per_s() / 1e9),
            format_plain(point.bytes_per_s() / point.threads / 1e9),
            format_plain(shipped / 1e9) if counts else "",
            f"{point.rounds}, from {format_plain(least / 1e9)} to {format_plain(most / 1e9)} GB/s"
            + (": counts" if counts else ""),
        )
    return table


def _constants(report: HostReport) -> Sheet:
    from placer.workload.constants import PUBLISHED

    classes = list(PUBLISHED.hosts)
    right = (*(f"shipped {name}" for name in classes), "here")
    table = new_table(
        ("constant", "unit", *right, "interval", "basis"), right=right, wrap=("basis",)
    )
    for term in report.terms:
        shipped = [f"{format_plain(getattr(PUBLISHED.hosts[name], term.name))}" for name in classes]
        interval = (
            f"{format_plain(term.low)} to {format_plain(term.high)}" if term.high > term.low else ""
        )
        table.add_row(
            term.name,
            term.unit,
            *shipped,
            format_plain(term.value),
            interval,
            f"{term.basis}: {term.source}",
        )
    _, slow, fast = report.overlay.calibration.spreads[report.host]
    table.add_row(
        "averaging time",
        "x",
        "",
        "",
        "1",
        f"{fast:.2f} to {slow:.2f}",
        "assumed: how far the rest of hivemind follows the arithmetic",
    )
    return table


def _steps(report: HostReport, model: str) -> Sheet:
    import placer

    numbers = ("averaging s", "step s", "samples/s")
    table = new_table(("constants", *numbers, "interval"), right=numbers)
    for name, overlay in (("shipped", None), ("here", report.overlay)):
        estimate = placer.estimate(model, EXAMPLES[report.host], catalog=BOOK, calibration=overlay)
        rate = estimate.samples_per_second
        averaging = dict(estimate.step.parts).get("averaging", 0.0)
        table.add_row(
            name,
            f"{averaging:.2f}",
            f"{estimate.step.total:.2f}",
            f"{rate.value:,.1f}",
            f"{rate.low:,.1f} to {rate.high:,.1f}",
        )
    return table


def _after(err: Console, report: HostReport, output: str | None) -> None:
    from placer.profiler.host.overlay import warnings_of

    err.print()
    for warning in warnings_of(report):
        err.print(f"warning: {warning}", style="yellow")
    if output:
        err.print(f"wrote calibration to {output}")
    else:
        err.print(
            "next: --host NAME -o here.json keeps it for --calibration of recommend, estimate and "
            "compare",
            style="dim",
        )
