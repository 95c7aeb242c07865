"""Stacks of a serverless exchange: cfn-lint, what roles may do, and the shipped code against
moto.
"""

import json
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
import yaml
from exports import by_runtime, changed, plan_of
from exports import plan as usual
from moto import mock_aws

from placer.errors import PlacerError
from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.targets.cloudformation import stacks
from placer.launch.serverless import protocol
from placer.launch.serverless.functions import memory_gib
from placer.launch.serverless.protocol import Bucket, gradient_key, mean_key, s3_event


def plan(strategy: str, **parts: Any) -> ExportPlan:
    """A serverless plan over two regions of AWS; ``parts`` are changed by hand."""
    return plan_of(changed(json.loads(usual(strategy, workers="3..4").text), **parts))


@pytest.fixture(scope="module")
def central() -> ExportPlan:
    """One bucket, one function."""
    return plan("central")


@pytest.fixture(scope="module")
def hierarchical() -> ExportPlan:
    """A bucket and a function in each of two regions, and a pair for all."""
    return plan("hierarchical")


def moved(some: ExportPlan) -> ExportPlan:
    """The same with the function in another region than its bucket."""
    document = json.loads(some.text)
    return plan("central", aggregator={**document["aggregator"], "place": "aws/us-east-1"})


def test_cfn_lint_has_nothing_to_say(central: ExportPlan, hierarchical: ExportPlan) -> None:
    """Templates of three plans, each in its own region; of those that differ in names only, the
    first.
    """
    from cfnlint.api import lint

    for some, left_out in ((central, 0), (hierarchical, 1), (moved(central), 0)):
        built = list(stacks(some).items())
        for name, (region, _) in built[: len(built) - left_out]:
            found = lint(export(some, "cloudformation")[f"{name}.yaml"], regions=[region])
            assert [str(match) for match in found] == []


def test_stacks_lie_where_the_plan_says(hierarchical: ExportPlan, central: ExportPlan) -> None:
    """One stack for all, one for each region with workers; a function far from its bucket has one
    of its own.
    """
    found = {name: region for name, (region, _) in stacks(hierarchical).items()}
    places = sorted({group.region for group in hierarchical.manifest.groups})
    assert list(found.values()) == [hierarchical.manifest.buckets[0].place.split("/")[1], *places]
    far = stacks(moved(central))
    assert far["function"][0] == "us-east-1"
    assert (
        "NotificationConfiguration" not in far["exchange"][1]["Resources"]["Bucket"]["Properties"]
    )


def test_roles_may_do_the_least(hierarchical: ExportPlan) -> None:
    """No wildcard action, no resource but this run's objects and the function's log."""
    run = hierarchical.manifest.name
    for _, template in stacks(hierarchical).values():
        resources = template["Resources"]
        documents = [resources["Role"]["Properties"]["Policies"][0]["PolicyDocument"]]
        if "WorkerPolicy" in resources:
            documents.append(resources["WorkerPolicy"]["Properties"]["PolicyDocument"])
        for statement in (one for document in documents for one in document["Statement"]):
            assert not any("*" in action for action in statement["Action"])
            named = statement["Resource"]
            for resource in named if isinstance(named, list) else [named]:
                text = resource.get("Fn::Sub", "")
                assert (
                    resource.get("Fn::GetAtt") == ["Log", "Arn"]
                    or f"/{run}/" in text
                    or f":function:{run}-" in text
                    or "Condition" in statement
                )


def test_the_function_gets_what_it_needs(central: ExportPlan) -> None:
    """17 MB gradients in float32: the sum and the mean, 34 MB, and 0.25 GiB for Python; the plan's
    1 GiB is enough.
    """
    assert memory_gib(central.manifest) == 1.0
    properties = stacks(central)["exchange"][1]["Resources"]["Function"]["Properties"]
    found = [properties[name] for name in ("MemorySize", "Timeout", "Architectures")]
    assert found == [1024, 900, ["x86_64"]]
    roomy = {**json.loads(central.text)["aggregator"], "memory_gib": 30.0}
    model = {"name": "big", "parameters": 4 * 10**9, "gradient_bytes": 8e9}
    large = plan("central", model=model, aggregator=roomy)
    with pytest.raises(PlacerError, match=r"the aggregator needs 30(\.0)? GiB, AWS Lambda has 10"):
        export(large, "cloudformation")


def test_what_is_not_on_aws_is_refused(central: ExportPlan) -> None:
    """A bucket of another provider, gradients that cannot be summed, a plan without a function: one
    line each.
    """
    document = json.loads(central.text)
    there = {"place": "gcp/us-west1", "store": "gcs"}
    buckets, storage = document["buckets"], document["storage"]
    elsewhere = {"buckets": [{**buckets[0], **there}], "storage": {**storage, **there}}
    coarse = {"exchange": {**document["exchange"], "compression": "int4"}}
    for parts, words in (
        (elsewhere, "gcp/us-west1 is not a region of AWS"),
        (coarse, "cannot sum int4"),
    ):
        with pytest.raises(PlacerError, match=words):
            export(plan("central", **parts), "cloudformation")
    with pytest.raises(PlacerError, match="all-reduce has no cloud function"):
        export(plan("all-reduce"), "cloudformation")


