"""Target ``torchrun``: one script per group, to be started once on every machine of the group; and
what targets share that start a trainer of their own, which takes ``MODULE:FUNCTION``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import machines
from placer.launch.export.texts.files import heading, script
from placer.launch.export.texts.readme import (
    BESIDE,
    Section,
    copy_words,
    kept_sections,
    meeting_files,
    meeting_words,
    needs_words,
    readme,
    start_commands,
    unknown_address_words,
    watch_words,
    wish_words,
)
from placer.launch.export.texts.start import ASK_NODE, HERE, ONLY_NODE, Site, start_lines
from placer.workload.engines import ENGINES
from placer.workload.inner_plan import InnerPlan


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sh`` for each group."""
    return {
        **group_scripts(plan, "torchrun"),
        **meeting_files(plan, "torchrun"),
        "README.md": _readme(plan),
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


def _readme(plan: ExportPlan) -> str:
    meeting, runs = plan.manifest.rendezvous, plan.uses_runtime
    meets = meeting.method == "address"
    words = [
        "Copy this folder and the training script to every machine, then, on each, start the "
        "script of its group."
    ]
    if runs:
        words = [*needs_words(plan), "", *copy_words(plan), *words, *wish_words(arguments=True)]
    words += [*meeting_words(plan), *(unknown_address_words() if meets else [])]
    start = [*([f"export {meeting.address_variable}=ADDRESS"] if meets else [])]
    start += start_commands(plan, list(machines(plan)))
    watch = [
        "torchrun prints the output of its processes; the variables `PLACER_*` say what to expect "
        "and when to raise an alarm."
    ]
    end = [
        "End the script of one machine with Ctrl-C: the others stop with it. Then give the "
        "machines back."
    ]
    again = "the same lines with `--resume` behind the script's name, or with `PLACER_RESUME=1`."
    sections: list[Section] = [
        ("Launch", words, start),
        ("Watch", watch_words() if runs else watch, []),
        ("Tear down", end, []),
        *kept_sections(plan, again),
    ]
    return readme(plan, "torchrun", sections)


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
    plan: ExportPlan,
    target: str,
    start: Sequence[str],
    words: Sequence[str],
    variables: Mapping[str, dict[str, str]] | None = None,
) -> dict[str, str]:
    """Write ``GROUP.sh`` for each group, what machines need to meet, and the README; ``start`` puts
    the trainer and its options before the arguments of the script, and ``variables`` of a group are
    those that the options name beside the plan's own.
    """
    meeting = plan.manifest.rendezvous
    asks = [f"export {meeting.address_variable}=ADDRESS"] if meeting.method == "address" else []
    starts = [*asks, *start_commands(plan, [group.name for group in plan.manifest.groups])]
    end = "End torchrun with Ctrl-C on one machine of each world. Then give the machines back."
    sections: list[Section] = [
        ("Launch", [*words, "", *meeting_words(plan)], starts),
        ("Watch", [f"{target} prints loss and speed of each step."], []),
        ("Tear down", [end], []),
    ]
    return {
        **group_scripts(plan, target, start, variables),
        **meeting_files(plan, target),
        "README.md": readme(plan, target, sections),
    }
