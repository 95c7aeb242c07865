"""Places as people write them: ``Frankfurt, DE``, ``Texas, US``, ``Portland (Maine)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from placer.market.network.link_model import great_circle_km
from placer.market.words.areas import (
    City,
    cities,
    city_named,
    countries,
    country_named,
    plain_name,
    states_named,
)
from placer.market.words.money import price_words

SAME_KM = 500.0
"""What may be two places no farther apart is one: 5 ms of round trips."""
WIDE_KM = 2000.0
"""A country with a city so far from its capital is no place: the United States, Canada, Russia,
China, India, Indonesia, Australia, Brazil and Mexico.
"""
_BETWEEN = re.compile(r"[,;/()|·–]|\s-\s")
_CODES = re.compile(r"\b(?<=[A-Z]{2})-(?=[A-Z]{2,3}\b)(?!.*[a-z])|(?<=[a-z.])\s+(?=[A-Z]{2}$)")
"""Where a comma is missing in ``US-TX`` of ISO 3166-2, and in ``Dallas TX``."""
_NUMBER = re.compile(r"(?<=[a-z])[- ]?[0-9]+$|(?<=\b[A-Z]{2})-[0-9]+$")
"""The number of a data centre; ``FRA1`` is no France."""


class Area(NamedTuple):
    """A country, or a state of it."""

    country: str
    state: str = ""


def place_in(cell: str) -> City | None:
    """Return the city that a cell names: a city, perhaps with its state, its country or a number;
    the largest city of a state; or the capital of a country. None without one, where it may be
    several that lie apart, and in a country that is too wide to be one place.

    >>> cells = "Frankfurt, DE", "Mumbai (India)", "München-2", "Texas, US", "Portland ME", "Norway"
    >>> [place and place.city for place in map(place_in, cells)]
    ['Frankfurt am Main', 'Mumbai', 'Munich', 'Houston', 'Portland', 'Oslo']
    >>> [place_in(cell) for cell in ("us-south", "US", "Georgia", "Washington, US")]
    [None, None, None, None]
    """
    several = cities_in(cell)
    return several[0] if len(several) == 1 else None


@lru_cache(maxsize=4096)
def cities_in(cell: str) -> tuple[City, ...]:
    """Return the cities that a cell may mean, more than `SAME_KM` apart: the largest town of that
    name in all areas that it names, and what stands for a state of that name. Nothing if it may be
    anywhere in a wide country.

    >>> [[place_words(city) for city in cities_in(cell)] for cell in ("Ontario, CA", "CA")]
    [['Ontario/California', 'Toronto/Ontario'], []]
    """
    words, said = _words(cell), _said(cell)
    word, town = next(_towns(words, said), ("", None))
    areas = _agreeing(said)
    if town is not None:
        own = [area for area in _areas(word) if area.state and not _inside(_area(town), area)]
        areas = [area for area in areas if area in own]
    elif not areas:
        areas = _agreeing([_areas(other, codes=False) for other in words])
    several = [town, *map(_main_city, areas)] if town else [*map(_main_city, areas)]
    found: list[City] = []
    for city in several:
        if city is None:
            return ()
        if all(great_circle_km(city, other) > SAME_KM for other in found):
            found.append(city)
    return tuple(found)


def is_place(cell: str) -> bool:
    """Tell whether a cell names some place, be it one or not."""
    return bool(cities_in(cell)) or any(map(_areas, _parts(cell)))


def place_words(city: City) -> str:
    """Write a city with its state or country, as `city_named` reads it."""
    states = (row.name for row in states_named(city.state) if row.country == city.country)
    return f"{city.city}/{next(states, countries()[city.country].name)}"


def places_listed(cell: str) -> tuple[City, ...]:
    """Return the cities of a cell that names several one after the other, or several areas, such as
    ``London, Paris``; nothing where a part says more nearly where another one is.
    """
    parts = _parts(cell)
    alone = [cities_in(part) for part in parts]
    kinds = {bool(_called(part)) for part in parts}
    if (
        any(len(part) <= len("USA") for part in parts)
        or {*map(len, alone)} != {1}
        or len(kinds) > 1
    ):
        return ()
    for number, part in enumerate(parts):
        others = chain(*(_areas(other) for other in (*parts[:number], *parts[number + 1 :])))
        inner = [*map(_area, _called(part)), *_areas(part)]
        if any(_inside(one, area) for area in others for one in inner):
            return ()
    several = {one for (one,) in alone}
    return tuple(sorted(several, key=lambda city: city.city)) if len(several) > 1 else ()


def is_said(city: City, cell: str) -> bool:
    """Tell whether a cell says itself which city is meant: by a name that no other has, or with the
    state or country beside it.
    """
    named = any(city in _called(word) for word in _words(cell))
    only = sum(plain_name(other.city) == plain_name(city.city) for other in cities()) == 1
    return named and (only or any(_inside(_area(city), area) for area in chain(*_said(cell))))


def _parts(cell: str) -> list[str]:
    parts = (part.strip() for part in _BETWEEN.split(_CODES.sub(", ", cell)))
    return [_NUMBER.sub("", part) for part in parts if part]


def _words(cell: str) -> list[str]:
    return [*_parts(cell), *re.findall(r"[^\W\d_]{4,}", cell)]


def _said(cell: str) -> list[list[Area]]:
    """Return the areas that each part of a cell names; a code alone is one of a country."""
    parts = _parts(cell)
    return [_areas(part, codes=len(parts) > 1) for part in parts]


def _areas(part: str, *, codes: bool = True) -> list[Area]:
    """Return the country and the states that a part of a cell names."""
    country = country_named(part)
    lands = [] if country is None else [Area(country.country)]
    return lands + [Area(row.country, row.state) for row in states_named(part, codes=codes)]


def _area(city: City) -> Area:
    return Area(city.country, city.state)


def _inside(inner: Area, outer: Area) -> bool:
    return inner.country == outer.country and outer.state in ("", inner.state)


def _towns(words: Sequence[str], said: Sequence[Sequence[Area]]) -> Iterator[tuple[str, City]]:
    """Yield the words that name a city, with it, inside all areas that the other parts name."""
    for number, word in enumerate(words):
        others = [areas for other, areas in enumerate(said) if areas and other != number]
        for city in _called(word):
            if all(any(_inside(_area(city), area) for area in areas) for areas in others):
                yield word, city


def _called(word: str) -> list[City]:
    """Return the cities of a name, the largest first: also by what they are called at home, or by
    the first part of a name: ``Frankfurt`` is one of ``Frankfurt am Main``, while ``South`` would
    find any that begins so.
    """
    name = plain_name(price_words("cities").get(plain_name(word), word))
    longer = re.compile(rf"{re.escape(name)}-(am|an|im|sur|upon|on|de|der)-")
    return [
        city
        for city, plain in _plain_cities()
        if plain == name or (len(name) > len("USA") and longer.match(plain))
    ]


@lru_cache(maxsize=1)
def _plain_cities() -> tuple[tuple[City, str], ...]:
    return tuple((city, plain_name(city.city)) for city in cities())


def _agreeing(said: Sequence[Sequence[Area]]) -> list[Area]:
    """Return the areas of each part that lie in an area of every other part that names some."""
    named = [areas for areas in said if areas]
    found = [
        area
        for areas in named
        for area in areas
        if all(
            any(_inside(area, outer) for outer in other) for other in named if other is not areas
        )
    ]
    return [*dict.fromkeys(found)]


def _main_city(area: Area) -> City | None:
    """Return what stands for an area: the largest city of a state, the capital of a country; None
    for a country that is wide.
    """
    if area.state:
        return next(city for city in cities() if _area(city) == area)
    return None if is_wide(area.country) else capital_of(area.country)


def capital_of(country: str) -> City | None:
    """Return the capital of a country by its code; None for one without."""
    return city_named(f"{countries()[country].capital}/{country}")


@lru_cache(maxsize=256)
def is_wide(country: str) -> bool:
    """Tell whether a country, by its code, is too wide for its capital to stand for it."""
    capital = capital_of(country)
    inside = (city for city in cities() if city.country == country)
    return capital is not None and any(great_circle_km(capital, c) > WIDE_KM for c in inside)
