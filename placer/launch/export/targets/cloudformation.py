"""Target ``cloudformation``: buckets and Lambda aggregators of a serverless exchange, one stack per
region and role.
"""

from __future__ import annotations

import json
import math
from typing import Any

from placer.documents.manifest.manifest_reader import run_digest
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.pods import object_name
from placer.launch.export.resources.stacks import (
    MOST_SECONDS,
    bucket,
    check_aggregators,
    function,
    memory_gib,
    permission,
    worker_policy,
)
from placer.launch.export.targets.torchrun import group_scripts
from placer.launch.export.texts.files import comments, heading, yaml_text
from placer.launch.export.texts.readme import readme
from placer.launch.serverless.functions import CloudFunction, functions_of, region_of

LAYER = {
    "Type": "String",
    "Default": "",
    "Description": "ARN of a layer with NumPy for this region; empty - sums take longer",
    "AllowedPattern": "^(arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]{12}:layer:[A-Za-z0-9_-]+:[0-9]+)?$",
}

HAS_NUMPY = {"Fn::Not": [{"Fn::Equals": [{"Ref": "NumpyLayer"}, ""]}]}


def files(plan: ExportPlan) -> dict[str, str]:
    """Return one template a stack, and with a function to train the script of each group."""
    check_aggregators(plan)
    lines = comments(heading(plan, "cloudformation"))
    built = {
        f"{name}.yaml": yaml_text([template], lines) for name, (_, template) in stacks(plan).items()
    }
    scripts = group_scripts(plan, "cloudformation") if plan.uses_runtime else {}
    return {**built, **scripts, "README.md": _readme(plan)}


def stacks(plan: ExportPlan) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return region and template of each stack by name, the one with the exchange bucket first."""
    *sums, last = functions_of(plan.manifest, json.loads(plan.text))
    main = region_of(last.source.place)
    together = last.called_by_bucket
    built = {"exchange": (main, _stack(plan, last, workers=not sums, called=together))}
    if not together:
        built["function"] = (last.region, _template(_function(plan, last)))
    for number, here in enumerate(sums):
        name = f"region-{number}-{here.region}"
        built[name] = (here.region, _stack(plan, here, workers=True, called=True))
    return built


def _function(plan: ExportPlan, this: CloudFunction) -> dict[str, Any]:
    aggregator = plan.manifest.aggregator
    assert aggregator is not None
    regional = this.target != this.source
    return function(
        this,
        memory_mib=math.ceil(memory_gib(plan, regional=regional) * 1024),
        seconds=int(min(aggregator.max_seconds or MOST_SECONDS, MOST_SECONDS)),
        architecture="arm64" if (aggregator.function or "").endswith("-arm") else "x86_64",
    )


def _stack(plan: ExportPlan, this: CloudFunction, *, workers: bool, called: bool) -> dict[str, Any]:
    """Build a stack: a bucket, the function that its uploads call, and the policy of the workers.

    S3 cannot call a function in another region, which is a stack of its own: the workers do, or the
    functions of the regions, after each upload.
    """
    name = this.source.name
    resources: dict[str, Any] = {"Bucket": bucket(name, this.run, notifies=called)}
    if called:
        resources |= {**_function(plan, this), "Permission": permission(name)}
    if workers:
        resources["WorkerPolicy"] = worker_policy(this)
    return _template(resources)


def _template(resources: dict[str, Any]) -> dict[str, Any]:
    built: dict[str, Any] = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Gradient exchange of a training run, written by placer",
    }
    if "Function" in resources:
        built |= {"Parameters": {"NumpyLayer": LAYER}, "Conditions": {"HasNumpy": HAS_NUMPY}}
    built["Resources"] = resources
    if "WorkerPolicy" in resources:
        built["Outputs"] = {"WorkerPolicy": {"Value": {"Ref": "WorkerPolicy"}}}
    return built


def _readme(plan: ExportPlan) -> str:
    manifest, built = plan.manifest, stacks(plan)
    asked, aggregator = memory_gib(plan), manifest.aggregator
    assert aggregator is not None
    priced = aggregator.memory_gib or 0.0
    run = f"{object_name(manifest.name, 0)}-{run_digest(json.loads(plan.text))}"
    names = {name: f"{run}-{name}" for name in built}
    apart = "function" in built
    order = [*(n for n in built if n != "exchange"), "exchange"] if apart else list(built)
    deploys = [
        f"aws cloudformation deploy --region {built[n][0]} --stack-name {names[n]} "
        f"--template-file {n}.yaml --capabilities CAPABILITY_IAM"
        + (" --parameter-overrides NumpyLayer=ARN" if "Parameters" in built[n][1] else "")
        for n in order
    ]
    tails = [
        f"aws logs tail --follow --region {region} "
        f"/aws/lambda/{t['Resources']['Function']['Properties']['FunctionName']}"
        for region, t in built.values()
        if "Function" in t["Resources"]
    ]
    empty = [
        f"aws s3 rm --recursive s3://{b.name} --region {region_of(b.place)}"
        for b in manifest.buckets
    ]
    down = [
        f"aws cloudformation delete-stack --region {region} --stack-name {names[n]}"
        for n, (region, _) in built.items()
    ]
    return readme(
        plan,
        "cloudformation",
        more_gib=f"{asked:.2f}" if asked > priced else "",
        priced_gib=f"{priced:g}",
        apart=apart,
        arguments=True,
        deploys=deploys,
        tails=tails,
        ends=[*empty, *down],
    )
