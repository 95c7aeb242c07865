"""Resources of CloudFormation stacks: the functions of a plan in AWS Lambda, and whether it can run
them; buckets, roles and permissions.
"""

from __future__ import annotations

import json
from importlib.resources import files as packaged
from typing import Any

from placer.documents.manifest.manifest_reader import plain_name
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.serverless.functions import ROUND, CloudFunction, region_of
from placer.launch.serverless.protocol import FORMATS, GRADIENTS, MEANS
from placer.problem.exchange import traits
from placer.units import GIB

HELD = {"none": 2.0, "fp16": 3.0, "int8": 5.0}
"""Memory of a function for each byte of a gradient: the sum in float32, and one part or the mean as
it is sent (`placer.launch.serverless.protocol.Mean`).
"""
RUNTIME_GIB = 0.25
"""Python, boto3 and NumPy (assumed)."""
MOST_GIB = 10.0
MOST_SECONDS = 900
"""Limits of AWS Lambda."""


def check_aggregators(plan: ExportPlan) -> None:
    """Refuse functions that are not, or cannot be, in AWS Lambda."""
    manifest, aggregator = plan.manifest, plan.manifest.aggregator
    if aggregator is None or traits(manifest.exchange.strategy).hub != "function":
        raise PlacerError(
            f"the exchange {manifest.exchange.strategy} has no cloud function",
            "cloudformation is for central and hierarchical",
        )
    for place in (aggregator.place, *(b.place for b in manifest.buckets)):
        provider, _, region = place.partition("/")
        if provider != "aws" or plain_name(region) != region:
            raise PlacerError(
                f"the functions are deployed on AWS Lambda, and {place} is not a region of AWS",
                "ask again with --in 'aws/*', or with --exchange parameter-server; placer run "
                "--local and --to compose play them here",
            )
    if manifest.exchange.compression not in FORMATS:
        raise PlacerError(
            f"the aggregator cannot sum {manifest.exchange.compression} gradients",
            f"use --compression {', '.join(FORMATS)}",
        )
    if memory_gib(plan) > MOST_GIB:
        raise PlacerError(
            f"the aggregator needs {memory_gib(plan):.1f} GiB, AWS Lambda has {MOST_GIB:g}",
            "use a server: --exchange parameter-server",
        )


def memory_gib(plan: ExportPlan, *, regional: bool = False) -> float:
    """Return the GiB of a function: the plan's, or what the protocol holds, and in a region 1."""
    aggregator, model = plan.manifest.aggregator, plan.manifest.model
    assert aggregator is not None
    held = HELD[plan.manifest.exchange.compression] * model.gradient_bytes / GIB + RUNTIME_GIB
    return max(1.0 if regional else aggregator.memory_gib or 0.0, held)


RUNTIME = "python3.12"
LOG_DAYS = 7
KEPT_DAYS = 1
"""Objects of a round that failed are deleted after a day; of the others nothing is left."""


def allowed(effect_on: dict[str, Any] | list[Any], *actions: str, **more: Any) -> dict[str, Any]:
    """Build one statement of a policy."""
    return {"Effect": "Allow", "Action": list(actions), "Resource": effect_on, **more}


def arn(bucket: str, key: str = "") -> dict[str, str]:
    """Return Amazon's resource name of a bucket or of objects in it."""
    return {"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::{bucket}" + (f"/{key}" if key else "")}


def bucket(name: str, run: str, *, notifies: bool) -> dict[str, Any]:
    """Build a private bucket; with ``notifies`` every gradient calls the function of the stack."""
    days = {
        "Status": "Enabled",
        "ExpirationInDays": KEPT_DAYS,
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": KEPT_DAYS},
    }
    rule = {"Name": "prefix", "Value": f"{run}/{GRADIENTS}/"}
    call = {
        "Event": "s3:ObjectCreated:*",
        "Filter": {"S3Key": {"Rules": [rule]}},
        "Function": {"Fn::GetAtt": ["Function", "Arn"]},
    }
    encrypted = [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    properties: dict[str, Any] = {
        "BucketName": name,
        "BucketEncryption": {"ServerSideEncryptionConfiguration": encrypted},
        "PublicAccessBlockConfiguration": dict.fromkeys(
            ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"),
            True,
        ),
        "LifecycleConfiguration": {"Rules": [{"Id": "forget", **days}]},
    }
    if not notifies:
        return {"Type": "AWS::S3::Bucket", "Properties": properties}
    properties["NotificationConfiguration"] = {"LambdaConfigurations": [call]}
    return {"Type": "AWS::S3::Bucket", "DependsOn": ["Permission"], "Properties": properties}


def permission(source: str) -> dict[str, Any]:
    """Let this bucket of this account, and nobody else, call the function."""
    return {
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": {"Ref": "Function"},
            "Principal": "s3.amazonaws.com",
            "SourceAccount": {"Ref": "AWS::AccountId"},
            "SourceArn": arn(source),
        },
    }


