"""``placer profile``: measure a model on this device."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from placer.cli.measure.profile_file import OutFile, model_word
from placer.cli.options import catalog_option, json_option
from placer.cli.output import console, print_json, write_json
from placer.errors import PlacerError, unknown

if TYPE_CHECKING:
    from placer.profiler.profiling import Profiling
    from placer.profiler.target.target import Target
    from placer.workload.profile import ModelProfile

EXAMPLE = """\b
Examples:
  placer profile --builtin resnet50-like --quick
  placer profile mymodel.train:profile --device cuda:0 --precision fp16 --precision bf16
  placer profile hf:config.json --batch-sizes 1,8,64 --out mine.json
  placer profile --builtin bert-base-like --estimate
  placer profile exchange
\b
TARGET is package.module:function, found from the current folder too. The function is called without arguments and returns
  (module, batch)        a torch.nn.Module, and batch(n) or batch(n, device): n samples, as the module is called with them;
                         the loss is what the module returns, its .loss, or the mean of its result
  (module, batch, loss)  with loss(module, batch): a scalar
  a Workload             of placer.profiler.target.workload: also optimizer, dataset, target batch size
  a step function        step(batch_size) trains one batch: only whole steps are timed; its attribute 'module', if any,
                         is the model whose gradients are counted
or TARGET is hf:FILE, a Hugging Face config.json. The code of a target is run: it is yours.
"""


class ProfileCommand(click.Command):
    """A command whose first word may be the subcommand ``exchange``."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Hand over to the subcommand, else keep what was typed for the profile."""
        if args[:1] == ["exchange"]:
            from placer.cli.measure.profile_exchange import command as exchange

            context: click.Context = exchange.make_context(
                f"{info_name} exchange", args[1:], parent, **extra
            )
            return context
        typed = shlex.join(["placer", "profile", *args])
        extra.setdefault("obj", "".join(c if c.isprintable() else "?" for c in typed))
        return super().make_context(info_name, args, parent, **extra)


@click.command("profile", cls=ProfileCommand, epilog=EXAMPLE)
@click.argument("target", required=False)
@click.option(
    "--builtin",
    metavar="NAME",
    help="A model that comes with placer: resnet50-like, bert-base-like, lstm, gnn ...",
)
@click.option(
    "--device", metavar="NAME", help="cuda:0, cpu or mps; default: the first GPU, else the CPU."
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    metavar="NAME",
    help="fp32, tf32, fp16 or bf16, repeatable; default: fp16 on CUDA, else fp32.",
)
@click.option(
    "--batch-sizes",
    metavar="N,N..",
    help="Only these; default: 1, 2, 4 ... until more brings less than 5 %.",
)
@click.option(
    "--target-batch-size",
    metavar="N",
    help="Samples of an optimizer step: measures accumulation up to it.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    metavar="N",
    help="Exactly so many steps for each batch size, instead of an interval.",
)
@click.option(
    "--quick", is_flag=True, help="30 s in all, intervals within 3 %; without it 120 s and 1 %."
)
@click.option("--thorough", is_flag=True, help="15 minutes in all, intervals within 0.5 %.")
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Threads of PyTorch on a CPU; default: its own choice.",
)
@click.option(
    "--framework",
    metavar="NAME",
    help="Also measure what hivemind's or ddp's accumulation costs: hivemind, ddp or none.",
)
@click.option(
    "--estimate",
    is_flag=True,
    help="Measure nothing: memory, and speed on every GPU of the catalog, worked out.",
)
@click.option("--name", metavar="NAME", help="Name of the model; default: that of the target.")
@click.option(
    "-o",
    "--out",
    "--output",
    "out",
    metavar="FILE",
    help="Profile to write, or to add to if it is there; default: ./NAME.json.",
)
@catalog_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, **words: Any) -> None:
    """Measure seconds by phase, samples/s, memory and gradients of a model on this device, and
    write its profile.

    One profile holds many devices: run it again elsewhere with the same file.
    """
    from placer.profiler.target.torch_import import load_torch

    torch = load_torch()
    if words["threads"]:
        torch.set_num_threads(words["threads"])
    if words["estimate"]:
        from placer.cli.measure.profile_estimate import estimate

        estimate(words)
        return
    with contextlib.redirect_stdout(sys.stderr):  # what the target prints is no result
        work, target, path = _prepared(ctx.obj, words)
    ctx.exit(_run(work, target, path, words["framework"], as_json=words["as_json"]))


