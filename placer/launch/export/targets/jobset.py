"""Target ``jobset``: one JobSet per place, since a cluster stands in one region; one replicated job
per group, or per island.
"""

from __future__ import annotations

from typing import Any

from placer.documents.manifest.manifest_reader import plain_name
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources import pods
from placer.launch.export.texts.environment import Part, parts

NEEDS = (
    "Needs JobSet (jobset.x-k8s.io/v1alpha2) in every cluster, node groups with the machines "
    "above, and an image that holds"
)
RESTARTS = {"on_demand": 3, "spot": 20, "community": 20}
"""Restarts of a whole set before it fails: spot machines are taken away now and then."""


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``cluster-N-PLACE.yaml`` for each place: two places may look alike in its name."""
    objects = {
        f"cluster-{number}-{plain_name(place)}".strip("-") + ".yaml": (place, job_set(plan, place))
        for number, place in enumerate(pods.places(plan))
    }
    return pods.exported(plan, "jobset", NEEDS, objects)


def set_name(plan: ExportPlan) -> str:
    """Return the name of the JobSets, the same in each cluster."""
    return pods.object_name(plan.manifest.name, max(len(name) for name in parts(plan)))


def job_set(plan: ExportPlan, place: str) -> dict[str, Any]:
    """Build the JobSet of one place."""
    every = parts(plan).items()
    here = {name: part for name, part in every if part.environment["PLACER_PLACE"] == place}
    restarts = max(RESTARTS[part.environment["PLACER_MARKET"]] for part in here.values())
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": pods.metadata(plan, set_name(plan), place),
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": restarts},
            "replicatedJobs": [_job(plan, name, part) for name, part in here.items()],
        },
    }


def _job(plan: ExportPlan, name: str, part: Part) -> dict[str, Any]:
    set_ = set_name(plan)
    pod = {
        "restartPolicy": "Never",
        **pods.nodes(part),
        "containers": [
            {
                "name": "node",
                **pods.container(
                    plan, name, "jobset", lambda part, pod: f"{set_}-{part}-0-{pod}.{set_}"
                ),
                "volumeMounts": pods.mounts(plan),
                "resources": pods.devices(plan, part.group),
            }
        ],
        "volumes": pods.volumes(plan),
    }
    job = {
        "parallelism": part.machines,
        "completions": part.machines,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": pod},
    }
    return {"name": name, "replicas": 1, "template": {"spec": job}}
