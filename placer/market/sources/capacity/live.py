"""Questions about capacity to Google Cloud and AWS, with the user's own access."""

from __future__ import annotations

import json
import re
from typing import Any

from placer.errors import PlacerError
from placer.market.sources.capacity.answers import Asked
from placer.market.sources.harvest import Origin
from placer.market.sources.prices.aws_account import HOME, Account
from placer.market.sources.prices.pages import address, pages, secret
from placer.market.sources.prices.scope import origin

COMPUTE_URL = "https://compute.googleapis.com/compute/beta"
COMPUTE_VARIABLE = "PLACER_GCP_COMPUTE_URL"
TOKEN = "PLACER_GCP_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
PROJECT = re.compile(r"[a-z][a-z0-9.:-]{1,80}")


def ask_google(project: str, asked: Asked) -> tuple[dict[str, Any], Origin]:
    """Ask Google Cloud for advice about the capacity of a region."""
    missing = "no access token for Google Cloud"
    tip = f"set {TOKEN} to what 'gcloud auth print-access-token' prints, or give --from FILE"
    token = secret((TOKEN,), "the access token for Google Cloud", missing, tip)
    if not PROJECT.fullmatch(project):
        raise PlacerError(f"'{project[:40]}' is not a project of Google Cloud", "give --project ID")
    base = address(COMPUTE_VARIABLE, COMPUTE_URL)
    with pages(base, headers={"Authorization": f"Bearer {token}"}) as source:
        url = f"{base}/projects/{project}/regions/{asked.region}/advice/capacity"
        return source.get(url, question=_advice(asked)), source.origin()


def _advice(asked: Asked) -> dict[str, Any]:
    policy: dict[str, Any] = {"targetShape": "ANY_SINGLE_ZONE"}
    if asked.zone:
        policy["zones"] = [{"zone": f"zones/{asked.zone}"}]
    selections = {"asked": {"machineTypes": [asked.offer.instance_type]}}
    return {
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {"instanceSelections": selections},
        "size": asked.machines,
        "distributionPolicy": policy,
    }


def ask_aws(kind: str, asked: Asked, hours: int) -> tuple[dict[str, Any], Origin]:
    """Ask for spot placement scores of single zones of a region (``aws-scores``), or for what can
    be bought for so many hours: capacity blocks (``aws-blocks``) or training plans (``aws-plans``).
    """
    machine, count = asked.offer.instance_type, asked.machines
    wishes: dict[str, Any] = {"InstanceType": machine, "InstanceCount": count}
    if kind == "aws-blocks":
        operation, key = "describe_capacity_block_offerings", "CapacityBlockOfferings"
        return _asked("ec2", asked.region, operation, key, CapacityDurationHours=hours, **wishes)
    if kind == "aws-plans":
        operation, key = "search_training_plan_offerings", "TrainingPlanOfferings"
        wishes |= {"InstanceType": f"ml.{machine}", "TargetResources": ["training-job"]}
        return _asked("sagemaker", asked.region, operation, key, DurationHours=hours, **wishes)
    return _asked(
        "ec2",
        asked.region,
        "get_spot_placement_scores",
        "SpotPlacementScores",
        InstanceTypes=[machine],
        TargetCapacity=count,
        TargetCapacityUnitType="units",
        SingleAvailabilityZone=True,
        RegionNames=[asked.region],
    )


def ask_quotas(region: str) -> tuple[dict[str, Any], Origin]:
    """Ask Service Quotas what the user's account may run."""
    return _asked("service-quotas", region, "list_service_quotas", "Quotas", ServiceCode="ec2")


def _asked(
    service: str, region: str, operation: str, key: str, **wishes: Any
) -> tuple[dict[str, Any], Origin]:
    account = Account()
    rows = account.rows(account.client(service, region or HOME), operation, key, **wishes)
    document = {key: rows}
    place = f"{operation.replace('_', ' ')} of AWS in {region}"
    return document, origin(place, [json.dumps(document, sort_keys=True, default=str)])
