"""Fixed shell lines that start the training on one machine; every value comes from a variable."""

from __future__ import annotations

from collections.abc import Sequence

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.reference_runtime import Site, runtime_lines
from placer.launch.export.resources.surroundings import overlay_lines
from placer.launch.export.texts.environment import job_steps
from placer.launch.export.texts.shell import require, returning
from placer.launch.mesh import Mesh, mesh_of

ASK_NODE = require("PLACER_NODE", "set it to the number of this machine in its group, from 0")
ONLY_NODE = 'PLACER_NODE="${PLACER_NODE:-0}"'
COUNT_NODE = [
    "PLACER_RANK=$((PLACER_RANK_OFFSET + PLACER_NODE))",
    "export PLACER_NODE PLACER_RANK",
]
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
    *COUNT_NODE,
]
ASK_ADDRESS = require(
    "PLACER_RENDEZVOUS_ADDRESS", "set it to an address of rank 0 that every machine reaches"
)
JOB = [
    'PLACER_STEPS="${PLACER_STEPS:-$PLACER_JOB_STEPS}"',
    "export PLACER_STEPS",
]
"""Steps of the whole job, unless others are asked for."""
PORT = 'port="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}"'
COUNT_WORLD = [
    "PLACER_WORLD=$((PLACER_WORLD_OFFSET + PLACER_NODE / PLACER_WORLD_STEP))",
    "first=$((PLACER_WORLD_FIRST + PLACER_NODE / PLACER_WORLD_STEP * PLACER_WORLD_STEP))",
    "PLACER_WORLD_RANK=$((PLACER_RANK - first))",
    "export PLACER_WORLD PLACER_WORLD_RANK",
]
"""Number the world of this machine, and the machine in it."""
ONE_WORLD = [
    'PLACER_WORLD_ADDRESS="$PLACER_RENDEZVOUS_ADDRESS"',
    'PLACER_WORLD_PORT="$port"',
]
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
    """Write the lines that number the machine and start torchrun, or placer's own runtime.

    Parameters
    ----------
    plan
        Its mesh says which machines torchrun joins.
    node
        A line that sets ``PLACER_NODE``: `ASK_NODE`, or that of a target.
    site
        Where placer's runtime finds what it needs.
    trainer
        Lines that put a trainer before the arguments of the script; none: it runs what the plan
        trains.
    """
    if plan.uses_runtime and not trainer:
        asks = run_address_lines(plan, site) or [ASK_ADDRESS]
        return [*node_lines(plan, node), *runtime_lines(plan, site, asks)]
    start = torchrun_lines(plan, trainer or SCRIPT)
    return [*node_lines(plan, node), *world_lines(plan, site), *start]


def node_lines(plan: ExportPlan, node: str) -> list[str]:
    """Write the lines that number the machine, say how many steps the job has, and refuse to start
    in several places without a network over them.
    """
    return [
        node,
        *CHECK_NODE,
        *([] if job_steps(plan.manifest) is None else JOB),
        *overlay_lines(plan.manifest, mesh_of(plan.manifest)),
    ]


def torchrun_lines(plan: ExportPlan, what: Sequence[str]) -> list[str]:
    """Write the lines that start torchrun in the world of this machine.

    Parameters
    ----------
    what
        Lines that put what it runs before the arguments of the script.
    """
    mesh = mesh_of(plan.manifest)
    first, *more = ALONE if all_alone(mesh) else JOINED
    if mesh.between != "torchft":
        return [*what, f"exec {first}", *more]
    return [*LIGHTHOUSE, *what, first, *more]


def all_alone(mesh: Mesh) -> bool:
    """Return whether every world is one machine."""
    return all(world.machine_count == 1 for world in mesh.worlds)


def world_lines(plan: ExportPlan, site: Site) -> list[str]:
    """Write the lines that number the world of a machine, and find the address where it meets, or
    refuse to go on without it.
    """
    mesh = mesh_of(plan.manifest)
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


def sourced_lines(plan: ExportPlan, node: str) -> list[str]:
    """Write the lines that number the machine in a file that is sourced, and tell torchrun by
    variables of its own what a script tells it by arguments.

    Notes
    -----
    torchrun reads an option that it is not given from ``PET_`` and its name in capitals.
    """
    if plan.uses_runtime:
        return returning([*node_lines(plan, node), *run_address_lines(plan, Site())])
    words = {"NPROC_PER_NODE": "$PLACER_PROCESSES"}
    if all_alone(mesh_of(plan.manifest)):
        words |= {"STANDALONE": "1"}
    else:
        words |= {
            "NNODES": "$PLACER_WORLD_MACHINES",
            "NODE_RANK": "$PLACER_WORLD_RANK",
            "MASTER_ADDR": "$PLACER_WORLD_ADDRESS",
            "MASTER_PORT": "$PLACER_WORLD_PORT",
        }
    variables = [f'PET_{name}="{value}"' for name, value in words.items()]
    names = f"export {' '.join(f'PET_{name}' for name in words)}"
    return returning([*node_lines(plan, node), *world_lines(plan, Site()), *variables, names])


def run_address_lines(plan: ExportPlan, site: Site) -> list[str]:
    """Write the lines that find the address of rank 0, or refuse to go on without it; none where
    the machines do not meet at an address.
    """
    if plan.manifest.rendezvous.method != "address":
        return []
    return [
        PORT,
        *_meeting(site, "run", "PLACER_RANK", "port", "PLACER_RENDEZVOUS_ADDRESS"),
        ASK_ADDRESS,
    ]
