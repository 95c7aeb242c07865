"""Exporters of the launch manifest, one file per target: each is a pure function from a plan to
named texts.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from placer.errors import unknown
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.readme import fallback_file, order_words
from placer.launch.export.texts.start import check_runtime

OWN_TRAINERS = ("torchtitan", "megatron")
"""Targets whose trainer takes ``MODULE:NAME`` itself, in place of placer's runtime."""
TARGETS = {
    "torchrun": "one script a group",
    "slurm": "one script a group for sbatch, each of its worlds a job",
    "skypilot": "a job group for sky jobs launch (0.14 or newer)",
    "hivemind": "a bootstrap peer and one script a group (1.1)",
    "jobset": "one Kubernetes JobSet a place",
    "trainjob": "one Kubeflow TrainJob a group",
    "compose": "all workers as containers on this machine",
    "cloudformation": "Lambda aggregators and buckets, one stack a region of AWS",
    "torchtitan": "one script a group of islands (0.3), torchft (0.2) between them",
    "megatron": "settings of Megatron-Bridge (0.3) and one script a group of islands",
}
"""Module in `placer.launch.export.targets`, as on the command line, and what it writes, for --help;
a new target is one file and one line here.
"""


class Target(Protocol):
    """The interface of a target module."""

    def files(self, plan: ExportPlan) -> dict[str, str]:
        """Return texts by file name, the README among them, or refuse a plan that it cannot run."""


def tried_together(plan: ExportPlan, target: str) -> tuple[int, ...]:
    """Return the numbers, from 1, of the fallbacks that the files of a target try by themselves."""
    found = getattr(target_named(target), "tried_together", None)
    return () if found is None else tuple(found(plan))


def target_named(name: str) -> Target:
    """Find a target by name; `PlacerError` with the nearest name otherwise."""
    if name not in TARGETS:
        raise unknown("target", name, TARGETS)
    return cast(Target, importlib.import_module(f"placer.launch.export.targets.{name}"))


def export(plan: ExportPlan, target: str) -> dict[str, str]:
    """Return the files of a target (a name in `TARGETS`) by their names: always ``README.md`` and
    ``manifest.json``, and fallbacks that the target tries by itself.

    `PlacerError` if the target, or placer's runtime where it shall, cannot run what the manifest
    says.
    """
    module = target_named(target)
    if plan.uses_runtime and target not in OWN_TRAINERS:
        check_runtime(plan, target)
    files = {**module.files(plan), "manifest.json": plan.text}
    together = tried_together(plan, target)
    files["README.md"] += order_words(plan, together)
    beside = {fallback_file(number): plan.fallbacks[number - 1].text for number in together}
    return {**files, **beside}
