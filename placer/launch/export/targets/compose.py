"""Target ``compose``: every worker as a container on this machine, as a test that the plan starts;
links are not shaped.
"""

from __future__ import annotations

from typing import Any

from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.pods import escaped
from placer.launch.export.texts.environment import machines, spans_places
from placer.launch.export.texts.files import comments, filled_tree, heading, script, yaml_text
from placer.launch.export.texts.readme import plain, readme
from placer.launch.export.texts.start import ONLY_NODE, STEPS, Site, start_lines
from placer.launch.mesh import mesh_of

FILE = "compose.yaml"
MOST = 64
"""Most containers: a rehearsal of more belongs on more machines."""
STORE_IMAGE = "motoserver/moto:5.1.0"
"""Stands in for the object store; it ignores the credentials below."""
STORE_PORT = 5000
STORE = {
    "AWS_ENDPOINT_URL": f"http://store:{STORE_PORT}",
    "AWS_ACCESS_KEY_ID": "rehearsal",
    "AWS_SECRET_ACCESS_KEY": "rehearsal",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def files(plan: ExportPlan) -> dict[str, str]:
    """Return the Compose file, of no more machines than one can rehearse."""
    count = plan.manifest.rendezvous.machines
    if count > MOST:
        raise PlacerError(
            f"{count} containers are too many for one machine",
            f"compose takes up to {MOST} workers",
        )
    store = plain(plan.manifest.buckets[0].place) if plan.manifest.buckets else ""
    return {
        FILE: yaml_text([document(plan)], comments(heading(plan, "compose"))),
        "README.md": readme(plan, "compose", store_place=store),
    }


def document(plan: ExportPlan) -> dict[str, Any]:
    """Build the Compose file: a service with one process each machine, whatever GPUs it has."""
    several = machines(plan, mesh_of(plan.manifest, processes=1))
    services: dict[str, Any] = {
        f"{name}-{node}": _service(plan, environment, node)
        for name, environment in several.items()
        for node in range(int(environment["PLACER_GROUP_SIZE"]))
    }
    if plan.manifest.buckets:
        services["store"] = {"image": STORE_IMAGE, "environment": {"MOTO_PORT": str(STORE_PORT)}}
        role = {"PLACER_ROLE": "aggregator", "PLACER_GROUP_SIZE": "1"}
        aggregator = {**next(iter(several.values())), **role}
        if plan.uses_runtime:  # one container runs all functions; each reads its own bucket
            first = plan.manifest.world_size
            last = first + len(plan.manifest.buckets) - 1
            aggregator |= {"PLACER_RANK_OFFSET": str(first), "PLACER_LAST_RANK": str(last)}
        services["aggregator"] = _service(plan, aggregator, 0)
    return {"name": plan.manifest.name, "services": services}


def _service(plan: ExportPlan, environment: dict[str, str], node: int) -> dict[str, Any]:
    meeting, groups = plan.manifest.rendezvous, plan.manifest.groups
    meets = meeting.method == "address" or plan.uses_runtime
    address = {meeting.address_variable: f"{meeting.group}-0"} if meets else {}
    if spans_places(plan.manifest):
        address["GLOO_SOCKET_IFNAME"] = "eth0"  # one network of Docker joins all containers
    step = int(environment["PLACER_WORLD_STEP"])
    if environment["PLACER_WORLD_MACHINES"] != "1":
        first = int(environment["PLACER_WORLD_FIRST"]) + node // step * step
        group = next(group for group in reversed(groups) if group.rank_offset <= first)
        address["PLACER_WORLD_ADDRESS"] = f"{group.name}-{first - group.rank_offset}"
    wishes = {"PLACER_STEPS": f"${{PLACER_STEPS:-{STEPS}}}", "PLACER_RESUME": "${PLACER_RESUME:-0}"}
    store = STORE if plan.manifest.buckets else {}
    last = "-$PLACER_LAST_RANK" if "PLACER_LAST_RANK" in environment else ""
    options = "--one-machine" + (' --endpoint-url "$AWS_ENDPOINT_URL"' if store else "")
    site = Site(rank=f'"$PLACER_RANK{last}" {options}')
    text = script(heading(plan, "compose"), environment, start_lines(plan, ONLY_NODE, site))
    values = {
        "image": plan.image,
        "script": escaped(text),
        "environment": {
            "PLACER_NODE": str(node),
            **address,
            **store,
            **(wishes if plan.uses_runtime else {}),
        },
        "place": escaped(environment["PLACER_PLACE"]),
        "group": environment["PLACER_GROUP"],
        "stores": store,
    }
    service: dict[str, Any] = filled_tree("compose-service.yaml", values)
    return service
