"""Parts that JobSets and TrainJobs share: names, containers, and the labels of nodes."""

from __future__ import annotations

from typing import Any

from placer.documents.manifest.types import Group
from placer.launch.export.export_plan import IMAGE, ExportPlan
from placer.launch.export.reference_runtime import WISHES, Site
from placer.launch.export.texts.heading import heading
from placer.launch.export.texts.parts import parts
from placer.launch.export.texts.readme import Section
from placer.launch.export.texts.runtime_readme import (
    WHEEL,
    log_section,
    restart_section,
    wish_words,
)
from placer.launch.export.texts.shell import script
from placer.launch.export.texts.start import start_lines

NODE = 'PLACER_NODE="${JOB_COMPLETION_INDEX:-0}"'
SPOT_LABELS = {
    "aws": {"eks.amazonaws.com/capacityType": "SPOT"},
    "azure": {"kubernetes.azure.com/scalesetpriority": "spot"},
    "gcp": {"cloud.google.com/gke-spot": "true"},
}
"""Labels that managed node groups of spot machines carry."""
AZURE_SPOT_TAINT = {
    "key": "kubernetes.azure.com/scalesetpriority",
    "operator": "Equal",
    "value": "spot",
    "effect": "NoSchedule",
}
MANIFEST = "/etc/placer"
"""Where a ConfigMap with the manifest is mounted."""
SITE = Site(manifest=f"{MANIFEST}/manifest.json", stays=False)
POD_SUFFIX = 12
"""Room that JobSet needs behind the names of set and job: numbers of job and pod."""


def escaped(text: str) -> str:
    """Escape dollar signs, so that neither Kubernetes nor Compose expands a variable."""
    return text.replace("$", "$$")


def object_name(name: str, longest_part: int) -> str:
    """Return the name of an object whose pods are host names too. It begins with a letter and
    leaves room for a part of the name and numbers.
    """
    lettered = name if name[0].isalpha() else f"run-{name}"
    return lettered[: 63 - POD_SUFFIX - longest_part].strip("-")


def group_script(plan: ExportPlan, name: str, target: str, node: str = NODE) -> str:
    """Write the script of one group as a container's argument."""
    environment = parts(plan)[name].environment
    return escaped(script(heading(plan, target), environment, start_lines(plan, node, SITE)))


def container(
    plan: ExportPlan, name: str, target: str, address: str | None, config: str, island: str
) -> dict[str, Any]:
    """Build the container of a part.

    Parameters
    ----------
    name
        Of the part.
    address
        Host name of rank 0 where it is known; None: from the key ``address`` of a ConfigMap.
    config
        Name of that ConfigMap.
    island
        Host name of the part's first pod.
    """
    command = ["bash", "-c", group_script(plan, name, target)]
    return {
        "name": "node",
        "image": plan.image,
        "command": command,
        "env": variables(plan, address, config, island),
        **manifest_mount(plan),
    }


def variables(
    plan: ExportPlan, address: str | None, config: str, island: str
) -> list[dict[str, Any]]:
    """List the variables of a container: the addresses of rank 0 and of the island where machines
    need them, and the options that may be changed before the start.
    """
    wishes = (
        [{"name": name, "value": value} for name, value in WISHES.items()]
        if plan.uses_runtime
        else []
    )
    if plan.manifest.has_islands:
        wishes.append({"name": "PLACER_ISLAND_ADDRESS", "value": island})
    meeting = plan.manifest.rendezvous
    if meeting.method != "address":
        return wishes
    source: dict[str, Any] = {"valueFrom": {"configMapKeyRef": {"name": config, "key": "address"}}}
    return [
        {"name": meeting.address_variable, **(source if address is None else {"value": address})},
        *wishes,
    ]


def manifest_map(plan: ExportPlan) -> str:
    """Return the name of the ConfigMap that holds the manifest for placer's own runtime."""
    return f"{object_name(plan.manifest.name, len('manifest'))}-manifest"


def manifest_mount(plan: ExportPlan) -> dict[str, Any]:
    """Build the part of a container that mounts the manifest, if placer's own runtime reads it."""
    return (
        {"volumeMounts": [{"name": "manifest", "mountPath": MANIFEST, "readOnly": True}]}
        if plan.uses_runtime
        else {}
    )


def manifest_volume(plan: ExportPlan) -> dict[str, Any]:
    """Build the part of a pod that `manifest_mount` refers to."""
    return (
        {"volumes": [{"name": "manifest", "configMap": {"name": manifest_map(plan)}}]}
        if plan.uses_runtime
        else {}
    )


def manifest_command(plan: ExportPlan) -> list[str]:
    """Return the command that makes the ConfigMap with the manifest, for every cluster."""
    command = (
        f"kubectl --context CLUSTER create configmap {manifest_map(plan)} "
        f"--from-file=manifest.json    # in every cluster"
    )
    return [command] if plan.uses_runtime else []


def image_words(plan: ExportPlan) -> list[str]:
    """Say what the image must hold, and what it is now."""
    if not plan.uses_runtime:
        return [
            (
                f"PyTorch and the training script (`--image`, `--train`); the image here is "
                f"`{plan.image}`."
            )
        ]
    return [
        (
            f"PyTorch, placer and, in its working folder, the module `{plan.module}` (`--image`, "
            f"`--train`); the image here is `{plan.image}`."
        ),
        (
            f"Such an image: `FROM {IMAGE}`, `WORKDIR /work`, `COPY . .`, `RUN pip install "
            f"./{WHEEL}`, built in a"
        ),
        (
            "folder with the module and a wheel of placer, made from its source: `pip wheel "
            "--no-deps --wheel-dir FOLDER .` (the project that"
        ),
        "is called placer on PyPI is another one).",
    ]


def devices(group: Group | None) -> dict[str, Any]:
    """Build requests and limits of a container: the GPUs of one machine."""
    if group is None or group.on_cpu:
        return {}
    return {"limits": {"nvidia.com/gpu": str(group.offer.gpu_count)}}


def node_labels(provider: str, region: str, instance_type: str, market: str) -> dict[str, str]:
    """Return the labels of the nodes that the plan means."""
    host = instance_type.split("+", 1)[0] if provider == "gcp" else instance_type
    spot = SPOT_LABELS.get(provider, {}) if market == "spot" else {}
    return {
        "node.kubernetes.io/instance-type": host,
        "topology.kubernetes.io/region": region,
        **spot,
    }


def tolerations(provider: str, market: str) -> list[dict[str, str]]:
    """List the taints that pods must tolerate: Azure keeps pods off its spot nodes."""
    return [AZURE_SPOT_TAINT] if provider == "azure" and market == "spot" else []


def runtime_sections(plan: ExportPlan) -> list[Section]:
    """Write the README sections about placer's own runtime, if it is started."""
    if not plan.uses_runtime:
        return []
    return [
        (
            "Options",
            [
                *wish_words(arguments=False),
                (
                    "Change or add these in the files before the start, `PLACER_RESUME` (`0`, `1` "
                    "or "
                    "`auto`) and `PLACER_OUT` too."
                ),
            ],
            [],
        ),
        log_section(plan, stays=False),
        restart_section("by the cluster, or by applying the files"),
    ]
