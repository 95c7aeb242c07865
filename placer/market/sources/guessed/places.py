"""Where the data centres of price lists are, as their cells say it."""

from __future__ import annotations

import re

from placer.market.words.areas import City, city_named, country_named, plain_name

LOCAL = {
    "bangalore": "Bengaluru",
    "bruxelles": "Brussels",
    "firenze": "Florence",
    "genf": "Geneva",
    "goteborg": "Gothenburg",
    "kobenhavn": "Copenhagen",
    "lisboa": "Lisbon",
    "mailand": "Milan",
    "milano": "Milan",
    "munchen": "Munich",
    "nurnberg": "Nuremberg",
    "praha": "Prague",
    "roma": "Rome",
    "torino": "Turin",
    "warszawa": "Warsaw",
    "wien": "Vienna",
}
"""Cities by what they are called at home, where catalogs/cities.csv has another name."""
_BETWEEN = r"[,;/()|·–]|\s-\s"


def place_in(cell: str) -> City | None:
    """Return the city that a cell names: a city, perhaps with its country or a number, or the
    capital of a country; None without one.

    >>> cells = "Frankfurt, DE", "Mumbai (India)", "München-2", "Norway", "us-south"
    >>> [place and place.city for place in map(place_in, cells)]
    ['Frankfurt am Main', 'Mumbai', 'Munich', 'Oslo', None]
    """
    parts = [part.strip() for part in re.split(_BETWEEN, cell) if part.strip()]
    land = next((land for part in parts if (land := country_named(part)) is not None), None)
    for word in (*parts, *re.findall(r"[^\W\d_]{4,}", cell)):
        name = LOCAL.get(plain_name(word), word)
        there = None if land is None else city_named(f"{name}/{land.country}")
        for city in (there, city_named(name)):
            if city is not None and _begins(city, name):
                return city
    return None if land is None else city_named(f"{land.capital}/{land.country}")


def is_named(city: City, cell: str) -> bool:
    """Tell whether a cell names a city itself, and not only its country."""
    words = plain_name(cell)
    home = [here for here, name in LOCAL.items() if name == city.city]
    return any(name in words for name in (plain_name(city.city).split("-")[0], *home))


def _begins(city: City, word: str) -> bool:
    """Tell whether a word is a city's name, or its first part: ``Frankfurt`` is one of ``Frankfurt
    am Main``, while ``South`` would find any that begins so.
    """
    rest = plain_name(city.city).removeprefix(plain_name(word))
    return rest == "" or re.match(r"-(am|an|im|sur|upon|on|de|der)-", rest) is not None
