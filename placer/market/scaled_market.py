"""The same market at other prices, with other links or without some offers: parts of a changed
world in the price book.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from placer.errors import PlacerError, unknown
from placer.market.catalog import Catalog, EgressPrice, VmOffer
from placer.market.network.graph import Link, Network, network_of
from placer.market.network.link_model import Array
from placer.market.table import Column
from placer.market.words.selection import gpus_like, is_named, places_of
from placer.records import replace

RowType = TypeVar("RowType", bound=msgspec.Struct)
SCALED = "scaled"
"""Key under which a catalog keeps its markets with other prices of use, by tables and factor."""
AGGREGATOR_PLACES = "aggregator-places"
"""Key under which a catalog keeps the places of functions with their stores."""
ONE_ROW = "one-row"  # Key under which a catalog keeps the one row in which it differs from another
REPRICED = "repriced"  # Key under which a catalog keeps the one that it has other prices than


class RowChange(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The one row in which a catalog differs from a ``plain`` one: ``changed`` stands for ``offer``
    ``at`` a position of the plain one, at another price; None: the row is left out.
    """

    plain: Catalog
    at: int
    offer: VmOffer
    changed: VmOffer | None


def with_scaled_prices(
    catalog: Catalog, matches: Callable[[VmOffer], bool], factor: float, source: str = "what if"
) -> Catalog:
    """Multiply the price of some machines, with the ends of its spread, by a factor from 0; all
    else stays. ``source`` is put before the source of each scaled price.
    """
    offers = [scaled(o, factor, source) if matches(o) else o for o in catalog.offers]
    columns: dict[str, Column | None] = dict.fromkeys(PRICE_FIELDS)
    repriced = with_offers(catalog, catalog.table.changed(columns, lambda row, _: offers[row]))
    repriced.memo[REPRICED] = catalog
    return repriced


PRICE_FIELDS = ("usd_per_hour", "usd_per_hour_low", "usd_per_hour_high", "source")
"""Fields in which a machine at another price differs."""


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
    table, at = catalog.table, catalog.row_of(offer)
    if factor is None:
        changed, offers = None, table.taken(np.delete(np.arange(len(table)), at))
    else:
        changed = priced = scaled(offer, factor, "what if")
        columns: dict[str, Column | None] = dict.fromkeys(PRICE_FIELDS)
        columns["usd_per_hour"] = table.column("usd_per_hour").changed([at], [priced.usd_per_hour])
        offers = table.changed(columns, lambda row, other: priced if row == at else other)
    repriced = with_offers(catalog, offers)
    repriced.memo[ONE_ROW] = RowChange(plain=catalog, at=at, offer=offer, changed=changed)
    return repriced


def with_offers(catalog: Catalog, offers: Sequence[VmOffer]) -> Catalog:
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
    return _with_scaled(catalog, ("egress",), factor, kept=factor == 0)


def with_scaled_use(catalog: Catalog, factor: float) -> Catalog:
    """Multiply every price that is paid by use, of egress, stores and functions, by a factor from
    0; machines keep theirs. Each market is kept, so that few factors should be asked for.
    """
    return _with_scaled(catalog, ("egress", "stores", "functions"), factor, kept=True)


def _with_scaled(
    catalog: Catalog, tables: tuple[str, ...], factor: float, *, kept: bool
) -> Catalog:
    known: dict[tuple[Any, ...], Catalog] = catalog.memo.setdefault(SCALED, {})
    changed = known.get((tables, factor))
    if changed is None:
        rows = {table: _scaled_rows(catalog.rows_of(table), factor) for table in tables}
        changed = replace(catalog, **rows)
        _remember(changed, catalog, Network(changed, network_of(catalog)))
        if kept:
            known[tables, factor] = changed  # whole, since other threads may ask
    return changed


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
    changed.memo.update({key: value for key, value in catalog.memo.items() if key != SCALED})
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


Row = tuple[str, tuple[str, ...], float | None, float | None]
"""A change: its words, its patterns, its factor or its value."""
SCOPES = ("internet", "inter-region", "inter-zone")
"""What stands for a destination: places of other providers, other regions of the provider, other
zones of the region.
"""
ASSUMED = "assumed"  # Basis of a link whose bandwidth a change made up
Key = tuple[str, str, str]  # Provider, source and destination of a row of egress.csv
Pair = tuple[str, str, bool]  # Source and destination of bytes, and whether they stay in a zone


