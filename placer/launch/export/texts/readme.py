"""The README of an export: its contents, the commands to launch, watch and tear down, how machines
meet, the placements that take the place of the plan's own, and placer's runtime.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from importlib.resources import files as packaged

from placer.documents.manifest.manifest_reader import plain_name
from placer.documents.manifest.types import Manifest
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import copy_commands, surrounding_words
from placer.launch.export.texts.files import comments, heading, shown
from placer.launch.export.texts.start import LOG_MARK, STEPS
from placer.launch.mesh import Between, World, priced_software
from placer.version import DISTRIBUTION

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
    """Write the README of an export from its sections, launch, watch and tear down among them.
    Names from the plan are plain text: no mark-up of theirs takes effect.
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
    words = surrounding_words(manifest, plan.mesh)
    copy = copy_commands(manifest)
    moved = [(f"Data from {plain(manifest.data.copied_from or '')}", DATA, copy)] if copy else []
    return [*moved, (title, [*sentences, "", *words], commands), *others]


def plain(text: str) -> str:
    """Escape what has an effect in Markdown or HTML. Parentheses, braces and exclamation marks have
    none where square brackets are escaped, and stay: the text can be read in a terminal too.
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
    """Say what is open between the machines, and how rank 0 is found if nobody gives it."""
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
    told = (
        f"`{meeting.address_variable}` is an address of rank 0 (the first machine of "
        f"`{meeting.group}`) that every machine reaches."
    )
    return [
        *(found or [told]),
        "torch.distributed also opens ports of its own choice between all machines, without "
        "encryption or passwords:",
        f"use a private network (VPN, peering) over all places; port {meeting.port} alone is not "
        "enough.",
        *world_words(plan),
    ]


def _divided_words(world: World) -> str:
    if world.pp == world.cp == 1:
        return ""
    return (
        f" Outside of them are {world.pp} stages (`PLACER_PIPELINE_PARALLEL`, with the layers of "
        f"`PLACER_PIECE_LAYERS`), and before the tensor ranks {world.cp} parts of each sequence "
        "(`PLACER_CONTEXT_PARALLEL`)."
    )


def world_words(plan: ExportPlan) -> list[str]:
    """Say which machines torchrun joins, and who exchanges between such worlds."""
    mesh = plan.mesh
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
        if len({group.place for group in plan.manifest.groups}) > 1:
            words.append(
                "Each bucket of DDP waits for round trips between regions, so give DDP "
                '`bucket_cap_mb=int(os.environ["PLACER_DDP_BUCKET_MIB"])`, as it was priced.'
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


MEET_FILE = "meet.py"
BESIDE = 'python3 "$(dirname -- "${BASH_SOURCE[0]}")/meet.py"'
"""Command of a script that lies beside the program."""
KINDS = (
    "a folder that every machine mounts, `s3://BUCKET` (with boto3 and its credentials) or "
    "`etcd://HOST:PORT`"
)


def meeting_program() -> str:
    """Return the program, which needs no other package."""
    return (
        packaged("placer.launch.export.resources")
        .joinpath("meeting_point.py")
        .read_text(encoding="utf-8")
    )


def meeting_files(plan: ExportPlan, target: str) -> dict[str, str]:
    """Return the program as a file, if the machines of the plan meet at an address."""
    if plan.manifest.rendezvous.method != "address":
        return {}
    return {MEET_FILE: comments(heading(plan, target)) + meeting_program()}


def meeting_bucket(plan: ExportPlan) -> str:
    """Return the name of a bucket of this plan alone: names of buckets are global."""
    return f"placer-meeting-{plain_name(plan.manifest.digest)[:16]}".strip("-")


def unknown_address_words() -> list[str]:
    """Say what to do where nobody knows the address of rank 0 before its machine is there."""
    return [
        "If it is not known before the start, set `PLACER_MEETING` instead, on all machines, to "
        f"{KINDS}:",
        *meets_words(),
    ]


def meets_words() -> list[str]:
    """Say how the machines meet, and which address rank 0 tells."""
    return [
        "rank 0 writes its address there, and the others wait until rank 0 answers at it. Rank 0 "
        "gives the address of the interface",
        "`GLOO_SOCKET_IFNAME` if that is set (for a VPN), else `PLACER_OWN_ADDRESS` if that is "
        "set, else its address in the provider's network.",
    ]


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


WHEEL = f"{DISTRIBUTION.replace('-', '_')}-*.whl"
WHEN = "every 100 steps, at the end, and where possible when a rank is lost"
CALIBRATED = ("all-reduce", "none")
"""Strategies whose logs ``placer profile runs`` reads, without overlap."""


def out_folder(plan: ExportPlan) -> str:
    """Return the folder of log and checkpoints unless ``PLACER_OUT`` names another."""
    return f"{plan.manifest.name}-run"


def needs_words(plan: ExportPlan) -> list[str]:
    """Say what machines must have."""
    return [
        f"Each machine starts `placer run`, which trains what `{plan.train}` returns and does the "
        "exchange of the plan itself. It needs",
        f"Python 3.11, PyTorch and placer: `pip install torch ./{WHEEL}`. The wheel is made from "
        "placer's source, in its folder:",
        "`pip wheel --no-deps --wheel-dir FOLDER .`, FOLDER being this one (the project that is "
        "called placer on PyPI is another).",
    ]


def copy_words(plan: ExportPlan) -> list[str]:
    """Say what to put beside the scripts."""
    return [
        f"Put the module `{plan.module}` and what it imports into this folder, which also holds "
        "the manifest that all ranks read."
    ]


def kept_sections(plan: ExportPlan, again: str) -> list[Section]:
    """Write the sections about placer's runtime, if it is started, on machines that keep their
    files; ``again`` says what to do on each to go on, and ends with a full stop.
    """
    return [_log(plan), _resume(plan, again)] if plan.uses_runtime else []


def gone_sections(plan: ExportPlan, again: str) -> list[Section]:
    """Write the sections about placer's runtime, if it is started, where machines go with their
    files, or share them; ``again`` names what starts all ranks again.
    """
    return [_log(plan, stays=False), _restart(again)] if plan.uses_runtime else []


def wish_words(*, arguments: bool) -> list[str]:
    """Say how to ask for more steps and other options."""
    more = (
        "; other options of `placer run` may follow the script's name, the same on all machines"
        if arguments
        else ""
    )
    return [
        f"`PLACER_STEPS` is the number of optimizer steps, {STEPS} unless it is set: enough to "
        f"measure before more is spent{more}.",
        "If a machine's name does not resolve to its address in the shared network, set "
        "`GLOO_SOCKET_IFNAME` to that network's interface.",
    ]


def watch_words() -> list[str]:
    """Say what is seen of a run."""
    return [
        "Rank 0 prints steps and losses, and at the end compares what was predicted with what "
        "was measured.",
        "Raise an alarm below `PLACER_MIN_SAMPLES_PER_SECOND` or above `PLACER_MAX_ROUND_SECONDS` "
        "from exchange to exchange.",
    ]


def shared_log_section(plan: ExportPlan) -> Section:
    """Say where the log of ranks is that shared one machine."""
    log = f"{out_folder(plan)}/run.jsonl"
    words = [
        f"`{log}` is the log. All ranks shared one machine, so it shows only who was lost, not how "
        "fast the plan is."
    ]
    return "Measured", words, [f"placer whatif manifest.json --observed {log}"]


def _log(plan: ExportPlan, *, stays: bool = True) -> Section:
    out, first = out_folder(plan), plan.manifest.rendezvous.group
    words = [
        f"The log of a whole run is `{out}/run.jsonl` on rank 0's machine, the first of "
        f"`{first}`; the others hold their own part,",
        "`run-rank-N.jsonl`. After a run that stopped, collect the parts too and give each with "
        "an `--observed` of its own.",
    ]
    if not stays:
        words += [
            "Machines are given back with their files, so rank 0 prints its log at the end "
            "(after a failure every machine does), each line",
            f"after `{LOG_MARK.strip()}`: save the output as `printed.txt`, then `sed -n "
            f"'s/.*{LOG_MARK}//p' printed.txt > run.jsonl`.",
        ]
    log = f"{out}/run.jsonl" if stays else "run.jsonl"
    fit = [f"placer profile runs {log}    # fits links and speeds to what was measured"]
    exchange = plan.manifest.exchange
    fits = exchange.strategy in CALIBRATED and not exchange.overlap
    replan = f"placer whatif manifest.json --observed {log}    # keep the plan, or move"
    return "Measured", words, [replan, *(fit if fits else [])]


def _resume(plan: ExportPlan, how: str) -> Section:
    words = [
        f"Checkpoints lie in `{out_folder(plan)}/checkpoints` of each machine, {WHEN}. Machines of",
        "one world write them together: give those one place that all reach, a folder or a "
        "bucket, with `--checkpoints s3://bucket/run`.",
        f"Start all ranks again: {how} The run goes on from the newest step that all workers have.",
    ]
    return "Resume", words, []


def _restart(again: str) -> Section:
    words = [
        f"Checkpoints are written to `checkpoints` in `PLACER_OUT`, {WHEN}. They go with the "
        "machines",
        "unless `PLACER_OUT` is a folder on a volume that stays, that all of them mount, and on "
        "which files can grow. Then what is",
        f"started again ({again}) goes on from the newest: `PLACER_RESUME` is `auto`, so that it "
        "begins where there is none.",
    ]
    return "Resume", words, []
