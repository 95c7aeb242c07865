"""Target ``env``: the plan as files of shell variables, one per group."""

from __future__ import annotations

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import machines
from placer.launch.export.texts.heading import heading
from placer.launch.export.texts.readme import Section, meeting_words, readme
from placer.launch.export.texts.runtime_readme import (
    copy_words,
    log_section,
    needs_words,
    out_folder,
    resume_section,
    watch_words,
)
from placer.launch.export.texts.shell import script


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.env.sh`` for each group, to be sourced."""
    lines = heading(plan, "env")
    built = {
        f"{name}.env.sh": script(lines, environment, sourced=True)
        for name, environment in machines(plan).items()
    }
    first = next(iter(built))
    if plan.uses_runtime:
        return {**built, "README.md": readme(plan, "env", _runtime_sections(plan, first))}
    sections = [
        (
            "Launch",
            meeting_words(plan),
            [f"source {first}    # on each machine the file of its group", f"python {plan.train}"],
        ),
        (
            "Watch",
            [
                (
                    "Raise an alarm below `PLACER_MIN_SAMPLES_PER_SECOND` or above "
                    "`PLACER_MAX_ROUND_SECONDS`."
                )
            ],
            [],
        ),
        (
            "Tear down",
            [
                (
                    "Nothing was rented by these files: end the process and give the machines back "
                    "where you rented them."
                )
            ],
            [],
        ),
    ]
    return {**built, "README.md": readme(plan, "env", sections)}


def _runtime_sections(plan: ExportPlan, first: str) -> list[Section]:
    meeting = plan.manifest.rendezvous
    words = [
        *needs_words(plan),
        "",
        *copy_words(plan),
        *meeting_words(plan),
        "RANK is `PLACER_RANK_OFFSET` plus the number in the group.",
    ]
    address = (
        f"export "
        f"{meeting.address_variable}={'ADDRESS' if meeting.method == 'address' else '127.0.0.1'}"
    )
    run = (
        f"placer run manifest.json --train {plan.train} --rank RANK --steps 20 --out "
        f"{out_folder(plan)}"
    )
    return [
        (
            "Launch",
            words,
            [f"source {first}    # on each machine the file of its group", address, run],
        ),
        ("Watch", watch_words(), []),
        (
            "Tear down",
            [
                (
                    "Nothing was rented by these files: end the process and give the machines back "
                    "where you rented them."
                )
            ],
            [],
        ),
        log_section(plan),
        resume_section(plan, "the same command with `--resume`."),
    ]
