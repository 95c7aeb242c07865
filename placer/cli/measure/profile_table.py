"""The summary of `placer profile`: one table for each precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placer.cli.output import say
from placer.cli.screen.show import show_blocks
from placer.report.blocks import Cell, figure, table, with_columns
from placer.units import counted, format_bytes, format_number, format_seconds

if TYPE_CHECKING:
    from placer.workload.measurement import Measurement, Point
    from placer.workload.profile import Efficiency, ModelProfile

FLOPS = (("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3))
HEADERS = (
    "batch",
    "forward",
    "backward",
    "optimizer",
    "step",
    "samples/s",
    "±",
    "steps",
    "memory",
    "of peak",
    "",
)


def print_measurements(profile: ModelProfile, measurements: Sequence[Measurement]) -> None:
    """Print sizes, then a table for each measurement."""
    tensors = f"{counted(profile.tensors, 'tensor')}, " if profile.tensors else ""
    gradients = f"gradients {tensors}{format_bytes(profile.gradient_bytes_fp32)} in FP32"
    sizes = f"{profile.parameters:,} parameters, {gradients}, {profile.sample_words}"
    say(f"{profile.name}: {sizes}", whole=True)
    say(f"gradients {profile.gradient_source}", style="dim", whole=True)
    for m in measurements:
        say()
        _print(m)


def print_efficiency(rows: Sequence[Efficiency]) -> None:
    """Print what accumulation under a framework leaves of the speed."""
    for row in rows:
        words = (
            f"under {row.framework} {row.value:.0%} of that speed is left ({row.low:.0%} to "
            f"{row.high:.0%}, {row.basis})"
        )
        say(f"{words}: {row.source}", whole=True)


def _print(m: Measurement) -> None:
    threads = f", {counted(m.threads, 'thread')}" if m.device == "cpu" else ""
    say(f"{m.device_name}{threads}, {m.precision}, torch {m.torch}", style="bold", whole=True)
    listed = table(
        "Batches",
        HEADERS,
        [_row(point, m) for point in m.points],
        numbers=HEADERS[:-1],
        optional=("steps", "memory"),
        units={**{name: f"{name} s" for name in HEADERS[1:5]}, "memory": "memory B", "": "mark"},
        marked=next((at for at, point in enumerate(m.points) if point is m.best), None),
    )
    assert listed is not None
    show_blocks(
        with_columns(
            listed,
            [name != "of peak" or any(p.fraction_of_peak for p in m.points) for name in HEADERS],
        )
    )
    if m.failed_batch_size is not None:
        say(
            f"{m.largest_batch_size:,} fit, {m.failed_batch_size:,} do not: {m.failure}", whole=True
        )
    if m.flops_per_sample:
        unit, scale = next(((u, s) for u, s in FLOPS if m.flops_per_sample >= s), FLOPS[-1])
        say(f"{m.flops_per_sample / scale:,.4g} {unit} a sample, forward and backward", whole=True)
    if m.loading_share is not None:
        say(f"loading takes {m.loading_share:.0%} of a step that waits for its samples", whole=True)


def _row(point: Point, m: Measurement) -> list[Cell]:
    size = point.accumulation * point.batch_size
    batch = (
        f"{point.accumulation:,} x {point.batch_size:,}" if point.accumulation > 1 else f"{size:,}"
    )
    memory = (
        point.host_memory_bytes if point.device_memory_bytes is None else point.device_memory_bytes
    )
    mark = "knee" if point.batch_size == m.knee_batch_size and point.accumulation == 1 else ""
    parts = (point.forward, point.backward, point.optimizer, point.step)
    return [
        (batch, size),
        *(figure(None if part is None else part.median, format_seconds) for part in parts),
        (format_number(point.samples_per_second), point.samples_per_second),
        (f"{point.half_width:.1%}", point.half_width),
        point.steps,
        figure(memory, format_bytes),
        figure(point.fraction_of_peak, "{:.0%}".format),
        f"{mark} partial".strip() if point.partial else mark,
    ]
