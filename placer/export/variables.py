"""Target ``env``: the plan as files of shell variables, one a group."""

from __future__ import annotations

from placer.export.environment import machines
from placer.export.heading import heading
from placer.export.plan import Plan
from placer.export.readme import meeting_words, readme
from placer.export.shell import script


def files(plan: Plan) -> dict[str, str]:
    """Return ``GROUP.env.sh`` for each group, to be sourced."""
    lines = heading(plan, "env")
    built = {f"{name}.env.sh": script(lines, environment, sourced=True) for name, environment in machines(plan).items()}
    first = next(iter(built))
    sections = [
        ("Launch", meeting_words(plan), [f"source {first}    # on each machine the file of its group", f"python {plan.train}"]),
        ("Watch", ["Raise an alarm below `PLACER_MIN_SAMPLES_PER_SECOND` or above `PLACER_MAX_ROUND_SECONDS`."], []),
        ("Tear down", ["Nothing was rented by these files: end the process and give the machines back where you rented them."], []),
    ]
    return {**built, "README.md": readme(plan, "env", sections)}
