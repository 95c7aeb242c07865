"""What AWS says of capacity: spot placement scores, and blocks and plans for sale, by mappings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placer.market.catalog import Catalog
from placer.market.sources.capacity.asked import Asked, day_of, mapped, rows_for
from placer.market.sources.harvest import Harvest, Origin, Row
from placer.market.sources.reading.mapped_rows import Known
from placer.market.sources.reading.tally import Tally


def scores_harvest(
    document: Mapping[str, Any], asked: Asked, book: Catalog, origin: Origin
) -> Harvest:
    """Make rows of spot placement scores for the machines that were asked for."""
    rows, left_out = rows_for(asked, "aws-scores", document, book, origin)
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
    kind: str, document: Mapping[str, Any], book: Catalog, where: str
) -> tuple[list[OfferedBlock], Mapping[str, int]]:
    """Read offers of capacity blocks of EC2, or of training plans of SageMaker.

    Returns
    -------
    list of OfferedBlock and Mapping
        The cheapest for an hour of a machine first; what was left out, by reason.
    """
    machines: dict[str, Row] = {
        offer.instance_type: {"gpu": offer.gpu, "gpu_count": offer.gpu_count}
        for offer in book.offers
        if offer.provider == "aws"
    }
    tally = Tally(skip_bad=False)
    known = Known(gpus=book.gpus, machines=machines)
    found = []
    for place, row, _ in mapped(kind, document, where, {}, known, tally):
        day_of(row["start"], place)
        if row["place"] in book.regions:
            found.append(OfferedBlock(**row))  # type: ignore[arg-type]
        else:
            tally.leave_out("region that no book knows", str(row["place"]))
    found.sort(key=lambda block: (block.usd_per_machine_hour, block.start, block.name))
    return found, tally.reasons()
