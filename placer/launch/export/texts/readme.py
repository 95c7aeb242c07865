"""The README of an export: its contents, and the commands to launch, watch and tear down."""

from __future__ import annotations

import html
from collections.abc import Sequence

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.surroundings import copy_commands, surrounding_words
from placer.launch.export.texts.heading import heading, shown
from placer.launch.mesh import Between, World, mesh_of, priced_software

DATA = [
    "The plan reads its data where it trains. Copy it once, before the start; SOURCE and DATA are "
    "the buckets."
]
BETWEEN: dict[Between, str] = {
    "": "",
    "torchft": "torchft exchanges between worlds: the first machine serves its lighthouse at "
    "`PLACER_RENDEZVOUS_PORT`, and the script uses torchft's Manager (0.2).",
    "hivemind": "The script uses hivemind between worlds: `--to hivemind` starts its peers.",
    "placer": "The script exchanges between worlds itself, at `PLACER_RENDEZVOUS_ADDRESS`, where "
    "its first process must listen; with `--train MODULE:FUNCTION` placer does it.",
}
"""Who exchanges between worlds."""
Section = tuple[str, Sequence[str], Sequence[str]]
"""Title, sentences, and commands of one block of shell."""


def readme(plan: ExportPlan, target: str, sections: Sequence[Section]) -> str:
    """Write the README of an export.

    Parameters
    ----------
    plan
        Names from it are shown as plain text: no mark-up of theirs takes effect.
    target
        Name of the target.
    sections
        In order; launch, watch and tear down among them.
    """
    parts = [
        f"# {plan.manifest.name}: {target}\n",
        *[f"{plain(line)}  " for line in heading(plan, target)],
        "",
        _groups(plan),
    ]
    for title, sentences, commands in _with_data(plan, sections):
        parts += [f"\n## {title}\n", *sentences]
        if commands:
            parts += ["```bash", *commands, "```"]
    return "\n".join(parts) + "\n"


def _with_data(plan: ExportPlan, sections: Sequence[Section]) -> list[Section]:
    """Add what machines need to the first section, and the copy of the data before it."""
    manifest = plan.manifest
    (title, sentences, commands), *others = sections
    words = surrounding_words(manifest, mesh_of(manifest))
    copy = copy_commands(manifest)
    moved = [(f"Data from {plain(manifest.data.copied_from or '')}", DATA, copy)] if copy else []
    return [*moved, (title, [*sentences, "", *words], commands), *others]


def plain(text: str) -> str:
    """Escape what has an effect in Markdown or HTML.

    Parentheses, braces and exclamation marks have none where square brackets are escaped. They stay
    as they are, so that the text can be read in a terminal too.
    """
    escaped = html.escape(shown(text), quote=False)
    return "".join(f"\\{c}" if c in "\\`*_[]#|~$" else c for c in escaped)


def _groups(plan: ExportPlan) -> str:
    """Write a table of the groups with counts, machines and prices."""
    rows = [
        "| group | place | machines | market | USD/h each | ranks |",
        "|---|---|---|---|---|---|",
    ]
    for group in plan.manifest.groups:
        last = group.rank_offset + group.machine_count - 1
        each = f"islands of {group.machines} x " if group.is_island else ""
        machine = (
            f"{group.count} x {each}{group.offer.instance_type} ({group.offer.gpu_count} x "
            f"{group.offer.gpu})"
        )
        cells = (
            group.name,
            group.place,
            machine,
            group.offer.market,
            f"{group.offer.usd_per_hour:g}",
            f"{group.rank_offset} to {last}",
        )
        rows.append("| " + " | ".join(plain(cell) for cell in cells) + " |")
    return "\n".join(rows)


def start_commands(plan: ExportPlan, names: Sequence[str]) -> list[str]:
    """Start the script of each group; of a large one the first machine stands for all."""
    sizes = {group.name: group.machine_count for group in plan.manifest.groups}
    lines = []
    for name in names:
        count = sizes.get(name, 1)
        several = f", and so on to PLACER_NODE={count - 1}" if count > 1 else ""
        node = "PLACER_NODE=0 " if count > 1 else ""
        lines.append(f"{node}bash {name}.sh    # on the first machine of {name}{several}")
    return lines


def meeting_words(plan: ExportPlan, found: Sequence[str] = ()) -> list[str]:
    """Say how the machines find each other, and what has to be open between them.

    Parameters
    ----------
    plan
        Of the export.
    found
        How the address of rank 0 is found, if nobody has to give it.
    """
    meeting = plan.manifest.rendezvous
    if meeting.method == "none":
        return ["One machine: nothing is exchanged."]
    if meeting.method == "buckets":
        names = ", ".join(
            f"`{bucket.name}` ({plain(bucket.place)})" for bucket in plan.manifest.buckets
        )
        return [
            f"The workers meet in buckets, which must exist before the start: {names}. Names of "
            "buckets are global:",
            "if one is taken, change it in the manifest and export again with `--edited`. On "
            "AWS, `placer export --to cloudformation`",
            "writes stacks of the buckets and the aggregator: deploy them first.",
        ]
    return [
        *(
            found
            or [
                f"`{meeting.address_variable}` is an address of rank 0 (the first machine of "
                f"`{meeting.group}`) that every machine reaches."
            ]
        ),
        "torch.distributed also opens ports of its own choice between all machines, without "
        "encryption or passwords:",
        f"use a private network (VPN, peering) over all places; port {meeting.port} alone is not "
        "enough.",
        *world_words(plan),
    ]


def _divided_words(world: World) -> str:
    """Say in which order ranks divide stages and sequences."""
    if world.pp == world.cp == 1:
        return ""
    return (
        f" Outside of them are {world.pp} stages (`PLACER_PIPELINE_PARALLEL`, with the layers of "
        f"`PLACER_PIECE_LAYERS`), and before the tensor ranks {world.cp} parts of each sequence "
        "(`PLACER_CONTEXT_PARALLEL`)."
    )


def world_words(plan: ExportPlan) -> list[str]:
    """Say which machines torchrun joins, and who exchanges between such worlds."""
    mesh = mesh_of(plan.manifest)
    words = [""]
    if plan.manifest.has_islands:
        words.append(
            "Machines of one island have ranks in a row and must stand in one zone: ask the "
            "provider for a placement group."
        )
    if plan.uses_runtime:
        return words if len(words) > 1 else []
    if len(mesh.worlds) == 1:
        world = mesh.worlds[0]
        words.append(
            f"torchrun joins all machines to one world of {world.size} processes: "
            f"{world.dp_replicate} copies x {world.dp_shard} shards x {world.tp} tensor ranks "
            "(`PLACER_DP_REPLICATE`, `PLACER_DP_SHARD`, `PLACER_TENSOR_PARALLEL`)."
            + _divided_words(world)
        )
    else:
        words += [
            f"torchrun joins {len(mesh.worlds)} worlds ({mesh.why}). Each meets at the address of "
            "its first machine, `PLACER_WORLD_ADDRESS`,",
            "port `PLACER_WORLD_PORT`. A script learns from `PLACER_WORLD` of `PLACER_WORLDS` in "
            f"which it is. {BETWEEN[mesh.between]}",
        ]
    if priced_software(plan.manifest) == "hivemind" and mesh.between != "hivemind":
        words.append(
            "The plan was priced with hivemind, and torch.distributed sends the same bytes here: "
            "expect other speeds, or use `--to hivemind`."
        )
    return [
        *words,
        "`PLACER_SAMPLES` has, for each world, the samples of each data-parallel rank in a step; "
        "`PLACER_BACKEND` is the backend of torch.distributed.",
    ]