def set_prices(catalog: Catalog, rows: Sequence[Row]) -> Catalog:
    """Change what machines cost by the hour, with the ends of their spread; PlacerError if a
    pattern matches no offer. A value is the price of one GPU in USD/h, so that a machine with eight
    costs eight times as much.
    """
    for text, target, factor, value in rows:
        admits, source = _matcher(catalog, target), f"what if: {text}"
        if not any(map(admits, catalog.offers)):
            raise _no_offer(text, target, catalog)
        if factor is not None:
            catalog = with_scaled_prices(catalog, admits, factor, source)
        elif value is not None:
            offers = (_priced(o, value, source) if admits(o) else o for o in catalog.offers)
            catalog = with_offers(catalog, tuple(offers))
    return catalog


def _priced(offer: VmOffer, usd_per_gpu_hour: float, source: str) -> VmOffer:
    """Return an offer at a given price of each GPU, which is exact, whatever the old one was."""
    return msgspec.structs.replace(
        offer,
        usd_per_hour=usd_per_gpu_hour * offer.gpu_count,
        usd_per_hour_low=None,
        usd_per_hour_high=None,
        price_basis="negotiated",
        source=f"{source}; {offer.source}",
    )


def drop_offers(catalog: Catalog, rows: Sequence[tuple[str, tuple[str, ...]]]) -> Catalog:
    """Take offers away; a place that is named without a device loses its functions and stores as
    well. PlacerError if a pattern matches no offer, or none is left.
    """
    for text, target in rows:
        admits = _matcher(catalog, target)
        kept = tuple(offer for offer in catalog.offers if not admits(offer))
        if len(kept) == len(catalog.offers):
            raise _no_offer(text, target, catalog)
        if not kept:
            raise PlacerError(f"drop '{text}' leaves no offer at all", "drop less")
        gone = tuple(places_of(target[0], catalog)) if len(target) == 1 else ()
        catalog = replace(
            catalog,
            offers=kept,
            functions=tuple(f for f in catalog.functions if not is_named(f.place, gone)),
            stores=tuple(s for s in catalog.stores if not is_named(s.place, gone)),
        )
    return catalog


def set_egress(catalog: Catalog, rows: Sequence[Row]) -> Catalog:
    """Change what bytes between places cost, all volume tiers of a pair alike; bytes inside a zone
    stay as they are.

    A row of egress.csv may price many pairs. Where all of them are changed, the row is; else each
    changed pair gets rows of its own, which win because they are the most specific
    (`Network.egress_tiers`). A pair that the book has no price for stays without one.
    """
    for text, target, factor, value in rows:
        wanted = _pairs(catalog, target, text)
        served: dict[Key, list[Pair]] = _pairs_by_row(catalog)
        changed: list[EgressPrice] = []
        gone: set[Key] = set()
        for key, pairs in served.items():
            hit = [pair for pair in pairs if pair in wanted]
            if not hit:
                continue
            tiers = network_of(catalog).egress_tiers(hit[0][0], hit[0][1], same_zone=hit[0][2])
            whole = len(hit) == len(pairs)
            for at in [key] if whole else dict.fromkeys(_own_key(pair) for pair in hit):
                gone.add(at)
                changed += [
                    _repriced(tier, at, factor, value, text)
                    for tier in (tiers if value is None else tiers[:1])
                ]
        if not changed:
            words = f"change '{text}': the book has no egress price for it"
            raise PlacerError(words, "see placer network show")
        kept = (
            price for price in catalog.egress if (price.provider, price.src, price.dst) not in gone
        )
        repriced = replace(catalog, egress=(*kept, *changed))
        repriced.memo["network"] = Network(repriced, network_of(catalog))  # links are the same
        catalog = repriced
    return catalog


def _repriced(
    tier: EgressPrice, at: Key, factor: float | None, value: float | None, text: str
) -> EgressPrice:
    usd, mark = value or 0.0, 0.0
    if factor is not None:
        usd, mark = tier.usd_per_gib * factor, tier.above_gib_per_month
    ends = dict(zip(("provider", "src", "dst"), at, strict=True))
    source = f"what if: {text}; {tier.source}"
    return replace(tier, **ends, source=source, usd_per_gib=usd, above_gib_per_month=mark)


