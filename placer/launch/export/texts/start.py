"""Fixed shell lines that start the training on one machine: torchrun, or placer's own runtime
(``--train module:function``); every value comes from a variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placer.documents.manifest.types import check_executable
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.stacks import check_aggregators
from placer.launch.export.texts.environment import job_steps, overlay_lines
from placer.launch.export.texts.files import require
from placer.launch.mesh import Mesh
from placer.problem.exchange import traits

STEPS = 20
"""Optimizer steps unless ``PLACER_STEPS`` says otherwise, as in ``placer run``."""
WISHES = {"PLACER_STEPS": str(STEPS), "PLACER_RESUME": "auto"}
"""What may be said at launch where a script gets no arguments; clusters restart what fails, which
then goes on if it can.
"""
LOG_MARK = "placer-log "
"""Begins each line of a run log that a machine prints before it goes."""
HERE = 'cd -- "$(dirname -- "${BASH_SOURCE[0]}")"'
"""Manifest and module lie beside the script, wherever it is started from."""
LOOPBACK = 'PLACER_RENDEZVOUS_ADDRESS="${PLACER_RENDEZVOUS_ADDRESS:-127.0.0.1}"'
RUNTIME = [
    "if ! command -v placer > /dev/null; then",
    '  echo "placer is not installed on this machine: README.md of the export says how" >&2',
    "  exit 2",
    "fi",
    "unset WORLD_SIZE",  # a cluster may have counted the world for one group alone
    'MASTER_ADDR="$PLACER_RENDEZVOUS_ADDRESS"',
    'MASTER_PORT="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}"',
    "export MASTER_ADDR MASTER_PORT",
    'case "${PLACER_RESUME:-0}" in',
    '  1) set -- --resume "$@" ;;',
    '  auto) set -- --resume-if-any "$@" ;;',
    "  0) ;;",
    '  *) echo "PLACER_RESUME is $PLACER_RESUME: give 0, 1 or auto" >&2; exit 2 ;;',
    "esac",
    'PLACER_OUT="${PLACER_OUT:-$PLACER_RUN-run}"',
]
PRINT_LOG = [
    'if [ "$PLACER_RANK" = 0 ]; then log=run.jsonl; else log="run-rank-$PLACER_RANK.jsonl"; fi',
    'if [ "$PLACER_RANK" = 0 ] || [ "$code" != 0 ]; then',
    f'  sed "s/^/{LOG_MARK}/" "$PLACER_OUT/$log" || true',
    "fi",
    'exit "$code"',
]
"""Rank 0 has the records of all after a whole run; after one that stopped each machine has its own,
in a folder that they may share.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """The machine on which a script runs; fixed words of a target.

    ``manifest`` is its path there, after the line ``enter``. Where files do not ``stay`` when the
    run has ended, its log is printed. ``rank`` is one, or from one to another; ``options``: more
    words. ``meet`` prints the address of rank 0 where ``PLACER_MEETING`` is set; empty: it is
    always given.
    """

    enter: str = ""
    manifest: str = "manifest.json"
    stays: bool = True
    rank: str = '"$PLACER_RANK"'
    options: str = ""
    meet: str = ""


def runtime_lines(plan: ExportPlan, site: Site, ask_address: Sequence[str]) -> list[str]:
    """Write the lines that start ``placer run``, after those that ask for rank 0's address."""
    alone = plan.manifest.rendezvous.method == "none"
    words = f"--rank {site.rank} {site.options}".rstrip()
    first = f'placer run {site.manifest} --train "$PLACER_TRAIN" {words} \\'
    last = f'  --steps "${{PLACER_STEPS:-{STEPS}}}" --out "$PLACER_OUT" "$@"'
    stays = [f"exec {first}", last]
    goes = ["code=0", first, f"{last} || code=$?", *PRINT_LOG]
    return [
        *([LOOPBACK] if alone else ask_address),
        *([site.enter] if site.enter else []),
        *RUNTIME,
        *(stays if site.stays else goes),
    ]


