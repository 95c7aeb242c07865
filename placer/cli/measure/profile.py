"""``placer profile``: measure a model on this device."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from placer.cli.command import Catalog, Json, as_command
from placer.cli.measure.profile_estimate import (
    OutFile,
    estimate,
    file_document,
    print_efficiency,
    print_measurements,
    tell_written,
)
from placer.cli.output import print_json, tell, write_json
from placer.cli.screen.progress import bar
from placer.errors import PlacerError, unknown
from placer.records import replace

if TYPE_CHECKING:
    from placer.profiler.profiling import Profiling
    from placer.workload.profile import ModelProfile

EXAMPLE = """\b
Examples:
  placer profile --builtin resnet50-like --quick
  placer profile mymodel.train:profile --device cuda:0 --precision fp16 --precision bf16
  placer profile hf:config.json --batch-sizes 1,8,64 --out mine.json
  placer profile --builtin bert-base-like --estimate
  placer profile exchange --host a10 -o here.json
  placer profile runs runs.csv -o calibration.json
\b
TARGET is hf:FILE, a Hugging Face config.json, or package.module:function, which is also looked
for in the current folder. The function is called without arguments and returns one of
  (module, batch)        a torch.nn.Module, and batch(n) or batch(n, device), which makes n samples
                         to call it with; the loss is what it returns, its .loss, or the mean
  (module, batch, loss)  the same with loss(module, batch), a scalar
  a Workload             of placer.profiler.workload, also with optimizer and dataset
  a step function        step(batch_size) trains one batch; only whole steps are timed. Its
                         attribute 'module', if any, is the model whose gradients are counted
