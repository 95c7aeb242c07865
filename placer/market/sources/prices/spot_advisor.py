"""Interruptions of spot machines of AWS: ``spot-advisor-data.json`` of the Spot Instance Advisor.

It has no prices: the offers are those of the shipped book, with other bands of interruptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import asdict

from placer.errors import PlacerError
from placer.files.json_text import parse_json
from placer.market.books.book_reader import load_catalog
from placer.market.sources.harvest import Harvest, Row, Tally
from placer.market.sources.reading.fetch import read_document

BAND = re.compile(r"([<>]?)([0-9]+)(?:-([0-9]+))?%")
SOURCE = "interruptions of the Spot Instance Advisor"
Band = tuple[float, float]
"""Shares of the machines that are taken away in a month, low and high."""


def read_advice(place: str, read_seconds: float) -> Harvest:
    """Give the spot offers of the shipped book the bands of a file or URL; those that it does not
    name are counted and keep theirs.
    """
    document = read_document(place, read_seconds=read_seconds)
    try:
        advice = parse_json(document.data)
        bands = {int(row["index"]): _band(row["label"]) for row in advice["ranges"]}
        regions = advice["spot_advisor"]
        named = {
            (region, name): bands[int(one["r"])]
            for region, systems in regions.items()
            for name, one in systems.get("Linux", {}).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        tip = "give spot-advisor-data.json as AWS publishes it"
        raise PlacerError(f"'{place}' is not of the Spot Instance Advisor", tip) from None
    tally = Tally(skip_bad=False, origins=[document.origin])
    rows = [*_rows(named, tally)]
    if not rows:
        raise PlacerError(f"'{place}' names no spot machine of the shipped book")
    return tally.harvest({"offers.csv": rows})


def _rows(named: Mapping[tuple[str, str], Band], tally: Tally) -> Iterator[Row]:
    for offer in load_catalog("default").offers:
        if offer.provider != "aws" or offer.market != "spot":
            continue
        band = named.get((offer.region, offer.instance_type))
        if band is None:
            tally.leave_out("spot machine of the book that the advisor does not name")
        else:
            low, high = band
            source = f"{offer.source.partition('; interruptions')[0]}; {SOURCE}"
            bands = {"interruption_low": low, "interruption_high": high}
            yield {**asdict(offer), **bands, "source": source}


def _band(label: str) -> Band:
    """Read a band of the advisor.

    >>> _band("<5%"), _band("10-15%"), _band(">20%")
    ((0.0, 0.05), (0.1, 0.15), (0.2, 1.0))
    """
    found = BAND.fullmatch(label)
    if found is None:
        raise ValueError(label)
    side, share = found[1], int(found[2]) / 100
    if found[3]:
        return share, int(found[3]) / 100
    return (share, 1.0) if side == ">" else (0.0, share)
