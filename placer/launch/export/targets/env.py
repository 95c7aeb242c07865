"""Target ``env``: the plan as files of shell variables, one per group."""

from __future__ import annotations

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts import runtime_readme as runtime
from placer.launch.export.texts.environment import machines
from placer.launch.export.texts.files import heading, script
from placer.launch.export.texts.readme import Section, meeting_words, readme
from placer.launch.export.texts.start import ASK_NODE, ONLY_NODE, sourced_lines


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.env.sh`` for each group, to be sourced."""
    lines, built = heading(plan, "env"), {}
    for name, environment in machines(plan).items():
        node = ONLY_NODE if environment["PLACER_GROUP_SIZE"] == "1" else ASK_NODE
        tail = sourced_lines(plan, node)
        built[f"{name}.env.sh"] = script(lines, environment, tail, sourced=True)
    first = next(iter(built))
    meeting = plan.manifest.rendezvous
    words = meeting_words(plan)
    start = [
        *([f"export {meeting.address_variable}=ADDRESS"] if meeting.method == "address" else []),
        "export PLACER_NODE=0    # the number of this machine in its group",
        f"source {first}    # on each machine the file of its group",
    ]
    if plan.uses_runtime:
        words = [*runtime.needs_words(plan), "", *runtime.copy_words(plan), *words]
        words.append("The file sets `PLACER_NODE` and `PLACER_RANK`.")
        if meeting.method == "none":
            start.insert(0, f"export {meeting.address_variable}=127.0.0.1")
        start.append(
            f'placer run manifest.json --train {plan.train} --rank "$PLACER_RANK" --steps 20 --out '
            f"{runtime.out_folder(plan)}"
        )
    else:
        words.append(
            "The file sets `PLACER_NODE`, `PLACER_RANK` and, as `PET_*`, the options of torchrun."
        )
        start.append(f"torchrun {plan.train}")
    end = [
        "Nothing was rented by these files: end the process and give the machines back where you "
        "rented them."
    ]
    sections: list[Section] = [
        ("Launch", words, start),
        ("Watch", runtime.watch_words() if plan.uses_runtime else runtime.watch_words()[-1:], []),
        ("Tear down", end, []),
        *runtime.kept_sections(plan, "the same command with `--resume`."),
    ]
    return {**built, "README.md": readme(plan, "env", sections)}