def _prepared(typed: str, words: dict[str, Any]) -> tuple[Profiling, Target, str]:
    """Check everything that can be checked before time is spent."""
    from placer.market.books.partial_books import over_default
    from placer.profiler.devices.identity import choose_device
    from placer.profiler.framework.efficiency import FRAMEWORKS
    from placer.profiler.profiling import Profiling
    from placer.profiler.steps.precision import default_precision
    from placer.profiler.steps.session import Plan
    from placer.profiler.target.target import Target
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
    )
    catalog, _ = over_default(words["catalog"])
    target = Target(words=words["target"], builtin=words["builtin"], name=words["name"])
    subject = target.load()
    place = place.named(subject.name)
    work = Profiling(
        subject=subject,
        plan=plan,
        catalog=catalog,
        command=typed,
        old=place.old(),
        path=place.typed,
    )
    return work, target, place.path


def _effort(words: dict[str, Any]) -> Any:
    from placer.profiler.steps.rate import QUICK, THOROUGH, USUAL

    if words["quick"] and words["thorough"]:
        raise PlacerError("--quick and --thorough are both given", "give one of them")
    chosen = QUICK if words["quick"] else THOROUGH if words["thorough"] else USUAL
    return replace(chosen, steps=words["steps"])


def _run(
    work: Profiling, target: Target, path: str, framework: str | None, *, as_json: bool
) -> int:
    """Measure; whatever ends it, what was measured is written. Returns the exit code."""
    from placer.cli.measure.profile_progress import bar

    failure: PlacerError | None = None
    interrupted = False
    try:
        with contextlib.redirect_stdout(sys.stderr), bar(work.plan.effort.seconds) as told:
            work.told = told
            work.run()
            _framework(work, target, framework, told)
    except KeyboardInterrupt:
        interrupted = True
    except PlacerError as error:
        failure = error
    profile = work.profile()
    if profile is not None:
        _write(path, profile)
        _say(work, profile, as_json=as_json)
    if failure is not None:
        raise failure
    if interrupted:
        words = "" if profile is not None else ": no step was timed, nothing was written"
        console(stderr=True).print(f"interrupted{words}")
    return 130 if interrupted else 0


def _framework(
    work: Profiling, target: Target, framework: str | None, progress: Callable[[str], None]
) -> None:
    """Add the efficiency of a framework at the knee."""
    if framework is None or framework == "none":
        return
    from placer.profiler.framework.efficiency import measured_efficiency, silence_s
    from placer.profiler.steps.failures import OutOfMemory
    from placer.profiler.target.workload import Workload

    if not isinstance(work.subject, Workload):
        raise PlacerError(
            "--framework needs a model: a step function hides its gradients",
            "leave out --framework",
        )
    progress(f"accumulation under {framework}")
    row = work.measurements[0]
    knee = next(point for point in row.points if point.batch_size == row.knee_batch_size)
    work.release()
    try:
        efficiency = measured_efficiency(
            target,
            str(work.plan.device),
            framework,
            microbatch=knee.batch_size,
            target_batch_size=work.plan.target_batch_size,
            silence_s=silence_s(knee.step.median),
        )
    except OutOfMemory as error:
        raise PlacerError(
            f"accumulation of batches of {knee.batch_size:,} does not fit: {error}",
            "give --batch-sizes with smaller ones",
        ) from None
    work.efficiency.append(efficiency)


def _write(path: str, profile: ModelProfile) -> None:
    from placer.workload.profile import SCHEMA, profile_document

    write_json(path, {"schema": SCHEMA, **profile_document(profile)})


def _say(work: Profiling, profile: ModelProfile, *, as_json: bool) -> None:
    """Profile as JSON, or a table and the next command."""
    from placer.cli.measure import profile_table
    from placer.workload.profile import SCHEMA, profile_document

    if as_json:
        print_json({"schema": SCHEMA, **profile_document(profile)})
    else:
        profile_table.print_measurements(console(), profile, work.measurements)
        profile_table.print_efficiency(console(), work.efficiency)
    err = console(stderr=True)
    for note in work.notes:
        err.print(f"note: {note}", style="yellow", soft_wrap=True)
    partial = ", marked partial" if any(m.partial for m in work.measurements) else ""
    err.print(f"{'added to' if work.old else 'wrote'} {work.path}{partial}", soft_wrap=True)
    err.print(
        f"next: placer recommend --model {shlex.quote(model_word(work.path))} --budget 5/h",
        style="dim",
        soft_wrap=True,
    )
