"""Target ``trainjob``: one Kubeflow TrainJob per group or island (Trainer 2.2 or newer), on the
runtime torch-distributed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources import pods
from placer.launch.export.texts.environment import Part, parts
from placer.launch.export.texts.files import filled_tree
from placer.launch.mesh import processes_of

NEEDS = (
    "Needs Kubeflow Trainer 2.2 or newer with the runtime `torch-distributed` in every cluster, "
    "and an image that holds"
)


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.yaml`` for each group; a parameter server has no place in a TrainJob."""
    if plan.manifest.server is not None:
        raise PlacerError(
            "trainjob has no place for the machine of a parameter server",
            "use --to jobset or torchrun",
        )
    objects = {
        f"{name}.yaml": (part.environment["PLACER_PLACE"], train_job(plan, name, part))
        for name, part in parts(plan).items()
    }
    return pods.exported(plan, "trainjob", NEEDS, objects)


def job_name(plan: ExportPlan, name: str) -> str:
    """Return the name of a part's TrainJob."""
    return f"{pods.object_name(plan.manifest.name, len(name) + len('--node'))}-{name}"


def pod_host(plan: ExportPlan, name: str, number: int) -> str:
    """Return the host name of a part's pod, within its cluster."""
    job = job_name(plan, name)
    return f"{job}-node-0-{number}.{job}"


def train_job(plan: ExportPlan, part_name: str, part: Part) -> dict[str, Any]:
    """Build the TrainJob of one part."""
    assert part.group is not None  # a parameter server was refused
    values = {
        **pods.pod(plan, part_name, "trainjob", partial(pod_host, plan)),
        "name": job_name(plan, part_name),
        "processes": processes_of(part.group),
    }
    built: dict[str, Any] = filled_tree("trainjob.yaml", values)
    return built
