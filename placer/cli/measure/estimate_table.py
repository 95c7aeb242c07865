"""The tables of `placer profile --estimate`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from placer.cli.screen.tables import Sheet
from placer.profiler.devices import device_of
from placer.profiler.estimate.work import constants_document
from placer.units import counted, format_bytes, format_number, format_plain
from placer.workload.measurement import PRECISIONS

if TYPE_CHECKING:
    from placer.market.catalog import Catalog
    from placer.profiler.estimate.estimate import Estimate
    from placer.profiler.estimate.memory import Fit


def print_estimate(console: Console, estimate: Estimate) -> None:
    """Print sizes, memory, what fits where, and how fast it may run."""
    console.print(Text(f"{estimate.title} ({estimate.name}, {estimate.family})", style="bold"))
    gradient = (
        f"gradient {format_bytes(estimate.gradient_bytes)} in "
        f"{counted(estimate.gradient_tensors, 'tensor')} (FP32)"
    )
    console.print(
        f"{estimate.parameters:,} parameters, {estimate.trainable:,} trainable; {gradient}"
    )
    console.print(
        f"{_flops(estimate.flops_per_sample)} a sample forward and backward, "
        f"{estimate.kernels:,.0f} kernels a step; counted on the meta device"
    )
    for note in estimate.notes:
        console.print(note)
    _section(
        console,
        f"Memory of a device: {counted(estimate.microbatch, 'sample')} at once in "
        f"{estimate.precision} with {estimate.optimizer}",
        _memory(estimate),
    )
    _section(
        console, "GPUs of the catalog: does it fit, and how fast is one GPU alone?", _gpus(estimate)
    )
    if estimate.checks:
        _section(
            console,
            "Rates that are known, and how far their estimates would have been off",
            _checks(estimate),
        )
    constants = constants_document()
    console.print(
        f"\nRates by constants {constants['source']}, {constants['as_of']}; docs/estimator.md: "
        f"how far they are off."
    )


def print_devices(console: Console, catalog: Catalog) -> None:
    """Print the peaks by precision, memory, bandwidth and source of a catalog's GPUs."""
    table = _table(
        ("GPU", *(f"{p} TFLOP/s" for p in PRECISIONS), "memory", "GB/s", "source"),
        text=("GPU", "source"),
    )
    for gpu in catalog.gpus.values():
        if gpu.kind == "gpu":
            its = device_of(gpu)
            peaks = (
                "-" if (peak := its.peak_flops[p]) is None else f"{peak / 1e12:g}"
                for p in PRECISIONS
            )
            table.add_row(
                gpu.gpu,
                *peaks,
                f"{gpu.memory_gib:g} GiB",
                f"{gpu.memory_gb_per_s:g}",
                f"{its.source}, {its.as_of}",
            )
    console.print(table)


def _memory(estimate: Estimate) -> Sheet:
    table = _table(("component", "bytes", "basis", "from"), text=("component", "basis", "from"))
    for c in estimate.memory:
        table.add_row(c.name, format_bytes(c.bytes), c.basis, c.source)
    table.add_row(
        "in all", format_bytes(estimate.device_memory_bytes), "", "all at once: an upper estimate"
    )
    return table


def _gpus(estimate: Estimate) -> Sheet:
    table = _table(
        ("GPU", "memory", "fits", "samples/s", "low to high", "limited by"),
        text=("GPU", "fits", "limited by"),
    )
    rates = {r.gpu: r for r in estimate.rates}
    for fit in estimate.fits:
        rate = rates.get(fit.gpu)
        speed = (
            ("-", "-")
            if rate is None
            else (
                format_number(rate.value),
                f"{format_number(rate.low)} to {format_number(rate.high)}",
            )
        )
        why = estimate.limits.get(fit.gpu, f"no {estimate.precision} units")
        table.add_row(
            fit.gpu,
            format_bytes(fit.memory_bytes),
            _fits(fit),
            *speed,
            why if rate or fit.gpu not in estimate.limits else "measured",
        )
    return table


def _checks(estimate: Estimate) -> Sheet:
    table = _table(("GPU", "samples/s", "by its FLOPs", "from the other GPUs"), text=("GPU",))
    for c in estimate.checks:
        other = "-" if c.other_device is None else f"{c.other_device:+.0%}"
        table.add_row(c.gpu, format_number(c.samples_per_second), f"{c.never_measured:+.0%}", other)
    return table


def _fits(fit: Fit) -> str:
    if fit.fits:
        return "yes"
    return f"{fit.largest_microbatch} at once" if fit.largest_microbatch else "no"


def _flops(value: float) -> str:
    for unit, size in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if value >= size:
            return f"{format_plain(value / size)} {unit}"
    return f"{value:.0f} FLOP"


def _section(console: Console, title: str, table: Sheet) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    console.print(table)


def _table(headers: Iterable[str], text: Iterable[str]) -> Sheet:
    names, left = list(headers), set(text)
    return Sheet(names, right=[name for name in names if name not in left])