Placer runs the code of a target, so profile only code that you trust.
"""


class Options(TypedDict):
    """Options of the command.

    builtin (NAME): Built-in model, such as resnet50-like, bert-base-like, lstm or gnn.
    device (NAME): Device: cuda:0, cpu or mps. Default: the first GPU, else the CPU.
    precisions (NAME, --precision): fp32, tf32, fp16 or bf16; repeatable. Default: fp16 on CUDA,
        else fp32.
    batch_sizes (N,N..): Batch sizes to measure. Default: 1, 2, 4 ... until the gain is below 5 %.
    target_batch_size (N): Samples of an optimizer step; accumulation is measured up to it.
    steps (N, 1..): Measure exactly N steps for each batch size.
    quick: Measure for 30 s, intervals within 3 %. Default: 120 s and 1 %.
    thorough: Measure for 15 minutes, intervals within 0.5 %.
    threads (N, 1..1024): Threads of PyTorch on a CPU. Default: as PyTorch chooses.
    framework (NAME): Also write the published efficiency of hivemind or ddp.
    estimate: Measure nothing; estimate memory, and speed on every GPU of the catalog.
    seq_len (N, 1..16777216): Tokens of a text of hf:FILE. Default: as many as a language model
        takes, at most 8,192; 128 for other models of text.
    name (NAME): Name of the model. Default: that of the target.
    out (FILE, -o --out --output): Profile to write, or to add to if it exists. Default:
        ./NAME.json.
    """

    builtin: str | None
    device: str | None
    precisions: tuple[str, ...]
    batch_sizes: str | None
    target_batch_size: str | None
    steps: int | None
    quick: bool
    thorough: bool
    threads: int | None
    framework: str | None
    estimate: bool
    seq_len: int | None
    name: str | None
    out: str | None
    catalog: Catalog
    as_json: Json


@as_command("profile", EXAMPLE)
def command(ctx: click.Context, target: str | None = None, **words: Unpack[Options]) -> None:
    """Measure a model on this device and write its profile: seconds by phase, samples/s, memory,
    gradients.

    One profile holds many devices: run the command elsewhere with the same file to add one.
    """
    from placer.profiler.torch_import import load_torch

    typed = "".join(c if c.isprintable() else "?" for c in shlex.join(["placer", *(ctx.obj or ())]))
    torch = load_torch()
    if words["threads"]:
        torch.set_num_threads(words["threads"])
    if words["estimate"]:
        estimate(target, words)
        return
    with contextlib.redirect_stdout(sys.stderr):  # what the target prints is not a result
        work, path = _prepared(typed, target, words)
    ctx.exit(_run(work, path, as_json=words["as_json"]))


def _prepared(typed: str, word: str | None, words: Options) -> tuple[Profiling, str]:
    """Check everything that can be checked before time is spent."""
    from placer.market.books.book_reader import over_default
    from placer.profiler.devices import choose_device
    from placer.profiler.measured_profile import FRAMEWORKS, published_efficiency
    from placer.profiler.profiling import Profiling
    from placer.profiler.steps.session import Plan
    from placer.profiler.steps.training_step import default_precision
    from placer.profiler.target import load_target
    from placer.profiler.workload import Workload
    from placer.units import parse_count

    place = OutFile.of(words["out"])
    device = choose_device(words["device"])
    if words["framework"] not in (None, *FRAMEWORKS):
        raise unknown("framework", words["framework"], FRAMEWORKS)
    sizes, target_batch = words["batch_sizes"], words["target_batch_size"]
    plan = Plan(
        device=device,
        precisions=tuple(dict.fromkeys(words["precisions"])) or (default_precision(device),),
        effort=_effort(words),
        batch_sizes=None
        if sizes is None
        else tuple(parse_count(part, "batch size") for part in sizes.split(",")),
        target_batch_size=None
        if target_batch is None
        else parse_count(target_batch, "target batch size"),
        threads=words["threads"],
    )
    catalog, _ = over_default(words["catalog"])
    subject = load_target(word, words["builtin"], words["name"], words["seq_len"])
    place = place.named(subject.name)
    work = Profiling(
        subject=subject,
        plan=plan,
        catalog=catalog,
        command=typed,
        old=place.old(),
        path=place.typed,
    )
    if words["framework"] is not None and isinstance(subject, Workload):
        row = published_efficiency(subject.name, subject.family, words["framework"])
        work.efficiency.append(row)
    return work, place.path


def _effort(words: Options) -> Any:
    from placer.profiler.steps.timing import QUICK, THOROUGH, USUAL

    if words["quick"] and words["thorough"]:
        raise PlacerError("--quick and --thorough are both given", "give one of them")
    chosen = QUICK if words["quick"] else THOROUGH if words["thorough"] else USUAL
    return replace(chosen, steps=words["steps"])


def _run(work: Profiling, path: str, *, as_json: bool) -> int:
    """Measure, and write what was measured whatever ended it; return the exit code."""
    failure: PlacerError | None = None
    interrupted = False
    try:
        with contextlib.redirect_stdout(sys.stderr), bar("starting") as shown:
            begun, most_s = time.perf_counter(), work.plan.effort.seconds
            work.progress = lambda words: shown((time.perf_counter() - begun) / most_s, words)
            work.run()
    except KeyboardInterrupt:
        interrupted = True
    except PlacerError as error:
        failure = error
    profile = work.profile()
    if profile is not None:
        write_json(path, file_document(profile))
        _say(work, profile, as_json=as_json)
    if failure is not None:
        raise failure
    if interrupted:
        words = "" if profile is not None else ": no step was timed, nothing was written"
        tell(f"interrupted{words}")
    return 130 if interrupted else 0


def _say(work: Profiling, profile: ModelProfile, *, as_json: bool) -> None:
    """Print the profile as JSON, or a table and the next command."""
    if as_json:
        print_json(file_document(profile))
    else:
        print_measurements(profile, work.measurements)
        print_efficiency(work.efficiency)
    for note in work.notes:
        tell(f"note: {note}", style="yellow", whole=True)
    partial = ", marked partial" if any(m.partial for m in work.measurements) else ""
    tell_written(work.path, partial, added=bool(work.old))
