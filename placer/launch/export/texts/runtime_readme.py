"""README sections about placer's runtime: what to copy, how to watch, what to do with the log."""

from __future__ import annotations

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.readme import Section
from placer.launch.export.texts.start import LOG_MARK, STEPS
from placer.version import DISTRIBUTION

WHEEL = f"{DISTRIBUTION.replace('-', '_')}-*.whl"
WHEN = "every 100 steps, at the end, and where possible when a rank is lost"
CALIBRATED = ("all-reduce", "none")
"""Strategies whose logs ``placer profile runs`` reads, without overlap."""


def out_folder(plan: ExportPlan) -> str:
    """Return the folder of log and checkpoints unless ``PLACER_OUT`` names another."""
    return f"{plan.manifest.name}-run"


def needs_words(plan: ExportPlan) -> list[str]:
    """Say what machines must have."""
    return [
        f"Each machine starts `placer run`, which trains what `{plan.train}` returns and does the "
        "exchange of the plan itself. It needs",
        f"Python 3.11, PyTorch and placer: `pip install torch ./{WHEEL}`. The wheel is made from "
        "placer's source, in its folder:",
        "`pip wheel --no-deps --wheel-dir FOLDER .`, FOLDER being this one (the project that is "
        "called placer on PyPI is another).",
    ]


def copy_words(plan: ExportPlan) -> list[str]:
    """Say what to put beside the scripts."""
    return [
        f"Put the module `{plan.module}` and what it imports into this folder, which also holds "
        "the manifest that all ranks read."
    ]


def kept_sections(plan: ExportPlan, again: str) -> list[Section]:
    """Write the sections about placer's runtime, if it is started, on machines that keep their
    files; ``again`` says what to do on each to go on, and ends with a full stop.
    """
    return [_log(plan), _resume(plan, again)] if plan.uses_runtime else []


def gone_sections(plan: ExportPlan, again: str) -> list[Section]:
    """Write the sections about placer's runtime, if it is started, where machines go with their
    files, or share them; ``again`` names what starts all ranks again.
    """
    return [_log(plan, stays=False), _restart(again)] if plan.uses_runtime else []


def wish_words(*, arguments: bool) -> list[str]:
    """Say how to ask for more steps and other options."""
    more = (
        "; other options of `placer run` may follow the script's name, the same on all machines"
        if arguments
        else ""
    )
    return [
        f"`PLACER_STEPS` is the number of optimizer steps, {STEPS} unless it is set: enough to "
        f"measure before more is spent{more}.",
        "If a machine's name does not resolve to its address in the shared network, set "
        "`GLOO_SOCKET_IFNAME` to that network's interface.",
    ]


def watch_words() -> list[str]:
    """Say what is seen of a run."""
    return [
        "Rank 0 prints steps and losses, and at the end compares what was predicted with what "
        "was measured.",
        "Raise an alarm below `PLACER_MIN_SAMPLES_PER_SECOND` or above `PLACER_MAX_ROUND_SECONDS` "
        "from exchange to exchange.",
    ]


def shared_log_section(plan: ExportPlan) -> Section:
    """Say where the log of ranks is that shared one machine."""
    log = f"{out_folder(plan)}/run.jsonl"
    words = [
        f"`{log}` is the log. All ranks shared one machine, so it shows only who was lost, not how "
        "fast the plan is."
    ]
    return "Measured", words, [f"placer whatif manifest.json --observed {log}"]


def _log(plan: ExportPlan, *, stays: bool = True) -> Section:
    out, first = out_folder(plan), plan.manifest.rendezvous.group
    words = [
        f"The log of a whole run is `{out}/run.jsonl` on rank 0's machine, the first of "
        f"`{first}`; the others hold their own part,",
        "`run-rank-N.jsonl`. After a run that stopped, collect the parts too and give each with "
        "an `--observed` of its own.",
    ]
    if not stays:
        words += [
            "Machines are given back with their files, so rank 0 prints its log at the end "
            "(after a failure every machine does), each line",
            f"after `{LOG_MARK.strip()}`: save the output as `printed.txt`, then `sed -n "
            f"'s/.*{LOG_MARK}//p' printed.txt > run.jsonl`.",
        ]
    log = f"{out}/run.jsonl" if stays else "run.jsonl"
    fit = [f"placer profile runs {log}    # fits links and speeds to what was measured"]
    exchange = plan.manifest.exchange
    fits = exchange.strategy in CALIBRATED and not exchange.overlap
    replan = f"placer whatif manifest.json --observed {log}    # keep the plan, or move"
    return "Measured", words, [replan, *(fit if fits else [])]


def _resume(plan: ExportPlan, how: str) -> Section:
    words = [
        f"Checkpoints lie in `{out_folder(plan)}/checkpoints` of each machine, {WHEN}. Machines of",
        "one world write them together: give those one place that all reach, a folder or a "
        "bucket, with `--checkpoints s3://bucket/run`.",
        f"Start all ranks again: {how} The run goes on from the newest step that all workers have.",
    ]
    return "Resume", words, []


def _restart(again: str) -> Section:
    words = [
        f"Checkpoints are written to `checkpoints` in `PLACER_OUT`, {WHEN}. They go with the "
        "machines",
        "unless `PLACER_OUT` is a folder on a volume that stays, that all of them mount, and on "
        "which files can grow. Then what is",
        f"started again ({again}) goes on from the newest: `PLACER_RESUME` is `auto`, so that it "
        "begins where there is none.",
    ]
    return "Resume", words, []
