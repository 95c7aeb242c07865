"""What AWS says of capacity: spot placement scores, and blocks and plans for sale.

Formats: EC2 GetSpotPlacementScores and DescribeCapacityBlockOfferings, SageMaker
SearchTrainingPlanOfferings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from placer.market.catalog import Catalog, VmOffer
from placer.market.launch_log import region_of
from placer.market.sources.capacity.asked import (
    Asked,
    capacity_row,
    day_of,
    figure,
    rows_under,
)
from placer.market.sources.harvest import Harvest, Origin, Row
from placer.records import replace

SCORES = "EC2 spot placement scores"
SPREAD = 0.3
"""Range of a share on either side of what a score is taken to mean: AWS promises nothing by it."""
SURE = 0.95
"""Share that the best score is taken to mean at most."""


def scores_harvest(
    document: Mapping[str, Any], asked: Asked, book: Catalog, origin: Origin
) -> Harvest:
    """Make rows of spot placement scores, 1 to 10 for the machines that were asked for.

    Notes
    -----
    A score is taken as that many tenths, at most `SURE`, give or take `SPREAD`, and labelled
    estimated: AWS says that 10 is highly likely and guarantees nothing.
    """
    left_out: Counter[str] = Counter()
    rows: list[Row] = []
    for number, found in enumerate(rows_under(document, "SpotPlacementScores", origin.place), 1):
        where = f"{origin.place}: score {number}"
        region = str(found.get("Region", ""))
        if f"aws/{region}" not in book.regions:
            left_out[f"region that no book knows: aws/{region[:40]}"] += 1
            continue
        share = min(SURE, figure(found, "Score", 1, 10, where) / 10)
        zone = str(found.get("AvailabilityZoneId") or "")
        rows.append(
            capacity_row(
                replace(asked, region=region, zone=zone),
                source=f"{SCORES} ({asked.offer.instance_type})",
                basis="estimated",
                share=share,
                share_low=round(max(0.0, share - SPREAD), 6),
                share_high=round(min(1.0, share + SPREAD), 6),
            )
        )
    return Harvest(rows={"capacity.csv": rows}, origins=[origin], left_out=left_out)


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferedBlock:
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

    @property
    def usd_per_machine_hour(self) -> float:
        """Price of one machine for an hour."""
        return self.usd / (self.machines * self.hours)


def block_offers(
    document: Mapping[str, Any], book: Catalog, where: str
) -> tuple[list[OfferedBlock], Counter[str]]:
    """Read offers of capacity blocks of EC2, or of training plans of SageMaker.

    Returns
    -------
    list of OfferedBlock and Counter
        The cheapest for an hour of a machine first; what was left out, by reason.
    """
    left_out: Counter[str] = Counter()
    found: list[OfferedBlock] = []
    for block in _blocks(document, where):
        machine = _machine(book, str(block["InstanceType"]))
        region = region_of(str(block["AvailabilityZone"]))
        if machine is None:
            left_out[f"machine that no book knows: {str(block['InstanceType'])[:40]}"] += 1
        elif f"aws/{region}" not in book.regions:
            left_out[f"region that no book knows: aws/{region[:40]}"] += 1
        elif block["Currency"] != "USD":
            left_out["price that is no USD"] += 1
        else:
            found.append(
                OfferedBlock(
                    name=str(block["Name"])[:80],
                    place=f"aws/{region}",
                    instance_type=machine.instance_type,
                    gpu=machine.gpu,
                    gpu_count=machine.gpu_count,
                    machines=int(figure(block, "InstanceCount", 1, 1e6, where)),
                    start=str(block["Start"])[:32],
                    hours=figure(block, "Hours", 0.01, 1e5, where),
                    usd=figure(block, "Fee", 0.0, 1e9, where),
                    source=str(block["Source"]),
                )
            )
            day_of(block["Start"], where)
    return sorted(found, key=lambda b: (b.usd_per_machine_hour, b.start, b.name)), left_out


def _blocks(document: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    if "TrainingPlanOfferings" in document:
        for plan in rows_under(document, "TrainingPlanOfferings", where):
            held = rows_under(plan, "ReservedCapacityOfferings", where)
            hours = figure(
                {"DurationHours": plan.get("DurationHours", 0)}, "DurationHours", 0, 1e5, where
            )
            hours += float(plan.get("DurationMinutes") or 0) / 60
            for part in held:
                yield {
                    "Name": plan.get("TrainingPlanOfferingId", ""),
                    "InstanceType": str(part.get("InstanceType", "")).removeprefix("ml."),
                    "AvailabilityZone": part.get("AvailabilityZone", ""),
                    "InstanceCount": part.get("InstanceCount"),
                    "Start": _time(part.get("StartTime")),
                    "Hours": hours,
                    "Fee": plan.get("UpfrontFee") if len(held) == 1 else None,
                    "Currency": plan.get("CurrencyCode", "USD"),
                    "Source": "SageMaker training plan offerings",
                }
        return
    for block in rows_under(document, "CapacityBlockOfferings", where):
        yield {
            "Name": block.get("CapacityBlockOfferingId", ""),
            "InstanceType": block.get("InstanceType", ""),
            "AvailabilityZone": block.get("AvailabilityZone", ""),
            "InstanceCount": block.get("InstanceCount"),
            "Start": _time(block.get("StartDate")),
            "Hours": block.get("CapacityBlockDurationHours"),
            "Fee": block.get("UpfrontFee"),
            "Currency": str(block.get("CurrencyCode", "USD")).upper(),
            "Source": "EC2 capacity block offerings",
        }


def _time(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _machine(book: Catalog, instance_type: str) -> VmOffer | None:
    return next(
        (o for o in book.offers if (o.provider, o.instance_type) == ("aws", instance_type)), None
    )
