"""Parts that JobSets and TrainJobs share: names, containers, and the labels of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import (
    EFA_DEVICES,
    SECRETS,
    Part,
    fabric_of,
    holder,
    parts,
)
from placer.launch.export.texts.files import (
    comments,
    filled,
    filled_tree,
    heading,
    script,
    shown,
    yaml_text,
)
from placer.launch.export.texts.readme import KINDS, meeting_program, plain, readme
from placer.launch.export.texts.start import WISHES, Site, start_lines

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
SITE = Site(
    manifest="/etc/placer/manifest.json", stays=False, meet='python3 -c "$PLACER_MEET_PROGRAM"'
)
"""A ConfigMap with the manifest is mounted there."""
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
"""Values of labels (kubernetes.io/docs/concepts/overview/working-with-objects/labels)."""
POD_SUFFIX = 12
"""Room that JobSet needs behind the names of set and job: numbers of job and pod."""


def escaped(text: str) -> str:
    """Escape dollar signs, so that neither Kubernetes nor Compose expands a variable."""
    return text.replace("$", "$$")


def object_name(name: str, longest_part: int) -> str:
    """Return a name for pods, which are hosts: a letter first, and room for part and numbers."""
    lettered = name if name[0].isalpha() else f"run-{name}"
    return lettered[: 63 - POD_SUFFIX - longest_part].strip("-")


def pod(
    plan: ExportPlan, name: str, target: str, host: Callable[[str, int], str]
) -> dict[str, Any]:
    """Return the values of the templates about one part; ``host`` names the pods of each."""
    part = parts(plan)[name]
    text = script(heading(plan, target), part.environment, start_lines(plan, NODE, SITE))
    around = filled_tree(
        "pod.yaml",
        {
            "runs": plan.uses_runtime,
            "rendezvous": name_beside(plan, "rendezvous"),
            "manifest": name_beside(plan, "manifest"),
            "program": escaped(meeting_program()),
            "place": part.environment["PLACER_PLACE"],
            "model": plan.manifest.model.name,
            "digest": plan.manifest.digest,
        },
    )
    known, asked = (
        [{"name": name, "value": value} for name, value in some.items()]
        for some in (_addresses(plan, name, host), WISHES if plan.uses_runtime else {})
    )
    meets = around["meets"] if several_clusters_meet(plan) else []
    held = name_beside(plan, "secrets")
    secrets = [  # what the Secret does not hold is not set
        {"name": key, "valueFrom": {"secretKeyRef": {"name": held, "key": key, "optional": True}}}
        for key in SECRETS
    ]
    return {
        **around,
        **_nodes(part),
        "part": name,
        "machines": part.machines,
        "image": plan.image,
        "script": escaped(text),
        "env": [*known, *meets, *asked, *secrets],
        "resources": _devices(plan, part.group),
    }


def places(plan: ExportPlan) -> list[str]:
    """List places with machines, in the order of ranks: each has a cluster of its own."""
    return list(dict.fromkeys(part.environment["PLACER_PLACE"] for part in parts(plan).values()))


def several_clusters_meet(plan: ExportPlan) -> bool:
    """Return whether pods have to find a pod of another cluster."""
    return len(places(plan)) > 1 and plan.manifest.rendezvous.method == "address"


def name_beside(plan: ExportPlan, what: str) -> str:
    """Return the name of the ``rendezvous``, the ``secrets`` or the ``manifest`` of pods."""
    return f"{object_name(plan.manifest.name, len(what))}-{what}"


def kubectl(plan: ExportPlan, place: str) -> str:
    """Return the command that reaches the cluster of a place."""
    return f"kubectl --context CLUSTER{places(plan).index(place)}"


def _addresses(plan: ExportPlan, name: str, host: Callable[[str, int], str]) -> dict[str, str]:
    """Return the variables with the addresses that a part knows before the start: of rank 0 and of
    its world's first machine, where they are pods (``host``) of the same cluster.
    """
    if plan.manifest.rendezvous.method != "address":
        return {}
    several, found = parts(plan), {}
    part = several[name]
    variables = {plan.manifest.rendezvous.address_variable: 0}
    if part.meets_at:  # in the world of rank 0 the address is that of rank 0
        variables["PLACER_WORLD_ADDRESS"] = part.meets_at
    for variable, rank in variables.items():
        other, number = holder(several, rank)
        if several[other].environment["PLACER_PLACE"] == part.environment["PLACER_PLACE"]:
            found[variable] = host(other, number)
    return found


def _made(plan: ExportPlan) -> dict[str, str]:
    """Return what is made in each cluster beside the jobs, and from what."""
    made = {f"secret generic {name_beside(plan, 'secrets')}": "--from-env-file=FILE"}
    if plan.uses_runtime:
        made[f"configmap {name_beside(plan, 'manifest')}"] = "--from-file=manifest.json"
    if several_clusters_meet(plan):
        where = "--from-literal=meeting=WHERE --from-literal=interface=INTERFACE"
        made[f"configmap {name_beside(plan, 'rendezvous')}"] = where
    return made


Objects = Mapping[str, tuple[str, dict[str, Any]]]
"""Jobs by the name of their file, each with the place of its cluster."""


def exported(plan: ExportPlan, target: str, needs: str, objects: Objects) -> dict[str, str]:
    """Return the files of a target; ``needs`` says what clusters and the image must have."""
    lines = comments(heading(plan, target))
    built = {name: yaml_text([made], lines) for name, (_, made) in objects.items()}
    return {**built, "README.md": _readme(plan, target, needs, objects)}


def _readme(plan: ExportPlan, target: str, needs: str, objects: Objects) -> str:
    clusters, made = [kubectl(plan, place) for place in places(plan)], _made(plan)
    starts = [f"{c} create {name} {of}" for name, of in made.items() for c in clusters]
    starts += [f"{kubectl(plan, place)} apply -f {name}" for name, (place, _) in objects.items()]
    watches, ends = [], []
    for place, built in objects.values():
        cluster, job = kubectl(plan, place), built["metadata"]["name"]
        label = f"jobset.sigs.k8s.io/jobset-name={job}"
        watches += [f"{cluster} get {target} {job}", f"{cluster} logs -f -l {label} --prefix"]
        ends.append(f"{cluster} delete {target} {job}")
    ends += [f"{c} delete {name.replace(' generic', '')}" for name in made for c in clusters]
    meets = several_clusters_meet(plan)
    return readme(
        plan,
        target,
        "kubernetes.md",
        needs=needs,
        clusters=[f"* CLUSTER{n}: {plain(place)}" for n, place in enumerate(places(plan))],
        says_meeting=len(clusters) > 1 or plan.manifest.buckets,
        found=filled("clusters-meet.md", {"kinds": KINDS}) if meets else (),
        arguments=False,
        starts=starts,
        watches=watches,
        ends=ends,
        again="by the cluster, or by applying the files",
    )


def _devices(plan: ExportPlan, group: Group | None) -> dict[str, Any]:
    """Build limits: GPUs, and interfaces of EFA (github.com/aws-samples/aws-efa-eks)."""
    if group is None or group.on_cpu:
        return {}
    limits = {"nvidia.com/gpu": str(group.offer.gpu_count)}
    if fabric_of(group, plan.manifest, plan.mesh) == "efa":
        limits["vpc.amazonaws.com/efa"] = str(EFA_DEVICES[group.offer.instance_type])
    return {"limits": limits}


def _nodes(part: Part) -> dict[str, Any]:
    """Return what brings the pods of a part to the nodes that the plan means; what no label can
    hold is refused. Azure keeps pods off its spot nodes, unless they tolerate it.
    """
    group, machine = part.group, part.environment["PLACER_INSTANCE_TYPE"]
    provider, _, region = part.environment["PLACER_PLACE"].partition("/")
    if group is not None:
        provider, region = group.provider, group.region
    on_spot = part.environment["PLACER_MARKET"] == "spot"
    host = machine.split("+", 1)[0] if provider == "gcp" else machine
    for value in (host, region):
        if not value or not LABEL.fullmatch(value):
            raise PlacerError(
                f"no node of Kubernetes can have the label '{shown(value)}'",
                "rename the machine or region in the price book, or use --to torchrun",
            )
    labels = {"node.kubernetes.io/instance-type": host, "topology.kubernetes.io/region": region}
    spot = SPOT_LABELS.get(provider, {}) if on_spot else {}
    tolerated = [AZURE_SPOT_TAINT] if provider == "azure" and on_spot else []
    return {"selector": {**labels, **spot}, "tolerations": tolerated}
