"""The README of an export, from the template of its target; and the commands and names in it."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence
from importlib.resources import files as packaged
from typing import Any

from placer.documents.manifest.manifest_reader import plain_name
from placer.documents.manifest.types import Manifest
from placer.launch.export.export_plan import IMAGE, ExportPlan
from placer.launch.export.texts.environment import SERVER, fabric_of, spans_places
from placer.launch.export.texts.files import comments, filled, heading, shown
from placer.launch.export.texts.start import STEPS
from placer.launch.mesh import Between, priced_software
from placer.version import DISTRIBUTION

BETWEEN: dict[Between, str] = {
    "": "",
    "torchft": "torchft exchanges between worlds: the first machine serves its lighthouse at "
    "`PLACER_RENDEZVOUS_PORT`, and the script uses torchft's Manager (0.2).",
    "hivemind": "The script uses hivemind between worlds: `--to hivemind` starts its peers.",
    "placer": "The script exchanges between worlds itself, at `PLACER_RENDEZVOUS_ADDRESS`, where "
    "its first process must listen; with `--train MODULE:FUNCTION` placer does it.",
}
"""Who exchanges between worlds."""
WHEEL = f"{DISTRIBUTION.replace('-', '_')}-*.whl"
CALIBRATED = ("all-reduce", "none")
"""Strategies whose logs ``placer profile runs`` reads, without overlap."""
KINDS = (
    "a folder that every machine mounts, `s3://BUCKET` (with boto3 and its credentials) or "
    "`etcd://HOST:PORT`"
)
"""Where machines may meet."""
_REGION = re.compile(r"[a-z0-9][a-z0-9-]*")


def readme(
    plan: ExportPlan, target: str, template: str = "", found: Sequence[str] = (), **values: Any
) -> str:
    """Write the README of an export from a template, by default that of the target; ``found`` says
    how rank 0 is found if nobody gives its address, and ``values`` are those that others do not
    have. Names from the plan are plain text: no mark-up of theirs takes effect.
    """
    facts = {**_facts(plan), **_meeting_facts(plan, found), **_world_facts(plan)}
    titles = {"target": target, "heading": [f"{plain(line)}  " for line in heading(plan, target)]}
    return "\n".join(filled(template or f"{target}.md", {**facts, **titles, **values})) + "\n"


def _facts(plan: ExportPlan) -> dict[str, Any]:
    """Return what templates say of a plan and of what is around its machines."""
    manifest, exchange = plan.manifest, plan.manifest.exchange
    fabrics = {fabric_of(group, manifest, plan.mesh) for group in manifest.groups}
    return {
        "name": manifest.name,
        "groups": _groups(manifest),
        "runs": plan.uses_runtime,
        "train": plan.train,
        "module": plan.module,
        "image": plan.image,
        "usual_image": IMAGE,
        "wheel": WHEEL,
        "steps": STEPS,
        "out": out_folder(plan),
        "fits": exchange.strategy in CALIBRATED and not exchange.overlap,
        "starts": _start_commands(manifest),
        "copy": _copy_commands(manifest),
        "source": plain(manifest.data.copied_from or ""),
        "spans": spans_places(manifest),
        "has_data": manifest.data.store is not None,
        "efa": "efa" in fabrics,
        "gpudirect": "gpudirect" in fabrics,
    }


def _meeting_facts(plan: ExportPlan, found: Sequence[str]) -> dict[str, Any]:
    """Return how the machines meet."""
    meeting, buckets = plan.manifest.rendezvous, plan.manifest.buckets
    told = (
        f"`{meeting.address_variable}` is an address of rank 0 (the first machine of "
        f"`{meeting.group}`) that every machine reaches."
    )
    return {
        "alone": meeting.method == "none",
        "in_buckets": meeting.method == "buckets",
        "meets": meeting.method == "address",
        "buckets": ", ".join(f"`{bucket.name}` ({plain(bucket.place)})" for bucket in buckets),
        "found": list(found or [told]),
        "kinds": KINDS,
        "address": meeting.address_variable,
        "first": meeting.group,
        "port": meeting.port,
    }


def _world_facts(plan: ExportPlan) -> dict[str, Any]:
    """Return which machines torchrun joins, and who exchanges between such worlds."""
    manifest, mesh = plan.manifest, plan.mesh
    world = mesh.worlds[0]
    outside = (
        f" Outside of them are {world.pp} stages (`PLACER_PIPELINE_PARALLEL`, with the layers of "
        f"`PLACER_PIECE_LAYERS`), and before the tensor ranks {world.cp} parts of each sequence "
        "(`PLACER_CONTEXT_PARALLEL`)."
    )
    priced = priced_software(manifest)
    return {
        "islands": manifest.has_islands,
        "one_world": len(mesh.worlds) == 1,
        "size": world.size,
        "copies": world.dp_replicate,
        "shards": world.dp_shard,
        "tp": world.tp,
        "divided": "" if world.pp == world.cp == 1 else outside,
        "several_places": len({group.place for group in manifest.groups}) > 1,
        "worlds": len(mesh.worlds),
        "why": mesh.why,
        "between": BETWEEN[mesh.between],
        "priced_with_hivemind": priced == "hivemind" and mesh.between != "hivemind",
    }


def plain(text: str) -> str:
    """Escape what has an effect in Markdown or HTML. Parentheses, braces and exclamation marks have
    none where square brackets are escaped, and stay: the text can be read in a terminal too.
    """
    escaped = html.escape(shown(text), quote=False)
    return "".join(f"\\{c}" if c in "\\`*_[]#|~$" else c for c in escaped)


def _groups(manifest: Manifest) -> list[str]:
    """Write the rows of the table of groups, with counts, machines and prices."""
    rows = []
    for group in manifest.groups:
        offer, last = group.offer, group.rank_offset + group.machine_count - 1
        each = f"islands of {group.machines} x " if group.is_island else ""
        cells = (
            group.name,
            group.place,
            f"{group.count} x {each}{offer.instance_type} ({offer.gpu_count} x {offer.gpu})",
            offer.market,
            f"{offer.usd_per_hour:g}",
            f"{group.rank_offset} to {last}",
        )
        rows.append("| " + " | ".join(map(plain, cells)) + " |")
    return rows


def _start_commands(manifest: Manifest) -> list[str]:
    """Start the script of each group; of a large one the first machine stands for all."""
    sizes = {group.name: group.machine_count for group in manifest.groups}
    sizes |= {} if manifest.server is None else {SERVER: 1}
    lines = []
    for name, count in sizes.items():
        several = f", and so on to PLACER_NODE={count - 1}" if count > 1 else ""
        node = "PLACER_NODE=0 " if count > 1 else ""
        lines.append(f"{node}bash {name}.sh    # on the first machine of {name}{several}")
    return lines


def _copy_commands(manifest: Manifest) -> list[str]:
    """Return the command that copies the data to where it was priced, if it does not lie there:
    between the buckets SOURCE and DATA, with the credentials of the environment.
    """
    data = manifest.data
    if data.copied_from is None or data.store is None:
        return []
    (source, there), (target, here) = (_split(store) for store in (data.copied_from, data.store))
    if source == target == "aws":
        return [f"aws s3 sync s3://SOURCE s3://DATA --source-region {there} --region {here}"]
    if source == target == "gcp":
        return ["gcloud storage rsync --recursive gs://SOURCE gs://DATA"]
    remotes = [_remote(provider, region) for provider, region in ((source, there), (target, here))]
    return [f"rclone sync {remotes[0]}:SOURCE {remotes[1]}:DATA"]


def _split(store: str) -> tuple[str, str]:
    provider, _, region = store.partition("/")
    return provider, region if _REGION.fullmatch(region) else "REGION"


def _remote(provider: str, region: str) -> str:
    """Return a remote of rclone that needs no configuration."""
    return {
        "aws": f":s3,provider=AWS,env_auth,region={region}",
        "gcp": ":gcs,env_auth",
        "azure": ":azureblob,env_auth",
    }.get(provider, "REMOTE")


MEET_FILE = "meet.py"
BESIDE = 'python3 "$(dirname -- "${BASH_SOURCE[0]}")/meet.py"'
"""Command of a script that lies beside the program."""


def meeting_program() -> str:
    """Return the program, which needs no other package."""
    folder = packaged("placer.launch.export.resources")
    return folder.joinpath("meeting_point.py").read_text(encoding="utf-8")


def meeting_files(plan: ExportPlan, target: str) -> dict[str, str]:
    """Return the program as a file, if the machines of the plan meet at an address."""
    if plan.manifest.rendezvous.method != "address":
        return {}
    return {MEET_FILE: comments(heading(plan, target)) + meeting_program()}


def meeting_bucket(plan: ExportPlan) -> str:
    """Return the name of a bucket of this plan alone: names of buckets are global."""
    return f"placer-meeting-{plain_name(plan.manifest.digest)[:16]}".strip("-")


def out_folder(plan: ExportPlan) -> str:
    """Return the folder of log and checkpoints unless ``PLACER_OUT`` names another."""
    return f"{plan.manifest.name}-run"


def fallback_file(number: int) -> str:
    """Return the name of the manifest of a fallback in the folder of an export."""
    return f"manifest-fallback-{number}.json"


def order_words(plan: ExportPlan, together: Collection[int]) -> str:
    """Say in which order placements are tried, and which of them (numbers from 1) together."""
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
