"""Target ``torchrun``: one script per group, to be started once on every machine of the group; and
what targets share that start a trainer of their own, which takes ``MODULE:FUNCTION``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import job_steps, machines
from placer.launch.export.texts.files import filled, heading, script
from placer.launch.export.texts.readme import BESIDE, meeting_files, readme
from placer.launch.export.texts.start import ASK_NODE, HERE, ONLY_NODE, Site, start_lines
from placer.workload.engines import ENGINES
from placer.workload.inner_plan import InnerPlan


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sh`` for each group."""
    again = "the same lines with `--resume` behind the script's name, or with `PLACER_RESUME=1`."
    return {
        **group_scripts(plan, "torchrun"),
        **meeting_files(plan, "torchrun"),
        "README.md": readme(plan, "torchrun", arguments=True, again=again),
    }


def group_scripts(
    plan: ExportPlan,
    target: str,
    trainer: Sequence[str] = (),
    more: Mapping[str, dict[str, str]] | None = None,
) -> dict[str, str]:
    """Write the scripts of the groups by file name; ``more`` are variables of a group by its name,
    which a `trainer` needs beside the plan's own (`start_lines`).
    """
    lines, built, site = heading(plan, target), {}, Site(enter=HERE, meet=BESIDE)
    for name, environment in machines(plan).items():
        node = ONLY_NODE if environment["PLACER_GROUP_SIZE"] == "1" else ASK_NODE
        told = {**environment, **(more or {}).get(name, {})}
        built[f"{name}.sh"] = script(lines, told, start_lines(plan, node, site, trainer))
    return built


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainer:
    """A trainer: its target and engine, an entry that ``--train`` takes, who may exchange between
    worlds, what it calls precisions, and whether plain stages take a microbatch each at least.
    """

    target: str
    example: str
    between: tuple[str, ...]
    precisions: Mapping[str, str]
    fewest_microbatches: bool = False


def check_trainable(plan: ExportPlan, trainer: Trainer) -> None:
    """Refuse plans of which a trainer would train something else."""
    manifest, mesh, name = plan.manifest, plan.mesh, trainer.target
    if not plan.uses_runtime:
        raise PlacerError(
            f"{name} trains an entry of its registry, not a script",
            f"give --train MODULE:FUNCTION, such as --train {trainer.example}",
        )
    for group in manifest.groups:
        if group.inner is None or group.on_cpu:
            raise PlacerError(
                f"{name} needs an inner plan on GPUs, {group.name} has none",
                "plan a model with an architecture, or use --to torchrun",
            )
    lack = ENGINES[name].lack(manifest.exchange, manifest.groups)
    if lack is not None:
        raise PlacerError(f"{name} does not do {lack.part}", f"{lack.remedy}, or use --to torchrun")
    if mesh.between not in trainer.between:
        several = ", or torchft between several" if "torchft" in trainer.between else ""
        raise PlacerError(
            f"{name} has one device mesh{several}: {mesh.why}",
            "plan with --exchange all-reduce, or use --to torchrun",
        )
    _check_batch(plan, trainer)


def _check_batch(plan: ExportPlan, trainer: Trainer) -> None:
    """Refuse a batch of which a trainer would train another part: all ranks get equally many whole
    micro-batches, and interleaved stages a multiple of their number.
    """
    manifest = plan.manifest
    worlds, batch = plan.mesh.worlds, manifest.exchange.target_batch_size
    ranks = sum(len(world.samples) for world in worlds)
    plans = [inner_of(group) for group in manifest.groups]
    each = max(inner.microbatch for inner in plans) * ranks
    stages = plans[0].pipeline
    once = each * (stages if plans[0].virtual_stages > 1 else 1)
    if batch % once:
        near = sorted({max(1, batch // once) * once, (batch // once + 1) * once})
        raise PlacerError(
            f"{trainer.target}'s {ranks} ranks take {once} sequences at once, which do not divide "
            f"the batch of {batch}",
            f"plan with --tbs {' or '.join(map(str, near))}",
        )
    if trainer.fewest_microbatches and batch < each * stages:
        raise PlacerError(
            f"{trainer.target} gives {stages} stages as many microbatches at least, and the batch "
            f"of {batch} has {batch // each}",
            f"plan with --tbs {each * stages}",
        )
    if len({samples for world in worlds for samples in world.samples}) > 1:
        raise PlacerError(
            f"{trainer.target} gives all ranks equal parts of the batch, the plan gives fast ones "
            "more",
            "plan with machines of one kind, or use --to torchrun",
        )


def inner_of(group: Group) -> InnerPlan:
    """Return the inner plan of a group that was checked."""
    return group.inner or InnerPlan()


def trainer_files(
    plan: ExportPlan, target: str, variables: Mapping[str, dict[str, str]] | None = None
) -> dict[str, str]:
    """Write ``GROUP.sh`` for each group, what machines need to meet, and the README; the target's
    template of shell puts the trainer and its options before the arguments of the script, and
    ``variables`` of a group are those that the options name beside the plan's own.
    """
    inner = inner_of(plan.manifest.groups[0])
    values = {
        "train": plan.train,
        "job": job_steps(plan.manifest) is not None,
        "stages": inner.pipeline > 1,
        "divides_more": inner.divides_more,
        "several": bool(plan.mesh.between),
    }
    needs = filled(f"{target}.md", values)
    return {
        **group_scripts(plan, target, filled(f"{target}.sh", values), variables),
        **meeting_files(plan, target),
        "README.md": readme(plan, target, "trainer.md", needs=needs),
    }
