"""``placer profile --estimate``: what a model needs, and how fast GPUs not here may train it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

from placer.cli.measure.profile_file import OutFile, model_word
from placer.cli.output import print_json, tell, write_json
from placer.cli.screen.show import show_report
from placer.errors import PlacerError
from placer.profiler.estimate.throughput import constants_document
from placer.report.blocks import Cell, Report, Table, figure, section, table, text
from placer.units import counted, format_bytes, format_number, format_plain

if TYPE_CHECKING:
    from placer.profiler.estimate.estimate import Estimate
    from placer.profiler.estimate.memory import Fit


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
    from placer.workload.profile import SCHEMA, profile_document

    measuring = [
        name
        for name in ("device", "steps", "quick", "thorough", "threads", "framework")
        if words[name]
    ]
    if measuring:
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
    target_batch = (
        None
        if words["target_batch_size"] is None
        else parse_count(words["target_batch_size"], "target batch size")
    )
    microbatch = None if batch is None else parse_count(batch, "batch size")
    catalog, _ = over_default(words["catalog"])
    with (
        redirect_stdout(sys.stderr),
        load_torch().device("meta")
        if words["builtin"] or (target or "").startswith("hf:")
        else nullcontext(),
    ):  # no memory for weights
        subject = load_target(target, words["builtin"], words["name"], words["seq_len"])
    if not isinstance(subject, Workload):
        raise PlacerError(
            f"{subject.source} returns a step function, which cannot run on the meta device",
            "return (module, batch, loss)",
        )
    place = place.named(subject.name)
    old = place.old()
    known = (
        []
        if old is None
        else [rate for rate in old.rates if rate.basis in ("measured", "published")]
    )
    with redirect_stdout(sys.stderr):  # what the target prints is not a result
        estimated = work_out(
            subject,
            catalog,
            microbatch,
            precisions[0] if precisions else USUAL_PRECISION,
            known=known,
        )
    profile = estimated_profile(estimated, old, place.typed, target_batch)
    write_json(place.path, {"schema": SCHEMA, **profile_document(profile)})
    if words["as_json"]:
        print_json(estimated.to_dict())
    else:
        show_report(estimate_report(estimated))
    tell(f"{'added to' if old else 'wrote'} {place.typed}", whole=True)
    tell(
        f"next: placer recommend --model {shlex.quote(model_word(place.typed))} --budget 5/h",
        style="dim",
        whole=True,
    )


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
