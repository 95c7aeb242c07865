"""Target ``cloudformation``: buckets and Lambda aggregators of a serverless exchange, one stack per
region and role.
"""

from __future__ import annotations

import json
import math
from importlib.resources import files as packaged
from typing import Any

from placer.documents.manifest.manifest_reader import run_digest
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.resources.pods import object_name
from placer.launch.export.targets.torchrun import group_scripts
from placer.launch.export.texts.files import comments, filled_tree, heading, yaml_text
from placer.launch.export.texts.readme import readme
from placer.launch.serverless.functions import (
    MOST_SECONDS,
    ROUND,
    CloudFunction,
    check_functions,
    functions_of,
    memory_gib,
    region_of,
)


def files(plan: ExportPlan) -> dict[str, str]:
    """Return one template a stack, and with a function to train the script of each group."""
    check_functions(plan.manifest)
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
        built["function"] = (last.region, _stack(plan, last, holds=False))
    for number, here in enumerate(sums):
        name = f"region-{number}-{here.region}"
        built[name] = (here.region, _stack(plan, here, workers=True, called=True))
    return built


def _stack(
    plan: ExportPlan,
    this: CloudFunction,
    *,
    holds: bool = True,
    workers: bool = False,
    called: bool = False,
) -> dict[str, Any]:
    """Build a stack: a bucket if it ``holds`` one, the function that its uploads call, and the
    policy of the workers.

    S3 cannot call a function in another region, which is a stack of its own: the workers do, or the
    functions of the regions, after each upload.
    """
    aggregator, regional = plan.manifest.aggregator, this.target != this.source
    assert aggregator is not None
    code = packaged("placer.launch.serverless").joinpath("protocol.py").read_text(encoding="utf-8")
    values = {
        "holds": holds,
        "called": called,
        "computes": called or not holds,
        "workers": workers,
        "by_bucket": this.called_by_bucket,
        "regional": regional,
        "bucket": this.source.name,
        "target": this.target.name,
        "run": this.run,
        "part": this.key.replace(ROUND, "*"),
        "function": this.name,
        "own_arn": _arn(this.name, this.region),
        "calls": [_arn(name, region_of(place)) for name, place in this.calls],
        "code": code,
        "settings": json.dumps(this.settings()),
        "memory_mib": math.ceil(memory_gib(plan.manifest, regional=regional) * 1024),
        "seconds": int(min(aggregator.max_seconds or MOST_SECONDS, MOST_SECONDS)),
        "architecture": "arm64" if (aggregator.function or "").endswith("-arm") else "x86_64",
    }
    stack: dict[str, Any] = filled_tree("stack.yaml", values)
    return stack


def _arn(function: str, region: str) -> dict[str, str]:
    """Return Amazon's resource name of a function of this account."""
    account = "${AWS::Partition}:lambda:" + region + ":${AWS::AccountId}"
    return {"Fn::Sub": f"arn:{account}:function:{function}"}


def _readme(plan: ExportPlan) -> str:
    manifest, built = plan.manifest, stacks(plan)
    asked, aggregator = memory_gib(manifest), manifest.aggregator
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
