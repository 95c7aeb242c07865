"""What exports carry beside the start: fast networks, shared memory, data, checkpoints, secrets."""

from typing import Any

import pytest
from exports import changed, jobs_of, plan_of, tasks_of
from run_plans import islands

from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.files import assignments

US, EU = "aws/us-east-1", "aws/eu-west-2"


def plan(*groups: tuple[str, int, int], machine: str = "p5.48xlarge", **parts: Any) -> ExportPlan:
    """Islands of machines with 8 GPUs whose gradients are averaged after each step; ``parts``
    replace those of the manifest.
    """
    told = islands("all-reduce", *groups, gpu_count=8, inner={"sharding": "zero-3"})
    for group in told["groups"]:
        group["offer"]["instance_type"] = machine
    return plan_of(changed(told, **parts))


def pod_of(some: ExportPlan) -> dict[str, Any]:
    """The pod of the first job of the first JobSet."""
    return dict(jobs_of(some)[0]["template"]["spec"]["template"]["spec"])


@pytest.mark.parametrize(
    ("groups", "machine", "devices"),
    [
        (((US, 2, 2),), "p5.48xlarge", "32"),
        (((US, 1, 1),), "p5.48xlarge", None),
        (((US, 2, 2),), "g5.48xlarge", None),
        (((US, 1, 2), (EU, 1, 2)), "p5.48xlarge", None),
    ],
)
def test_efa_is_asked_for_where_a_world_has_it(
    groups: tuple[tuple[str, int, int], ...], machine: str, devices: str | None
) -> None:
    """Four machines of one region use the 32 interfaces of each: pods ask for them, SkyPilot takes
    the best network, and NCCL's plugin is told. One machine, one without EFA, and a world over two
    regions do not.
    """
    some = plan(*groups, machine=machine)
    limits = pod_of(some)["containers"][0]["resources"]["limits"]
    assert limits.get("vpc.amazonaws.com/efa") == devices
    task = tasks_of(some)[0]
    assert task["resources"].get("network_tier") == ("best" if devices else None)
    variables = assignments(export(some, "torchrun")["workers-0.sh"])
    assert variables.get("FI_PROVIDER") == ("efa" if devices else None)


def test_spot_machines_come_back_and_find_their_checkpoints() -> None:
    """SkyPilot starts a reclaimed task again, and mounts the bucket of checkpoints and that of the
    data, whose name is given at launch.
    """
    data = {"store": US, "assumption": None, "copied_from": "aws/us-west-2"}
    some = plan((US, 2, 1), data=data)
    (task,) = tasks_of(some)
    assert task["resources"]["job_recovery"]["strategy"] == "FAILOVER"
    assert task["file_mounts"]["/placer-data"] == {
        "source": "${PLACER_DATA_BUCKET}",
        "mode": "MOUNT",
    }
    assert task["envs"]["PLACER_DATA_BUCKET"] is None
    assert "--env PLACER_DATA_BUCKET=s3://DATA" in export(some, "skypilot")["README.md"]
    assert "secrets" not in task


@pytest.mark.parametrize(
    ("source", "target", "command"),
    [
        (
            "aws/us-west-2",
            US,
            "aws s3 sync s3://SOURCE s3://DATA --source-region us-west-2 --region us-east-1",
        ),
        (
            "gcp/us-west1",
            US,
            "rclone sync :gcs,env_auth:SOURCE :s3,provider=AWS,env_auth,region=us-east-1:DATA",
        ),
        (
            "gcp/us-west1",
            "gcp/europe-west1",
            "gcloud storage rsync --recursive gs://SOURCE gs://DATA",
        ),
    ],
)
def test_data_is_copied_by_one_command(source: str, target: str, command: str) -> None:
    """To where the plan reads it, before the start; by the cloud's own tool inside a cloud."""
    data = {"store": target, "assumption": None, "copied_from": source}
    assert f"\n{command}\n" in export(plan((US, 2, 1), data=data), "torchrun")["README.md"]
