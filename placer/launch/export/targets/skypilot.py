"""Target ``skypilot``: a job group whose tasks start together, one task per group of workers, or
per island.
"""

from __future__ import annotations

import json
import re
from typing import Any

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import (
    SERVER,
    Part,
    fabric_of,
    one_by_one,
    parts,
    spans_places,
)
from placer.launch.export.texts.files import comments, filled, heading, shown, yaml_text
from placer.launch.export.texts.readme import (
    MEET_FILE,
    WHEEL,
    fallback_file,
    meeting_bucket,
    meeting_files,
    readme,
)
from placer.launch.export.texts.start import WISHES, Site, start_lines
from placer.market.sources.prices.skypilot.names import (
    PROVIDERS,
    skypilot_device,
    skypilot_machine,
    skypilot_place,
)
from placer.records import replace

FILE = "skypilot.yaml"
NODE = 'PLACER_NODE="$SKYPILOT_NODE_RANK"'
SITE = Site(stays=False, meet=f"python3 {MEET_FILE}")
MANIFEST_FILE = "PLACER_MANIFEST_FILE"
"""Variable with the manifest of the placement that was taken."""
SITE_OF_SEVERAL = replace(SITE, manifest=f'"${MANIFEST_FILE}"')
"""Where SkyPilot chooses among placements."""
MEETING = "/placer-meeting"
"""Where every machine mounts the bucket in which rank 0 tells its address."""
CHECKPOINTS = "/placer-checkpoints"
"""Where every machine mounts the bucket of checkpoints; a reclaimed machine goes on from there."""
DATA = "/placer-data"
OVERLAY = "tailscale0"
RECOVERY = {"strategy": "FAILOVER", "max_restarts_on_errors": 3}
"""A reclaimed task starts again in the place of the plan, where its price and links are."""
BEST_NETWORK = ("aws", "gcp")
"""Clouds whose fast network SkyPilot sets up by ``network_tier: best`` (0.14: EFA, GPUDirect)."""
STORES = {"aws": "s3", "azure": "azure", "gcp": "gcs"}
"""SkyPilot's names of the stores of its clouds; others have none of their own."""
ONE_NODE = ("runpod",)
"""Clouds whose tasks have one node and mount no buckets (MULTI_NODE and STORAGE_MOUNTING of
sky/clouds/runpod.py, SkyPilot 0.14).
"""
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


def files(plan: ExportPlan) -> dict[str, str]:
    """Return the job group, as ``sky jobs launch`` reads it, and what its tasks meet by."""
    text = yaml_text(documents(plan), comments(heading(plan, "skypilot")))
    meet = {} if _one_task(plan) else meeting_files(plan, "skypilot")
    return {FILE: text, **meet, "README.md": _readme(plan)}


def tasks(plan: ExportPlan) -> dict[str, Part]:
    """Return the parts that are tasks: machines of clouds that join none are tasks of their own."""
    return one_by_one(parts(plan), ONE_NODE)


def tried_together(plan: ExportPlan) -> list[int]:
    """Return the fallbacks that SkyPilot tries by itself: one task in another region, which starts
    in the same way. A task has one number of nodes whatever resources it gets, and is told no more
    than cloud and region of them.
    """
    if not plan.fallbacks or not _one_task(plan):
        return []
    taken, found = {_region_of(plan)}, []
    for number, other in enumerate(plan.fallbacks, start=1):
        if _alike(plan, other) and _region_of(other) not in taken:
            taken.add(_region_of(other))
            found.append(number)
    return found


def _region_of(plan: ExportPlan) -> str:
    """Return cloud and region of a plan of one task, as SkyPilot tells them."""
    group = plan.manifest.groups[0]
    return skypilot_place(group.provider, group.region).lower()


def _alike(plan: ExportPlan, other: ExportPlan) -> bool:
    """Tell whether two plans are one task each that differ in variables and resources alone."""
    starts = [
        (
            [task.machines for task in tasks(one).values()],
            one.manifest.has_islands,
            start_lines(one, NODE, SITE),
        )
        for one in (plan, other)
    ]
    return starts[0] == starts[1]


