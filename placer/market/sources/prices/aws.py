"""Prices of AWS with the user's own credentials: price list, spot prices, what regions have."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import filterfalse
from typing import Any

from placer.errors import PlacerError, SourceError
from placer.market.sources.harvest import Cell, Origin, Row, Tally
from placer.market.sources.prices.aws_account import HOME, Account
from placer.market.sources.prices.scope import Gathered, Scope, known_gpu, origin, quote
from placer.market.sources.reading.fetch import FAILED, LATER
from placer.market.sources.reading.mapped_rows import Found, mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import Records
from placer.records import replace

PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
}
"""What the price list is asked for: a plain Linux machine as one goes, without licences."""
TYPES_A_QUESTION = 100
"""Most types that DescribeInstanceTypes takes in one call; a filter takes 200 values."""
DAYS = 30  # How far back the history goes that low and high spot prices are taken from
LOW, HIGH = 0.1, 0.9  # Quantiles of the price over time, as catalogs/columns.csv says


def gather(scope: Scope, tell: Callable[[str], None], *, partial: bool = False) -> Gathered:
    """Ask region by region; with ``partial`` go on when one fails, and name it in ``failed``. Exit
    code 2 without boto3 or credentials, 7 if AWS does not deliver.
    """
    account = Account()
    left_out: Counter[str] = Counter()
    tell("regions of AWS")
    pricing = account.client("pricing", HOME)
    regions, notes = _enabled(account, scope, left_out)
    machines: dict[str, Row | None] = {}
    found: list[Found] = []
    origins: list[Origin] = []
    failed: dict[str, str] = {}
    for number, region in enumerate(regions, start=1):
        tell(f"prices of AWS, {region} ({number} of {len(regions)})")
        try:
            prices = _Region(account, pricing, scope, region, machines).read()
        except PlacerError as error:
            if not partial or error.exit_code != FAILED:
                more = "; --partial keeps the old prices of regions that fail"
                tip = f"{error.hint}{more if len(regions) > 1 else ''}"
                words = f"aws/{region}: {error.message}"
                raise PlacerError(words, tip, error.exit_code) from None
            failed[region] = error.message
            continue
        found += prices.found
        origins += prices.origins
        left_out.update(prices.left_out)
    if failed and len(failed) == len(regions):
        raise SourceError(f"no region of AWS delivered: {next(iter(failed.values()))}", LATER)
    return Gathered(found=found, origins=origins, left_out=left_out, notes=notes, failed=failed)


def _enabled(account: Account, scope: Scope, left_out: Counter[str]) -> tuple[list[str], list[str]]:
    """Return the regions that are asked for and switched on, and notes that name the others."""
    rows = account.rows(account.client("ec2", HOME), "describe_regions", "Regions", AllRegions=True)
    on = {
        row["RegionName"]: row.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
        for row in rows
    }
    left_out["region that the shipped book does not know"] += len([*filterfalse(scope.knows, on)])
    regions = [region for region in scope.regions if on.get(region)]
    off = [region for region in scope.regions if not on.get(region)]
    if not regions:
        words = "none of these regions is switched on in this account"
        raise SourceError(words, "name others with --in")
    return regions, [f"not switched on in this account: {', '.join(off)}"] if off else []


class _Region:
    """The questions about one region; ``machines`` remembers the types of regions before."""

    def __init__(
        self,
        account: Account,
        pricing: Any,
        scope: Scope,
        region: str,
        machines: dict[str, Row | None],
    ) -> None:
        self.account, self.pricing, self.scope = account, pricing, scope
        self.region, self.machines = region, machines
        self.ec2 = account.client("ec2", region)
        self.today = datetime.now(UTC).date().isoformat()
        self.left_out: Counter[str] = Counter()

    def read(self) -> Gathered:
        """Return the prices of the types that the region offers, with digests of the answers."""
        try:
            return self._read()
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise SourceError(f"an answer of AWS has no {error}", LATER) from None

    def _read(self) -> Gathered:
        filters = [
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in {**PLAIN, "regionCode": self.region}.items()
        ]
        wishes = {"ServiceCode": "AmazonEC2", "Filters": filters}
        entries = self.account.rows(self.pricing, "get_products", "PriceList", **wishes)
        if not entries:
            raise SourceError("the price list has no machine of this region", LATER)
        listed = dict(self._named(entries))
        hosts = self.scope.hosts()
        types = {
            attributes["instanceType"]
            for attributes in (entry["product"]["attributes"] for entry in listed.values())
            if attributes.get("gpu", "NA") not in ("NA", "0") or attributes["instanceType"] in hosts
        }
        wanted = self._wanted(self._offered(types))
        tally = Tally(skip_bad=True, by_reason=True)
        rows = [
            (where, entry)
            for where, entry in listed.items()
            if entry["product"]["attributes"]["instanceType"] in wanted
        ]
        known = replace(self.scope.known, regions={f"aws/{self.region}"}, machines=wanted)
        records = Records(place="AWS price list", names=(), rows=rows)
        found = mapped_rows(records, shipped_mapping("aws"), tally, {}, self.today, known)
        prices = [*found]
        self.left_out.update(tally.reasons())
        spot, history = self._spot(wanted)
        answers = [*entries, *(json.dumps(row, default=str, sort_keys=True) for row in history)]
        origins = [origin(f"AWS price list and EC2 spot price history, {self.region}", answers)]
        return Gathered(found=prices + spot, origins=origins, left_out=self.left_out)

    def _named(self, entries: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the entries of the price list about machines; each is JSON inside JSON."""
        for number, entry in enumerate(entries, 1):
            try:
                document = json.loads(entry)
                if document["terms"].get("OnDemand") and document["product"]["attributes"]:
                    yield f"{self.region}: entry {number}", document
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                words = f"an entry of AWS' price list for {self.region} cannot be read"
                raise SourceError(f"{words}: {type(error).__name__}", LATER) from None

    def _offered(self, types: set[str]) -> set[str]:
        """Return the types that the region has: the list keeps prices of those that are gone."""
        offered: set[str] = set()
        for names in _parts(types):
            filters = [{"Name": "instance-type", "Values": names}]
            wishes = {"LocationType": "region", "Filters": filters}
            rows = self.account.rows(
                self.ec2, "describe_instance_type_offerings", "InstanceTypeOfferings", **wishes
            )
            offered |= {row["InstanceType"] for row in rows} & set(names)
        for name in types - offered:
            self.left_out[f"type that its region does not offer: {name.partition('.')[0]}"] += 1
        return offered

    def _wanted(self, types: set[str]) -> dict[str, Row]:
        for names in _parts(types - self.machines.keys()):
            for row in self.account.rows(
                self.ec2, "describe_instance_types", "InstanceTypes", InstanceTypes=names
            ):
                self.machines[row["InstanceType"]] = _machine(row, self.scope)
        wanted = {}
        for name in sorted(types):
            machine = self.machines.get(name)
            if machine is None:
                family = name.partition(".")[0]
                self.left_out[f"type whose GPU gpus.csv does not know: {family}"] += 1
            elif self.scope.wants(machine):
                wanted[name] = machine
        return wanted

    def _spot(self, wanted: Mapping[str, Row]) -> tuple[list[Found], Sequence[Mapping[str, Any]]]:
        """Return the current spot prices by zone, with their quantiles, and the history."""
        if not wanted:
            return [], []
        now = datetime.now(UTC)
        start = now - timedelta(days=DAYS)
        wishes = {
            "InstanceTypes": list(wanted),
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": start,
            "EndTime": now,
        }
        rows = self.account.rows(
            self.ec2, "describe_spot_price_history", "SpotPriceHistory", **wishes
        )
        source = f"EC2 spot price history; low and high of {DAYS} days"
        said = {"region": self.region, "market": "spot", "source": source}
        found = [
            quote(wanted[name], zone=zone, instance_type=name, **said, **prices)
            for (name, zone), prices in spot_prices(rows, start, now).items()
            if name in wanted
        ]
        return found, rows


