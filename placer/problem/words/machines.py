"""Words about machines that must be used: owned, or running already."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from placer.errors import PlacerError, unknown
from placer.market.catalog import Catalog
from placer.market.words.areas import CONTINENTS, plain_name
from placer.market.words.selection import places_of
from placer.problem.requirements import Used

_RULE = re.compile(
    r"(?P<place>[^=\s]+)(?:=(?P<count>[0-9]{1,9})x(?P<device>[A-Za-z0-9*?-]+(?::[0-9]{1,6})?)(?::(?P<market>spot|on-demand|community))?)?"
)


def parse_used(given: list[str], catalog: Catalog) -> tuple[Used, ...]:
    """Read ``PLACE`` or ``PLACE=NxDEVICE[:market]``: at least one worker in a place, or at least N
    machines of a kind. ``given``: place and device may have wildcards; a provider stands for all
    its places. Devices are written as for placements by hand: ``T4`` is a machine with one,
    ``V100:8`` one with eight, ``T4*`` any. ``catalog``: must have such a place and such a device.
    `PlacerError` if a word does not follow the grammar, is given twice, or names what the catalog
    does not have.
    """
    rules: dict[tuple[str, str, str], Used] = {}
    for word in given:
        match = _RULE.fullmatch(word)
        if match is None:
            raise PlacerError(
                f"use '{word}' names no machines",
                "write PLACE or PLACE=NxDEVICE[:MARKET], such as onprem/site=1xRTX8000",
            )
        if match["count"] is not None and int(match["count"]) < 1:
            raise PlacerError(
                f"use '{word}': at least 1 is needed",
                "leave it out, or give how many machines must be used",
            )
        rule = Used(
            place=_place(match["place"], catalog),
            device=_device(match["device"] or "*", catalog),
            market=(match["market"] or "*").replace("-", "_"),
            count=int(match["count"] or 1),
        )
        if (rule.place, rule.device, rule.market) in rules:
            raise PlacerError(
                f"use '{word}' is given twice",
                "write it once, with the number of machines that must be used",
            )
        rules[rule.place, rule.device, rule.market] = rule
    return tuple(rules.values())


def _place(word: str, catalog: Catalog) -> str:
    """Read one pattern of places; areas of several are refused, as counts are of all together."""
    places = places_of(word, catalog)
    if len(places) > 1:
        what = "a continent" if plain_name(word) in CONTINENTS else "an area"
        raise PlacerError(
            f"use '{word}': {what} is not a pattern of places",
            "name a place, a provider or one such as 'gcp/europe-*'",
        )
    return places[0]


def _device(word: str, catalog: Catalog) -> str:
    """Read a name or pattern of devices, spelt as in the catalog."""
    name, _, number = word.partition(":")
    exact = next((gpu for gpu in catalog.gpus if gpu.upper() == name.upper()), None)
    rented = {offer.device for offer in catalog.offers}
    named = word if exact is None else exact if number in ("", "1") else f"{exact}:{int(number)}"
    for device in (named, named.upper()):
        if any(fnmatchcase(known, device) for known in rented):
            return device
    if exact is None:
        raise unknown("device", word, rented)
    sizes = sorted(known for known in rented if known.partition(":")[0] == exact)
    hint = f"it has {', '.join(sizes or catalog.rented_gpus)}"
    raise PlacerError(f"catalog '{catalog.name}' rents no machine with {named}", hint)
