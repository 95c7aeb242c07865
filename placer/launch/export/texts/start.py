"""Fixed shell lines that start the training on one machine; every value comes from a variable."""

from __future__ import annotations

from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.reference_runtime import Site, runtime_lines
from placer.launch.export.texts.shell import require

ASK_NODE = require("PLACER_NODE", "set it to the number of this machine in its group, from 0")
ONLY_NODE = 'PLACER_NODE="${PLACER_NODE:-0}"'
CHECK_NODE = [
    'case "$PLACER_NODE" in',
    (
        '  "" | *[!0-9]* | 0?* | ??????????*) echo "PLACER_NODE is no number from 0: '
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
    "PLACER_RANK=$((PLACER_RANK_OFFSET + PLACER_NODE))",
    "export PLACER_NODE PLACER_RANK",
]
ASK_ADDRESS = require(
    "PLACER_RENDEZVOUS_ADDRESS", "set it to an address of rank 0 that every machine reaches"
)
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
    if plan.uses_runtime:
        return [node, *CHECK_NODE, *runtime_lines(plan, site, ASK_ADDRESS)]
    if plan.manifest.has_islands:
        asks = [ASK_ADDRESS] if plan.manifest.rendezvous.method == "address" else []
        return [node, *CHECK_NODE, *asks, *ISLAND]
    if plan.manifest.rendezvous.method == "address":
        return [node, *CHECK_NODE, ASK_ADDRESS, *TOGETHER]
    return [node, *CHECK_NODE, *ALONE]