def _parts(types: Iterable[str]) -> Iterator[list[str]]:
    names = sorted(types)
    for start in range(0, len(names), TYPES_A_QUESTION):
        yield names[start : start + TYPES_A_QUESTION]


def _machine(row: Mapping[str, Any], scope: Scope) -> Row | None:
    """Read one type of DescribeInstanceTypes, over what the shipped book says where EC2 says
    nothing; None where its device is not known.
    """
    name, gpus = row["InstanceType"], row.get("GpuInfo", {}).get("Gpus", [])
    known = scope.known.machines.get(name, {})
    gpu: str | None = None
    count: Any = 0
    if len(gpus) == 1 and gpus[0].get("Manufacturer") == "NVIDIA":
        gib = gpus[0].get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024
        gpu, count = known_gpu(gpus[0].get("Name", ""), gib, scope.devices), gpus[0].get("Count", 0)
    elif not gpus and name in scope.hosts():
        gpu, count = str(known["gpu"]), known["gpu_count"]
    if gpu is None or count < 1:
        return None
    network = row.get("NetworkInfo", {})
    cards = [card.get("BaselineBandwidthInGbps") for card in network.get("NetworkCards", [])]
    said: dict[str, Cell] = {"network_gbps": sum(cards)} if cards and all(cards) else {}
    if network.get("EfaSupported") is not None:
        said["fabric"] = "efa" if network["EfaSupported"] else "ethernet"
    return {
        **known,
        "gpu": gpu,
        "gpu_count": int(count),
        "vcpus": float(row["VCpuInfo"]["DefaultVCpus"]),
        "memory_gib": row["MemoryInfo"]["SizeInMiB"] / 1024,
        **said,
    }


