"""Target ``jobset``: one JobSet per place, since a cluster stands in one region; one replicated job
per group, or per island.
"""

from __future__ import annotations

from typing import Any

from placer.documents.manifest.manifest_reader import plain_name
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources import pods
from placer.launch.export.texts.environment import parts
from placer.launch.export.texts.files import filled_tree

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
    name, every = set_name(plan), parts(plan).items()

    def host(part: str, number: int) -> str:
        return f"{name}-{part}-0-{number}.{name}"

    here = {part: one for part, one in every if one.environment["PLACER_PLACE"] == place}
    all_pods = [pods.pod(plan, part, "jobset", host) for part in here]
    values = {
        **all_pods[0],
        "name": name,
        "restarts": max(RESTARTS[one.environment["PLACER_MARKET"]] for one in here.values()),
        "jobs": [filled_tree("jobset-job.yaml", pod) for pod in all_pods],
    }
    built: dict[str, Any] = filled_tree("jobset.yaml", values)
    return built