def _pairs(catalog: Catalog, target: tuple[str, ...], text: str) -> set[Pair]:
    """Return the pairs of places of two patterns; one with itself only by inter-zone."""
    src, dst = _places(target[0], catalog), target[1]
    provider = {place: region.provider for place, region in catalog.regions.items()}
    if dst == "inter-zone":
        return {(place, place, False) for place in src}
    ends = [*provider] if dst in SCOPES else _places(dst, catalog)
    apart = ((a, b) for a in src for b in ends if a != b)
    if dst in SCOPES:
        same = dst == "inter-region"
        apart = ((a, b) for a, b in apart if (provider[a] == provider[b]) == same)
    pairs = {(a, b, zone) for a, b in apart for zone in (True, False)}
    if not pairs:
        tip = "write egress:SRC:inter-zone for bytes inside a region"
        raise PlacerError(f"change '{text}' names no two different places", tip)
    return pairs


def _pairs_by_row(catalog: Catalog) -> dict[Key, list[Pair]]:
    """Return which pairs of places each row of egress.csv prices; worked out once for a catalog."""
    pairs_by_row: dict[Key, list[Pair]] | None = catalog.memo.get("egress-pairs")
    if pairs_by_row is None:
        pairs_by_row, network = {}, network_of(catalog)
        for a in catalog.regions:
            for b in catalog.regions:
                for same_zone in (True, False):
                    try:
                        tier = network.egress_tiers(a, b, same_zone=same_zone)[0]
                    except PlacerError:  # no price; an error only for a placement that needs it
                        continue
                    pairs_by_row.setdefault((tier.provider, tier.src, tier.dst), []).append(
                        (a, b, same_zone)
                    )
        catalog.memo["egress-pairs"] = pairs_by_row
    return pairs_by_row


def _own_key(pair: Pair) -> Key:
    (provider, src), (to, dst) = pair[0].split("/", 1), pair[1].split("/", 1)
    if pair[0] == pair[1]:
        return provider, src, "intra_zone" if pair[2] else "inter_zone"
    return provider, src, dst if to == provider else pair[1]


def set_bandwidths(catalog: Catalog, rows: Sequence[Row]) -> Catalog:
    """Change the bandwidth of links, both ways unless ``one-way`` is said; round-trip times stay.

    A factor holds for one stream, its low and high, and for what many streams reach together. A
    rate is that of one stream; what many reach stays. A place is linked with itself only where both
    ends name it without wildcards: a pattern means the ways between places.
    """
    network, changed = network_of(catalog), dict[tuple[str, str], Link]()
    for text, target, factor, value in rows:
        ends = [
            (a, b)
            for a in _places(target[0], catalog)
            for b in _places(target[1], catalog)
            if a != b or target[0] == target[1] == a
        ]
        if not ends:
            tip = "write bandwidth:SRC:DST with two places or patterns"
            raise PlacerError(f"change '{text}' names no two different places", tip)
        both = len(target) == 2
        for src, dst in dict.fromkeys([*ends, *((b, a) for a, b in ends if both)]):
            link = changed.get((src, dst)) or network.link(src, dst)
            if value is None:
                link = link.scaled(factor or 1.0)
            else:  # that of one stream
                link = replace(link, bytes_per_second=value, low=value, high=value)
            source = f"what if: {text}; {link.source}"
            changed[src, dst] = replace(link, basis=ASSUMED, source=source)
    links = {(row.src, row.dst): row for row in catalog.links}
    links |= {ends: link.row(catalog.as_of[1]) for ends, link in changed.items()}
    made = replace(catalog, links=tuple(links.values()))
    made.memo["network"] = Network(made, priced=network)
    return made


def _places(pattern: str, catalog: Catalog) -> list[str]:
    patterns = places_of(pattern, catalog)
    return [place for place in catalog.regions if is_named(place, patterns)]


def _matcher(catalog: Catalog, target: tuple[str, ...]) -> Callable[[VmOffer], bool]:
    places = set(_places(target[0], catalog))
    gpus = None if len(target) == 1 else set(gpus_like(target[1], catalog))
    market = target[2] if len(target) == 3 else "*"
    return lambda offer: (
        offer.place in places
        and (gpus is None or offer.gpu in gpus)
        and market in ("*", offer.market)
    )


def _no_offer(text: str, target: tuple[str, ...], catalog: Catalog) -> PlacerError:
    words = ":".join(word.replace("_", "-") for word in target)
    known = dict.fromkeys(f"{o.place}:{o.gpu}:{o.market.replace('_', '-')}" for o in catalog.offers)
    error = unknown("offer", words, known, "see placer offers")
    return PlacerError(f"'{text}' matches no offer of catalog '{catalog.name}'", error.hint)