def call(template: dict[str, Any], monkeypatch: pytest.MonkeyPatch, bucket: str, key: str) -> int:
    """Call the function as S3 would, with the variables of its stack."""
    properties = template["Resources"]["Function"]["Properties"]
    for name, value in properties["Environment"]["Variables"].items():
        monkeypatch.setenv(name, value)
    return protocol.handler(s3_event(bucket, key), None)["written"]


def made(some: ExportPlan) -> Any:
    """A client, after all buckets are made where the plan says."""
    for bucket in some.manifest.buckets:
        region = bucket.place.split("/")[1]
        boto3.client("s3", region_name=region).create_bucket(
            Bucket=bucket.name, CreateBucketConfiguration={"LocationConstraint": region}
        )
    return boto3.client("s3", region_name=some.manifest.buckets[0].place.split("/")[1])


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Moto in this process, with words for credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield


@pytest.mark.usefixtures("aws")
def test_the_last_upload_makes_the_mean(
    central: ExportPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker r sends [r, 1]: with N workers the mean is [(N - 1) / 2, 1]; only the last call adds
    up, the parts go, and so does the mean of the step before.
    """
    client, (bucket,), run = made(central), central.manifest.buckets, central.manifest.name
    template, workers = stacks(central)["exchange"][1], central.manifest.world_size
    store, done = Bucket(client, bucket.name), []
    store.put(mean_key(run, "a-6"), b"old")
    for rank in range(workers):
        key = gradient_key(run, "a-7", rank, workers)
        store.put(key, np.array([rank, 1], dtype="<f4").tobytes())
        done.append(call(template, monkeypatch, bucket.name, key))
    assert done == [0] * (workers - 1) + [1]
    found = store.get(mean_key(run, "a-7"))
    assert found is not None
    assert np.frombuffer(found[0], dtype="<f4").tolist() == [(workers - 1) / 2, 1.0]
    assert store.list("") == [mean_key(run, "a-7")]
    assert call(template, monkeypatch, bucket.name, gradient_key(run, "a-7", 0, workers)) == 0
    assert call(template, monkeypatch, bucket.name, "another-run/gradients/a-7/0-of-1") == 0


@pytest.mark.usefixtures("aws")
def test_parts_of_two_sizes_are_refused(
    central: ExportPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with another model: the call fails and nothing is written."""
    client, (bucket,), run = made(central), central.manifest.buckets, central.manifest.name
    store, workers = Bucket(client, bucket.name), central.manifest.world_size
    for rank in range(workers):
        store.put(gradient_key(run, "a-1", rank, workers), bytes(4 * (rank + 1)))
    template, key = stacks(central)["exchange"][1], gradient_key(run, "a-1", 0, workers)
    with pytest.raises(ValueError, match="8 bytes, the first 4"):
        call(template, monkeypatch, bucket.name, key)
    assert not [key for key in store.list("") if "means" in key]


def test_calls_between_functions_are_allowed(hierarchical: ExportPlan, central: ExportPlan) -> None:
    """The global function may call those of the regions; a far function the workers."""
    named = {
        name: template["Resources"]["Function"]["Properties"]["FunctionName"]
        for name, (_, template) in stacks(hierarchical).items()
    }
    role = stacks(hierarchical)["exchange"][1]["Resources"]["Role"]["Properties"]["Policies"][0]
    (called,) = [
        statement["Resource"]
        for statement in role["PolicyDocument"]["Statement"]
        if statement["Action"] == ["lambda:InvokeFunction"]
    ]
    assert [arn["Fn::Sub"].rpartition(":")[2] for arn in called] == [
        named[name] for name in named if name.startswith("region")
    ]
    policy = stacks(moved(central))["exchange"][1]["Resources"]["WorkerPolicy"]["Properties"]
    assert policy["PolicyDocument"]["Statement"][-1]["Action"] == ["lambda:InvokeFunction"]


def test_the_shipped_code_is_the_tested_code(central: ExportPlan) -> None:
    """The text inside the template is the module that the tests call, and that workers use; a
    template may have 51,200 bytes.
    """
    files = export(central, "cloudformation")
    body = yaml.safe_load(files["exchange.yaml"])
    code = body["Resources"]["Function"]["Properties"]["Code"]["ZipFile"]
    assert code == Path(protocol.__file__).read_text(encoding="utf-8")
    assert max(len(text.encode()) for text in files.values()) < 51_200


def test_with_a_function_to_train_machines_start_placer_run(central: ExportPlan) -> None:
    """A script for each group beside the stacks, and in the README the order of the two."""
    files = export(by_runtime(central), "cloudformation")
    assert files.keys() >= {"exchange.yaml", "workers-0.sh", "README.md", "manifest.json"}
    assert "placer run manifest.json" in files["workers-0.sh"]
    assert (
        0 < files["README.md"].index("deploy --region") < files["README.md"].index("workers-0.sh")
    )
