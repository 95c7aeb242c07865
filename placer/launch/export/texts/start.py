"""Fixed shell lines that start the training on one machine; every value comes from a variable."""

from __future__ import annotations

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.reference_runtime import Site, runtime_lines
from placer.launch.export.texts.shell import require, returning

ASK_NODE = require("PLACER_NODE", "set it to the number of this machine in its group, from 0")
ONLY_NODE = 'PLACER_NODE="${PLACER_NODE:-0}"'
COUNT_NODE = [
    "PLACER_RANK=$((PLACER_RANK_OFFSET + PLACER_NODE))",
    "export PLACER_NODE PLACER_RANK",
]
CHECK_NODE = [
    'case "$PLACER_NODE" in',
    (
        '  "" | *[!0-9]* | 0?* | ??????????*) echo "PLACER_NODE is not a number from 0: '
        '$PLACER_NODE" >&2; exit 2 ;;'
    ),
    "esac",
    'if [ "$PLACER_NODE" -ge "$PLACER_GROUP_SIZE" ]; then',
    (
        '  echo "PLACER_NODE is $PLACER_NODE, but $PLACER_GROUP has only $PLACER_GROUP_SIZE, '
        'counted from 0" >&2'
    ),
    "  exit 2",
    "fi",
    *COUNT_NODE,
]
ASK_ADDRESS = require(
    "PLACER_RENDEZVOUS_ADDRESS", "set it to an address of rank 0 that every machine reaches"
)
MEET = [
    'if [ -n "${PLACER_MEETING:-}" ] &&',
    '  { [ "$PLACER_RANK" = 0 ] || [ -z "${PLACER_RENDEZVOUS_ADDRESS:-}" ]; }; then',
    '  PLACER_RENDEZVOUS_ADDRESS="$({meet})" || exit 1',
    "  export PLACER_RENDEZVOUS_ADDRESS",
    "fi",
]
"""Rank 0 tells its address to the others, even where it knows the address itself."""
TOGETHER = [
    (
        'exec torchrun --nnodes="$PLACER_MACHINES" --node-rank="$PLACER_RANK" '
        '--nproc-per-node="$PLACER_PROCESSES" \\'
    ),
    (
        '  --master-addr="$PLACER_RENDEZVOUS_ADDRESS" '
        '--master-port="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}" "$PLACER_TRAIN" "$@"'
    ),
]
ISLAND_MEETS = [
    "PLACER_ISLAND=$((PLACER_ISLAND_OFFSET + PLACER_NODE / PLACER_ISLAND_MACHINES))",
    "PLACER_ISLAND_RANK=$((PLACER_NODE % PLACER_ISLAND_MACHINES))",
    'if [ "$PLACER_ISLAND_MACHINES" = 1 ]; then PLACER_ISLAND_ADDRESS=127.0.0.1; fi',
    'if [ "${PLACER_ISLANDS:-0}" = 1 ]; then',
    '  PLACER_ISLAND_ADDRESS="${PLACER_ISLAND_ADDRESS:-${PLACER_RENDEZVOUS_ADDRESS:-}}"',
    "fi",
    'first="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}"',
    'PLACER_ISLAND_PORT="${PLACER_ISLAND_PORT:-$((first + 1 + PLACER_ISLAND))}"',
    "export PLACER_ISLAND PLACER_ISLAND_RANK PLACER_ISLAND_ADDRESS PLACER_ISLAND_PORT",
    require(
        "PLACER_ISLAND_ADDRESS",
        "set it to an address of the first machine of this island that its others reach",
    ),
]
"""Number the machine in its island, and find the island's first machine."""
ISLAND = [
    *ISLAND_MEETS,
    (
        'exec torchrun --nnodes="$PLACER_ISLAND_MACHINES" --node-rank="$PLACER_ISLAND_RANK" '
        '--nproc-per-node="$PLACER_PROCESSES" \\'
    ),
    (
        '  --master-addr="$PLACER_ISLAND_ADDRESS" --master-port="$PLACER_ISLAND_PORT" '
        '"$PLACER_TRAIN" "$@"'
    ),
]
"""torchrun joins the machines of one island; the script exchanges between islands, at the address
and port of the plan's rendezvous.
"""
ALONE = ['exec torchrun --standalone --nproc-per-node="$PLACER_PROCESSES" "$PLACER_TRAIN" "$@"']
"""Workers of a serverless exchange meet in a bucket; torchrun only starts the processes of one
machine.
"""


def start_lines(plan: ExportPlan, node: str, site: Site) -> list[str]:
    """Write the lines that number the machine and start torchrun, or placer's own runtime.

    Parameters
    ----------
    plan
        Its rendezvous says whether torchrun joins the machines.
    node
        A line that sets ``PLACER_NODE``: `ASK_NODE`, or that of a target.
    site
        Where placer's runtime finds what it needs.
    """
    asks = address_lines(plan, site)
    if plan.uses_runtime:
        return [node, *CHECK_NODE, *runtime_lines(plan, site, asks or [ASK_ADDRESS])]
    if plan.manifest.has_islands:
        return [node, *CHECK_NODE, *asks, *ISLAND]
    if plan.manifest.rendezvous.method == "address":
        return [node, *CHECK_NODE, *asks, *TOGETHER]
    return [node, *CHECK_NODE, *ALONE]


def sourced_lines(plan: ExportPlan, node: str) -> list[str]:
    """Write the lines that number the machine in a file that is sourced, and tell torchrun by
    variables of its own what a script tells it by arguments.

    Notes
    -----
    torchrun reads an option that it is not given from ``PET_`` and its name in capitals.
    """
    lines = [node, *CHECK_NODE, *address_lines(plan, Site())]
    if plan.manifest.has_islands:
        lines += ISLAND_MEETS
    if not plan.uses_runtime:
        lines += _torchrun_variables(plan)
    return returning(lines)


def _torchrun_variables(plan: ExportPlan) -> list[str]:
    words = {"NPROC_PER_NODE": "$PLACER_PROCESSES"}
    if plan.manifest.has_islands:
        words |= {
            "NNODES": "$PLACER_ISLAND_MACHINES",
            "NODE_RANK": "$PLACER_ISLAND_RANK",
            "MASTER_ADDR": "$PLACER_ISLAND_ADDRESS",
            "MASTER_PORT": "$PLACER_ISLAND_PORT",
        }
    elif plan.manifest.rendezvous.method == "address":
        words |= {
            "NNODES": "$PLACER_MACHINES",
            "NODE_RANK": "$PLACER_RANK",
            "MASTER_ADDR": "$PLACER_RENDEZVOUS_ADDRESS",
            "MASTER_PORT": "${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}",
        }
    else:
        words |= {"STANDALONE": "1"}
    return [f'PET_{name}="{value}"' for name, value in words.items()] + [
        f"export {' '.join(f'PET_{name}' for name in words)}"
    ]


def address_lines(plan: ExportPlan, site: Site) -> list[str]:
    """Write the lines that find the address of rank 0, or refuse to go on without it; none where
    the machines do not meet at an address.
    """
    if plan.manifest.rendezvous.method != "address":
        return []
    meet = [line.replace("{meet}", site.meet) for line in MEET] if site.meet else []
    return [*meet, ASK_ADDRESS]
