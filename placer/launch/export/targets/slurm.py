"""Target ``slurm``: one batch script a group, whose worlds are the jobs of an array."""

from __future__ import annotations

import math

from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import job_steps, machines
from placer.launch.export.texts.files import filled, heading, script
from placer.launch.export.texts.readme import MEET_FILE, meeting_files, readme
from placer.launch.export.texts.start import Site, start_lines

NODE = "PLACER_NODE=$((${SLURM_ARRAY_TASK_ID:-0} * PLACER_WORLD_STEP + SLURM_NODEID))"
SITE = Site(meet=f"python3 {MEET_FILE}")
SLACK = 1.25
"""Jobs may take longer than predicted before they are ended: as for an alarm of a slow run."""


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sbatch`` for each group; nodes of a job, so of a world, are of one kind."""
    built, lines, several = {}, heading(plan, "slurm"), machines(plan)
    meets = plan.manifest.rendezvous.method == "address"
    for name, environment in several.items():
        if environment["PLACER_WORLD_STEP"] != environment["PLACER_WORLD_MACHINES"]:
            raise PlacerError(
                f"the machines of {name} are one world with those of other groups, but the nodes "
                "of a Slurm job are of one kind, in one cluster",
                "plan in one region with machines of one kind, or with --exchange diloco; or use "
                "--to torchrun",
            )
        shares = meets and len(several) * _jobs(environment) > 1
        body = filled("slurm.sh", {"shares": shares, "start": start_lines(plan, NODE, SITE)})
        built[f"{name}.sbatch"] = script(
            lines, environment, body, directives=_directives(plan, name, environment)
        )
    return {**built, **meeting_files(plan, "slurm"), "README.md": _readme(plan, list(built))}


def _jobs(environment: dict[str, str]) -> int:
    """Return the worlds of a group, each a job of the array."""
    return int(environment["PLACER_GROUP_SIZE"]) // int(environment["PLACER_WORLD_STEP"])


def _directives(plan: ExportPlan, name: str, environment: dict[str, str]) -> list[str]:
    """List the options of sbatch; nothing of them is a user's text."""
    jobs, spot = _jobs(environment), environment["PLACER_MARKET"] != "on_demand"
    group = next((g for g in plan.manifest.groups if g.name == name), None)
    gpus = 0 if group is None or group.on_cpu else group.offer.gpu_count
    minutes = job_minutes(plan)
    return [
        f"--job-name={plan.manifest.name}",
        f"--nodes={environment['PLACER_WORLD_STEP']}",
        "--ntasks-per-node=1",
        "--exclusive",
        *([f"--gpus-per-node={gpus}"] if gpus else []),
        *([f"--array=0-{jobs - 1}"] if jobs > 1 else []),
        *([] if minutes is None else [f"--time={minutes}"]),
        *(["--requeue", "--open-mode=append"] if spot else []),
    ]


def job_minutes(plan: ExportPlan) -> int | None:
    """Return the minutes after which a job may be ended; None: nobody said how much it trains."""
    steps, exchange = job_steps(plan.manifest), plan.manifest.exchange
    if steps is None:
        return None
    round_s = plan.manifest.expected.step_seconds["total"]
    return math.ceil(steps / exchange.local_steps * round_s * SLACK / 60)


def _readme(plan: ExportPlan, scripts: list[str]) -> str:
    found = [
        "The first node of a job has the first machine of its world; jobs of one cluster find rank "
        "0 by the folder `meeting`.",
        "Jobs of several clusters need `PLACER_RENDEZVOUS_ADDRESS`, or a `PLACER_MEETING` that all "
        "reach.",
    ]
    return readme(
        plan,
        "slurm",
        default_time=job_steps(plan.manifest) is None,
        arguments=True,
        found=found,
        script=scripts[0],
        submits=[f"sbatch {name}" for name in scripts],
        again="submit them with `--resume` behind the script's name.",
    )
