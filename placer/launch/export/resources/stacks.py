"""Resources of a CloudFormation stack: buckets, functions, roles and permissions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files as packaged
from typing import Any

RUNTIME = "python3.12"
LOG_DAYS = 7
KEPT_DAYS = 1
"""Objects of a round that failed are deleted after a day; of the others nothing is left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A bucket and its region."""

    bucket: str
    region: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """One aggregator, which reads ``parts`` objects of ``source`` and writes their sum over
    ``divisor`` to ``targets`` (place and key).
    """

    name: str
    region: str
    run: str
    source: Place
    parts: int
    divisor: int
    targets: tuple[tuple[Place, str], ...]
    memory_mib: int
    seconds: int
    arm: bool
    numbers: str


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
    rule = {"Name": "prefix", "Value": f"{run}/gradients/"}
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


def permission(source: Place) -> dict[str, Any]:
    """Let this bucket of this account, and nobody else, call the function."""
    return {
        "Type": "AWS::Lambda::Permission",
        "Properties": {
            "Action": "lambda:InvokeFunction",
            "FunctionName": {"Ref": "Function"},
            "Principal": "s3.amazonaws.com",
            "SourceAccount": {"Ref": "AWS::AccountId"},
            "SourceArn": arn(source.bucket),
        },
    }


def function(this: Function) -> dict[str, Any]:
    """Build a function, its role and its log."""
    code = (
        packaged("placer.launch.export.resources")
        .joinpath("aggregator_function.py")
        .read_text(encoding="utf-8")
    )
    targets = [
        {"bucket": place.bucket, "region": place.region, "key": key} for place, key in this.targets
    ]
    variables = {
        "PLACER_RUN": this.run,
        "PLACER_BUCKET_REGION": this.source.region,
        "PLACER_PARTS": str(this.parts),
        "PLACER_DIVISOR": str(this.divisor),
        "PLACER_NUMBERS": this.numbers,
        "PLACER_TARGETS": json.dumps(targets),
    }
    properties = {
        "FunctionName": this.name,
        "Description": "Sums the gradients of a training run",
        "Runtime": RUNTIME,
        "Handler": "index.handler",
        "Code": {"ZipFile": code},
        "Architectures": ["arm64" if this.arm else "x86_64"],
        "MemorySize": this.memory_mib,
        "Timeout": this.seconds,
        "Layers": [{"Ref": "NumpyLayer"}],
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Environment": {"Variables": variables},
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


def _role(this: Function) -> dict[str, Any]:
    """Build the role with the least privileges of the function: its parts, results and log."""
    parts = f"{this.run}/gradients/*"
    statements = [
        allowed(
            arn(this.source.bucket), "s3:ListBucket", Condition={"StringLike": {"s3:prefix": parts}}
        ),
        allowed(arn(this.source.bucket, parts), "s3:GetObject", "s3:DeleteObject"),
        allowed(
            [arn(place.bucket, key.replace("ROUND", "*")) for place, key in this.targets],
            "s3:PutObject",
        ),
        allowed([{"Fn::GetAtt": ["Log", "Arn"]}], "logs:CreateLogStream", "logs:PutLogEvents"),
    ]
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "lambda.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]},
            "Policies": [
                {
                    "PolicyName": "aggregate",
                    "PolicyDocument": {"Version": "2012-10-17", "Statement": statements},
                }
            ],
        },
    }


def worker_policy(name: str, run: str) -> dict[str, Any]:
    """Build the policy of a worker: put gradients, list means, get them."""
    statements = [
        allowed(arn(name, f"{run}/gradients/*"), "s3:PutObject"),
        allowed(arn(name, f"{run}/means/*"), "s3:GetObject"),
        allowed(
            arn(name), "s3:ListBucket", Condition={"StringLike": {"s3:prefix": f"{run}/means/*"}}
        ),
    ]
    return managed("Put gradients and get means of one training run", statements)


def managed(description: str, statements: list[dict[str, Any]]) -> dict[str, Any]:
    """Build a policy to attach to the machines' role."""
    document = {"Version": "2012-10-17", "Statement": statements}
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {"Description": description, "PolicyDocument": document},
    }
