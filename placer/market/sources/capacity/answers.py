"""What providers say of capacity: spot placement scores of AWS and Google Cloud's advice as rows of
capacity.csv, capacity blocks and training plans of AWS for sale; and the questions to them, with
the user's own access.

Formats: GetSpotPlacementScores of EC2; compute.googleapis.com, advice.capacity (REST, beta).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError, SourceError, unknown
from placer.files.bounded_file import read_file
from placer.files.json_text import parse_json
from placer.market.books.csv_rows import read_numbered_rows
from placer.market.capacity_table import zone_capacity
from placer.market.catalog import Catalog, VmOffer
from placer.market.sources.harvest import Harvest, Origin, Row, Tally
from placer.market.sources.prices.aws_account import HOME, Account
from placer.market.sources.prices.pages import address, pages, secret
from placer.market.sources.prices.scope import origin
from placer.market.sources.reading.fetch import read_document
from placer.market.sources.reading.mapped_rows import Known, shipped_rows
from placer.units import parse_moment

MOST_BYTES = 16 * 2**20  # Largest answer of an interface that is read from a file
AS_PRINTED = "give the answer as it was printed"
AS_WRITTEN = "give the answer as the provider wrote it"
LONGEST_H = 1.0
"""An estimated uptime of an hour is the longest that the interface says: it bounds nothing."""


class Asked(Struct, frozen=True, kw_only=True):
    """The question that a provider was asked: machines of a type, where, on which day.

    ``offer`` is a machine of the book: it says which device a machine type has. ``region`` and
    ``zone`` are empty where they were not named.
    """

    offer: VmOffer
    machines: int
    as_of: date
    region: str = ""
    zone: str = ""


def machine_of(book: Catalog, provider: str, instance_type: str) -> VmOffer:
    """Return some offer of a machine type; PlacerError with the nearest name if there is none."""
    for offer in book.offers:
        if (offer.provider, offer.instance_type) == (provider, instance_type):
            return offer
    names = sorted({o.instance_type for o in book.offers if o.provider == provider})
    raise unknown(f"machine of {provider}", instance_type, names)


def read_answer(place: str) -> tuple[dict[str, Any], Origin]:
    """Read the answer of an interface, as `read_json_answer` does: a JSON object."""
    document, origin = read_json_answer(place)
    if not isinstance(document, dict):
        raise PlacerError(f"{place}: no JSON object", AS_PRINTED)
    return document, origin


def read_json_answer(place: str) -> tuple[Any, Origin]:
    """Read the answer of an interface: JSON, as the provider's command line prints it."""
    document = read_document(place, most_bytes=MOST_BYTES)
    try:
        return parse_json(document.data), document.origin
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{place}: no JSON: {error}", AS_PRINTED) from None


def answer_harvest(
    kind: str, document: Mapping[str, Any], asked: Asked, book: Catalog, origin: Origin
) -> Harvest:
    """Make rows of an answer by the mapping ``aws-scores`` or ``gcp-advice``; regions that no book
    knows are counted.
    """
    given = {
        "instance_type": asked.offer.instance_type,
        "device": asked.offer.gpu,
        "machines": asked.machines,
        "as_of": asked.as_of.isoformat(),
        "region": asked.region,
        "zone": asked.zone,
    }
    tally = Tally(skip_bad=False, origins=[origin])
    rows: list[Row] = []
    for _, row, _ in shipped_rows(kind, document, origin.place, tally, given):
        place = f"{row['provider']}/{row['region']}"
        if place in book.regions:
            rows.append(_surviving(row, book))
        else:
            tally.leave_out("region that no book knows", place)
    return tally.harvest({"capacity.csv": rows})


def _surviving(row: Row, book: Catalog) -> Row:
    """Return a row with the curve of its median survival; an hour or more bounds nothing."""
    hours = row.get("survival_b_h")
    if not isinstance(hours, float) or hours >= LONGEST_H:
        return {name: cell for name, cell in row.items() if name != "survival_b_h"}
    known = zone_capacity(
        book.capacity,
        provider="gcp",
        region=str(row["region"]),
        zone=str(row["zone"]),
        device=str(row["device"]),
        market="spot",
    )
    shapes = [stay.survival_a for stay in known.stays if stay.survival_a is not None]
    a = shapes[-1] if shapes else 1.0
    return {**row, "survival_a": a, "survival_b_h": hours / (2 ** (1 / a) - 1)}


def rows_under(document: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    """Return the list of objects that an answer has under a key; exit code 7 if it has none."""
    rows = document.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{where}: no list '{key}'", AS_WRITTEN)
    return rows


def figure(row: Mapping[str, Any], key: str, low: float, high: float, where: str) -> float:
    """Return a number of an answer within limits; exit code 7 if it is none."""
    value = row.get(key)
    try:
        number = float(value) if isinstance(value, str | int | float) else float("nan")
    except ValueError:
        number = float("nan")
    if isinstance(value, bool) or not low <= number <= high:
        words = f"{where}: {key} '{str(value)[:40]}' is not from {low:g} to {high:g}"
        raise SourceError(words, AS_WRITTEN)
    return number


HINT = "give a CSV file as 'placer capacity import aws-blocks -o FILE' writes it"


class OfferedBlock(Struct, frozen=True, kw_only=True):
    """Machines that can be bought for a time: from ``start`` (ISO) for some hours, for ``usd`` in
    all.
    """

    name: str
    place: str
    instance_type: str
    gpu: str
    gpu_count: int
    machines: int
    start: str
    hours: float
    usd: float
    source: str


def block_offers(
    kind: str, document: Mapping[str, Any], book: Catalog, where: str
) -> tuple[list[OfferedBlock], Mapping[str, int]]:
    """Read offers of capacity blocks of EC2, or of training plans of SageMaker; the cheapest for an
    hour of a machine first. Return them with what was left out, by reason.
    """
    machines: dict[str, Row] = {
        offer.instance_type: {"gpu": offer.gpu, "gpu_count": offer.gpu_count}
        for offer in book.offers
        if offer.provider == "aws"
    }
    tally = Tally(skip_bad=False)
    known = Known(gpus=book.gpus, machines=machines)
    found = []
    for place, row, _ in shipped_rows(kind, document, where, tally, None, known):
        try:
            datetime.fromisoformat(str(row["start"]))
        except ValueError:
            words = f"{place}: '{str(row['start'])[:40]}' is not a time"
            raise SourceError(words, AS_WRITTEN) from None
        if row["place"] in book.regions:
            found.append(OfferedBlock(**row))  # type: ignore[arg-type]
        else:
            tally.leave_out("region that no book knows", str(row["place"]))
    found.sort(key=lambda one: (one.usd / (one.machines * one.hours), one.start, one.name))
    return found, tally.reasons()


def read_blocks(path: str | Path) -> list[OfferedBlock]:
    """Read the blocks of a file; PlacerError names file, line and column that are wrong."""
    blocks = []
    for number, row in read_numbered_rows(Path(path), "blocks.csv", read_file(path, HINT)):
        parse_moment(row["start"], f"{path}:{number}: start")
        blocks.append(OfferedBlock(**row))
    return blocks


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
