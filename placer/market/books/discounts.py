"""Negotiated prices: what a contract takes off the prices of the layers below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from placer.market.catalog import FREE, VmOffer


class Discount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a contract; every name may have wildcards.

    Notes
    -----
    ``multiplier`` is what is paid over the price of the book: 0.82 for 18 % off.
    """

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
        """Return whether this line is about an offer; owned and reserved machines have no price to
        take anything off.
        """
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


def discounted(offers: Iterable[VmOffer], discounts: Sequence[Discount]) -> list[VmOffer]:
    """Apply a contract to offers: the last line that covers an offer counts, so that exceptions
    follow the rule.

    Notes
    -----
    The date stays that of the price: a contract takes off an old price as well.
    """
    return [
        _priced(offer, next((d for d in reversed(discounts) if d.covers(offer)), None))
        for offer in offers
    ]


def _priced(offer: VmOffer, discount: Discount | None) -> VmOffer:
    if discount is None:
        return offer
    low, high = offer.usd_per_hour_low, offer.usd_per_hour_high
    return msgspec.structs.replace(
        offer,
        usd_per_hour=offer.usd_per_hour * discount.multiplier,
        usd_per_hour_low=None if low is None else low * discount.multiplier,
        usd_per_hour_high=None if high is None else high * discount.multiplier,
        price_basis="negotiated" if offer.price_basis != "estimated" else "estimated",
        source=f"{offer.source}; {discount.words}",
    )
