"""Target ``torchrun``: one script per group, to be started once on every machine of the group."""

from __future__ import annotations

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.reference_runtime import HERE, Site
from placer.launch.export.texts.environment import machines
from placer.launch.export.texts.heading import heading
from placer.launch.export.texts.meeting import BESIDE, meeting_files, unknown_address_words
from placer.launch.export.texts.readme import Section, meeting_words, readme, start_commands
from placer.launch.export.texts.runtime_readme import (
    copy_words,
    log_section,
    needs_words,
    resume_section,
    watch_words,
    wish_words,
)
from placer.launch.export.texts.shell import script
from placer.launch.export.texts.start import ASK_NODE, ONLY_NODE, start_lines


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sh`` for each group."""
    return {
        **group_scripts(plan, "torchrun"),
        **meeting_files(plan, "torchrun"),
        "README.md": _readme(plan),
    }


def group_scripts(plan: ExportPlan, target: str) -> dict[str, str]:
    """Write the scripts of the groups by file name."""
    lines, built, site = heading(plan, target), {}, Site(enter=HERE, meet=BESIDE)
    for name, environment in machines(plan).items():
        node = ONLY_NODE if environment["PLACER_GROUP_SIZE"] == "1" else ASK_NODE
        built[f"{name}.sh"] = script(lines, environment, start_lines(plan, node, site))
    return built


def _readme(plan: ExportPlan) -> str:
    needs = (
        [f"export {plan.manifest.rendezvous.address_variable}=ADDRESS"]
        if plan.manifest.rendezvous.method == "address"
        else []
    )
    start = start_commands(plan, list(machines(plan)))
    if plan.uses_runtime:
        return readme(plan, "torchrun", _runtime_sections(plan, [*needs, *start]))
    words = [
        "Copy this folder and the training script to every machine, then, on each, start the "
        "script of its group.",
        *_meeting_words(plan),
    ]
    sections = [
        ("Launch", words, [*needs, *start]),
        (
            "Watch",
            [
                "torchrun prints the output of its processes; the variables `PLACER_*` say what "
                "to expect and when to raise an alarm."
            ],
            [],
        ),
        (
            "Tear down",
            [
                "End torchrun with Ctrl-C on one machine: the others stop with it. Then give the "
                "machines back."
            ],
            [],
        ),
    ]
    return readme(plan, "torchrun", sections)


def _meeting_words(plan: ExportPlan) -> list[str]:
    unknown = unknown_address_words() if plan.manifest.rendezvous.method == "address" else []
    return [*meeting_words(plan), *unknown]


def _runtime_sections(plan: ExportPlan, start: list[str]) -> list[Section]:
    words = [
        *needs_words(plan),
        "",
        *copy_words(plan),
        "Copy the folder to every machine, then, on each, start the script of its group.",
        *wish_words(arguments=True),
        *_meeting_words(plan),
    ]
    again = "the same lines with `--resume` behind the script's name, or with `PLACER_RESUME=1`."
    return [
        ("Launch", words, start),
        ("Watch", watch_words(), []),
        (
            "Tear down",
            [
                "End the script of one machine with Ctrl-C: the others stop with it. Then give "
                "the machines back."
            ],
            [],
        ),
        log_section(plan),
        resume_section(plan, again),
    ]
