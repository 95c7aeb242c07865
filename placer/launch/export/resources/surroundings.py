"""What a training needs around it: a fast network, a network over several places, data, a bucket
for checkpoints, and secrets, all by reference.
"""

from __future__ import annotations

import re

from placer.documents.manifest.types import Group, Manifest
from placer.launch.export.texts.files import require
from placer.launch.mesh import Mesh, World

EFA_DEVICES = {
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
}
"""Interfaces of Amazon's Elastic Fabric Adapter (Amazon EC2 user guide, network cards)."""
GPU_DIRECT = ("a3-", "a4-")
"""Machines of Google Cloud whose GPUs have a network of their own (GPUDirect-TCPX, TCPXO, RDMA)."""
EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}
"""What NCCL's plugin for EFA reads (github.com/aws/aws-ofi-nccl)."""
SECRETS = (
    "PLACER_CHECKPOINTS",
    "PLACER_DATA",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "HF_TOKEN",
)
"""What a machine may be told by name and never by value."""
OVERLAY = [
    require(
        "GLOO_SOCKET_IFNAME",
        "the machines are in several places, whose private addresses do not reach each other: set "
        "it to the interface of a network that joins them (a VPN such as Tailscale, or peering)",
    ),
    "export GLOO_SOCKET_IFNAME",
]
"""A start without an overlay is refused, in place of half an hour of waiting."""
NCCL_OVERLAY = [
    'NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-$GLOO_SOCKET_IFNAME}"',
    "export NCCL_SOCKET_IFNAME",
]
"""Where one world spans places; inside a place NCCL keeps to the provider's network."""
_REGION = re.compile(r"[a-z0-9][a-z0-9-]*")


def spans_places(manifest: Manifest) -> bool:
    """Return whether machines that meet at an address are in several places."""
    places = {group.place for group in manifest.groups}
    if manifest.aggregator is not None and manifest.server is not None:
        places.add(manifest.aggregator.place)
    return manifest.rendezvous.method == "address" and len(places) > 1


def overlay_lines(manifest: Manifest, mesh: Mesh) -> list[str]:
    """Write the lines that refuse a start in several places without a network over them."""
    if not spans_places(manifest):
        return []
    joined = any(len(_places(world, manifest)) > 1 for world in mesh.worlds)
    return [*OVERLAY, *(NCCL_OVERLAY if joined else [])]


def fabric_of(group: Group, manifest: Manifest, mesh: Mesh) -> str:
    """Return the fast network between the machines of a group's world, ``efa`` or ``gpudirect``;
    empty where there is none, or where a world is one machine or spans places.
    """
    world = mesh.world_of(group.rank_offset)
    if world is None or world.machine_count == 1 or mesh.backend != "nccl":
        return ""
    if len(_places(world, manifest)) > 1:
        return ""
    machine = group.offer.instance_type
    if group.provider == "aws" and machine in EFA_DEVICES:
        return "efa"
    return "gpudirect" if group.provider == "gcp" and machine.startswith(GPU_DIRECT) else ""


def _places(world: World, manifest: Manifest) -> set[str]:
    names = {row.group for row in world.machines}
    return {group.place for group in manifest.groups if group.name in names}


def surrounding_words(manifest: Manifest, mesh: Mesh) -> list[str]:
    """Say what a machine must have around it, and the variables that name it."""
    fabrics = {fabric_of(group, manifest, mesh) for group in manifest.groups}
    words = [
        "Checkpoints belong where they outlive a machine: `PLACER_CHECKPOINTS` names a bucket or a "
        "folder, such as `s3://BUCKET/run`. Keys and tokens stay out of these files."
    ]
    if spans_places(manifest):
        words.append(
            "`GLOO_SOCKET_IFNAME` is the interface of a network that joins all places (a VPN such "
            "as Tailscale, or peering): nothing starts without it."
        )
    if manifest.data.store is not None:
        words.append("`PLACER_DATA` names the bucket with the data, in the place that was priced.")
    if "efa" in fabrics:
        words.append(
            "NCCL uses EFA here: the image needs libfabric and aws-ofi-nccl (AWS's Deep Learning "
            "images have both), and the machines one placement group."
        )
    if "gpudirect" in fabrics:
        words.append(
            "NCCL uses GPUDirect here: node pools need gVNIC and the GPU networks, and the image "
            "Google's NCCL plugin for them."
        )
    return words


def copy_commands(manifest: Manifest) -> list[str]:
    """Return the command that copies the data to where it was priced, if it does not lie there:
    between the buckets SOURCE and DATA, with the credentials of the environment.
    """
    data = manifest.data
    if data.copied_from is None or data.store is None:
        return []
    (source, there), (target, here) = (_split(store) for store in (data.copied_from, data.store))
    if source == target == "aws":
        return [f"aws s3 sync s3://SOURCE s3://DATA --source-region {there} --region {here}"]
    if source == target == "gcp":
        return ["gcloud storage rsync --recursive gs://SOURCE gs://DATA"]
    remotes = [_remote(provider, region) for provider, region in ((source, there), (target, here))]
    return [f"rclone sync {remotes[0]}:SOURCE {remotes[1]}:DATA"]


def _split(store: str) -> tuple[str, str]:
    provider, _, region = store.partition("/")
    return provider, region if _REGION.fullmatch(region) else "REGION"


def _remote(provider: str, region: str) -> str:
    """Return a remote of rclone that needs no configuration."""
    return {
        "aws": f":s3,provider=AWS,env_auth,region={region}",
        "gcp": ":gcs,env_auth",
        "azure": ":azureblob,env_auth",
    }.get(provider, "REMOTE")
