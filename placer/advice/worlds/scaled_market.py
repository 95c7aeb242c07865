"""The same market at other prices or with other links: what break-even questions are asked of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from placer.market.catalog import Catalog, VmOffer
from placer.market.network.graph import Link, Network, network_of


def with_scaled_prices(
    catalog: Catalog, matches: Callable[[VmOffer], bool], factor: float
) -> Catalog:
    """Multiply the price of some machines; links, egress and everything else stay.

    Parameters
    ----------
    matches
        Says which offers are scaled.
    factor
        From 0; 0 gives them away.
    """

    def scaled(offer: VmOffer) -> VmOffer:
        return msgspec.structs.replace(
            offer,
            usd_per_hour=offer.usd_per_hour * factor,
            usd_per_hour_low=None,
            usd_per_hour_high=None,
            price_basis="what-if",
        )

    changed = replace(
        catalog,
        offers=tuple(
            scaled(o) if matches(o) and o.price_basis != "owned" else o for o in catalog.offers
        ),
    )
    changed.memo["network"] = network_of(
        catalog
    )  # knows no machine prices, so links and egress are worked out once
    return changed


def with_scaled_egress(catalog: Catalog, factor: float) -> Catalog:
    """Multiply every price of egress; links and admitted offers stay what they are.

    Parameters
    ----------
    factor
        From 0; 0 makes egress free.
    """
    changed = replace(
        catalog,
        egress=tuple(
            replace(price, usd_per_gib=price.usd_per_gib * factor) for price in catalog.egress
        ),
    )
    changed.memo.update({**catalog.memo, "network": Network(changed, network_of(catalog))})
    return changed


def with_scaled_links(catalog: Catalog, factor: float) -> Catalog:
    """Multiply the bandwidth of every link between two places; round-trip times and what one
    machine carries stay.

    Parameters
    ----------
    factor
        Above 0, for single streams and for what many streams reach together.
    """
    changed = replace(catalog)
    changed.memo.update(
        {**catalog.memo, "network": _ScaledLinks(network_of(catalog), changed, factor)}
    )
    return changed


class _ScaledLinks(Network):
    """A network whose links between places carry a multiple."""

    def __init__(self, plain: Network, catalog: Catalog, factor: float) -> None:
        super().__init__(catalog)
        self._plain, self._factor = plain, factor

    def link(self, src: str, dst: str) -> Link:
        """Find the link from ``src`` to ``dst`` and scale it."""
        found = self._links.get((src, dst))
        if found is None:
            link, times = self._plain.link(src, dst), self._factor if src != dst else 1.0
            found = self._links[src, dst] = replace(
                link,
                bytes_per_second=link.bytes_per_second * times,
                low=link.low * times,
                high=link.high * times,
                cap=link.cap * times,
            )
        return found
