"""Names of parts of the world, from continents to cities, with the places of a book in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from placer.errors import PlacerError
from placer.market.books.csv_rows import shipped_table
from placer.market.catalog import Catalog, Region

CONTINENTS = {
    "africa": "AF",
    "asia": "AS",
    "europe": "EU",
    "north-america": "NA",
    "oceania": "OC",
    "south-america": "SA",
}
"""Continents by the names that users write; the codes are those of regions.csv."""
UNION = ("eu", "european-union")  # Names of the European Union, which is smaller than the continent


class Country(Struct, frozen=True, kw_only=True):
    """A row of catalogs/countries.csv; ``also`` has other names, ``eu`` is yes or no."""

    country: str
    iso3: str
    name: str
    also: str
    continent: str
    eu: str
    capital: str
    source: str
    as_of: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return what users may call it: both codes and its names."""
        also = self.also.split("|") if self.also else []
        return tuple(plain_name(name) for name in (self.country, self.iso3, self.name, *also))


class State(Struct, frozen=True, kw_only=True):
    """A row of catalogs/states.csv: a part of a country that people write beside its cities."""

    country: str
    state: str
    name: str
    source: str
    as_of: str


class City(Struct, frozen=True, kw_only=True):
    """A row of catalogs/cities.csv: where a city lies."""

    city: str
    country: str
    state: str = ""
    latitude_deg: float
    longitude_deg: float
    source: str
    as_of: str


def plain_name(text: str) -> str:
    """Return a name in lower-case ASCII with dashes, as names are compared.

    >>> plain_name("São Paulo"), plain_name("United_Kingdom")
    ('sao-paulo', 'united-kingdom')
    """
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = ascii_text.replace("_", " ").replace("-", " ").replace(".", "").replace("'", "")
    return "-".join(words.split())


@lru_cache(maxsize=1)
def countries() -> dict[str, Country]:
    """Return the countries by their two-letter codes (catalogs/countries.csv)."""
    return {row.country: row for row in shipped_table("countries.csv", Country)}


def states_named(word: str, *, codes: bool = True) -> list[State]:
    """Return the states of a name, or of a code: ``WA`` is one of the United States and of
    Australia (catalogs/states.csv).
    """
    name = plain_name(word)
    rows = shipped_table("states.csv", State)
    return [
        row for row in rows if name == plain_name(row.name) or (codes and name == row.state.lower())
    ]


def cities() -> tuple[City, ...]:
    """Return the cities, the largest first (catalogs/cities.csv)."""
    return shipped_table("cities.csv", City)


def country_named(word: str) -> Country | None:
    """Find a country by a code or a name; None if there is none."""
    name = plain_name(word)
    return next((country for country in countries().values() if name in country.names), None)


def city_named(word: str) -> City | None:
    """Find a city by its name, or by name and country or state such as ``London/CA`` and
    ``Portland/ME``; None if there is none. Of several it is the largest. ``Frankfurt`` finds
    ``Frankfurt am Main``.
    """
    written, _, where = word.partition("/")
    name, country = plain_name(written), country_named(where) if where else None
    if not name:
        return None
    of_states = {(row.country, row.state) for row in states_named(where)} if where else set()
    inside = [
        city
        for city in cities()
        if not where
        or (country is not None and city.country == country.country)
        or (city.country, city.state) in of_states
    ]
    exact = (city for city in inside if plain_name(city.city) == name)
    longer = (city for city in inside if plain_name(city.city).startswith(f"{name}-"))
    return next(exact, None) or next(longer, None)


def area_places(word: str, catalog: Catalog) -> list[str] | None:
    """Return the places of a book in an area: a continent, ``EU`` for the European Union, a country
    by name or ISO code, a city, or a region without its provider; None if the word names none.
    PlacerError if the book has no place there, or the word stands for two areas.
    """
    name, regions = plain_name(word), catalog.regions.values()
    if name in UNION:
        members = {country.country for country in countries().values() if country.eu == "yes"}
        return _some(word, (r for r in regions if r.country in members), catalog)
    country, continent = country_named(word), CONTINENTS.get(name)
    if continent is None and country is not None:
        return _in_country(word, country, catalog)
    if continent is not None or name.upper() in CONTINENTS.values():
        code = continent or name.upper()
        return _some(word, (r for r in regions if r.continent == code), catalog)
    named = [region for region in regions if name in _names(region)]
    return _some(word, named, catalog) if named else None


def area_names(catalog: Catalog) -> list[str]:
    """List the areas that a book has places in, for suggestions: continents, countries, cities."""
    codes = {region.country for region in catalog.regions.values()}
    continents = {region.continent for region in catalog.regions.values()}
    return [
        *(name for name, code in CONTINENTS.items() if code in continents),
        *(plain_name(row.name) for row in countries().values() if row.country in codes),
        *sorted({plain_name(region.city) for region in catalog.regions.values()}),
    ]


def area_words(patterns: Sequence[str], catalog: Catalog) -> list[str]:
    """Return patterns of places with the name of an area in place of all its places.

    Only an area whose places stand together in the order of the book is named, as `area_places`
    lists them; of several such areas the largest. A single place stays as it is.
    """
    areas: dict[str, list[str]] = {}
    codes = {code: name for name, code in CONTINENTS.items()}
    for region in catalog.regions.values():
        names = [codes.get(region.continent, "")]
        country = countries().get(region.country)
        if country is not None:
            names += [UNION[0]] * (country.eu == "yes") + [plain_name(country.name)]
        for name in dict.fromkeys([*names, *_names(region)]):
            areas.setdefault(name, []).append(region.place)
    largest = sorted(areas.items(), key=lambda area: -len(area[1]))
    found, rest = [], list(patterns)
    while rest:
        name, places = next(
            (area for area in largest if len(area[1]) > 1 and rest[: len(area[1])] == area[1]),
            (rest[0], rest[:1]),
        )
        found.append(name)
        rest = rest[len(places) :]
    return found


def _in_country(word: str, country: Country, catalog: Catalog) -> list[str]:
    """Return the places in a country; where its code also means a continent it is refused."""
    inside = [region for region in catalog.regions.values() if region.country == country.country]
    name = next((n for n, code in CONTINENTS.items() if code == word.upper()), "")
    there = [r for r in catalog.regions.values() if name and r.continent == word.upper()]
    if inside and there:
        raise PlacerError(
            f"place '{word}' is {country.name} or {name.replace('-', ' ').title()}",
            f"write {plain_name(country.name)}, {country.iso3.lower()} or {name}",
        )
    return _some(word, there or inside, catalog)


def _names(region: Region) -> tuple[str, str]:
    return plain_name(region.region), plain_name(region.city)


def _some(word: str, inside: Iterable[Region], catalog: Catalog) -> list[str]:
    """Return the places of some regions; an area without any would be no limit at all."""
    places = [region.place for region in inside]
    if not places:
        codes = {region.country for region in catalog.regions.values()}
        named = sorted(row.name for row in countries().values() if row.country in codes)
        tip = f"it has places in {', '.join(named[:12])}{' ...' * (len(named) > 12)}"
        raise PlacerError(f"catalog '{catalog.name}' has no place in '{word}'", tip)
    return places
