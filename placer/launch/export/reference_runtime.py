"""Shell lines that start placer's own runtime on one machine (``--train module:function``), and a
check that it can run the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from placer.documents.manifest.runtime_support import check_executable
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.aggregators import check_aggregators
from placer.problem.exchange import traits

STEPS = 20
"""Optimizer steps unless ``PLACER_STEPS`` says otherwise: enough to measure, as in ``placer run``.
"""
WISHES = {"PLACER_STEPS": str(STEPS), "PLACER_RESUME": "auto"}
"""What may be said at launch where a script gets no arguments; clusters restart what fails, which
then goes on if it can.
"""
LOG_MARK = "placer-log "
"""Begins each line of a run log that a machine prints before it goes."""
HERE = 'cd -- "$(dirname -- "${BASH_SOURCE[0]}")"'
"""Manifest and module lie beside the script, wherever it is started from."""
NEEDS = [
    "if ! command -v placer > /dev/null; then",
    '  echo "placer is not installed on this machine: README.md of the export says how" >&2',
    "  exit 2",
    "fi",
]
MEET = [
    "unset WORLD_SIZE",
    'MASTER_ADDR="$PLACER_RENDEZVOUS_ADDRESS"',
    'MASTER_PORT="${PLACER_PORT:-$PLACER_RENDEZVOUS_PORT}"',
    "export MASTER_ADDR MASTER_PORT",
]
"""A cluster may have counted the world for one group alone; the manifest knows how many there are.
"""
ALONE = 'PLACER_RENDEZVOUS_ADDRESS="${PLACER_RENDEZVOUS_ADDRESS:-127.0.0.1}"'
OPTIONS = [
    'case "${PLACER_RESUME:-0}" in',
    '  1) set -- --resume "$@" ;;',
    '  auto) set -- --resume-if-any "$@" ;;',
    "  0) ;;",
    '  *) echo "PLACER_RESUME is $PLACER_RESUME: give 0, 1 or auto" >&2; exit 2 ;;',
    "esac",
    'PLACER_OUT="${PLACER_OUT:-$PLACER_RUN-run}"',
]
COMMAND = [
    'placer run {manifest} --train "$PLACER_TRAIN" --rank {rank}{options} \\',
    f'  --steps "${{PLACER_STEPS:-{STEPS}}}" --out "$PLACER_OUT" "$@"',
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

    Notes
    -----
    ``manifest`` is the path of the manifest there, after ``enter``, a line of shell. ``stays``: the
    machine and its files are still there when the run has ended; else its log is printed. ``rank``
    is one, or from one to another; ``options``: more words. ``meet`` is the command that prints the
    address of rank 0 where ``PLACER_MEETING`` is set; empty: the address is always given.
    """

    enter: str = ""
    manifest: str = "manifest.json"
    stays: bool = True
    rank: str = '"$PLACER_RANK"'
    options: str = ""
    meet: str = ""


def runtime_lines(plan: ExportPlan, site: Site, ask_address: Sequence[str]) -> list[str]:
    """Write the lines that start ``placer run`` for the rank of this machine.

    Parameters
    ----------
    site
        Of the target.
    ask_address
        Lines that refuse to go on without the address of rank 0.
    """
    alone = plan.manifest.rendezvous.method == "none"
    words = " ".join(["", site.options]).rstrip()
    parts = (("{manifest}", site.manifest), ("{rank}", site.rank), ("{options}", words))
    command = [reduce(lambda text, part: text.replace(*part), parts, line) for line in COMMAND]
    stays, goes = (
        [f"exec {command[0]}", command[1]],
        ["code=0", command[0], f"{command[1]} || code=$?", *PRINT_LOG],
    )
    enter = [site.enter] if site.enter else []
    return [
        *([ALONE] if alone else ask_address),
        *enter,
        *NEEDS,
        *MEET,
        *OPTIONS,
        *(stays if site.stays else goes),
    ]


def check_runtime(plan: ExportPlan, target: str) -> None:
    """Refuse what placer's runtime cannot do, before a machine is rented for it.

    Raises
    ------
    PlacerError
        If the target starts something else, the manifest is edited or not executable, or AWS Lambda
        cannot run the functions of a serverless exchange.
    """
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
    if (
        target == "compose"
    ):  # every rank is a container of this machine, the function as well, and nothing is rented
        return
    if traits(manifest.exchange.strategy).hub == "function":
        check_aggregators(plan)  # they run in the cloud