def documents(plan: ExportPlan) -> list[dict[str, Any]]:
    """Build the header and the tasks.

    Without ``execution: parallel`` SkyPilot (0.14.1) reads the same file as a pipeline of one task
    after the other. ``inter_connection: false``: the tasks are on several clouds and get no names
    for each other. A variable that is null must be given at launch (``--env``).
    """
    names = list(tasks(plan))
    header: dict[str, Any] = {
        "name": plan.manifest.name,
        "execution": "parallel",
        "inter_connection": False,
    }
    if SERVER in names:  # the server has no end of its own: it goes when the workers are done
        header["primary_tasks"] = [name for name in names if name != SERVER]
    return [header, *(_task(plan, name, part) for name, part in tasks(plan).items())]


def _task(plan: ExportPlan, name: str, part: Part) -> dict[str, Any]:
    meeting, resources, site = plan.manifest.rendezvous, _resources(plan, part.group), SITE
    if together := [plan.fallbacks[number - 1] for number in tried_together(plan)]:
        others = [_resources(other, other.manifest.groups[0]) for other in together]
        resources, site = {"ordered": [resources, *others]}, SITE_OF_SEVERAL
    has_first = meeting.method == "address" and name == next(iter(tasks(plan)))
    values = {
        "runs": plan.uses_runtime,
        "chooses": together,
        "address": meeting.address_variable,
        "has_rank_0": has_first,
        "begins_world": part.meets_at == part.rank != 0,
        "start": start_lines(plan, NODE, site),
    }
    variables, mounts = _buckets(plan, part)
    return {
        "name": name,
        "num_nodes": part.machines,
        "resources": resources,
        "workdir": ".",
        "envs": {
            **part.environment,
            **_meeting_variables(plan),
            **_alternatives(plan, part),
            **(WISHES if plan.uses_runtime else {}),
            **variables,
        },
        **({"secrets": {"TS_AUTHKEY": None}} if spans_places(plan.manifest) else {}),
        **({"file_mounts": mounts} if mounts else {}),
        "setup": _setup(plan),
        "run": "\n".join(filled("skypilot-run.sh", values)) + "\n",
    }


def _alternatives(plan: ExportPlan, part: Part) -> dict[str, str]:
    """Return the variables that differ between the places that SkyPilot may choose, as one that
    holds JSON: those of each place by its name.
    """
    numbers = tried_together(plan)
    if not numbers:
        return {}
    others = [plan.fallbacks[number - 1] for number in numbers]
    variables = [{**part.environment, MANIFEST_FILE: SITE.manifest}]
    for number, other in zip(numbers, others, strict=True):
        (task,) = tasks(other).values()
        variables.append({**task.environment, MANIFEST_FILE: fallback_file(number)})
    names = sorted({name for one in variables for name in one})
    unlike = [name for name in names if len({one.get(name) for one in variables}) > 1]
    told = {
        _region_of(one): {name: own.get(name) for name in unlike}
        for one, own in zip((plan, *others), variables, strict=True)
    }
    return {"PLACER_ALTERNATIVES": json.dumps(told)}


def _one_task(plan: ExportPlan) -> bool:
    return len(tasks(plan)) == 1


def _meets(plan: ExportPlan) -> bool:
    """Return whether tasks have to find a machine of another task."""
    return plan.manifest.rendezvous.method == "address" and not _one_task(plan)


def _asks(plan: ExportPlan) -> bool:
    """Return whether the meeting point has to be given at launch: some machine mounts no bucket."""
    places = (part.environment["PLACER_PLACE"] for part in parts(plan).values())
    return _meets(plan) and any(place.partition("/")[0] in ONE_NODE for place in places)


def _meeting_variables(plan: ExportPlan) -> dict[str, str | None]:
    if not _meets(plan):
        return {}
    if _asks(plan):
        return {"PLACER_MEETING": None}
    return {"PLACER_MEETING": MEETING, "PLACER_MEETING_BUCKET": meeting_bucket(plan)}


def _setup(plan: ExportPlan) -> str:
    values = {
        "runs": plan.uses_runtime,
        "wheel": WHEEL,
        "asks": _asks(plan),
        "spans": spans_places(plan.manifest),
    }
    return "\n".join(filled("skypilot-setup.sh", values)) + "\n"


def checkpoint_bucket(plan: ExportPlan) -> str:
    """Return the name of a bucket of this plan alone, for its checkpoints."""
    return meeting_bucket(plan).replace("meeting", "checkpoints")


