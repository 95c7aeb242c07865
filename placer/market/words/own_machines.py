"""Machines of one's own in one word: ``office=2xA100-40@Berlin``, as rows over a price book."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placer.errors import PlacerError, unknown
from placer.market.carbon import figure
from placer.market.catalog import Catalog, EgressPrice, Gpu, MeasuredLink, Region, VmOffer
from placer.market.network.geography import great_circle_km
from placer.market.words.areas import City, cities, city_named, countries, country_named
from placer.market.words.own_places import PREFIX, PROVIDER
from placer.market.words.selection import gpus_named
from placer.records import replace
from placer.units import format_bandwidth, format_usd, parse_bandwidth

WRITE = "write it as office=2xA100-40@Berlin"
KEYS = ("power", "line", "lan", "watts")
"""What may follow the place: price of electricity, line to the world, network inside the site,
watts of one machine.
"""
VCPUS_OF_GPU, MEMORY_GIB_OF_GPU = 8, 64.0
"""Host of each GPU; assumed: what clouds put beside one A100."""
LINE_SPREAD = (0.5, 1.0)
"""Ends of a line's bandwidth over what is said or assumed: others share it, and it carries no more
than it is sold for.
"""
RTT_MS = 0.3
"""Round-trip time inside a site: as measured in the cluster of Erben et al. (2024)."""
LEAST_MACHINES, MOST_MACHINES = 1, 100_000
_WORD = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,40})=(?P<count>[0-9]{1,9})x"
    r"(?P<gpu>[A-Za-z0-9 _-]+?)(?::(?P<gpus>[0-9]{1,4}))?@(?P<place>[^:]+)(?P<more>(?::[^:]*)*)"
)
_POINT = re.compile(r"\s*(-?[0-9]{1,3}(?:\.[0-9]+)?)\s*,\s*(-?[0-9]{1,3}(?:\.[0-9]+)?)\s*")
_POWER = re.compile(r"\$?([0-9]{1,3}(?:\.[0-9]{0,6})?)(?:usd)?/kwh", re.IGNORECASE)
_WATTS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{0,3})?)w?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnMachines:
    """Some machines of one kind at a site of one's own.

    Notes
    -----
    ``usd_per_kwh`` is the price of electricity, ``line_gbps`` what the site sends to the world and
    receives, ``lan_gbps`` the network of one machine inside it, ``watts`` what one machine draws
    (None: by the data sheet of its devices). ``assumed`` names those of these figures that nobody
    gave.
    """

    text: str
    name: str
    count: int
    gpu: str
    gpu_count: int
    where: City
    usd_per_kwh: float
    line_gbps: float
    lan_gbps: float
    watts: float | None
    assumed: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where the machines are: ``onprem/NAME``."""
        return f"{PROVIDER}/{self.name}"


def own_words(given: str | Sequence[str]) -> list[str]:
    """Split words of own machines at the commas before a name: those of coordinates stay.

    Examples
    --------
    >>> own_words("office=2xT4@52.5,13.4,lab=1xH100:8@Zurich")
    ['office=2xT4@52.5,13.4', 'lab=1xH100:8@Zurich']
    """
    texts = [given] if isinstance(given, str) else list(given)
    parts = (part for text in texts for part in re.split(r",(?=\s*[A-Za-z0-9._-]+=[0-9]+x)", text))
    return [part.strip() for part in parts if part.strip()]


def parse_own(text: str, catalog: Catalog) -> OwnMachines:
    """Read ``NAME=NxDEVICE@PLACE`` and what may follow it.

    Parameters
    ----------
    text
        Such as ``office=2xA100-40@Berlin`` or
        ``lab=1xH100:8@47.38,8.54:power=0.20/kWh:line=10Gb/s:lan=100Gb/s:watts=7000``. The place is
        a city of catalogs/cities.csv, with its country where it is not the largest of that name
        (``London/CA``), a country, or latitude and longitude in degrees.
    catalog
        Knows the devices.

    Raises
    ------
    PlacerError
        Names the part that is wrong.
    """
    match = _WORD.fullmatch(text.strip())
    if match is None:
        raise PlacerError(f"own '{text}' is not machines with a place", WRITE)
    count, gpus = int(match["count"]), int(match["gpus"] or 1)
    if not LEAST_MACHINES <= count <= MOST_MACHINES or gpus < 1:
        raise PlacerError(f"own '{text}': {count} machines with {gpus} GPUs", "at least 1 of each")
    given = _given(match["more"], text)
    gpu = _device(match["gpu"].strip(), text, catalog)
    watts = given.get("watts")
    if watts is None and catalog.gpus[gpu].power_w is None and catalog.gpus[gpu].kind != "cpu":
        raise PlacerError(
            f"own '{text}': nobody publishes the power of {gpu}",
            f"say what one machine draws: {text}:watts=400",
        )
    usual = {name: figure(f"own_{name}", "*").value for name in ("power", "line", "lan")}
    return OwnMachines(
        text=text.strip(),
        name=match["name"].lower(),
        count=count,
        gpu=gpu,
        gpu_count=gpus,
        where=_where(match["place"], text),
        usd_per_kwh=given.get("power", usual["power"]),
        line_gbps=given.get("line", usual["line"]),
        lan_gbps=given.get("lan", usual["lan"]),
        watts=watts,
        assumed=tuple(name for name in usual if name not in given),
    )


