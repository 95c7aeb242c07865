"""The same market at other prices or with other links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from placer.market.catalog import Catalog, VmOffer
from placer.market.network.geography import Array
from placer.market.network.graph import Link, Network, network_of
from placer.records import replace

RowType = TypeVar("RowType", bound=msgspec.Struct)
FREE = "free-egress"  # Key under which a catalog keeps its market with free egress
SCALED_USE = "scaled-use"
"""Key under which a catalog keeps its markets with other prices of use, by factor."""
AGGREGATOR_PLACES = "aggregator-places"
"""Key under which a catalog keeps the places of functions with their stores."""
ONE_ROW = "one-row"  # Key under which a catalog keeps the one row in which it differs from another


REPRICED = "repriced"  # Key under which a catalog keeps which prices differ from another's


class Repriced(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The rows in which a catalog differs from a ``plain`` one: those at other prices, by identity
    of the rows that they stand for.
    """

    plain: Catalog
    offers: dict[int, VmOffer]


class RowChange(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The one row in which a catalog differs from a ``plain`` one: ``changed`` stands for ``offer``
    at another price; None: the row is left out.
    """

    plain: Catalog
    offer: VmOffer
    changed: VmOffer | None


def with_scaled_prices(
    catalog: Catalog, matches: Callable[[VmOffer], bool], factor: float, source: str = "what if"
) -> Catalog:
    """Multiply the price of some machines, with the ends of its spread, by a factor from 0; all
    else stays. ``source`` is put before the source of each scaled price.
    """
    changed = {id(o): scaled(o, factor, source) for o in catalog.offers if matches(o)}
    repriced = with_offers(catalog, tuple(changed.get(id(o), o) for o in catalog.offers))
    repriced.memo[REPRICED] = Repriced(plain=catalog, offers=changed)
    return repriced


def scaled(offer: VmOffer, factor: float, source: str) -> VmOffer:
    """Return a machine at a multiple of its price and of its spread, with why before its source."""
    low, high = offer.usd_per_hour_low, offer.usd_per_hour_high
    return msgspec.structs.replace(
        offer,
        usd_per_hour=offer.usd_per_hour * factor,
        usd_per_hour_low=low and low * factor,
        usd_per_hour_high=high and high * factor,
        source=f"{source}; {offer.source}",
    )


def with_one_price(catalog: Catalog, offer: VmOffer, factor: float | None) -> Catalog:
    """Multiply the price of one row of a catalog, the row itself and not one that is equal, by a
    factor from 0; None leaves the row out. The result knows in which row it differs (`ONE_ROW`), so
    that what was admitted of the others is not looked at again.
    """
    changed = None if factor is None else scaled(offer, factor, "what if")
    offers = (changed if other is offer else other for other in catalog.offers)
    repriced = with_offers(catalog, tuple(other for other in offers if other is not None))
    repriced.memo[ONE_ROW] = RowChange(plain=catalog, offer=offer, changed=changed)
    return repriced


def with_offers(catalog: Catalog, offers: tuple[VmOffer, ...]) -> Catalog:
    """Put offers that differ in prices alone in place of the old ones: links stay worked out."""
    changed = replace(catalog, offers=offers)
    changed.memo["network"] = network_of(catalog)  # it knows no prices of machines
    if AGGREGATOR_PLACES in catalog.memo:  # nor do these
        changed.memo[AGGREGATOR_PLACES] = catalog.memo[AGGREGATOR_PLACES]
    return changed


def with_scaled_egress(catalog: Catalog, factor: float) -> Catalog:
    """Multiply every price of egress by a factor from 0; links and admitted offers stay what they
    are. 0 makes egress free, as a tool that ignores it assumes; that market is kept.
    """
    free: Catalog | None = catalog.memo.get(FREE) if factor == 0 else None
    if free is not None:
        return free
    changed = replace(catalog, egress=_scaled_rows(catalog.egress, factor))
    _remember(changed, catalog, Network(changed, network_of(catalog)))
    if factor == 0:
        catalog.memo[FREE] = changed  # whole, since other threads may ask
    return changed


def with_scaled_use(catalog: Catalog, factor: float) -> Catalog:
    """Multiply every price that is paid by use, of egress, stores and functions, by a factor from
    0; machines keep theirs. Each market is kept, so that few factors should be asked for.
    """
    known: dict[float, Catalog] = catalog.memo.setdefault(SCALED_USE, {})
    if factor not in known:
        changed = replace(
            catalog,
            egress=_scaled_rows(catalog.egress, factor),
            stores=_scaled_rows(catalog.stores, factor),
            functions=_scaled_rows(catalog.functions, factor),
        )
        _remember(changed, catalog, Network(changed, network_of(catalog)))
        known[factor] = changed
    return known[factor]


def _scaled_rows(rows: Iterable[RowType], factor: float) -> tuple[RowType, ...]:
    return tuple(
        msgspec.structs.replace(
            row,
            **{
                name: getattr(row, name) * factor
                for name in row.__struct_fields__
                if name.startswith("usd_per_")
            },
        )
        for row in rows
    )


def with_scaled_links(catalog: Catalog, factor: float) -> Catalog:
    """Multiply the bandwidth of every link between two places, of single streams and of what many
    reach together, by a factor above 0; round-trip times and what one machine carries stay.
    """
    changed = replace(catalog)
    _remember(changed, catalog, _ScaledLinks(network_of(catalog), changed, factor))
    return changed


def _remember(changed: Catalog, catalog: Catalog, network: Network) -> None:
    """Share what is worked out of a market with one of the same offers but another network."""
    own = (FREE, SCALED_USE)
    changed.memo.update({key: value for key, value in catalog.memo.items() if key not in own})
    changed.memo["network"] = network


class _ScaledLinks(Network):
    """A network whose links between places carry a multiple."""

    def __init__(self, plain: Network, catalog: Catalog, factor: float) -> None:
        super().__init__(catalog, plain)
        self._links = {}  # those of the plain network are not scaled
        self._plain, self._factor = plain, factor

    def speeds(self, places: Sequence[str], streams: int = 1, machines: int = 1) -> Array:
        """Return bytes/s from place to place, as `link` scales them; shape (places, places)."""
        plain = self._plain.speeds(places, streams, machines)
        own = [[src == dst for dst in places] for src in places]
        return np.where(own, plain, self._factor * plain)

    def link(self, src: str, dst: str) -> Link:
        """Find the link from ``src`` to ``dst`` and scale it."""
        link = self._links.get((src, dst))
        if link is None:
            link = self._plain.link(src, dst).scaled(self._factor if src != dst else 1.0)
            self._links[src, dst] = link
        return link