def function(
    this: CloudFunction, *, memory_mib: int, seconds: int, architecture: str
) -> dict[str, Any]:
    """Build a function, its role and its log."""
    code = packaged("placer.launch.serverless").joinpath("protocol.py").read_text(encoding="utf-8")
    properties = {
        "FunctionName": this.name,
        "Description": "Averages the gradients of a training run",
        "Runtime": RUNTIME,
        "Handler": "index.handler",
        "Code": {"ZipFile": code},
        "Architectures": [architecture],
        "MemorySize": memory_mib,
        "Timeout": seconds,
        "Layers": {"Fn::If": ["HasNumpy", [{"Ref": "NumpyLayer"}], {"Ref": "AWS::NoValue"}]},
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Environment": {"Variables": {"PLACER_FUNCTION": json.dumps(this.settings())}},
        "LoggingConfig": {"LogGroup": {"Ref": "Log"}},
    }
    return {
        "Log": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": f"/aws/lambda/{this.name}", "RetentionInDays": LOG_DAYS},
        },
        "Role": _role(this),
        "Function": {"Type": "AWS::Lambda::Function", "Properties": properties},
    }


def function_arn(name: str, region: str) -> dict[str, str]:
    """Return Amazon's resource name of a function of this account."""
    account = "${AWS::Partition}:lambda:" + region + ":${AWS::AccountId}"
    return {"Fn::Sub": f"arn:{account}:function:{name}"}


def _role(this: CloudFunction) -> dict[str, Any]:
    """Build the role with the least privileges of the function."""
    parts, means = (arn(this.source.name, f"{this.run}/{kind}/*") for kind in (GRADIENTS, MEANS))
    statements = [
        _may_list(this.source.name, f"{this.run}/{GRADIENTS}/*"),
        allowed(parts, "s3:GetObject", "s3:DeleteObject"),
        allowed(means, "s3:PutObject", "s3:DeleteObject"),
        allowed([{"Fn::GetAtt": ["Log", "Arn"]}], "logs:CreateLogStream", "logs:PutLogEvents"),
    ]
    if this.target != this.source:
        target = this.target.name
        statements += [
            allowed(arn(target, this.key.replace(ROUND, "*")), "s3:PutObject"),
            allowed(arn(target, f"{this.run}/{MEANS}/*"), "s3:GetObject"),
        ]
    if this.calls:
        called = [function_arn(name, region_of(place)) for name, place in this.calls]
        statements.append(allowed(called, "lambda:InvokeFunction"))
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "lambda.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": _policy([trust]),
            "Policies": [{"PolicyName": "aggregate", "PolicyDocument": _policy(statements)}],
        },
    }


def worker_policy(this: CloudFunction) -> dict[str, Any]:
    """Build the policy to attach to the role of the workers, which call the function where the
    bucket cannot.
    """
    name, run = this.source.name, this.run
    statements = [
        allowed(arn(name, f"{run}/{GRADIENTS}/*"), "s3:PutObject"),
        allowed(arn(name, f"{run}/{MEANS}/*"), "s3:GetObject"),
        _may_list(name, f"{run}/{MEANS}/*"),
    ]
    if not this.called_by_bucket:
        statements.append(allowed([function_arn(this.name, this.region)], "lambda:InvokeFunction"))
    words = "Put gradients and get means of one training run"
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {"Description": words, "PolicyDocument": _policy(statements)},
    }


def _may_list(bucket: str, keys: str) -> dict[str, Any]:
    """Let objects be listed, without which S3 answers 403 in place of 404 where one is missing. The
    request for an object has no prefix.
    """
    condition = {"StringLikeIfExists": {"s3:prefix": keys}}
    return allowed(arn(bucket), "s3:ListBucket", Condition=condition)


def _policy(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}