def check_runtime(plan: ExportPlan, target: str) -> None:
    """Refuse what placer's runtime cannot do, before a machine is rented for it."""
    manifest = plan.manifest
    if target == "hivemind":
        raise PlacerError(
            "hivemind trains with a script, not with placer run",
            "give --train FILE, or use --to torchrun",
        )
    if plan.edited:
        raise PlacerError(
            "placer run takes no manifest that was edited by hand",
            "plan again with --manifest, or give --train a script",
        )
    check_executable(manifest, "the manifest")
    # With compose every rank is a container of this machine, the function as well.
    if target != "compose" and traits(manifest.exchange.strategy).hub == "function":
        check_aggregators(plan)


ASK_NODE = require("PLACER_NODE", "set it to the number of this machine in its group, from 0")
ONLY_NODE = 'PLACER_NODE="${PLACER_NODE:-0}"'
CHECK_NODE = [
    'case "$PLACER_NODE" in',
    '  "" | *[!0-9]* | 0?* | ??????????*) echo "PLACER_NODE is not a number from 0: '
    '$PLACER_NODE" >&2; exit 2 ;;',
    "esac",
    'if [ "$PLACER_NODE" -ge "$PLACER_GROUP_SIZE" ]; then',
    '  echo "PLACER_NODE is $PLACER_NODE, but $PLACER_GROUP has only $PLACER_GROUP_SIZE, '
    'counted from 0" >&2',
    "  exit 2",
    "fi",
    "PLACER_RANK=$((PLACER_RANK_OFFSET + PLACER_NODE))",
    "export PLACER_NODE PLACER_RANK",
]
ASK_ADDRESS = require(
    "PLACER_RENDEZVOUS_ADDRESS", "set it to an address of rank 0 that every machine reaches"
)
JOB = ['PLACER_STEPS="${PLACER_STEPS:-$PLACER_JOB_STEPS}"', "export PLACER_STEPS"]
"""Steps of the whole job, unless others are asked for."""
PORT = 'port="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}"'
COUNT_WORLD = [
    "PLACER_WORLD=$((PLACER_WORLD_OFFSET + PLACER_NODE / PLACER_WORLD_STEP))",
    "first=$((PLACER_WORLD_FIRST + PLACER_NODE / PLACER_WORLD_STEP * PLACER_WORLD_STEP))",
    "PLACER_WORLD_RANK=$((PLACER_RANK - first))",
    "export PLACER_WORLD PLACER_WORLD_RANK",
]
"""Number the world of this machine, and the machine in it."""
ONE_WORLD = ['PLACER_WORLD_ADDRESS="$PLACER_RENDEZVOUS_ADDRESS"', 'PLACER_WORLD_PORT="$port"']
SEVERAL_WORLDS = [
    'PLACER_WORLD_PORT="${PLACER_WORLD_PORT:-$((port + 1 + PLACER_WORLD))}"',
    'if [ "$PLACER_WORLD_MACHINES" = 1 ]; then',
    "  PLACER_WORLD_ADDRESS=127.0.0.1",
    'elif [ "$first" = 0 ]; then',
    '  PLACER_WORLD_ADDRESS="${PLACER_WORLD_ADDRESS:-${PLACER_RENDEZVOUS_ADDRESS:-}}"',
    "fi",
]
"""Each world meets at its first machine, beside the port at which the worlds find each other."""
ASK_WORLD = require(
    "PLACER_WORLD_ADDRESS",
    "set it to an address of the first machine of this world that its others reach",
)
TELL_WORLD = "export PLACER_WORLD_ADDRESS PLACER_WORLD_PORT"
LIGHTHOUSE = [
    'TORCHFT_LIGHTHOUSE="http://$PLACER_RENDEZVOUS_ADDRESS:$port"',
    "export TORCHFT_LIGHTHOUSE",
    'if [ "$PLACER_RANK" = 0 ]; then',
    '  torchft_lighthouse --min_replicas "$PLACER_QUORUM" --bind "[::]:$port" \\',
    '    --join_timeout_ms "$PLACER_GRACE_MS" &',
    "  lighthouse=$!",
    "  trap 'kill \"$lighthouse\"' EXIT",
    "fi",
]
"""The first machine of all serves torchft's lighthouse, by which the worlds find each other."""
JOINED = [
    'torchrun --nnodes="$PLACER_WORLD_MACHINES" --node-rank="$PLACER_WORLD_RANK" \\',
    '  --nproc-per-node="$PLACER_PROCESSES" --master-addr="$PLACER_WORLD_ADDRESS" \\',
    '  --master-port="$PLACER_WORLD_PORT" "$@"',
]
ALONE = ['torchrun --standalone --nproc-per-node="$PLACER_PROCESSES" "$@"']
"""A world of one machine: torchrun takes a free port."""
SCRIPT = ['set -- "$PLACER_TRAIN" "$@"']