def with_own_machines(catalog: Catalog, own: OwnMachines) -> Catalog:
    """Put own machines into a book: a region, an offer at the price of its electricity, the line of
    the site, and egress that nobody bills.

    Raises
    ------
    PlacerError
        If the site has such machines already.

    Notes
    -----
    Several kinds of machines may share a site; its place is that of the first.
    """
    day, source = catalog.as_of[1], f"given with --own {own.text}"
    offer = _offer(own, catalog.gpus[own.gpu], day, source)
    if catalog.offer(own.place, offer.instance_type, own.gpu, own.gpu_count, offer.market):
        raise PlacerError(
            f"own '{own.text}': {own.place} has such machines already", "choose another name"
        )
    offers = (*catalog.offers, offer)
    if own.place in catalog.regions:
        return replace(catalog, offers=offers)
    line = own.line_gbps
    link = MeasuredLink(
        src=own.place,
        dst=own.place,
        gbps_one_stream=line,
        gbps_low=line * LINE_SPREAD[0],
        gbps_high=line * LINE_SPREAD[1],
        rtt_ms=RTT_MS,
        basis="estimated" if "line" in own.assumed else "published",
        source=f"{source}: line of the site{', assumed' * ('line' in own.assumed)}",
        as_of=day,
    )
    egress = (
        EgressPrice(
            provider=PROVIDER,
            src=own.name,
            dst=dst,
            usd_per_gib=0.0,
            source=f"{source}: nobody bills bytes (assumed)",
            as_of=day,
        )
        for dst in ("intra_zone", "inter_zone", "*", "internet")
    )
    return replace(
        catalog,
        regions={**catalog.regions, own.place: _region(own, catalog, source)},
        offers=offers,
        links=(*catalog.links, link),
        egress=(*catalog.egress, *egress),
    )


def own_sentences(catalog: Catalog) -> Iterator[str]:
    """Yield what each word of own machines was taken to mean, with what is assumed."""
    for change in catalog.changes:
        if change.startswith(PREFIX):
            own = parse_own(change.removeprefix(PREFIX), catalog)
            kilowatts = machine_watts(own, catalog.gpus[own.gpu]) / 1000
            each = f"one {own.gpu}" if own.gpu_count == 1 else f"{own.gpu_count} x {own.gpu}"
            machines = f"{own.count} machine{'s' * (own.count > 1)} with {each}"
            parts = (
                ("watts", f"{kilowatts:.2f} kW each"),
                ("power", f"{format_usd(own.usd_per_kwh)}/kWh"),
                ("line", f"{format_bandwidth(own.line_gbps * 1e9 / 8)} to the world"),
                ("lan", f"{format_bandwidth(own.lan_gbps * 1e9 / 8)} between machines"),
            )
            guessed = {*own.assumed, *(("watts",) if own.watts is None else ())}
            every = len(guessed) == len(KEYS)
            said = ", ".join(
                f"{words}{' (assumed)' * (name in guessed and not every)}" for name, words in parts
            )
            rest = "no egress (all assumed)" if every else "no egress (assumed)"
            where = f"{own.place} near {own.where.city}"
            yield f"{where}: {machines}; electricity alone: {said}, {rest}"


