"""Machines for sale for a time: capacity blocks and training plans of AWS, from its answers and
from the list that ``placer capacity import aws-blocks`` and ``aws-plans`` write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.files.bounded_file import read_file
from placer.market.books.csv_rows import read_numbered_rows
from placer.market.catalog import Catalog
from placer.market.sources.capacity.answers import day_of
from placer.market.sources.harvest import Row, Tally
from placer.market.sources.reading.mapped_rows import Known, shipped_rows
from placer.units import parse_moment

HINT = "give a CSV file as 'placer capacity import aws-blocks -o FILE' writes it"


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
        day_of(row["start"], place)
        if row["place"] in book.regions:
            found.append(OfferedBlock(**row))  # type: ignore[arg-type]
        else:
            tally.leave_out("region that no book knows", str(row["place"]))
    found.sort(key=lambda block: (block.usd_per_machine_hour, block.start, block.name))
    return found, tally.reasons()


def read_blocks(path: str | Path) -> list[OfferedBlock]:
    """Read the blocks of a file; PlacerError names file, line and column that are wrong."""
    blocks = []
    for number, row in read_numbered_rows(Path(path), "blocks.csv", read_file(path, HINT)):
        parse_moment(row["start"], f"{path}:{number}: start")
        blocks.append(OfferedBlock(**row))
    return blocks