def start_lines(plan: ExportPlan, node: str, site: Site, trainer: Sequence[str] = ()) -> list[str]:
    """Write the lines that number the machine and start torchrun, or placer's own runtime: ``node``
    sets ``PLACER_NODE``, and ``trainer`` puts one before the arguments of the script, in place of
    what the plan trains.
    """
    if plan.uses_runtime and not trainer:
        asks = run_address_lines(plan, site) or [ASK_ADDRESS]
        return [*node_lines(plan, node), *runtime_lines(plan, site, asks)]
    start = torchrun_lines(plan, trainer or SCRIPT)
    return [*node_lines(plan, node), *world_lines(plan, site), *start]


def node_lines(plan: ExportPlan, node: str) -> list[str]:
    """Write the lines that number the machine, and refuse to start without an overlay."""
    return [
        node,
        *CHECK_NODE,
        *([] if job_steps(plan.manifest) is None else JOB),
        *overlay_lines(plan.manifest, plan.mesh),
    ]


def torchrun_lines(plan: ExportPlan, what: Sequence[str]) -> list[str]:
    """Write the lines that start torchrun; ``what`` goes before the script's arguments."""
    mesh = plan.mesh
    first, *more = ALONE if all_alone(mesh) else JOINED
    if mesh.between != "torchft":
        return [*what, f"exec {first}", *more]
    return [*LIGHTHOUSE, *what, first, *more]


def all_alone(mesh: Mesh) -> bool:
    """Return whether every world is one machine."""
    return all(world.machine_count == 1 for world in mesh.worlds)


def world_lines(plan: ExportPlan, site: Site) -> list[str]:
    """Write the lines that number the world of a machine, and find or demand its address."""
    mesh = plan.mesh
    lines = [*run_address_lines(plan, site), *COUNT_WORLD]
    if all_alone(mesh):
        return lines
    if len(mesh.worlds) == 1:
        return [*lines, *ONE_WORLD, TELL_WORLD]
    world = ("PLACER_WORLD_RANK", "PLACER_WORLD_PORT", "PLACER_WORLD_ADDRESS")
    meet = _meeting(site, '"world-$PLACER_WORLD"', *world)
    return [*lines, *SEVERAL_WORLDS, *meet, ASK_WORLD, TELL_WORLD]


def _meeting(site: Site, what: str, rank: str, port: str, address: str) -> list[str]:
    """Write the lines by which the machine of rank 0 tells its address to the others, even where it
    knows the address itself; these ask for it where it was not given.
    """
    if not site.meet:
        return []
    return [
        'if [ -n "${PLACER_MEETING:-}" ] &&',
        f'  {{ [ "${rank}" = 0 ] || [ -z "${{{address}:-}}" ]; }}; then',
        f'  {address}="$({site.meet} {what} "${rank}" "${port}" "${{{address}:-}}")" || exit 1',
        f"  export {address}",
        "fi",
    ]


def run_address_lines(plan: ExportPlan, site: Site) -> list[str]:
    """Write the lines that find or demand the address of rank 0, if machines meet at one."""
    if plan.manifest.rendezvous.method != "address":
        return []
    return [
        PORT,
        *_meeting(site, "run", "PLACER_RANK", "port", "PLACER_RENDEZVOUS_ADDRESS"),
        ASK_ADDRESS,
    ]
