"""``placer run``: execute a launch manifest and put what was measured beside what was predicted."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import click

from placer.cli.command import Json, as_command
from placer.cli.output import print_json, say
from placer.cli.screen.option_groups import LargeCommand
from placer.cli.screen.show import show_blocks
from placer.cost_model.timing.services import POLL_SECONDS
from placer.documents.json_file import read_json
from placer.errors import PlacerError, not_installed
from placer.units import counted, format_plain

if TYPE_CHECKING:
    from placer.launch.runtime.run_plan import RunPlan, Settings

LOCAL_JOIN_S = 120.0
"""Processes of one machine have started by then."""
EPILOG = """\b
Examples:
  placer run plan.json --train mymodel.train:profile --local --steps 20 --tbs 64 --microbatch 8
  MASTER_ADDR=10.0.0.1 RANK=0 placer run plan.json --train mymodel.train:profile --steps 1000
\b
The function is that of 'placer profile': it returns a Workload, (module, batch) or (module, batch,
loss). --local starts a process for each worker here, and the server, function and object store
that the plan needs. Without it, the ranks of this machine run (RANK or --rank); a server has the
last rank, and functions are those in the cloud. 'placer profile runs' and 'placer whatif
--observed' read the log, DIR/run.jsonl; --resume continues from DIR/checkpoints. With --rehearse
the plan's geography is run here instead: see 'placer run --rehearse --help'.
"""


class Options(TypedDict):
    """Options of the command.

    train (MODULE:FUNCTION): Makes the model, its batches and its loss.
    local: Run all workers on this machine.
    rank (N|N-M): Ranks of this machine; default: the environment's RANK.
    steps (N, 1..): Optimizer steps in all.
    tbs (N, 1..): Target batch size; default: the plan's.
    microbatch (N, 1..): Samples that a worker processes at once; default: the plan's.
    seed (N): Seed of parameters and samples.
    out (DIR, -o --out): Folder of log and checkpoints; default: ./NAME-run.
    checkpoints (PLACE): Folder or URL (s3://bucket/run) of the checkpoints; default:
        DIR/checkpoints.
    checkpoint_every (N, 0..): Steps between checkpoints; 0: none.
    resume: Continue from the newest checkpoint that all workers have.
    resume_if_any: As --resume, but start from step 0 where no worker has a checkpoint; for
        restarted jobs.
    device (NAME): cpu, cuda or cuda:1; default: cpu with --local or a plan of CPUs, else the first
        GPU.
    threads (N, 1..): Threads of PyTorch in each process; default: the plan's vCPUs, with --local on
        GPUs 1.
    processes (N, 1..64): Processes of each machine; default: its GPUs, on a CPU one.
    timeout (SECONDS, 0.1..86400): Time after which a silent peer is lost; default: the plan's, at
        least 60.
    endpoint_url (URL): URL of an S3 object store, with functions that are ranks of the run;
        default: the provider's, with the functions of 'placer export --to cloudformation'; with
        --local all are on this machine.
    poll (SECONDS, 0.001..60): Time between two polls of the store; default: the plan's.
    one_machine: All ranks share one machine, though started separately; the log says so.
    """

    train: Annotated[str, ...]
    local: bool
    rank: str | None
    steps: Annotated[int, 20]
    tbs: int | None
    microbatch: int | None
    seed: Annotated[int, 0]
    out: str | None
    checkpoints: str | None
    checkpoint_every: Annotated[int, 100]
    resume: bool
    resume_if_any: bool
    device: str | None
    threads: int | None
    processes: int | None
    timeout: float | None
    endpoint_url: str | None
    poll: float | None
    one_machine: bool


@as_command("run", EPILOG, cls=LargeCommand)
def command(manifest: str, *, as_json: Json, **words: Unpack[Options]) -> None:
    """Execute the plan of MANIFEST: train a model with its strategy, measure, and compare with the
    prediction.
    """
    from placer.launch.folder_lock import locked_folder
    from placer.launch.runtime.processes.run import ranks_from, run_here, run_ranks
    from placer.launch.runtime.run_plan import plan_from
    from placer.validation.calibration.run_log import SCHEMA

    document = read_json(manifest)
    plan = plan_from(document, manifest)
    if plan.hub == "function" and not (words["local"] or words["endpoint_url"]):
        plan = plan_from(document, manifest, deployed=True)
    if words["local"] and words["rank"]:
        raise PlacerError("--local runs all ranks, --rank some", "give one of the two")
    ranks = () if words["local"] else ranks_from(words["rank"], plan)
    folder = Path(words["out"] or f"{plan.name}-run")
    if importlib.util.find_spec("torch") is None:
        raise not_installed("placer run needs PyTorch", "profile")
    settings = _settings(plan, words, folder)
    watch = _watch(plan, settings, quiet=as_json)
    if words["local"]:
        with locked_folder(folder, "run", "--out", must_lock=False):
            records = run_here(plan, document, settings, folder, watch)
    else:
        records = run_ranks(
            plan, document, settings, folder, watch, ranks, one_machine=words["one_machine"]
        )
    if ranks and 0 not in ranks:
        click.echo(
            f"done: the log is with rank 0; {folder}/run-rank-{ranks[0]}.jsonl holds this "
            f"machine's part",
            err=True,
        )
        return
    comparison = records[-1]
    if as_json:
        print_json({"schema": SCHEMA, **comparison})
    else:
        _print(plan, comparison, folder)


def _settings(plan: RunPlan, words: Options, folder: Path) -> Settings:
    """Make the settings from the options, and from the manifest where an option is absent."""
    from placer.launch.runtime.object_store import check_endpoint
    from placer.launch.runtime.run_plan import Settings

    batch = words["tbs"] or plan.target_batch_size
    if batch < plan.workers:
        raise PlacerError(
            f"target batch size {batch} is below the {plan.workers} workers", "each needs a sample"
        )
    local, on_cpu = words["local"], all(group.on_cpu for group in plan.manifest.groups)
    device = words["device"] or ("cpu" if local or on_cpu else "")
    if words["endpoint_url"]:
        check_endpoint(words["endpoint_url"])
    return Settings(
        train=words["train"],
        steps=words["steps"],
        seed=words["seed"],
        target_batch_size=batch,
        microbatch=words["microbatch"] or 0,
        checkpoints=_place(words["checkpoints"] or str(folder / "checkpoints")),
        checkpoint_every=words["checkpoint_every"],
        resume=words["resume"] or words["resume_if_any"],
        may_begin=words["resume_if_any"] and not words["resume"],
        device=device,
        threads=words["threads"] or _threads(plan, local=local),
        timeout_s=words["timeout"] or max(60.0, plan.manifest.exchange.timeouts.round_s),
        join_s=LOCAL_JOIN_S if local else plan.manifest.rendezvous.join_s,
        endpoint_url=words["endpoint_url"] or "",
        poll_s=words["poll"] or plan.manifest.exchange.timeouts.poll_s or POLL_SECONDS,
        deployed=plan.deployed,
        processes=words["processes"] or _processes(device),
    )


def _place(words: str) -> str:
    """Return a URL as it is, and a folder wherever processes are started."""
    return words if "://" in words else str(Path(words).absolute())


def _threads(plan: RunPlan, *, local: bool) -> int:
    """Return the plan's vCPUs, if this machine has more for each process; 0: PyTorch's choice."""
    from placer.market.accelerators import processor_vcpus
    from placer.profiler.devices import cpus_here

    planned = [processor_vcpus(group.offer.gpu) or 1 for group in plan.manifest.groups]
    here = max(1, cpus_here() // plan.workers) if local else cpus_here()
    if not local and (
        not all(group.on_cpu for group in plan.manifest.groups) or min(planned) >= here
    ):
        return 0
    return min(*planned, here)


def _processes(device: str) -> int:
    """Return the processes of each machine; 0: one for each of its GPUs."""
    if device == "cpu":
        return 1
    import torch

    return 0 if torch.cuda.is_available() else 1


def _watch(plan: RunPlan, settings: Settings, *, quiet: bool) -> Callable[[dict[str, Any]], None]:
    """Report progress, once a second at most, and lost ranks at once."""
    losses: dict[int, list[float]] = {}
    last = [0.0]

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "notice":
            click.echo(f"warning: {record['message']}", err=True)
        elif record["kind"] == "lost":
            click.echo(
                f"warning: {plan.rank_name(record['rank'])} stopped in step {record['step']}: "
                f"{record['reason']}",
                err=True,
            )
        elif record["kind"] == "step" and record["loss"] is not None and not quiet:
            losses.setdefault(record["step"], []).append(record["loss"])
            done = len(losses[record["step"]]) == plan.workers
            if done and (time.monotonic() - last[0] >= 1 or record["step"] + 1 == settings.steps):
                last[0] = time.monotonic()
                click.echo(
                    f"step {record['step'] + 1}/{settings.steps}  loss "
                    f"{format_plain(sum(losses[record['step']]), 4)}",
                    err=True,
                )

    return watch


def _print(plan: RunPlan, comparison: dict[str, Any], folder: Path) -> None:
    from placer.report.kinds.trials.run import seconds_table, traffic_tables

    rounds = counted(comparison["rounds"], "round") + (
        "" if plan.exchange.local_steps == 1 else f" of {plan.exchange.local_steps} steps"
    )
    site_group = f"{counted(plan.workers, 'worker')} in {counted(len(plan.regions), 'region')}"
    exchange = (
        "no exchange"
        if plan.workers == 1
        else plan.exchange.strategy
        + (" overlapping the next step" if plan.exchange.overlap else "")
    )
    say(f"{plan.name}: {exchange}, {site_group}; {rounds} measured")
    show_blocks(seconds_table(comparison), *traffic_tables(comparison))
    losses = comparison["losses"]
    if losses:
        say(
            f"loss {format_plain(losses[0]['loss'], 4)} in step {losses[0]['step'] + 1}, "
            f"{format_plain(losses[-1]['loss'], 4)} in step {losses[-1]['step'] + 1}"
        )
    for remark in comparison["remarks"]:
        say(f"note  {remark}")
    click.echo(f"wrote {folder / 'run.jsonl'}", err=True)
    sys.stderr.flush()
