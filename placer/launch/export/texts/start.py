"""The start of the training on one machine: torchrun, or placer's own runtime (``--train
module:function``). The shell is fixed text of a template; every value comes from a variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from placer.documents.manifest.types import check_executable
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import job_steps, spans_places, world_places
from placer.launch.export.texts.files import filled
from placer.launch.serverless.functions import check_functions
from placer.problem.exchange import traits

STEPS = 20
"""Optimizer steps unless ``PLACER_STEPS`` says otherwise, as in ``placer run``."""
WISHES = {"PLACER_STEPS": str(STEPS), "PLACER_RESUME": "auto"}
"""What may be said at launch where a script gets no arguments; clusters restart what fails, which
then goes on if it can.
"""
HERE = 'cd -- "$(dirname -- "${BASH_SOURCE[0]}")"'
"""Manifest and module lie beside the script, wherever it is started from."""
ASK_NODE = (
    'if [ -z "${PLACER_NODE:-}" ]; then echo "PLACER_NODE: set it to the number of this machine in '
    'its group, from 0" >&2; exit 2; fi'
)
"""``${PLACER_NODE:?...}`` would end with 1 or 127, which a launcher takes for a failed training."""
ONLY_NODE = 'PLACER_NODE="${PLACER_NODE:-0}"'
SCRIPT = ('set -- "$PLACER_TRAIN" "$@"',)


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """The machine on which a script runs; fixed words of a target.

    ``manifest`` is its path there, after the line ``enter``. Where files do not ``stay`` when the
    run has ended, its log is printed. ``rank`` is one, or from one to another, with further
    options. ``meet`` prints the address of rank 0 where ``PLACER_MEETING`` is set; empty: it is
    always given.
    """

    enter: str = ""
    manifest: str = "manifest.json"
    stays: bool = True
    rank: str = '"$PLACER_RANK"'
    meet: str = ""


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
        check_functions(manifest)


def start_lines(plan: ExportPlan, node: str, site: Site, trainer: Sequence[str] = ()) -> list[str]:
    """Write the lines that number the machine, refuse to start without an overlay, and start
    torchrun or placer's own runtime: ``node`` sets ``PLACER_NODE``, and ``trainer`` puts one before
    the arguments of the script, in place of what the plan trains.
    """
    manifest, mesh = plan.manifest, plan.mesh
    method, runs = manifest.rendezvous.method, plan.uses_runtime and not trainer
    values = {
        "node": node,
        "job": job_steps(manifest) is not None,
        "spans": spans_places(manifest),
        "joined": any(len(world_places(world, manifest)) > 1 for world in mesh.worlds),
        "meets": method == "address",
        "asks": method == "address" or (runs and method == "buckets"),
        "alone": method == "none",
        "runs": runs,
        "steps": STEPS,
        "all_alone": all(world.machine_count == 1 for world in mesh.worlds),
        "one_world": len(mesh.worlds) == 1,
        "torchft": mesh.between == "torchft",
        "trainer": list(trainer or SCRIPT),
        "exec": "" if mesh.between == "torchft" else "exec ",
    }
    return filled("start.sh", {**values, **asdict(site)})
