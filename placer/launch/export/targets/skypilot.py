"""Target ``skypilot``: a job group whose tasks start together, one task per group of workers, or
per island.
"""

from __future__ import annotations

from typing import Any

from placer.documents.manifest.types import Group
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.reference_runtime import WISHES, Site
from placer.launch.export.texts.environment import SERVER
from placer.launch.export.texts.heading import comments, heading
from placer.launch.export.texts.parts import Part, parts
from placer.launch.export.texts.readme import meeting_words, readme
from placer.launch.export.texts.runtime_readme import (
    WHEEL,
    copy_words,
    log_section,
    needs_words,
    restart_section,
    wish_words,
)
from placer.launch.export.texts.start import start_lines
from placer.launch.export.texts.yaml_text import yaml_text
from placer.market.sources.prices.skypilot.names import skypilot_device

FILE = "skypilot.yaml"
NODE = 'PLACER_NODE="$SKYPILOT_NODE_RANK"'
HEAD_NODE = 'PLACER_RENDEZVOUS_ADDRESS="$(head -n 1 <<< "$SKYPILOT_NODE_IPS")"'
"""The first node of a task has rank 0 of the task; addresses are private, so they serve within one
task only.
"""
HEAD_OF_ISLAND = 'PLACER_ISLAND_ADDRESS="$(head -n 1 <<< "$SKYPILOT_NODE_IPS")"'
"""An island is one task, so its first node has the island's first machine."""
SETUP = "python3 -c 'import torch' || pip install torch\n"
SITE = Site(stays=False)
ENVIRONMENT = '. "$HOME/placer-env/bin/activate"'
SETUP_RUNTIME = f"""\
set -e
set -- {WHEEL}
if [ ! -e "$1" ]; then
  echo "no {WHEEL} in the folder of the export: its README.md says how to make it" >&2
  exit 2
fi
uv="$HOME/.local/bin/uv"
"$uv" venv --python 3.11 --allow-existing "$HOME/placer-env"
"$uv" pip install --python "$HOME/placer-env/bin/python" torch "./$1"
if [ -f requirements.txt ]; then
  "$uv" pip install --python "$HOME/placer-env/bin/python" -r requirements.txt
fi
"""
"""SkyPilot brings uv to every machine for itself; the Python of an image may be too old for placer.
"""


def files(plan: ExportPlan) -> dict[str, str]:
    """Return the job group, as ``sky jobs launch`` reads it."""
    text = yaml_text(documents(plan), comments(heading(plan, "skypilot")))
    return {FILE: text, "README.md": _readme(plan)}


def documents(plan: ExportPlan) -> list[dict[str, Any]]:
    """Build the header and the tasks.

    Notes
    -----
    Without ``execution: parallel`` SkyPilot (0.14.1) reads the same file as a pipeline of one task
    after the other. ``inter_connection: false``: the tasks are on several clouds and get no names
    for each other. A variable that is null must be given at launch (``--env``), so that no machine
    is rented before the address is known.
    """
    names = list(parts(plan))
    header: dict[str, Any] = {
        "name": plan.manifest.name,
        "execution": "parallel",
        "inter_connection": False,
    }
    if SERVER in names:  # the server has no end of its own: it goes when the workers are done
        header["primary_tasks"] = [name for name in names if name != SERVER]
    return [header, *(_task(plan, name, part) for name, part in parts(plan).items())]


def _task(plan: ExportPlan, name: str, part: Part) -> dict[str, Any]:
    group = part.group
    variable = plan.manifest.rendezvous.address_variable
    asked = (
        {variable: None}
        if plan.manifest.rendezvous.method == "address" and not _one_task(plan)
        else {}
    )
    wishes = WISHES if plan.uses_runtime else {}
    enter = [ENVIRONMENT] if plan.uses_runtime else []
    own = (
        [HEAD_NODE, f"export {variable}"]
        if plan.manifest.rendezvous.method == "address" and _one_task(plan)
        else []
    )
    if group is not None and group.is_island:
        own += [HEAD_OF_ISLAND, "export PLACER_ISLAND_ADDRESS"]
    return {
        "name": name,
        "num_nodes": part.machines,
        "resources": _server_resources(plan) if group is None else _resources(group),
        "workdir": ".",
        "envs": {**part.environment, **asked, **wishes},
        "setup": SETUP_RUNTIME if plan.uses_runtime else SETUP,
        "run": "\n".join([*enter, *own, *start_lines(plan, NODE, SITE)]) + "\n",
    }


def _one_task(plan: ExportPlan) -> bool:
    return len(parts(plan)) == 1


def _resources(group: Group) -> dict[str, Any]:
    """Pin place and machine; on Google Cloud devices are asked for beside their host."""
    offer = group.offer
    built: dict[str, Any] = {
        "infra": f"{group.provider}/{group.region}",
        "instance_type": _host(group.provider, offer.instance_type),
    }
    if group.provider == "gcp" and not group.on_cpu:
        built["accelerators"] = {
            skypilot_device("gcp", offer.gpu, offer.instance_type, [offer.gpu]): offer.gpu_count
        }
    return {**built, "use_spot": offer.market == "spot"}


def _host(provider: str, instance_type: str) -> str:
    """Return the machine type without the devices that a price book appends: n1-standard-8+1xT4."""
    return instance_type.split("+", 1)[0] if provider == "gcp" else instance_type


def _server_resources(plan: ExportPlan) -> dict[str, Any]:
    aggregator = plan.manifest.aggregator
    assert aggregator is not None
    assert aggregator.server is not None
    machine = aggregator.server.instance_type
    return {
        "infra": aggregator.place,
        "instance_type": _host(aggregator.place.split("/", 1)[0], machine),
        "use_spot": aggregator.server.market == "spot",
    }


def _readme(plan: ExportPlan) -> str:
    meeting, name = plan.manifest.rendezvous, plan.manifest.name
    asked = (
        f" --env {meeting.address_variable}=ADDRESS"
        if meeting.method == "address" and not _one_task(plan)
        else ""
    )
    words = [
        (
            "Needs SkyPilot 0.14 or newer. Put the training script into this folder and launch "
            "from here: every machine gets a copy of it."
        ),
        *([] if _one_task(plan) else meeting_words(plan)),
    ]
    if plan.uses_runtime:
        words = [
            (
                "Needs SkyPilot 0.14 or newer. Launch from this folder: every machine gets a copy "
                "of "
                "it."
            ),
            *copy_words(plan),
            "A `requirements.txt` beside it is installed as well.",
            *needs_words(plan),
            "The setup of each task does that: it needs the wheel in this folder.",
            "Steps are asked for with `--env PLACER_STEPS=1000`.",
            *wish_words(arguments=False),
            *([] if _one_task(plan) else ["", *meeting_words(plan)]),
        ]
    sections = [
        ("Launch", words, ["sky check", f"sky jobs launch{asked} {FILE}"]),
        ("Watch", [], ["sky jobs queue", f"sky jobs logs --name {name}"]),
        ("Tear down", [], [f"sky jobs cancel --name {name}"]),
        *(
            [
                log_section(plan, stays=False),
                restart_section("by SkyPilot, or by launching it anew"),
            ]
            if plan.uses_runtime
            else []
        ),
    ]
    return readme(plan, "skypilot", sections)
