"""Questions about capacity to Google Cloud and AWS, with the user's own access."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from placer.errors import PlacerError
from placer.market.sources.capacity.asked import Asked
from placer.market.sources.capacity.gcp_advice import advice_request, history_request
from placer.market.sources.harvest import Origin
from placer.market.sources.prices.aws.account import HOME, Account
from placer.market.sources.prices.pages import address, pages
from placer.market.sources.prices.quotes import origin

COMPUTE_URL = "https://compute.googleapis.com/compute/beta"
COMPUTE_VARIABLE = "PLACER_GCP_COMPUTE_URL"
TOKEN = "PLACER_GCP_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
PROJECT = re.compile(r"[a-z][a-z0-9.:-]{1,80}")


def ask_google(method: str, project: str, asked: Asked) -> tuple[dict[str, Any], Origin]:
    """Ask Google Cloud for advice.

    Parameters
    ----------
    method
        ``capacity`` or ``capacityHistory``.
    project
        Of the user.
    asked
        With its region.

    Raises
    ------
    PlacerError
        Without an access token or a project; with exit code 7 if Google does not answer.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token or not (token.isascii() and token.isprintable() and " " not in token):
        raise PlacerError(
            "no access token for Google Cloud",
            f"set {TOKEN} to what 'gcloud auth print-access-token' prints, or give --from FILE",
        )
    if not PROJECT.fullmatch(project):
        raise PlacerError(f"'{project[:40]}' is not a project of Google Cloud", "give --project ID")
    question = advice_request(asked) if method == "capacity" else history_request(asked)
    base = address(COMPUTE_VARIABLE, COMPUTE_URL)
    with pages(base, headers={"Authorization": f"Bearer {token}"}) as source:
        url = f"{base}/projects/{project}/regions/{asked.region}/advice/{method}"
        return source.get(url, question=question), source.origin()


def ask_scores(asked: Asked) -> tuple[dict[str, Any], Origin]:
    """Ask EC2 for the spot placement scores of single zones of a region."""
    return _asked(
        "ec2",
        asked.region,
        "get_spot_placement_scores",
        "SpotPlacementScores",
        InstanceTypes=[asked.offer.instance_type],
        TargetCapacity=asked.machines,
        TargetCapacityUnitType="units",
        SingleAvailabilityZone=True,
        RegionNames=[asked.region],
    )


def ask_blocks(asked: Asked, hours: int) -> tuple[dict[str, Any], Origin]:
    """Ask EC2 which capacity blocks can be bought."""
    return _asked(
        "ec2",
        asked.region,
        "describe_capacity_block_offerings",
        "CapacityBlockOfferings",
        InstanceType=asked.offer.instance_type,
        InstanceCount=asked.machines,
        CapacityDurationHours=hours,
    )


def ask_plans(asked: Asked, hours: int) -> tuple[dict[str, Any], Origin]:
    """Ask SageMaker which training plans can be bought."""
    return _asked(
        "sagemaker",
        asked.region,
        "search_training_plan_offerings",
        "TrainingPlanOfferings",
        InstanceType=f"ml.{asked.offer.instance_type}",
        InstanceCount=asked.machines,
        DurationHours=hours,
        TargetResources=["training-job"],
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
