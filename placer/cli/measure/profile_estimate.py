"""``placer profile --estimate``: what a model needs, on which devices it fits, and its file."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placer.cli.output import check_targets, print_json, say, tell, write_json
from placer.cli.screen.show import show_blocks, show_report
from placer.errors import PlacerError
from placer.profiler.estimate.throughput import constants_document
from placer.records import replace
from placer.report.blocks import Cell, Report, Table, figure, section, table, text, with_columns
from placer.units import counted, format_bytes, format_number, format_plain, format_seconds

if TYPE_CHECKING:
    from placer.documents.schemas.measured import Fits
    from placer.profiler.estimate.estimate import Estimate
    from placer.workload.measurement import Measurement, Point
    from placer.workload.profile import Efficiency, ModelProfile


@dataclass(frozen=True, kw_only=True, slots=True)
class OutFile:
    """The profile's file: as typed (empty: not yet named), and its folder before a target could
    change the current one.
    """

    typed: str
    folder: Path

    @classmethod
    def of(cls, typed: str | None) -> OutFile:
        """Check what was typed, before the target is loaded."""
        check_targets(typed)
        made = cls(typed=typed or "", folder=Path.cwd())
        if typed is not None:
            made.old()
        return made

    def named(self, model: str) -> OutFile:
        """Give the file the name of the model, if it has none yet."""
        if self.typed:
            return self
        made = replace(
            self, typed=(re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip("-.") or "model") + ".json"
        )
        check_targets(made.path)
        return made

    @property
    def path(self) -> str:
        """Where it is, whatever the current folder is now."""
        return str(self.folder / self.typed)

    def old(self) -> ModelProfile | None:
        """Read the profile if the file exists."""
        from placer.workload.profile import load_profile

        return load_profile(str(Path(self.path).resolve())) if Path(self.path).exists() else None


def file_document(profile: ModelProfile) -> dict[str, Any]:
    """Build the document of a profile's file."""
    from placer.workload.profile import SCHEMA, profile_document

    return {"schema": SCHEMA, **profile_document(profile)}


def tell_written(path: str, more: str = "", *, added: bool) -> None:
    """Say on stderr where the profile is, and the next command."""
    tell(f"{'added to' if added else 'wrote'} {path}{more}", whole=True)
    # Without a folder or .json, --model would take it for a name.
    model = path if "/" in path or path.endswith(".json") else f"./{path}"
    words = f"placer recommend --model {shlex.quote(model)} --budget 5/h"
    tell(f"next: {words}", style="dim", whole=True)


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


def estimate(target: str | None, words: Mapping[str, Any]) -> None:
    """Work out a target of `placer profile` on the meta device, print it and write its profile.

    Raise `PlacerError` if there are several precisions or batch sizes, or the model cannot run on
    the meta device.
    """
    from placer.market.books.book_reader import over_default
    from placer.profiler.estimate.estimate import estimate as work_out
    from placer.profiler.measured_profile import USUAL_PRECISION, estimated_profile
    from placer.profiler.target import load_target
    from placer.profiler.torch_import import load_torch
    from placer.profiler.workload import Workload
    from placer.units import parse_count

    options = ("device", "steps", "quick", "thorough", "threads", "framework")
    if measuring := [name for name in options if words[name]]:
        raise PlacerError(
            f"--estimate measures nothing, so --{measuring[0]} has no effect",
            f"leave out --{measuring[0]} or --estimate",
        )
    place = OutFile.of(words["out"])
    precisions, batch = words["precisions"], words["batch_sizes"]
    if len(precisions) > 1 or "," in (batch or ""):
        raise PlacerError(
            "--estimate takes one --precision and one of --batch-sizes", "run it once for each"
        )
    target_batch = words["target_batch_size"]
    if target_batch is not None:
        target_batch = parse_count(target_batch, "target batch size")
    microbatch = None if batch is None else parse_count(batch, "batch size")
    catalog, _ = over_default(words["catalog"])
    on_meta = words["builtin"] or (target or "").startswith("hf:")  # no memory for weights
    with redirect_stdout(sys.stderr):  # what the target prints is not a result
        with load_torch().device("meta") if on_meta else nullcontext():
            subject = load_target(target, words["builtin"], words["name"], words["seq_len"])
        if not isinstance(subject, Workload):
            raise PlacerError(
                f"{subject.source} returns a step function, which cannot run on the meta device",
                "return (module, batch, loss)",
            )
        place = place.named(subject.name)
        old = place.old()
        rates = old.rates if old else ()
        known = [rate for rate in rates if rate.basis in ("measured", "published")]
        precision = precisions[0] if precisions else USUAL_PRECISION
        estimated = work_out(subject, catalog, microbatch, precision, known=known)
    profile = estimated_profile(estimated, old, place.typed, target_batch)
    write_json(place.path, file_document(profile))
    if words["as_json"]:
        print_json(estimated.to_dict())
    else:
        show_report(estimate_report(estimated))
    tell_written(place.typed, added=bool(old))


def estimate_report(estimate: Estimate) -> Report:
    """Show sizes, memory, what fits where, and how fast it may run."""
    model, sizes, constants = estimate.workload, estimate.gradients, constants_document()
    gradient = (
        f"gradient {format_bytes(sizes.bytes_fp32)} in {counted(sizes.tensors, 'tensor')} (FP32)"
    )
    return Report(
        title=model.title,
        subtitle="placer profile --estimate",
        verdict=f"{model.title} ({model.name}, {model.family})",
        sections=(
            *section(
                "",
                text(
                    f"{sizes.parameters:,} parameters, {sizes.trainable:,} trainable; {gradient}",
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


def _fits(fit: Fits) -> str:
    if fit.fits:
        return "yes"
    return f"{fit.largest_microbatch} at once" if fit.largest_microbatch else "no"


def _flops(value: float) -> str:
    for unit, size in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if value >= size:
            return f"{format_plain(value / size)} {unit}"
    return f"{value:.0f} FLOP"
