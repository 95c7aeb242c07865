"""Lines about offers by wildcards: discounts.csv says what a contract takes off the prices of the
layers below it; networks.csv says once for a type of machine what offers.csv would say in each row
of its network and its local disks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from placer.market.catalog import FREE, VmOffer
from placer.market.checks.agreement import Located

COLUMNS = ("network_gbps", "fabric", "max_island_machines", "local_disk_gb")
"""Columns of offers.csv that networks.csv fills in."""
Rows = dict[tuple[Any, ...], list[Located]]
"""Rows with where they stand, by their key; see `placer.market.books.csv_rows.KEYS`."""


class Discount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a contract; ``multiplier`` is what is paid: 0.82 for 18 % off."""

    provider: str
    region: str
    instance_type: str
    gpu: str
    market: str
    multiplier: float
    source: str
    as_of: str

    @property
    def words(self) -> str:
        """What the source of a price says that this line was applied to."""
        return f"x {self.multiplier:g}: {self.source}"

    def covers(self, offer: VmOffer) -> bool:
        """Tell whether the line is about an offer; owned and reserved machines have no price."""
        pairs = (
            (offer.provider, self.provider),
            (offer.region, self.region),
            (offer.instance_type, self.instance_type),
            (offer.gpu, self.gpu),
            (offer.market, self.market.replace("-", "_")),
        )
        return offer.price_basis not in FREE and all(
            fnmatchcase(value, pattern) for value, pattern in pairs
        )


class MachineNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """Network and local disks of types of machines; None or empty: unknown, see ``source``."""

    provider: str
    instance_type: str
    network_gbps: float | None
    fabric: str
    source: str
    as_of: str
    max_island_machines: int | None = None
    local_disk_gb: float | None = None

    def covers(self, kind: tuple[str, str]) -> bool:
        """Return whether this line is about a provider and type of machine."""
        patterns = self.provider, self.instance_type
        return all(map(fnmatchcase, kind, patterns))


def discounted(offers: Rows, contract: Sequence[Discount]) -> Rows:
    """Apply a contract to offers: the last line that covers an offer counts, so that exceptions
    follow the rule.

    The date stays that of the price: a contract takes off an old price as well.
    """

    def priced(offer: VmOffer) -> VmOffer:
        discount = next((line for line in reversed(contract) if line.covers(offer)), None)
        if discount is None:
            return offer
        low, high = offer.usd_per_hour_low, offer.usd_per_hour_high
        return msgspec.structs.replace(
            offer,
            usd_per_hour=offer.usd_per_hour * discount.multiplier,
            usd_per_hour_low=low and low * discount.multiplier,
            usd_per_hour_high=high and high * discount.multiplier,
            price_basis="negotiated" if offer.price_basis != "estimated" else "estimated",
            source=f"{offer.source}; {discount.words}",
        )

    return {
        key: [(where, priced(offer)) for where, offer in found] for key, found in offers.items()
    }


def connected(
    offers: Rows,
    networks: Sequence[MachineNetwork],
    unsaid: Mapping[tuple[Any, ...], Sequence[str]],
) -> Rows:
    """Give offers the network of their type where no book has a column for it.

    Of the lines that cover a type the last one counts, so that exceptions follow the rule.
    ``unsaid`` are the columns of each offer that no layer has: an empty cell of a book says that
    nothing is known, and stays.
    """
    lines: dict[tuple[str, str], MachineNetwork | None] = {}
    result = dict(offers)
    for key, found in offers.items():
        columns = unsaid.get(key, ())
        if not columns:
            continue
        kind = found[0][1].provider, found[0][1].instance_type
        if kind not in lines:
            lines[kind] = next((line for line in reversed(networks) if line.covers(kind)), None)
        line = lines[kind]
        if line is not None:
            result[key] = [
                (
                    where,
                    msgspec.structs.replace(
                        offer,
                        **{
                            column: getattr(line, column)
                            for column in columns
                            if getattr(offer, column) in (None, "")
                        },
                    ),
                )
                for where, offer in found
            ]
    return result
