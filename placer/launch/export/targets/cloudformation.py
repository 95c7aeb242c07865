"""Target ``cloudformation``: buckets and Lambda aggregators of a serverless exchange, one stack per
region and role.
"""

from __future__ import annotations

import json
import math
from typing import Any

from placer.documents.manifest.rendezvous import plain_name, run_digest
from placer.documents.manifest.types import Bucket
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.pods import object_name
from placer.launch.export.resources.stacks import (
    Function,
    Place,
    allowed,
    bucket,
    function,
    managed,
    permission,
    worker_policy,
)
from placer.launch.export.texts.heading import comments, heading
from placer.launch.export.texts.readme import readme
from placer.launch.export.texts.yaml_text import yaml_text
from placer.problem.exchange import traits
from placer.units import GIB

NUMBERS = {"none": "<f4", "fp16": "<f2"}
"""What the aggregator can sum, by compression."""
BYTES_OF_SUM = {"none": 2.0, "fp16": 3.0}
"""Memory of the aggregator for each byte of a gradient: the sum in float32, and the mean as it is
sent.
"""
RUNTIME_GIB = 0.25
"""Python, boto3, NumPy and a block of one part (assumed)."""
MOST_GIB = 10.0
MOST_SECONDS = 900
"""Limits of AWS Lambda."""
LAYER = {
    "Type": "String",
    "Description": "ARN of a layer with NumPy for this region, such as AWSSDKPandas-Python312",
    "AllowedPattern": "^arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:layer:[A-Za-z0-9_-]+:[0-9]+$",
}
LONGEST_RUN = 40
"""Characters of a run's name in that of a function, which has at most 64."""
MEAN = "means/ROUND"


def files(plan: ExportPlan) -> dict[str, str]:
    """Return one template a stack.

    Raises
    ------
    PlacerError
        If the plan has no cloud function, or not all of it is on AWS, or Lambda is too small for
        it.
    """
    _check(plan)
    lines = comments(heading(plan, "cloudformation"))
    built = {
        f"{name}.yaml": yaml_text([template], lines) for name, (_, template) in stacks(plan).items()
    }
    return {**built, "README.md": _readme(plan)}


def _check(plan: ExportPlan) -> None:
    manifest, aggregator = plan.manifest, plan.manifest.aggregator
    if aggregator is None or aggregator.kind != "function":
        raise PlacerError(
            f"the exchange {manifest.exchange.strategy} has no cloud function",
            "cloudformation is for central and hierarchical",
        )
    for place in (aggregator.place, *(b.place for b in manifest.buckets)):
        provider, _, region = place.partition("/")
        if provider != "aws" or plain_name(region) != region:
            raise PlacerError(
                f"{place} is not a region of AWS",
                "cloudformation needs the function and all buckets on AWS: ask again with --in "
                "'aws/*'",
            )
    if manifest.exchange.compression not in NUMBERS:
        raise PlacerError(
            f"the aggregator cannot sum {manifest.exchange.compression} gradients",
            "use --compression none or fp16",
        )
    if memory_gib(plan) > MOST_GIB:
        raise PlacerError(
            f"the aggregator needs {memory_gib(plan):.1f} GiB, AWS Lambda has {MOST_GIB:g}",
            "use a server: --exchange parameter-server",
        )


def digest_of(plan: ExportPlan) -> str:
    """Return the digest that the names of the plan's buckets end with: two plans of one model and
    size share no stack and no function either.
    """
    return run_digest(json.loads(plan.text))


def memory_gib(plan: ExportPlan) -> float:
    """Return the memory of the global function in GiB: the plan's, or more if this implementation
    holds more at once.
    """
    aggregator, model = plan.manifest.aggregator, plan.manifest.model
    assert aggregator is not None
    return max(
        aggregator.memory_gib or 0.0,
        _least_gib(plan.manifest.exchange.compression, model.gradient_bytes),
    )


def _least_gib(compression: str, gradient_bytes: float) -> float:
    return BYTES_OF_SUM[compression] * gradient_bytes / GIB + RUNTIME_GIB