def machine_watts(own: OwnMachines, gpu: Gpu) -> float:
    """Return what one machine draws while it trains: devices and vCPUs as the carbon model has
    them, with the losses of an unknown room.
    """
    if own.watts is not None:
        return own.watts
    vcpus = VCPUS_OF_GPU * own.gpu_count
    devices = own.gpu_count * (gpu.power_w or 0.0) * figure("load", "*").value
    return (devices + vcpus * figure("vcpu_w", gpu.kind).value) * figure("pue", PROVIDER).value


def _offer(own: OwnMachines, gpu: Gpu, day: str, source: str) -> VmOffer:
    return VmOffer(
        provider=PROVIDER,
        region=own.name,
        instance_type="own machine",
        gpu=own.gpu,
        gpu_count=own.gpu_count,
        vcpus=float(VCPUS_OF_GPU * own.gpu_count),
        memory_gib=MEMORY_GIB_OF_GPU * own.gpu_count,
        market="on_demand",
        usd_per_hour=round(machine_watts(own, gpu) / 1000 * own.usd_per_kwh, 6),
        price_basis="owned",
        available=own.count,
        source=f"{source}: electricity alone",
        as_of=day,
        network_gbps=own.lan_gbps,
        fabric="ethernet",
    )


def _region(own: OwnMachines, catalog: Catalog, source: str) -> Region:
    where = own.where
    continent = countries()[where.country].continent
    return Region(
        provider=PROVIDER,
        region=own.name,
        display_name=f"own machines near {where.city}",
        city=where.city,
        country=where.country,
        continent=continent,
        egress_zone=continent,
        latitude_deg=where.latitude_deg,
        longitude_deg=where.longitude_deg,
        source=f"{source}; {where.source}",
        as_of=catalog.as_of[1],
    )


def _device(word: str, text: str, catalog: Catalog) -> str:
    found = gpus_named(word, catalog)
    if not found:
        error = unknown("GPU", word, catalog.gpus)
        raise PlacerError(f"own '{text}': {error.message}", error.hint)
    if len(found) > 1:
        whole = " or ".join(text.replace(word, name, 1) for name in found)
        raise PlacerError(f"own '{text}': {word} is {' or '.join(found)}", f"write {whole}")
    return found[0]


def _where(word: str, text: str) -> City:
    """Find a point: coordinates, a city, or the capital of a country."""
    point = _POINT.fullmatch(word)
    if point is not None:
        return _near(float(point[1]), float(point[2]), text)
    found = city_named(word)
    if found is not None:
        return found
    country = country_named(word)
    capital = None if country is None else city_named(f"{country.capital}/{country.country}")
    if capital is not None:
        return capital
    error = unknown(
        "city", word, [*(c.city for c in cities()), *(c.name for c in countries().values())]
    )
    raise PlacerError(
        f"own '{text}': {error.message}",
        f"{error.hint}; or give a country, or coordinates such as 52.52,13.40",
    )


def _near(latitude_deg: float, longitude_deg: float, text: str) -> City:
    """Return a point with the name and the country of the nearest city."""
    if not (-90 <= latitude_deg <= 90 and -180 <= longitude_deg <= 180):
        raise PlacerError(
            f"own '{text}': {latitude_deg:g},{longitude_deg:g} is not a point on the globe",
            "give latitude and longitude in degrees, such as 52.52,13.40",
        )
    point = City(
        city="",
        country="",
        latitude_deg=latitude_deg,
        longitude_deg=longitude_deg,
        source="coordinates as given, country of the nearest city",
        as_of="",
    )
    near = min(cities(), key=lambda city: great_circle_km(point, city))
    return replace(point, city=near.city, country=near.country)


def _given(more: str, text: str) -> Mapping[str, float]:
    """Read what follows the place."""
    given: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in more.split(":"))):
        key, sign, value = part.partition("=")
        if key not in KEYS or not sign:
            error = unknown("figure", key, KEYS)
            raise PlacerError(f"own '{text}': {error.message}", error.hint)
        if key in given:
            raise PlacerError(f"own '{text}': {key} is given twice", "give it once")
        given[key] = _figure(key, value, text)
    return given


def _figure(key: str, value: str, text: str) -> float:
    if key in ("line", "lan"):
        return parse_bandwidth(value) * 8 / 1e9
    match = (_POWER if key == "power" else _WATTS).fullmatch(value.strip())
    if match is None or (key == "watts" and float(match[1]) <= 0):
        example = "power=0.30/kWh" if key == "power" else "watts=700"
        raise PlacerError(f"own '{text}': {key} '{value}' is not an amount", f"write {example}")
    return float(match[1])
