"""What `placer profile --estimate` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placer.profiler.estimate.work import constants_document
from placer.report.blocks import Cell, Report, Table, figure, section, table, text
from placer.units import counted, format_bytes, format_number, format_plain

if TYPE_CHECKING:
    from placer.profiler.estimate.estimate import Estimate
    from placer.profiler.estimate.memory import Fit


def estimate_report(estimate: Estimate) -> Report:
    """Show sizes, memory, what fits where, and how fast it may run."""
    gradient = (
        f"gradient {format_bytes(estimate.gradient_bytes)} in "
        f"{counted(estimate.gradient_tensors, 'tensor')} (FP32)"
    )
    constants = constants_document()
    return Report(
        title=estimate.title,
        subtitle="placer profile --estimate",
        verdict=f"{estimate.title} ({estimate.name}, {estimate.family})",
        sections=(
            *section(
                "",
                text(
                    f"{estimate.parameters:,} parameters, {estimate.trainable:,} trainable; "
                    f"{gradient}",
                    f"{_flops(estimate.flops_per_sample)} a sample forward and backward, "
                    f"{estimate.kernels:,.0f} kernels a step; counted on the meta device",
                    *estimate.notes,
                ),
            ),
            *section(
                f"Memory of a device: {counted(estimate.microbatch, 'sample')} at once in "
                f"{estimate.precision} with {estimate.optimizer}",
                _memory(estimate),
            ),
            *section(
                "GPUs of the catalog: does it fit, and how fast is one GPU alone?", _gpus(estimate)
            ),
            *section(
                "Rates that are known, and how far their estimates would have been off",
                _checks(estimate),
            ),
            *section(
                "",
                text(
                    f"Rates by constants {constants['source']}, {constants['as_of']}; "
                    "docs/estimator.md: how far they are off."
                ),
            ),
        ),
    )


def _memory(estimate: Estimate) -> Table | None:
    rows: list[list[Cell]] = [
        [c.name, (format_bytes(c.bytes), c.bytes), c.basis, c.source] for c in estimate.memory
    ]
    whole = estimate.device_memory_bytes
    rows.append(["in all", (format_bytes(whole), whole), "", "all at once: an upper estimate"])
    return table("Memory", ("component", "bytes", "basis", "from"), rows, numbers=("bytes",))


def _gpus(estimate: Estimate) -> Table | None:
    rates = {r.gpu: r for r in estimate.rates}
    rows: list[list[Cell]] = []
    for fit in estimate.fits:
        rate = rates.get(fit.gpu)
        why = estimate.limits.get(fit.gpu, f"no {estimate.precision} units")
        rows.append(
            [
                fit.gpu,
                (format_bytes(fit.memory_bytes), fit.memory_bytes),
                _fits(fit),
                figure(None if rate is None else rate.value, format_number, "-"),
                "-" if rate is None else f"{format_number(rate.low)} to {format_number(rate.high)}",
                why if rate or fit.gpu not in estimate.limits else "measured",
            ]
        )
    columns = ("GPU", "memory", "fits", "samples/s", "low to high", "limited by")
    units = {"memory": "memory B"}
    return table("GPUs", columns, rows, numbers=("memory", "samples/s"), units=units)


def _checks(estimate: Estimate) -> Table | None:
    figures = ("samples/s", "by its FLOPs", "from the other GPUs")
    rows: list[list[Cell]] = [
        [
            c.gpu,
            (format_number(c.samples_per_second), c.samples_per_second),
            (f"{c.never_measured:+.0%}", c.never_measured),
            figure(c.other_device, "{:+.0%}".format, "-"),
        ]
        for c in estimate.checks
    ]
    return table("Known rates", ("GPU", *figures), rows, numbers=figures)


def _fits(fit: Fit) -> str:
    if fit.fits:
        return "yes"
    return f"{fit.largest_microbatch} at once" if fit.largest_microbatch else "no"


def _flops(value: float) -> str:
    for unit, size in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if value >= size:
            return f"{format_plain(value / size)} {unit}"
    return f"{value:.0f} FLOP"
