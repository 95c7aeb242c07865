"""Placements that take the place of a plan's own: those that its files try by themselves, and those
that have files of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from placer.documents.manifest.types import Manifest
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.readme import plain

PLACES = "PLACER_ALTERNATIVES"
"""Variables that differ from place to place, as JSON: those of each place by its name."""
MANIFEST_FILE = "PLACER_MANIFEST_FILE"
"""The manifest of the placement that was taken."""


def fallback_file(number: int) -> str:
    """Return the name of the manifest of a fallback in the folder of an export."""
    return f"manifest-fallback-{number}.json"


def differing(
    variables: dict[str, str], others: Sequence[dict[str, str]]
) -> list[dict[str, str | None]]:
    """Return what each set of variables says where they are not all alike; None: not set."""
    every = [variables, *others]
    names = sorted({name for one in every for name in one})
    unlike = [name for name in names if len({one.get(name) for one in every}) > 1]
    return [{name: one.get(name) for name in unlike} for one in every]


def order_words(plan: ExportPlan, together: Collection[int]) -> str:
    """Write the section of a README that says in which order placements are tried; empty where
    there is one alone.

    Parameters
    ----------
    together
        Numbers of the fallbacks, from 1, that the files try by themselves.
    """
    if not plan.fallbacks:
        return ""
    lines = [
        "\n## If machines are not available\n",
        "The plan has fallbacks. Try them in this order:\n",
        f"1. {_words(plan.manifest)}: this folder",
    ]
    for number, other in enumerate(plan.fallbacks, start=1):
        where = (
            "this folder, tried automatically"
            if number in together
            else f"the folder whose name ends in `-fallback-{number}`; stop what runs here first"
        )
        lines.append(f"{number + 1}. {_words(other.manifest)}: {where}")
    return "\n".join(lines) + "\n"


def _words(manifest: Manifest) -> str:
    groups = [
        f"{group.machine_count} x {group.offer.instance_type} in {group.place} "
        f"({group.offer.market.replace('_', '-')})"
        for group in manifest.groups
    ]
    return plain(", ".join(groups))
