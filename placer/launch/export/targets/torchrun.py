"""Target ``torchrun``: one script per group, to be started once on every machine of the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts import runtime_readme as runtime
from placer.launch.export.texts.environment import machines
from placer.launch.export.texts.files import heading, script
from placer.launch.export.texts.readme import (
    BESIDE,
    Section,
    meeting_files,
    meeting_words,
    readme,
    start_commands,
    unknown_address_words,
)
from placer.launch.export.texts.start import ASK_NODE, HERE, ONLY_NODE, Site, start_lines


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
        words = [
            *runtime.needs_words(plan),
            "",
            *runtime.copy_words(plan),
            *words,
            *runtime.wish_words(arguments=True),
        ]
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
        ("Watch", runtime.watch_words() if runs else watch, []),
        ("Tear down", end, []),
        *runtime.kept_sections(plan, again),
    ]
    return readme(plan, "torchrun", sections)
