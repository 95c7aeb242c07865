"""A price list as a book: machines in USD an hour, where they are, and what its bytes may cost."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from placer.errors import SourceError
from placer.market.catalog import Catalog
from placer.market.network.graph import Network
from placer.market.network.link_model import great_circle_km
from placer.market.network.tables import first_paid
from placer.market.sources.guessed.columns import Guess, count_of, given_guesses, guessed, market_in
from placer.market.sources.guessed.devices import device_in
from placer.market.sources.harvest import Harvest, Row, Tally
from placer.market.sources.reading.book_rows import book_rows, date_of
from placer.market.sources.reading.expressions import Lookup
from placer.market.sources.reading.fetch import Document, read_document
from placer.market.sources.reading.mapped_rows import Found, known_by_default, mapped_rows
from placer.market.sources.reading.mapping import (
    PRICES,
    SourceMap,
    shipped_mapping,
    shipped_mappings,
)
from placer.market.sources.reading.records import cells_of, fits, is_json, read_records
from placer.market.words.areas import City, countries, plain_name
from placer.market.words.money import (
    Decimals,
    amount,
    currency_in,
    decimals_of,
    hours_in,
    number_in,
    part_in,
    plain,
    price_words,
    rate_of,
)
from placer.market.words.own_machines import MEMORY_GIB_OF_GPU, VCPUS_OF_GPU
from placer.market.words.places import cities_in, is_said, place_in, place_words, places_listed
from placer.records import replace
from placer.units import GIB, counted, parse_bytes

WRITE = "name a file with a list of machines and their prices"
HOSTS_RTT_MS = 10.0
"""Round trip between hosts of a market in one place, over the internet: assumed. Of one state they
lie up to some 500 km apart.
"""
CLOUDS = ("aws", "azure", "gcp")
"""Providers that bill bytes by the GB. Others give them away, or say so; which a new one is like is
not known, and these are the dearer.
"""


class PriceList(Struct, frozen=True, kw_only=True):
    """A price list that was read, with what was guessed of it; ``rows`` have the cells by name.
    ``about`` says whose list it is if that is known, and ``provider`` what it is called.
    """

    place: str
    day: str
    names: Sequence[str]
    rows: Sequence[tuple[str, Mapping[str, str]]]
    guesses: Mapping[str, Guess]
    places: Mapping[str, str]
    """Cities by what the list calls its data centres, as given."""
    tally: Tally
    about: str = ""
    provider: str = ""


def read_list(path: str, given: Mapping[str, str], book: Catalog) -> PriceList:
    """Read a CSV file, separated by commas, semicolons, tabs or bars, or a list of JSON, and guess
    its columns, unless a mapping knows them.

    ``given``: columns or values by field, and cities by what the list calls its data centres.
    ``book``: whose devices are looked for. Raise `PlacerError` that says what to type where the
    list does not say something that counts.
    """
    document = read_document(path)
    tally = Tally(skip_bad=False, may_skip=False, origins=[document.origin])
    if made := known_list(document, PRICES):
        tip = f"read it with 'placer catalog import csv {path} --as NAME', and ask --catalog NAME"
        raise SourceError(f"'{path}' is known: {made.about}", tip)
    mapping = known_list(document)
    if mapping is None:
        names, rows = cells_of(document)
    else:
        found = mapped_rows(read_records(document, mapping, tally), mapping, tally, {}, None)
        rows = [(one.where, {name: str(cell) for name, cell in one.row.items()}) for one in found]
        names = [*mapping.fields]
    if not rows:
        raise tally.nothing() if tally.left_out else SourceError(f"'{path}' has no row", WRITE)
    cells = {cell for _, row in rows for cell in row.values()}
    places = {word: city for word, city in given.items() if word in cells and place_in(city)}
    words = {field: word for field, word in given.items() if field not in places}
    if is_json(document) and not any(re.search(r"[0-9],[0-9]", cell) for cell in cells):
        words.setdefault("decimals", "point")
    if mapping is None:
        guesses = guessed(names, [row for _, row in rows], words, book)
    else:
        guesses = {name: Guess(name, None, "as its names are known") for name in names}
        guesses |= {name: Guess(None, value, "as known") for name, value in mapping.set.items()}
        guesses |= dict(given_guesses(names, words))
    return PriceList(
        place=path,
        day=date_of(path).isoformat(),
        names=names,
        rows=rows,
        guesses=guesses,
        places=places,
        tally=tally,
        about="" if mapping is None else mapping.about,
        provider="" if mapping is None else mapping.set["provider"],
    )


def known_list(document: Document, kinds: Sequence[str] = ("list",)) -> SourceMap | None:
    """Return the mapping that knows the names of a price list; None where they are guessed."""
    known = (shipped_mapping(name) for name in shipped_mappings())
    return next((one for one in known if one.kind in kinds and fits(document, one)), None)


def harvest_of(
    found: PriceList, provider: str, rates: Mapping[str, float], book: Catalog
) -> Harvest:
    """Make the rows of a book of a price list: offers, regions and egress.

    ``provider``: what its machines are called. ``rates``: USD for one unit of a currency, in place
    of the dated ones. ``book``: whose egress is taken where the list says none. Raise `PlacerError`
    if a place or a currency is not known, or no row can be used.
    """
    tally = found.tally
    reader = _Reader(found, provider, rates, book)
    offers = [one for where, row in found.rows for one in reader.offers(where, row)]
    if reader.unplaced:
        rest = len(reader.unplaced) - 1
        raise SourceError(
            f"{next(iter(reader.unplaced.values()))}{f', and {rest} more' * bool(rest)}",
            f"say it: --columns {','.join(reader.unplaced)}, each with its city",
        )
    if not offers:
        raise tally.nothing()
    regions = list(reader.regions.values())
    known = known_by_default()
    here = {f"{provider}/{row['region']}" for row in regions}
    kept = book_rows(
        offers,
        # What equal machines differ in is not read: of two prices of one place the higher counts.
        SourceMap(kind="offers", zone="''"),
        tally,
        replace(known, regions={*known.regions, *here}),
    )
    machines = Counter(str(one.row["instance_type"]).rpartition("_")[2] for one in offers)
    if found.about and (several := sum(count > 1 for count in machines.values())):
        words = f"{counted(several, 'host')} with several sizes: one size can be rented at a time"
        tally.words.append(words)
    egress, words = _egress(reader, provider, book)
    links = _hosts_apart(regions, provider, found.day) if found.about else []
    tally.words.append(words)
    rows = {"regions.csv": regions, "offers.csv": kept, "egress.csv": egress}
    return tally.harvest({**rows, "links.csv": links} if links else rows)


_GUESSED = ("is no price", "is the price of a commitment")
"""What a mapping of columns refuses, and is guessed or left out by cells here."""
LEAST_MB = 4096
"""Sizes of memory are in MB where none is below: few machines have so many GB, and no list has no
others.
"""
_NOT_ON_DEMAND = ("commitment", "spot")
"""Markets that the name of a machine may say."""
_SIZE = re.compile(r"([MGT]i?B)\b", re.IGNORECASE)


class _Reader:
    """Reads the offers of each row."""

    def __init__(
        self, found: PriceList, provider: str, rates: Mapping[str, float], book: Catalog
    ) -> None:
        self.found, self.guesses, self.provider = found, found.guesses, provider
        self.rates, self.book, self.tally = dict(rates), book, found.tally
        self.look = Lookup({})
        self.rules = [r for r in shipped_mapping("csv").refuse if not r.reason.startswith(_GUESSED)]
        self.regions: dict[str, Row] = {}
        self.names: dict[City, str] = {}
        self.unplaced: dict[str, str] = {}
        self.traffic: dict[str, list[float | None]] = defaultdict(list)
        self.notes = found.tally.words
        self.source = f"{found.tally.origins[0].place.rpartition('/')[2]}, read by placer try"
        if self.guesses["unit"].value == "month":
            self.notes.append(
                "an hour is taken as 1/730 of the price of a month; a provider that sells whole "
                "months charges more for a shorter run"
            )

    def offers(self, where: str, row: Mapping[str, str]) -> Iterator[Found]:
        """Yield an offer for each place and price of a row; count a row that has none."""
        for rule in self.rules:
            if self.look.holds(rule.when, row):
                self.tally.leave_out(rule.reason, self.look.text(rule.name, row))
                return
        device = device_in(self._cell("gpu", row), self.book, self._amount("vram", row))
        if device is None:
            self.tally.leave_out("row without a GPU that is known", self._cell("gpu", row))
            return
        if device.assumed:
            self.notes.append(device.assumed)
        count = count_of(row, self.guesses, device.number)
        host = self._host(row, count)
        name = self._cell("machine", row) or f"{count}x{device.gpu}"
        for market, usd in self._prices(where, row, count):
            for city in self._cities(where, row):
                region = self._region(city)
                self.traffic[region].append(amount(self._cell("egress", row), "point"))
                yield Found(
                    where,
                    {
                        "provider": self.provider,
                        "region": region,
                        "instance_type": name.lstrip("=+-@"),
                        "gpu": device.gpu,
                        "gpu_count": count,
                        **host,
                        "market": market,
                        "usd_per_hour": float(f"{usd:.12g}"),
                        "price_basis": "list",
                        "source": self.source,
                        "as_of": self.found.day,
                    },
                )

    def _cell(self, field: str, row: Mapping[str, str]) -> str:
        guess = self.guesses.get(field)
        if guess is None:
            return ""
        return guess.value if guess.value is not None else row[guess.column or ""]

    def _amount(self, field: str, row: Mapping[str, str]) -> float | None:
        return amount(self._cell(field, row), self.decimals[field])

    def _host(self, row: Mapping[str, str], count: int) -> Row:
        vcpus, memory = self._amount("vcpus", row), self._memory_gib(row)
        if vcpus is None or memory is None:
            self.notes.append(
                f"assumed where the list does not say it: {VCPUS_OF_GPU} vCPUs and "
                f"{MEMORY_GIB_OF_GPU:g} GiB beside each GPU"
            )
        host = {
            "vcpus": vcpus or float(VCPUS_OF_GPU * count),
            "memory_gib": memory or MEMORY_GIB_OF_GPU * count,
        }
        if not self.found.about:
            return host
        gbps = amount(row["network_gbps"], "point") or None
        # There is one host of a market, on a network of its own.
        own: Row = {"available": 1, "fabric": "ethernet", "max_island_machines": 1}
        return {**host, "network_gbps": gbps, **own}

    def _memory_gib(self, row: Mapping[str, str]) -> float | None:
        size, header = self._amount("memory", row), self.guesses.get("memory")
        if size is None or header is None:
            return None
        named = _SIZE.search(self._cell("memory", row)) or _SIZE.search(header.column or "")
        unit = self.memory_unit if named is None else named[1].upper().replace("I", "i")
        return parse_bytes(f"{size:.12g}{unit}") / GIB

    @cached_property
    def memory_unit(self) -> str:
        """The unit of sizes that name none: GB, or MB where no machine of the list has less."""
        sizes = [self._amount("memory", row) for _, row in self.found.rows]
        if min((size for size in sizes if size), default=0.0) < LEAST_MB:
            return "GB"
        column = self.guesses["memory"].column
        self.notes.append(f"sizes of '{column}' are taken as MB: none is below {LEAST_MB:,}")
        return "MB"

    @cached_property
    def decimals(self) -> Mapping[str, Decimals]:
        """How numbers of each column are written; as prices are where it may be both."""
        prices: Decimals = "comma" if self.guesses["decimals"].value == "comma" else "point"
        found: dict[str, Decimals] = {"price": prices, "spot": prices}
        for field in ("vram", "vcpus", "memory"):
            cells = (self._cell(field, row) for _, row in self.found.rows)
            numbers = [number for cell in cells if (number := number_in(cell))]
            found[field] = decimals_of(numbers) or prices
        return found

    def _prices(
        self, where: str, row: Mapping[str, str], count: int
    ) -> Iterator[tuple[str, float]]:
        cells = [self._cell(name, row) for name in ("market", "gpu", "machine")]
        named = [market for cell in cells[1:] if (market := market_in(cell)) in _NOT_ON_DEMAND]
        said = market_in(cells[0]) or (named or ["on_demand"])[0]
        if "commitment" in (said, *named):
            self.tally.leave_out("price of a commitment", ", ".join(filter(None, cells)))
            return
        for field, market in (("price", said), ("spot", "spot")):
            if field not in self.guesses:
                continue
            column = self.guesses[field].column
            if column and re.search(
                price_words("price")["least"], plain(f"{column} {row[column]}")
            ):
                self.tally.leave_out("price that is only the lowest of some", row[column])
                continue
            usd = self._usd_per_hour(where, row, field, count)
            if usd is not None:
                yield market, usd
            elif field == "price":
                self.tally.leave_out("row without a price", self._cell(field, row))

    def _usd_per_hour(
        self, where: str, row: Mapping[str, str], field: str, count: int
    ) -> float | None:
        cell, value = self._cell(field, row), self._amount(field, row)
        if value is None:
            return None
        hours = hours_in(self._cell("unit", row))
        if hours is None:
            words = f"{where}: '{cell}' is for no time that is known"
            raise SourceError(words, "say it for all: --columns unit=hour, or day, month, year")
        column = self.guesses[field].column or ""
        if re.search(price_words("price")["taxed"], plain(column)):
            self.notes.append(f"prices of '{column}' have tax in them: more than a firm pays")
        currency = self._currency(row, cell, where)
        rate, words = rate_of(currency, self.rates)
        if words:
            self.notes.append(words)
        each = count if self.guesses["per"].value == "gpu" else 1
        return value * part_in(f"{column} {cell}") * each * rate / hours

    def _currency(self, row: Mapping[str, str], cell: str, where: str) -> str:
        guess = self.guesses["currency"]
        if guess.value is not None:
            return guess.value.upper()
        said = currency_in(cell) or currency_in(row[guess.column or ""])
        if said is None:
            raise SourceError(
                f"{where}: '{cell}' has no currency", "say one for all: --columns currency=EUR"
            )
        return said

    def _cities(self, where: str, row: Mapping[str, str]) -> list[City]:
        cell = self._cell("region", row)
        said = self.found.places.get(cell, cell)
        if not said:
            self.tally.leave_out("row without a place")
            return []
        if listed := places_listed(said):
            return [*listed]
        city = place_in(said)
        if city is None:
            if self.found.about:  # a market: others have what this host has
                self.tally.leave_out("place that is no one place (--columns 'NAME=CITY')", cell)
                return []
            several = [*map(place_words, cities_in(said))]
            words = f"'{cell}' may be {' or '.join(several)}"
            words = words if several else f"where '{cell}' is is not known"
            self.unplaced.setdefault(f"'{cell}={(*several, 'Frankfurt')[0]}'", f"{where}: {words}")
            return []
        if cell not in self.found.places and not is_said(city, cell):
            self.notes.append(f"'{cell}' is taken to be in {place_words(city)}")
        return [city]

    def _region(self, city: City) -> str:
        if city in self.names:
            return self.names[city]
        name = plain_name(city.city)
        if name in self.regions:  # a city of the same name elsewhere
            name = plain_name(place_words(city).replace("/", "-"))
        continent = countries()[city.country].continent
        self.names[city] = name
        self.regions[name] = {
            "provider": self.provider,
            "region": name,
            "display_name": f"{city.city}, {city.country}",
            "city": city.city,
            "country": city.country,
            "continent": continent,
            "egress_zone": continent,
            "latitude_deg": city.latitude_deg,
            "longitude_deg": city.longitude_deg,
            "source": f"{self.source}; {city.source}",
            "as_of": self.found.day,
        }
        return name


def _egress(reader: _Reader, provider: str, book: Catalog) -> tuple[list[Row], str]:
    """Return what bytes cost that leave each region, and where that stands.

    Of hosts that say it the dearest of a region counts, with what the bytes cost that arrive there:
    as many arrive at its peers. What is not said is the dearest of the clouds that bill bytes, each
    in its region nearest by: assumed, and never too low for a provider that is like one of them.
    """
    found = reader.found
    guess = found.guesses.get("egress")
    rows: list[Row] = []
    shown = []
    for city, name in reader.names.items():
        hosts = reader.traffic[name] if guess is not None else [None]
        said = [usd for usd in hosts if usd is not None]
        if len(said) == len(hosts):
            usd = zone = max(said) * GIB / 1e9
            source = "as given"
            if found.about:
                source = (
                    f"dearest of {counted(len(said), 'host')} there, bytes sent and received (list)"
                )
        else:
            usd, zone, like = _nearest_class(city, book)
            usd = max(usd, *(one * GIB / 1e9 for one in said), 0.0)
            source = f"assumed: as {like}, the dearest of {', '.join(CLOUDS)} near by"
        shown.append(usd)
        for dst, price in (
            ("intra_zone", usd if found.about else 0.0),  # hosts of a market share no network
            ("inter_zone", usd if found.about else zone),
            ("*", usd),
            ("internet", usd),
        ):
            rows.append(
                {
                    "provider": provider,
                    "src": name,
                    "dst": dst,
                    "above_gib_per_month": 0.0,
                    "usd_per_gib": float(f"{price:.6g}"),
                    "source": source,
                    "as_of": found.day,
                }
            )
    low, high = min(shown), max(shown)
    each = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    tip = "" if guess is not None else "; --columns egress=0.01 says what it is in USD per GB"
    return rows, f"egress: {each} USD per GiB, {rows[0]['source']}{tip}"


def _hosts_apart(regions: Sequence[Row], provider: str, day: str) -> list[Row]:
    """Return the round trip between hosts of a market in one region, which are no data centre."""
    return [
        {
            "src": f"{provider}/{region['region']}",
            "dst": f"{provider}/{region['region']}",
            "rtt_ms": HOSTS_RTT_MS,
            "basis": "estimated",
            "source": "hosts of a market reach each other over the internet; assumed",
            "as_of": day,
        }
        for region in regions
    ]


def _nearest_class(here: City, book: Catalog) -> tuple[float, float, str]:
    """Return the dearest price of bytes to the internet, and between zones, of the nearest regions
    of `CLOUDS`, USD per GiB, with the region that has the first.
    """
    network = Network(book)
    near = [
        min(
            (one for one in book.regions.values() if one.provider == cloud),
            key=lambda one: great_circle_km(here, one),
        ).place
        for cloud in CLOUDS
    ]
    out = {
        src: first_paid(network.egress_tiers(src, dst)).usd_per_gib
        for src, dst in zip(near, (*near[1:], near[0]), strict=True)
    }
    dearest = max(out, key=lambda place: out[place])
    zones = (first_paid(network.egress_tiers(p, p, same_zone=False)).usd_per_gib for p in near)
    return out[dearest], max(zones), dearest