def spot_prices(
    history: Iterable[Mapping[str, Any]], start: datetime, end: datetime
) -> dict[tuple[str, str], dict[str, Cell]]:
    """Sum up rows of DescribeSpotPriceHistory, in any order, by type and zone: what is asked now,
    USD/h, its day (ISO), and the 10 % and 90 % quantile over time, by column.

    A row holds until the next of its type and zone. The first may be older than ``start``: it is
    the price that held then. The quantiles are of the time from ``start`` to ``end``; the price of
    now lies between low and high, also when it has just moved.
    """
    series: dict[tuple[str, str], list[tuple[datetime, float]]] = defaultdict(list)
    for row in history:
        key = str(row["InstanceType"]), str(row["AvailabilityZone"])
        series[key].append((row["Timestamp"], float(row["SpotPrice"])))
    found: dict[tuple[str, str], dict[str, Cell]] = {}
    for kind, unsorted in sorted(series.items()):
        points = sorted(unsorted)
        since, now = points[-1]
        ends = [moment for moment, _ in points[1:]] + [end]
        held = [
            (price, (min(ended, end) - max(begun, start)).total_seconds())
            for (begun, price), ended in zip(points, ends, strict=True)
        ]
        low, high = (quantile(held, share, now) for share in (LOW, HIGH))
        found[kind] = {
            "usd_per_hour": now,
            "usd_per_hour_low": min(now, low),
            "usd_per_hour_high": max(now, high),
            "since": since.date().isoformat(),
        }
    return found


def quantile(held: Iterable[tuple[float, float]], share: float, otherwise: float) -> float:
    """Return the price below which a series lies for a share of the time: prices, each with how
    long it held in s. Those that held for no time, or are none, are passed over.

    >>> quantile([(1.0, 60), (2.0, 30), (3.0, 10)], 0.9, 0.0)
    2.0
    """
    ordered = sorted((price, seconds) for price, seconds in held if seconds > 0 and price > 0)
    left = share * sum(seconds for _, seconds in ordered)
    for price, seconds in ordered:
        left -= seconds
        if left <= 1e-9:
            return price
    return ordered[-1][0] if ordered else otherwise
