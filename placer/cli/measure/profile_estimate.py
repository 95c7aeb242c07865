"""``placer profile --estimate``: what a model needs, and how fast GPUs that are not here may train
it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from typing import Any

from placer.cli.measure.profile_file import OutFile, model_word
from placer.cli.output import console, print_json, write_json
from placer.cli.screen.show import show_report
from placer.errors import PlacerError


def estimate(target: str | None, words: Mapping[str, Any]) -> None:
    """Work out a target of `placer profile` on the meta device, print it and write its profile.

    Raises
    ------
    PlacerError
        If there are several precisions or batch sizes, or the model cannot run on the meta device.
    """
    from placer.cli.measure.estimate_table import estimate_report
    from placer.market.books.partial_books import over_default
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
    err = console(stderr=True)
    err.print(f"{'added to' if old else 'wrote'} {place.typed}", soft_wrap=True)
    err.print(
        f"next: placer recommend --model {shlex.quote(model_word(place.typed))} --budget 5/h",
        style="dim",
        soft_wrap=True,
    )