def stacks(plan: ExportPlan) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return region and template of each stack by name, the one with the exchange bucket first."""
    manifest = plan.manifest
    main, *regional = manifest.buckets
    aggregator = manifest.aggregator
    assert aggregator is not None
    last = _global(plan, main, regional)
    together = last.region == _region(main)
    built = {
        "exchange": (
            _region(main),
            _stack(plan, main, last if together else None, workers=not regional),
        )
    }
    if not together:
        built["function"] = (last.region, _remote(last))
    for number, here in enumerate(regional):
        built[f"region-{number}-{_region(here)}"] = (
            _region(here),
            _stack(plan, here, _regional(plan, here, main), workers=True),
        )
    return built


def _region(bucket_: Bucket) -> str:
    return bucket_.place.partition("/")[2]


def _at(bucket_: Bucket) -> Place:
    return Place(bucket=bucket_.name, region=_region(bucket_))


def _global(plan: ExportPlan, main: Bucket, regional: list[Bucket]) -> Function:
    """Build the function that makes the mean: of all workers, or of the sums of the regions."""
    manifest, aggregator = plan.manifest, plan.manifest.aggregator
    assert aggregator is not None
    key = f"{manifest.name}/{MEAN}"
    return _function(
        plan,
        name="mean",
        region=aggregator.place.partition("/")[2],
        source=main,
        parts=len(regional) or manifest.workers,
        divisor=manifest.workers,
        targets=tuple((_at(b), key) for b in regional or [main]),
        gib=memory_gib(plan),
    )


def _regional(plan: ExportPlan, here: Bucket, main: Bucket) -> Function:
    """Build the function of a region, which sends the sum of its workers on."""
    count = sum(group.count for group in plan.manifest.groups if group.place == here.place)
    key = f"{plan.manifest.name}/gradients/ROUND/{_region(here)}"
    least = max(
        1.0, _least_gib(plan.manifest.exchange.compression, plan.manifest.model.gradient_bytes)
    )
    return _function(
        plan,
        name="sum",
        region=_region(here),
        source=here,
        parts=count,
        divisor=1,
        targets=((_at(main), key),),
        gib=least,
    )


def _function(
    plan: ExportPlan,
    *,
    name: str,
    region: str,
    source: Bucket,
    parts: int,
    divisor: int,
    targets: Any,
    gib: float,
) -> Function:
    manifest, aggregator = plan.manifest, plan.manifest.aggregator
    assert aggregator is not None
    return Function(
        name=f"{manifest.name[:LONGEST_RUN].strip('-')}-{digest_of(plan)}-{name}",
        region=region,
        run=manifest.name,
        source=_at(source),
        parts=parts,
        divisor=divisor,
        targets=targets,
        memory_mib=math.ceil(gib * 1024),
        seconds=int(min(aggregator.max_seconds or MOST_SECONDS, MOST_SECONDS)),
        arm=(aggregator.function or "").endswith("-arm"),
        numbers=NUMBERS[manifest.exchange.compression],
    )


def _stack(
    plan: ExportPlan, here: Bucket, called: Function | None, *, workers: bool
) -> dict[str, Any]:
    """Build a stack: a bucket, the function that uploads call, and the policy of the workers."""
    run = plan.manifest.name
    resources: dict[str, Any] = {"Bucket": bucket(here.name, run, notifies=called is not None)}
    if called is not None:
        resources |= {**function(called), "Permission": permission(called.source)}
    if workers:
        resources["WorkerPolicy"] = worker_policy(here.name, run)
    return _template(resources)


def _remote(last: Function) -> dict[str, Any]:
    """Build a function in another region than its bucket. S3 cannot call it, so the workers do,
    after each upload.
    """
    calls = managed(
        "Call the aggregator of one training run",
        [allowed([{"Fn::GetAtt": ["Function", "Arn"]}], "lambda:InvokeFunction")],
    )
    return _template({**function(last), "WorkerPolicy": calls})


def _template(resources: dict[str, Any]) -> dict[str, Any]:
    outputs = (
        {"WorkerPolicy": {"Value": {"Ref": "WorkerPolicy"}}} if "WorkerPolicy" in resources else {}
    )
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Gradient exchange of a training run, written by placer",
        **({"Parameters": {"NumpyLayer": LAYER}} if "Function" in resources else {}),
        "Resources": resources,
        **({"Outputs": outputs} if outputs else {}),
    }


def _readme(plan: ExportPlan) -> str:
    manifest, built = plan.manifest, stacks(plan)
    asked, aggregator = memory_gib(plan), manifest.aggregator
    assert aggregator is not None
    words = [
        (
            "Run with AWS's command line, in an account that may make buckets, functions and "
            "roles. ARN is a layer with NumPy in the"
        ),
        (
            "region, such as "
            "arn:aws:lambda:REGION:336392948345:layer:AWSSDKPandas-Python312:VERSION (Arm: "
            "AWSSDKPandas-Python312-Arm64)."
        ),
        (
            "Attach the policy that a stack puts out as WorkerPolicy to the role of the machines. "
            "Workers put"
        ),
        "`RUN/gradients/ROUND/RANK` and get `RUN/means/ROUND`,",
        (
            f"RUN = `{manifest.name}`, little-endian "
            f"{'float32' if manifest.exchange.compression == 'none' else 'float16'}."
        ),
    ]
    if asked > (aggregator.memory_gib or 0.0):
        words.append(
            f"The function gets {asked:.2f} GiB; the plan was priced with "
            f"{aggregator.memory_gib or 0.0:g} GiB."
        )
    if "function" in built:
        words.append(
            "The bucket lies in another region than the function, so S3 cannot call it: each "
            "worker invokes it after its upload."
        )
    if traits(manifest.exchange.strategy).transport == "regional-stores":
        words.append("Workers use the bucket of their own region, PLACER_REGION_BUCKET.")
    run = f"{object_name(manifest.name, 0)}-{digest_of(plan)}"
    names = {name: f"{run}-{name}" for name in built}
    order = (
        [*(n for n in built if n != "exchange"), "exchange"] if "function" in built else list(built)
    )
    deploy = [
        (
            f"aws cloudformation deploy --region {built[n][0]} --stack-name {names[n]} "
            f"--template-file {n}.yaml --capabilities CAPABILITY_IAM"
        )
        + (" --parameter-overrides NumpyLayer=ARN" if "Parameters" in built[n][1] else "")
        for n in order
    ]
    tails = [
        (
            f"aws logs tail --follow --region {region} "
            f"/aws/lambda/{t['Resources']['Function']['Properties']['FunctionName']}"
        )
        for region, t in built.values()
        if "Function" in t["Resources"]
    ]
    empty = [f"aws s3 rm --recursive s3://{b.name} --region {_region(b)}" for b in manifest.buckets]
    down = [
        f"aws cloudformation delete-stack --region {region} --stack-name {names[n]}"
        for n, (region, _) in built.items()
    ]
    return readme(
        plan,
        "cloudformation",
        [("Launch", words, deploy), ("Watch", [], tails), ("Tear down", [], [*empty, *down])],
    )
