"""The summary of `placer profile`: one table for each precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placer.cli.output import new_table
from placer.units import counted, format_bytes, format_number, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from placer.workload.measurement import Measurement, Point, Seconds
    from placer.workload.profile import Efficiency, ModelProfile

FLOPS = (("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3))
NARROW = 100
"""On less wide terminals the numbers of steps and bytes are left out."""
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


def print_measurements(
    out: Console, profile: ModelProfile, measurements: Sequence[Measurement]
) -> None:
    """Print sizes, then a table for each measurement."""
    tensors = f"{counted(profile.tensors, 'tensor')}, " if profile.tensors else ""
    gradients = f"gradients {tensors}{format_bytes(profile.gradient_bytes_fp32)} in FP32"
    sizes = f"{profile.parameters:,} parameters, {gradients}, {profile.sample_words}"
    out.print(f"{profile.name}: {sizes}", soft_wrap=True)
    out.print(f"gradients {profile.gradient_source}", style="dim", soft_wrap=True)
    for m in measurements:
        out.print()
        _print(out, m)


def print_efficiency(out: Console, rows: Sequence[Efficiency]) -> None:
    """Print what accumulation under a framework leaves of the speed."""
    for row in rows:
        words = (
            f"under {row.framework} {row.value:.0%} of that speed is left ({row.low:.0%} to "
            f"{row.high:.0%}, {row.basis})"
        )
        out.print(f"{words}: {row.source}", soft_wrap=True)


def _print(out: Console, m: Measurement) -> None:
    threads = f", {counted(m.threads, 'thread')}" if m.device == "cpu" else ""
    out.print(
        f"{m.device_name}{threads}, {m.precision}, torch {m.torch}", style="bold", soft_wrap=True
    )
    hidden = {"steps", "memory"} if out.width < NARROW else set()
    if not any(p.fraction_of_peak for p in m.points):
        hidden.add("of peak")
    shown = [i for i, header in enumerate(HEADERS) if header not in hidden]
    table = new_table([HEADERS[i] for i in shown], right=HEADERS[:-1], wrap=(), unseen=("mark",))
    for point in m.points:
        row = _row(point, m)
        table.add_row(*(row[i] for i in shown), style="bold" if point is m.best else None)
    out.print(table)
    if m.failed_batch_size is not None:
        out.print(
            f"{m.largest_batch_size:,} fit, {m.failed_batch_size:,} do not: {m.failure}",
            soft_wrap=True,
        )
    if m.flops_per_sample:
        unit, scale = next(((u, s) for u, s in FLOPS if m.flops_per_sample >= s), FLOPS[-1])
        out.print(
            f"{m.flops_per_sample / scale:,.4g} {unit} a sample, forward and backward",
            soft_wrap=True,
        )
    if m.loading_share is not None:
        out.print(
            f"loading takes {m.loading_share:.0%} of a step that waits for its samples",
            soft_wrap=True,
        )


def _row(point: Point, m: Measurement) -> tuple[str, ...]:
    batch = (
        f"{point.accumulation:,} x {point.batch_size:,}"
        if point.accumulation > 1
        else f"{point.batch_size:,}"
    )
    memory = (
        point.host_memory_bytes if point.device_memory_bytes is None else point.device_memory_bytes
    )
    mark = "knee" if point.batch_size == m.knee_batch_size and point.accumulation == 1 else ""
    return (
        batch,
        *(_seconds(part) for part in (point.forward, point.backward, point.optimizer, point.step)),
        format_number(point.samples_per_second),
        f"{point.half_width:.1%}",
        f"{point.steps:,}",
        "" if memory is None else format_bytes(memory),
        "" if point.fraction_of_peak is None else f"{point.fraction_of_peak:.0%}",
        f"{mark} partial".strip() if point.partial else mark,
    )


def _seconds(seconds: Seconds | None) -> str:
    return "" if seconds is None else format_seconds(seconds.median)
