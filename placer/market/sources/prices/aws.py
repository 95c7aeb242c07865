"""Prices of AWS with the user's own credentials: price list, spot prices, what regions have."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import filterfalse
from typing import Any

from placer.errors import PlacerError, SourceError
from placer.market.sources.harvest import Cell, Row, Tally
from placer.market.sources.prices.aws_account import HOME, Account
from placer.market.sources.prices.scope import Scope, known_gpu, origin, quote
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


def gather(
    scope: Scope, tally: Tally, tell: Callable[[str], None], failed: dict[str, str] | None = None
) -> list[Found]:
    """Ask region by region; go on when one fails, with its error in ``failed``, if that is given.
    Exit code 2 without boto3 or credentials, 7 if AWS does not deliver.
    """
    account = Account()
    tell("regions of AWS")
    pricing = account.client("pricing", HOME)
    regions = _enabled(account, scope, tally)
    machines: dict[str, Row | None] = {}
    found: list[Found] = []
    for number, region in enumerate(regions, start=1):
        tell(f"prices of AWS, {region} ({number} of {len(regions)})")
        try:
            found += _region_prices(account, pricing, scope, region, machines, tally)
        except PlacerError as error:
            if failed is None or error.exit_code != FAILED:
                more = "; --partial keeps the old prices of regions that fail"
                tip = f"{error.hint}{more if len(regions) > 1 else ''}"
                words = f"aws/{region}: {error.message}"
                raise PlacerError(words, tip, error.exit_code) from None
            failed[region] = error.message
    if failed and len(failed) == len(regions):
        raise SourceError(f"no region of AWS delivered: {next(iter(failed.values()))}", LATER)
    return found


def _enabled(account: Account, scope: Scope, tally: Tally) -> list[str]:
    """Return the regions that are asked for and switched on; note the others."""
    rows = account.rows(account.client("ec2", HOME), "describe_regions", "Regions", AllRegions=True)
    on = {
        row["RegionName"]: row.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
        for row in rows
    }
    for _ in filterfalse(scope.knows, on):
        tally.leave_out("region that the shipped book does not know")
    regions = [region for region in scope.regions if on.get(region)]
    off = [region for region in scope.regions if not on.get(region)]
    if not regions:
        words = "none of these regions is switched on in this account"
        raise SourceError(words, "name others with --in")
    if off:
        tally.words.append(f"not switched on in this account: {', '.join(off)}")
    return regions


def _region_prices(
    account: Account,
    pricing: Any,
    scope: Scope,
    region: str,
    machines: dict[str, Row | None],
    tally: Tally,
) -> list[Found]:
    """Return the prices of the types that a region offers; ``machines`` remembers the types of
    regions before. What was read and left out is tallied at the end: of a region that fails nothing
    is.
    """
    asked = partial(account.rows, account.client("ec2", region))
    try:
        entries = account.rows(
            pricing,
            "get_products",
            "PriceList",
            ServiceCode="AmazonEC2",
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in {**PLAIN, "regionCode": region}.items()
            ],
        )
        if not entries:
            raise SourceError("the price list has no machine of this region", LATER)
        listed = [*_named(entries, region)]
        hosts = scope.hosts()
        types = {
            attributes["instanceType"]
            for attributes in (entry["product"]["attributes"] for _, entry in listed)
            if attributes.get("gpu", "NA") not in ("NA", "0") or attributes["instanceType"] in hosts
        }
        offered = _offered(types, asked)
        for names in _parts(offered - machines.keys()):
            for row in asked("describe_instance_types", "InstanceTypes", InstanceTypes=names):
                machines[row["InstanceType"]] = _machine(row, scope)
        known = {name: machine for name in sorted(offered) if (machine := machines.get(name))}
        wanted = {name: machine for name, machine in known.items() if scope.wants(machine)}
        spot, history = _spot(region, wanted, asked)
        rows = [at for at in listed if at[1]["product"]["attributes"]["instanceType"] in wanted]
        records = Records(place="AWS price list", names=(), rows=rows)
        own = replace(scope.known, regions={f"aws/{region}"}, machines=wanted)
        today = datetime.now(UTC).date().isoformat()
        prices = [*mapped_rows(records, shipped_mapping("aws"), tally, {}, today, own), *spot]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise SourceError(f"an answer of AWS has no {error}", LATER) from None
    for words, lacking in (
        ("type that its region does not offer", types - offered),
        ("type whose GPU gpus.csv does not know", offered - known.keys()),
    ):
        for name in lacking:
            tally.leave_out(f"{words}: {name.partition('.')[0]}")
    answers = [*entries, *(json.dumps(row, default=str, sort_keys=True) for row in history)]
    tally.origins.append(origin(f"AWS price list and EC2 spot price history, {region}", answers))
    return prices


def _named(entries: Iterable[str], region: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of the price list about machines; each is JSON inside JSON."""
    for number, entry in enumerate(entries, 1):
        try:
            document = json.loads(entry)
            if document["terms"].get("OnDemand") and document["product"]["attributes"]:
                yield f"{region}: entry {number}", document
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            words = f"an entry of AWS' price list for {region} cannot be read"
            raise SourceError(f"{words}: {type(error).__name__}", LATER) from None


def _offered(types: set[str], asked: Callable[..., list[Any]]) -> set[str]:
    """Return the types that a region has: the list keeps prices of those that are gone."""
    offered: set[str] = set()
    for names in _parts(types):
        filters = [{"Name": "instance-type", "Values": names}]
        rows = asked(
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="region",
            Filters=filters,
        )
        offered |= {row["InstanceType"] for row in rows} & set(names)
    return offered


def _spot(
    region: str, wanted: Mapping[str, Row], asked: Callable[..., list[Any]]
) -> tuple[list[Found], list[Any]]:
    """Return the current spot prices by zone, with their quantiles, and the history."""
    if not wanted:
        return [], []
    now = datetime.now(UTC)
    start = now - timedelta(days=DAYS)
    rows = asked(
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=list(wanted),
        ProductDescriptions=["Linux/UNIX"],
        StartTime=start,
        EndTime=now,
    )
    source = f"EC2 spot price history; low and high of {DAYS} days"
    said = {"region": region, "market": "spot", "source": source}
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
        one = gpus[0]
        gib = one.get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024
        gpu, count = known_gpu(one.get("Name", ""), gib, scope.book.gpus), one.get("Count", 0)
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
