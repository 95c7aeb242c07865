"""Machines of one's own in one word: ``office=2xA100-40@Berlin``, as rows over a price book."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.market.accelerators import processor_vcpus
from placer.market.carbon import figure
from placer.market.catalog import Catalog, EgressPrice, Gpu, MeasuredLink, Region, VmOffer
from placer.market.network.link_model import great_circle_km
from placer.market.words.areas import City, cities, city_named, countries
from placer.market.words.own_places import PREFIX, PROVIDER
from placer.market.words.places import cities_in, is_place, place_in, place_words
from placer.market.words.selection import gpus_named
from placer.records import replace
from placer.units import GIB, format_bandwidth, format_usd, parse_bandwidth, parse_bytes

WRITE = "write it as office=2xA100-40@Berlin"
EXAMPLES = {
    "power": "0.30/kWh",
    "line": "500Mb/s",
    "lan": "100Gb/s",
    "watts": "700",
    "ram": "512GiB",
    "cpus": "64",
    "nvlink": "no or nvlink=450GB/s",
    "cost": "1.50/h",
}
"""What may follow the place, as it is written: price of electricity, line to the world, network
inside the site; and of one machine watts, host memory, vCPUs, NVLink each way, and what an hour
costs in place of its electricity.
"""
VCPUS_OF_GPU, MEMORY_GIB_OF_GPU = 8, 64.0
"""Host of each GPU where nobody says; assumed: what clouds put beside one A100."""
MEMORY_GIB_OF_VCPU, SYSTEM_GIB = 4.0, 0.5
"""Memory beside each vCPU of a machine without a GPU, and what its system keeps; assumed: the
general machines of clouds, and as catalogs/gpus.csv has it.
"""
LEAST_KILOWATT_W = 10  # Less than that is written in watts
LINE_SPREAD = (0.5, 1.0)
"""Ends of a line's bandwidth over what is said or assumed: others share it, and it carries no more
than it is sold for.
"""
RTT_MS = 0.3  # Round-trip time inside a site: as measured in the cluster of Erben et al. (2024).
LEAST_MACHINES, MOST_MACHINES = 1, 100_000
_WORD = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,40})=(?P<count>[0-9]{1,9})x"
    r"(?P<gpu>[A-Za-z0-9 _-]+?)(?::(?P<gpus>[0-9]{1,4}))?@(?P<place>[^:]+)(?P<more>(?::[^:]*)*)"
)
_POINT = re.compile(r"\s*(-?[0-9]{1,3}(?:\.[0-9]+)?)\s*,\s*(-?[0-9]{1,3}(?:\.[0-9]+)?)\s*")
_AMOUNTS = {
    "power": re.compile(r"\$?([0-9]{1,3}(?:\.[0-9]{0,6})?)(?:usd)?/kwh", re.IGNORECASE),
    "cost": re.compile(r"\$?([0-9]{1,6}(?:\.[0-9]{0,6})?)(?:usd)?/h", re.IGNORECASE),
    "watts": re.compile(r"([0-9]{1,6}(?:\.[0-9]{0,3})?)w?", re.IGNORECASE),
    "cpus": re.compile(r"([0-9]{1,5})"),
}


class OwnMachines(Struct, frozen=True, kw_only=True):
    """Some machines of one kind at a site of one's own.

    ``usd_per_kwh`` is the price of electricity, ``line_gbps`` what the site sends to the world and
    receives, ``lan_gbps`` the network of one machine inside it, ``watts`` what one machine draws
    (None: by the data sheet of its devices). ``memory_gib`` and ``vcpus`` are the host of one
    machine, ``nvlink_gb_per_s`` joins its devices each way (None: as their data sheet says, 0: PCIe
    alone), and ``usd_per_hour`` is its price (None: its electricity). ``assumed`` names those of
    these figures that nobody gave.
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
    memory_gib: float
    vcpus: float
    nvlink_gb_per_s: float | None
    usd_per_hour: float | None
    assumed: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where the machines are: ``onprem/NAME``."""
        return f"{PROVIDER}/{self.name}"


def own_words(given: str | Sequence[str]) -> list[str]:
    """Split words of own machines at the commas before a name: those of coordinates stay.

    >>> own_words("office=2xT4@52.5,13.4,lab=1xH100:8@Zurich")
    ['office=2xT4@52.5,13.4', 'lab=1xH100:8@Zurich']
    """
    texts = [given] if isinstance(given, str) else list(given)
    parts = (part for text in texts for part in re.split(r",(?=\s*[A-Za-z0-9._-]+=[0-9]+x)", text))
    return [part.strip() for part in parts if part.strip()]


def parse_own(text: str, catalog: Catalog) -> OwnMachines:
    """Read ``NAME=NxDEVICE@PLACE`` and what may follow it, such as ``office=2xA100-40@Berlin`` or
    ``lab=1xH100:8@47.38,8.54:power=0.20/kWh:line=10Gb/s:lan=100Gb/s:watts=7000``; PlacerError names
    the part that is wrong. The place is a city of catalogs/cities.csv, with its country or state
    where it is not the largest of that name (``London/CA``, ``Portland/ME``), a country, a state,
    or latitude and longitude in degrees.
    """
    match = _WORD.fullmatch(text.strip())
    if match is None:
        placeless = _WORD.fullmatch(f"{text.strip()}@Berlin")
        hint = f"say where they are: {text.strip()}@Berlin" if placeless else WRITE
        raise PlacerError(f"own '{text}' is not machines with a place", hint)
    count, gpus = int(match["count"]), int(match["gpus"] or 1)
    if not LEAST_MACHINES <= count <= MOST_MACHINES or gpus < 1:
        raise PlacerError(f"own '{text}': {count} machines with {gpus} GPUs", "at least 1 of each")
    given = _given(match["more"], text)
    gpu = _device(match["gpu"].strip(), text, catalog)
    device = device_of(gpu, catalog)
    watts, cost = given.get("watts"), given.get("cost")
    unknown_power = device.power_w is None and device.kind != "cpu"
    if unknown_power and watts is None and cost is None:
        tip = f"say what one machine draws: {text}:watts=400"
        raise PlacerError(f"own '{text}': nobody publishes the power of {gpu}", tip)
    usual = {name: figure(f"own_{name}", "*").value for name in ("power", "line", "lan")}
    vcpus = processor_vcpus(gpu)
    each = VCPUS_OF_GPU if vcpus is None else vcpus
    ram = MEMORY_GIB_OF_GPU if vcpus is None else MEMORY_GIB_OF_VCPU * vcpus
    usual |= {"ram": ram * gpus, "cpus": float(each * gpus)}
    return OwnMachines(
        text=text.strip(),
        name=match["name"],
        count=count,
        gpu=gpu,
        gpu_count=gpus,
        where=_where(match["place"], text),
        usd_per_kwh=given.get("power", usual["power"]),
        line_gbps=given.get("line", usual["line"]),
        lan_gbps=given.get("lan", usual["lan"]),
        watts=watts,
        memory_gib=given.get("ram", usual["ram"]),
        vcpus=given.get("cpus", usual["cpus"]),
        nvlink_gb_per_s=given.get("nvlink"),
        usd_per_hour=cost,
        assumed=tuple(name for name in usual if name not in given),
    )


def with_own_machines(catalog: Catalog, own: OwnMachines) -> Catalog:
    """Put own machines into a book: a region, an offer at the price of its electricity, the line of
    the site, and egress that nobody bills. Several kinds of machines may share a site, whose place
    is that of the first; PlacerError if it has such machines already.
    """
    day, source = catalog.as_of[1], f"given with --own {own.text}"
    device = device_of(own.gpu, catalog)
    catalog = replace(catalog, gpus={**catalog.gpus, own.gpu: device})
    offer = _offer(own, device, day, source)
    if catalog.offer(own.place, offer.instance_type, own.gpu, own.gpu_count, offer.market):
        words = f"own '{own.text}': {own.place} has such machines already"
        raise PlacerError(words, "choose another name")
    offers = (*catalog.offers, offer)
    if own.place in catalog.regions:
        return replace(catalog, offers=offers)
    line, guessed = own.line_gbps, "line" in own.assumed
    link = MeasuredLink(
        src=own.place,
        dst=own.place,
        gbps_one_stream=line,
        gbps_low=line * LINE_SPREAD[0],
        gbps_high=line * LINE_SPREAD[1],
        rtt_ms=RTT_MS,
        basis="estimated" if guessed else "published",
        source=f"{source}: line of the site{', assumed' * guessed}",
        as_of=day,
    )
    free = f"{source}: nobody bills bytes (assumed)"
    egress = (
        EgressPrice(
            provider=PROVIDER, src=own.name, dst=dst, usd_per_gib=0.0, source=free, as_of=day
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


def device_of(name: str, catalog: Catalog) -> Gpu:
    """Return a device of a book, PlacerError if it has none of that name; processors of any number
    of vCPUs are multiples of one of its own.
    """
    vcpus = processor_vcpus(name)
    known = [(processor_vcpus(gpu), gpu) for gpu in catalog.gpus if processor_vcpus(gpu)]
    if name in catalog.gpus or vcpus is None or not known:
        return catalog.gpu(name)
    least, like = min((count or 0, gpu) for count, gpu in known)
    base, times = catalog.gpus[like], vcpus / least
    return replace(
        base,
        gpu=name,
        memory_gib=MEMORY_GIB_OF_VCPU * vcpus - SYSTEM_GIB,
        fp16_tflops=base.fp16_tflops * times,
        memory_gb_per_s=base.memory_gb_per_s * times,
        source=f"{vcpus} vCPUs: {times:g} times {like}; assumed",
    )


def own_sentences(catalog: Catalog) -> Iterator[str]:
    """Yield what each word of own machines was taken to mean, with what is assumed."""
    for change in catalog.changes:
        if change.startswith(PREFIX):
            own = parse_own(change.removeprefix(PREFIX), catalog)
            gpu = device_of(own.gpu, catalog)
            host, site = _host_words(own), _site_words(own, gpu)
            has, said = (", ".join(words for _, words in parts) for parts in (host, site))
            guessed = {*own.assumed, *(("watts",) if own.watts is None else ())}
            known = [name for name, _ in (*host, *site) if name not in guessed]
            but = f" but {', '.join(known)}" if known else ""
            rest = "assumed" if len(known) == len(host) + len(site) else f"all assumed{but}"
            each = f"one {own.gpu}" if own.gpu_count == 1 else f"{own.gpu_count} x {own.gpu}"
            machines = f"{own.count} machine{'s' * (own.count > 1)} with {each}, {has}"
            cost = own.usd_per_hour
            paid = "electricity alone" if cost is None else f"{format_usd(cost)}/h each"
            where = f"{own.place} near {own.where.city}"
            yield f"{where}: {machines}; {paid}: {said}, no egress ({rest})"


def _host_words(own: OwnMachines) -> list[tuple[str, str]]:
    """Say what is in one machine beside its devices; NVLink where somebody says."""
    words = [
        ("ram", f"{own.memory_gib:,.4g} GiB"),
        ("cpus", f"{own.vcpus:,g} vCPU{'s' * (own.vcpus != 1)}"),
    ]
    if own.nvlink_gb_per_s is not None:
        rate = f"NVLink of {own.nvlink_gb_per_s:g} GB/s"
        words.append(("nvlink", rate if own.nvlink_gb_per_s else "no NVLink"))
    return words


def _site_words(own: OwnMachines, gpu: Gpu) -> list[tuple[str, str]]:
    """Say what the networks of a site are, and electricity where that is what machines cost."""
    words = [
        ("line", f"{format_bandwidth(own.line_gbps * 1e9 / 8)} to the world"),
        ("lan", f"{format_bandwidth(own.lan_gbps * 1e9 / 8)} between machines"),
    ]
    if own.usd_per_hour is not None:
        return words
    watts = machine_watts(own, gpu)
    power = f"{watts / 1000:.2f} kW each" if watts >= LEAST_KILOWATT_W else f"{watts:.2g} W each"
    return [("watts", power), ("power", f"{format_usd(own.usd_per_kwh)}/kWh"), *words]


def machine_watts(own: OwnMachines, gpu: Gpu) -> float:
    """Return what one machine draws while it trains, as the carbon model has it."""
    if own.watts is not None:
        return own.watts
    devices = own.gpu_count * (gpu.power_w or 0.0) * figure("load", "*").value
    return (devices + own.vcpus * figure("vcpu_w", gpu.kind).value) * figure("pue", PROVIDER).value


def _offer(own: OwnMachines, gpu: Gpu, day: str, source: str) -> VmOffer:
    usd, paid = own.usd_per_hour, "what an hour costs"
    if usd is None:
        usd, paid = machine_watts(own, gpu) / 1000 * own.usd_per_kwh, "electricity alone"
    return VmOffer(
        provider=PROVIDER,
        region=own.name,
        instance_type="own machine",
        gpu=own.gpu,
        gpu_count=own.gpu_count,
        vcpus=own.vcpus,
        memory_gib=own.memory_gib,
        market="on_demand",
        usd_per_hour=round(usd, 6),
        price_basis="owned",
        available=own.count,
        source=f"{source}: {paid}",
        as_of=day,
        network_gbps=own.lan_gbps,
        fabric="ethernet",
        nvlink_gb_per_s=own.nvlink_gb_per_s,
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
    if not found and processor_vcpus(word.upper()):
        return word.upper()
    bare = re.sub(r"(?i)[ _-]pcie$", "", word)
    if not found and bare != word and gpus_named(bare, catalog):
        tip = f"write {text.replace(word, bare, 1)}:nvlink=no"
        raise PlacerError(f"own '{text}': {bare} has no row of its own for PCIe", tip)
    if not found:
        error = unknown("GPU", word, catalog.gpus)
        raise PlacerError(f"own '{text}': {error.message}", error.hint)
    if len(found) > 1:
        whole = " or ".join(text.replace(word, name, 1) for name in found)
        if all(map(processor_vcpus, found)):
            whole = f"{text.replace(word, found[0], 1)}: the number is that of its vCPUs"
        raise PlacerError(f"own '{text}': {word} is {' or '.join(found)}", f"write {whole}")
    return found[0]


def _where(word: str, text: str) -> City:
    point = _POINT.fullmatch(word)
    if point is not None:
        return _near(float(point[1]), float(point[2]), text)
    found = city_named(word) or place_in(word)
    if found is not None:
        return found
    several = [*map(place_words, cities_in(word))]
    if several or is_place(word):
        words = f"may be {' or '.join(several)}" if several else "is too wide to be one place"
        raise PlacerError(
            f"own '{text}': '{word}' {words}", f"name a city, such as @{(*several, 'Dallas')[0]}"
        )
    names = [*(c.city for c in cities()), *(c.name for c in countries().values())]
    error = unknown("city", word, names)
    tip = f"{error.hint}; or give a country, or coordinates such as 52.52,13.40"
    raise PlacerError(f"own '{text}': {error.message}", tip)


def _near(latitude_deg: float, longitude_deg: float, text: str) -> City:
    if not (-90 <= latitude_deg <= 90 and -180 <= longitude_deg <= 180):
        words = f"{latitude_deg:g},{longitude_deg:g} is not a point on the globe"
        tip = "give latitude and longitude in degrees, such as 52.52,13.40"
        raise PlacerError(f"own '{text}': {words}", tip)
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
    given: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in more.split(":"))):
        key, sign, value = part.partition("=")
        if key not in EXAMPLES or not sign:
            error = unknown("figure", key, EXAMPLES)
            raise PlacerError(f"own '{text}': {error.message}", error.hint)
        if key in given:
            raise PlacerError(f"own '{text}': {key} is given twice", "give it once")
        given[key] = _figure(key, value, text)
    return given


def _figure(key: str, value: str, text: str) -> float:
    """Read one figure in the unit of its field: Gb/s, GiB, GB/s, watts or USD."""
    hint = f"write {key}={EXAMPLES[key]}"
    try:
        if key in ("line", "lan"):
            return parse_bandwidth(value) * 8 / 1e9
        if key == "ram":
            return parse_bytes(value) / GIB
        if key == "nvlink":
            return 0.0 if value.strip() in ("no", "none") else parse_bandwidth(value) / 1e9
    except PlacerError as error:
        raise PlacerError(f"own '{text}': {key}: {error.message}", hint) from None
    match = _AMOUNTS[key].fullmatch(value.strip())
    if match is None or (key in ("watts", "cpus") and float(match[1]) <= 0):
        raise PlacerError(f"own '{text}': {key} '{value}' is not an amount", hint)
    return float(match[1])
