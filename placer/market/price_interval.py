"""How far the price of an offer may be from the one in the book: the one definition that estimates,
the price risk of an answer and `robust` share.
"""

from __future__ import annotations

from msgspec import Struct

from placer.market.catalog import VmOffer

GUESSED = "x on-demand"
"""Words in the source of a spot price that nobody read: a share of the on-demand price."""


class Spread(Struct, frozen=True, kw_only=True):
    """What multiplies a price at the low and high end of its interval, and how that is known."""

    low: float
    high: float
    basis: str
    source: str


EXACT = Spread(low=1.0, high=1.0, basis="list", source="a price list, or a contract")
PAPER = Spread(low=0.9, high=1.1, basis="assumed", source="an on-demand price that a paper reports")
ESTIMATE = Spread(low=0.7, high=1.6, basis="assumed", source="an estimated price")
MOVING = Spread(
    low=1 / 1.4,
    high=1.4,
    basis="published",
    source="how far Google Cloud spot prices of H100 moved in 30 days (root mean square of 15 "
    "pairs of lists, October 2025 to August 2026, scaled by the root of time); other providers "
    "are taken alike",
)
"""A spot price that was read, without a history of its own.

The changes of log(price) over 112 to 284 days, divided by the root of the days and multiplied by
that of 30, have a root mean square of 0.268 for H100 (15 pairs), 0.101 for L4 (4) and 0.061 for
A100 (4): ``tests/market/spot_price_moves.csv``. 80 % of a normal law lie within 1.2816 times that,
x1.41. The most restless device stands for all, since the next one may be so.
"""
GUESS = Spread(
    low=0.43,
    high=1.5,
    basis="published",
    source="spot over on-demand where both were read: 0.17 to 0.60 for 80 % of the rows of AWS and "
    "of Google Cloud, against the 0.40 that is guessed",
)
"""A spot price that is 0.40 x on-demand because nobody read it."""


class PriceInterval(Struct, frozen=True, kw_only=True):
    """The price of one machine with the ends between which it is expected for 30 days, 4 times in
    5; USD/h.

    ``basis`` is list (exact), history (of this very price), published or assumed (of its class);
    ``source`` says what the ends come from.
    """

    value: float
    low: float
    high: float
    basis: str
    source: str

    @property
    def exact(self) -> bool:
        """Whether both ends are the price itself."""
        return self.low == self.value == self.high

    @property
    def factors(self) -> tuple[float, float]:
        """What multiplies the price at the two ends; 1 and 1 for a price of 0."""
        return (self.low / self.value, self.high / self.value) if self.value else (1.0, 1.0)


def price_interval(offer: VmOffer) -> PriceInterval:
    """Return the interval of an offer's price: from its own history where the book has one, else
    from the class of the price.

    A history is the 10 % and the 90 % quantile of the last 30 days. A price that can move by itself
    may move as far again from where it is now, either way; the quantiles alone held 47 % of the
    prices of the next 30 days on random walks, these ends 83 %
    (``docs/decisions/spot-prices.md``). Low and high of other prices are taken as they are.

    >>> offer = VmOffer("a", "b", "c", "T4", 1, 4, 16, "spot", 1.0, "list", None, "", "2026-01-01",
    ...                 usd_per_hour_low=0.8, usd_per_hour_high=1.0)
    >>> got = price_interval(offer)
    >>> got.low, got.high, got.basis
    (0.8, 1.25, 'history')
    """
    price = offer.usd_per_hour
    low, high = offer.usd_per_hour_low, offer.usd_per_hour_high
    if (low is None and high is None) or not price:
        spread = _spread(offer)
        ends = {"low": price * spread.low, "high": price * spread.high}
        return PriceInterval(value=price, **ends, basis=spread.basis, source=spread.source)
    low, high = min(price, low or price), max(price, high or price)
    if offer.moves:
        low, high = price * low / high, price * high / low
    if offer.price_basis == "estimated":  # the price of today is not known either
        low, high = min(low, price * ESTIMATE.low), max(high, price * ESTIMATE.high)
    source = "10 % and 90 % quantile of the last 30 days"
    return PriceInterval(value=price, low=low, high=high, basis="history", source=source)


def _spread(offer: VmOffer) -> Spread:
    basis = offer.price_basis
    if basis == "estimated":
        return GUESS if offer.moves and GUESSED in offer.source else ESTIMATE
    if offer.moves and basis in ("list", "published"):
        return MOVING
    return PAPER if basis == "published" else EXACT