def _mounts_buckets(part: Part) -> bool:
    provider = part.environment["PLACER_PLACE"].partition("/")[0]
    return part.group is not None and provider not in ONE_NODE


def _buckets(plan: ExportPlan, part: Part) -> tuple[dict[str, str | None], dict[str, Any]]:
    """Return the variables of what is around a task, and the buckets that it mounts: SkyPilot makes
    those of this plan if need be, and the one with the data is given at launch.
    """
    store = STORES.get(plan.manifest.groups[0].provider)
    of_store = {"store": store} if store else {}
    told: dict[str, str | None] = {}
    mounts: dict[str, Any] = {}
    if spans_places(plan.manifest):
        told["GLOO_SOCKET_IFNAME"] = OVERLAY
    if _meets(plan) and not _asks(plan):
        mounts[MEETING] = {"name": "${PLACER_MEETING_BUCKET}", "mode": "MOUNT", **of_store}
    if not _mounts_buckets(part):
        return told, mounts
    run, named = f"{CHECKPOINTS}/{plan.manifest.name}", "${PLACER_CHECKPOINT_BUCKET}"
    told |= {"PLACER_CHECKPOINT_BUCKET": checkpoint_bucket(plan), "PLACER_CHECKPOINTS": run}
    mounts[CHECKPOINTS] = {"name": named, "mode": "MOUNT_CACHED", **of_store}
    if plan.uses_runtime:
        told["PLACER_OUT"] = run
    if plan.manifest.data.store is not None:
        told |= {"PLACER_DATA_BUCKET": None, "PLACER_DATA": DATA}
        mounts[DATA] = {"source": "${PLACER_DATA_BUCKET}", "mode": "MOUNT"}
    return told, mounts


def _resources(plan: ExportPlan, group: Group | None) -> dict[str, Any]:
    """Pin place and machine by SkyPilot's names; of no group those of the parameter server."""
    if group is None:
        aggregator = plan.manifest.aggregator
        assert aggregator is not None
        assert aggregator.server is not None
        provider, _, region = aggregator.place.partition("/")
        machine, market = aggregator.server.instance_type, aggregator.server.market
    else:
        provider, region = group.provider, group.region
        machine, market = group.offer.instance_type, group.offer.market
    if provider not in PROVIDERS or not _REGION.fullmatch(region):
        raise PlacerError(
            f"placer writes no SkyPilot tasks for {shown(f'{provider}/{region}')}",
            f"plan in places of {', '.join(PROVIDERS)}, or use --to torchrun",
        )
    if not _MACHINE.fullmatch(machine):
        raise PlacerError(
            f"'{shown(machine)}' is not a machine type of {provider}",
            "plan without it, or use --to torchrun",
        )
    built: dict[str, Any] = {
        "infra": skypilot_place(provider, region),
        "instance_type": skypilot_machine(provider, machine, market),
    }
    if group is not None and provider == "gcp" and not group.on_cpu:
        device = skypilot_device("gcp", group.offer.gpu, machine)
        built["accelerators"] = {device: group.offer.gpu_count}
    fast = group is not None and fabric_of(group, plan.manifest, plan.mesh)
    if fast and provider in BEST_NETWORK:
        built["network_tier"] = "best"
    built["use_spot"] = market == "spot"
    if group is not None and market != "on_demand":
        built["job_recovery"] = RECOVERY
    return built


def _readme(plan: ExportPlan) -> str:
    asks, meets = _asks(plan), _meets(plan)
    given = " --env PLACER_MEETING=s3://BUCKET" if asks else ""
    mounted = any(_mounts_buckets(part) for part in tasks(plan).values())
    if plan.manifest.data.store is not None and mounted:
        given += " --env PLACER_DATA_BUCKET=s3://DATA"
    if spans_places(plan.manifest):
        given += " --secret TS_AUTHKEY"
    words = filled("skypilot-meet.md", {"asks": asks, "bucket": meeting_bucket(plan)})
    return readme(
        plan,
        "skypilot",
        one_task=_one_task(plan),
        found=words if meets else (),
        meeting_bucket=meeting_bucket(plan) if meets and not asks else "",
        checkpoint_bucket=checkpoint_bucket(plan) if mounted else "",
        arguments=False,
        given=given,
        again="by SkyPilot, or by launching it anew",
    )
