"""Areas that users name: countries, continents, the European Union, cities; and other money."""

import csv

import pytest

from placer.market.books.book_reader import load_catalog
from placer.market.books.folders import shipped_catalogs
from placer.market.catalog import Catalog
from placer.market.words.areas import (
    CONTINENTS,
    area_places,
    area_words,
    cities,
    city_named,
    countries,
)
from placer.market.words.money import exchange_rates
from placer.market.words.selection import asks_for, devices_of, match_places, places_of

BOOKS = ("default", "erben-2023", "phalak-2023", "intellect-1")


@pytest.mark.parametrize("name", BOOKS)
def test_every_place_has_a_country_on_its_continent(name: str) -> None:
    """So that no place is left out when its country is asked for."""
    for region in load_catalog(name).regions.values():
        assert countries()[region.country].continent == region.continent


def test_the_union_has_its_27_members_and_is_smaller_than_the_continent(default: Catalog) -> None:
    """Switzerland, Norway, Iceland and the United Kingdom are in Europe alone."""
    assert sum(row.eu == "yes" for row in countries().values()) == 27
    union, europe = match_places("eu", default), match_places("europe", default)
    outside = {default.regions[place].country for place in {*europe} - {*union}}
    assert {*union} < {*europe}
    assert outside == {"CH", "GB", "IS", "NO"}


@pytest.mark.parametrize(
    ("word", "country"),
    [
        ("germany", "DE"),
        ("de", "DE"),
        ("DEU", "DE"),
        ("us", "US"),
        ("usa", "US"),
        ("United States", "US"),
        ("uk", "GB"),
        ("united_kingdom", "GB"),
        ("South Korea", "KR"),
        ("saudi-arabia", "SA"),
    ],
)
def test_countries_have_names_and_codes(word: str, country: str, default: Catalog) -> None:
    """All places of the country and no other."""
    expected = [p for p, region in default.regions.items() if region.country == country]
    assert area_places(word, default) == expected != []


def test_cities_and_regions_without_their_provider(default: Catalog) -> None:
    """A word without a slash may be a city, or a region of whichever providers have it."""
    assert {"aws/eu-central-1", "gcp/europe-west3"} <= {*match_places("frankfurt", default)}
    assert "aws/us-east-1" in match_places("us-east-1", default)
    assert places_of("gcp/europe-*", default) == ["gcp/europe-*"]
    assert places_of("aws", default) == ["aws/*"]


def test_the_table_of_cities_is_whole() -> None:
    """Coordinates, a known country, and the capital of every larger country."""
    assert all(city.country in countries() for city in cities())
    for name, country in (
        ("Berlin", "DE"),
        ("Frankfurt", "DE"),
        ("Cologne", "DE"),
        ("New York", "US"),
    ):
        city = city_named(name)
        assert city is not None
        assert city.country == country
    canadian = city_named("London/CA")
    assert canadian is not None
    assert canadian.longitude_deg < -80
    assert city_named("Atlantis") is None
    missing = [r.name for r in countries().values() if r.eu == "yes" and not city_named(r.capital)]
    assert missing == []
    assert {row.continent for row in countries().values()} == {*CONTINENTS.values()}


@pytest.mark.parametrize(
    ("word", "devices"),
    [
        ("h100", ("H100",)),
        ("nvidia-a100", ("A100-40", "A100-80")),
        ("NVIDIA A100", ("A100-40", "A100-80")),
        ("A100:80GB", ("A100-80",)),
        ("nvidia-a100-sxm4-80gb", ("A100-80",)),
        ("H100-80GB", ("H100",)),
        ("rtx-4090", ("RTX4090",)),
        ("A100:8", ("A100-40:8", "A100-80:8")),
        ("T4:1", ("T4:1",)),
    ],
)
def test_devices_as_vendors_and_schedulers_write_them(
    word: str, devices: tuple[str, ...], default: Catalog
) -> None:
    """A number behind a colon is that of the GPUs of one machine, unless it is a size of memory."""
    assert devices_of(word, default) == devices
    admitted = [o for o in default.offers if asks_for(devices, o.gpu, o.gpu_count)]
    assert admitted
    if word == "A100:8":
        assert {o.gpu_count for o in admitted} == {8}


def test_cross_rates_follow_from_the_rates_of_the_bank() -> None:
    """A pound was 0.84720 to the euro that day: 1.1204 / 0.8472 = 1.3225 USD."""
    assert exchange_rates()["GBP"].usd == pytest.approx(1.1204 / 0.8472, rel=1e-5)
    with (shipped_catalogs() / "exchange_rates.csv").open(encoding="utf-8") as handle:
        assert all(len(row["currency"]) == 3 for row in csv.DictReader(handle))


def test_some_places_of_an_area_stay_places(default: Catalog) -> None:
    """A list that leaves one place of Germany out is not Germany."""
    most = area_places("germany", default)
    assert most is not None
    assert not {"germany", "europe", "eu"} & {*area_words(most[1:], default)}
