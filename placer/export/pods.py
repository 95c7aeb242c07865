"""What JobSets and TrainJobs share: names, containers, and the labels of nodes."""

from __future__ import annotations

from typing import Any

from placer.export.environment import machines
from placer.export.heading import heading
from placer.export.plan import Plan
from placer.export.shell import script
from placer.export.start import start_lines
from placer.manifest.document import Group

NODE = 'PLACER_NODE="${JOB_COMPLETION_INDEX:-0}"'
SPOT_LABELS = {
    "aws": {"eks.amazonaws.com/capacityType": "SPOT"},
    "azure": {"kubernetes.azure.com/scalesetpriority": "spot"},
    "gcp": {"cloud.google.com/gke-spot": "true"},
}
"""Labels that managed node groups of spot machines carry."""
AZURE_SPOT_TAINT = {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
POD_SUFFIX = 12
"""Room that JobSet needs behind the names of set and job: numbers of job and pod."""


def escaped(text: str) -> str:
    """Text in which neither Kubernetes nor Compose replaces ``$(NAME)``, ``$NAME`` or ``${NAME}``."""
    return text.replace("$", "$$")


def object_name(name: str, longest_part: int) -> str:
    """Name of an object whose pods are hosts too: begins with a letter, leaves room for a part of the name and numbers."""
    lettered = name if name[0].isalpha() else f"run-{name}"
    return lettered[: 63 - POD_SUFFIX - longest_part].strip("-")


def group_script(plan: Plan, name: str, target: str, node: str = NODE) -> str:
    """Script of one group as a container's argument."""
    return escaped(script(heading(plan, target), machines(plan)[name], start_lines(plan.manifest, node)))


def container(plan: Plan, name: str, target: str, address: str | None, config: str) -> dict[str, Any]:
    """Container of a group.

    Parameters
    ----------
    name
        Of the group.
    address
        Host name of rank 0 where it is known; None: from the key ``address`` of a ConfigMap.
    config
        Name of that ConfigMap.
    """
    command = ["bash", "-c", group_script(plan, name, target)]
    return {"name": "node", "image": plan.image, "command": command, "env": address_variable(plan, address, config)}


def address_variable(plan: Plan, address: str | None, config: str) -> list[dict[str, Any]]:
    """The variable with the address of rank 0, if the machines need one."""
    meeting = plan.manifest.rendezvous
    if meeting.method != "address":
        return []
    source: dict[str, Any] = {"valueFrom": {"configMapKeyRef": {"name": config, "key": "address"}}}
    return [{"name": meeting.address_variable, **(source if address is None else {"value": address})}]


def devices(group: Group | None) -> dict[str, Any]:
    """Requests and limits of a container: the GPUs of one machine."""
    if group is None or group.on_cpu:
        return {}
    return {"limits": {"nvidia.com/gpu": str(group.offer.gpu_count)}}


def node_labels(provider: str, region: str, instance_type: str, market: str) -> dict[str, str]:
    """Labels of the nodes that are meant."""
    host = instance_type.split("+", 1)[0] if provider == "gcp" else instance_type
    spot = SPOT_LABELS.get(provider, {}) if market == "spot" else {}
    return {"node.kubernetes.io/instance-type": host, "topology.kubernetes.io/region": region, **spot}


def tolerations(provider: str, market: str) -> list[dict[str, str]]:
    """Taints that pods must tolerate: Azure keeps pods off its spot nodes."""
    return [AZURE_SPOT_TAINT] if provider == "azure" and market == "spot" else []
