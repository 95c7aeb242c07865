"""Prices of AWS: the price list, spot prices, and what each region offers, with the user's own
credentials.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from placer.errors import PlacerError, SourceError
from placer.market.sources.harvest import Origin
from placer.market.sources.prices.aws.account import HOME, Account
from placer.market.sources.prices.aws.spot import DAYS, spot_prices
from placer.market.sources.prices.quotes import Gathered, origin, quote
from placer.market.sources.reading.fetch import FAILED
from placer.market.sources.reading.mapped_rows import Found, Known, mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import Records
from placer.market.sources.reading.tally import Tally
from placer.market.sources.scope import Scope, Shape, known_gpu

PLAIN = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
}
"""What the price list is asked for: a plain Linux machine as one goes, without licences."""
TYPES_A_QUESTION = 100
"""Most types that DescribeInstanceTypes takes in one call; a filter takes 200 values."""


def gather(scope: Scope, tell: Callable[[str], None], *, partial: bool = False) -> Gathered:
    """Ask region by region.

    Parameters
    ----------
    scope
        What is asked for.
    tell
        Called with what is being read.
    partial
        Go on when a region fails, and name it in ``failed``.

    Raises
    ------
    PlacerError
        With exit code 2 without boto3 or credentials; with exit code 7 if AWS does not deliver, or
        no region at all does.
    """
    account = Account()
    left_out: Counter[str] = Counter()
    tell("regions of AWS")
    pricing = account.client("pricing", HOME)
    regions, notes = _enabled(account, scope, left_out)
    shapes: dict[str, Shape | None] = {}
    found: list[Found] = []
    origins: list[Origin] = []
    failed: dict[str, str] = {}
    for number, region in enumerate(regions, start=1):
        tell(f"prices of AWS, {region} ({number} of {len(regions)})")
        try:
            prices = _Region(account, pricing, scope, region, shapes).read()
        except PlacerError as error:
            if not partial or error.exit_code != FAILED:
                raise PlacerError(
                    f"aws/{region}: {error.message}", _tip(error, len(regions)), error.exit_code
                ) from None
            failed[region] = error.message
            continue
        found += prices.found
        origins += prices.origins
        left_out.update(prices.left_out)
    if failed and len(failed) == len(regions):
        raise SourceError(
            f"no region of AWS delivered: {next(iter(failed.values()))}", "run this again later"
        )
    return Gathered(found=found, origins=origins, left_out=left_out, notes=notes, failed=failed)


def _tip(error: PlacerError, regions: int) -> str:
    return (
        f"{error.hint}; --partial keeps the old prices of regions that fail"
        if regions > 1
        else error.hint
    )


def _enabled(account: Account, scope: Scope, left_out: Counter[str]) -> tuple[list[str], list[str]]:
    """Return the regions that are asked for and switched on in the account, and notes that name the
    others.
    """
    rows = account.rows(account.client("ec2", HOME), "describe_regions", "Regions", AllRegions=True)
    on = {
        row["RegionName"]: row.get("OptInStatus", "opt-in-not-required") != "not-opted-in"
        for row in rows
    }
    left_out["region that the shipped book does not know"] += len(on.keys() - scope.known_regions)
    regions = [region for region in scope.regions if on.get(region)]
    off = [region for region in scope.regions if not on.get(region)]
    if not regions:
        raise SourceError(
            "none of these regions is switched on in this account", "name others with --in"
        )
    return regions, [f"not switched on in this account: {', '.join(off)}"] if off else []


class _Region:
    """The questions about one region; ``shapes`` remembers the types of regions before."""

    def __init__(
        self,
        account: Account,
        pricing: Any,
        scope: Scope,
        region: str,
        shapes: dict[str, Shape | None],
    ) -> None:
        self.account, self.pricing, self.scope, self.region, self.shapes = (
            account,
            pricing,
            scope,
            region,
            shapes,
        )
        self.ec2 = account.client("ec2", region)
        self.today = datetime.now(UTC).date().isoformat()
        self.left_out: Counter[str] = Counter()

    def read(self) -> Gathered:
        """Return the prices of the types that the region offers, with digests of the answers.

        Raises
        ------
        PlacerError
            With exit code 7 if AWS does not deliver, or an answer lacks what AWS documents.
        """
        try:
            return self._read()
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise SourceError(f"an answer of AWS has no {error}", "run this again later") from None

    def _read(self) -> Gathered:
        filters = [
            {"Type": "TERM_MATCH", "Field": field, "Value": value}
            for field, value in {**PLAIN, "regionCode": self.region}.items()
        ]
        wishes = {"ServiceCode": "AmazonEC2", "Filters": filters}
        entries = self.account.rows(self.pricing, "get_products", "PriceList", **wishes)
        if not entries:
            raise SourceError(
                "the price list has no machine of this region", "run this again later"
            )
        listed = dict(self._named(entries))
        types = {
            attributes["instanceType"]
            for attributes in (entry["product"]["attributes"] for entry in listed.values())
            if attributes.get("gpu", "NA") not in ("NA", "0")
            or attributes["instanceType"] in self.scope.hosts()
        }
        wanted = self._wanted(self._offered(types))
        mapping, tally = shipped_mapping("aws"), Tally(skip_bad=True, by_reason=True)
        records = Records(
            place="AWS price list",
            names=(),
            rows=[
                (where, entry)
                for where, entry in listed.items()
                if entry["product"]["attributes"]["instanceType"] in wanted
            ],
        )
        machines = {name: asdict(shape) for name, shape in wanted.items()}
        known = Known(regions={f"aws/{self.region}"}, gpus=self.scope.devices, machines=machines)
        found = list(mapped_rows(records, mapping, tally, {}, self.today, known))
        self.left_out.update(tally.reasons())
        spot, rows = self._spot(wanted)
        answers = [*entries, *(json.dumps(row, default=str, sort_keys=True) for row in rows)]
        origins = [origin(f"AWS price list and EC2 spot price history, {self.region}", answers)]
        return Gathered(found=found + spot, origins=origins, left_out=self.left_out)

    def _named(self, entries: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the entries of the price list that are about a machine; each is JSON inside
        JSON.
        """
        for number, entry in enumerate(entries, 1):
            try:
                document = json.loads(entry)
                if document["terms"].get("OnDemand") and document["product"]["attributes"]:
                    yield f"{self.region}: entry {number}", document
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise SourceError(
                    f"an entry of AWS' price list for {self.region} cannot be read: "
                    f"{type(error).__name__}",
                    "run this again later",
                ) from None

    def _offered(self, types: Iterable[str]) -> set[str]:
        """Return the types of the price list that the region has: the list also keeps prices of
        those that are gone.
        """
        offered: set[str] = set()
        for names in _parts(types):
            wishes = {
                "LocationType": "region",
                "Filters": [{"Name": "instance-type", "Values": names}],
            }
            rows = self.account.rows(
                self.ec2, "describe_instance_type_offerings", "InstanceTypeOfferings", **wishes
            )
            offered |= {row["InstanceType"] for row in rows} & set(names)
        for name in set(types) - offered:
            self.left_out[f"type that its region does not offer: {name.partition('.')[0]}"] += 1
        return offered

    def _wanted(self, types: Iterable[str]) -> dict[str, Shape]:
        """Return the shapes of types whose device is known and asked for."""
        for names in _parts(set(types) - self.shapes.keys()):
            for row in self.account.rows(
                self.ec2, "describe_instance_types", "InstanceTypes", InstanceTypes=names
            ):
                self.shapes[row["InstanceType"]] = _shape(row, self.scope)
        for name in types:
            if self.shapes.get(name) is None:
                self.left_out[
                    f"type whose GPU gpus.csv does not know: {name.partition('.')[0]}"
                ] += 1
        return {
            name: shape
            for name in sorted(types)
            if (shape := self.shapes.get(name)) is not None and self.scope.wants(shape)
        }

    def _spot(self, wanted: Mapping[str, Shape]) -> tuple[list[Found], Sequence[Mapping[str, Any]]]:
        """Return the current spot prices by zone, with their quantiles."""
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
        return [
            quote(
                self.region,
                price.instance_type,
                wanted[price.instance_type],
                "spot",
                price.usd_per_hour,
                f"EC2 spot price history; low and high of {DAYS} days",
                price.since,
                zone=price.zone,
                spread=(price.low, price.high),
            )
            for price in spot_prices(rows, start, now)
            if price.instance_type in wanted
        ], rows


def _parts(types: Iterable[str]) -> Iterator[list[str]]:
    """Yield the names in the portions that EC2 takes in one call."""
    names = sorted(types)
    return (
        names[start : start + TYPES_A_QUESTION] for start in range(0, len(names), TYPES_A_QUESTION)
    )


def _shape(row: Mapping[str, Any], scope: Scope) -> Shape | None:
    """Read one type of DescribeInstanceTypes; None where its device is not known."""
    gpus = row.get("GpuInfo", {}).get("Gpus", [])
    name = row["InstanceType"]
    if gpus:
        gpu = known_gpu(
            gpus[0].get("Name", ""),
            gpus[0].get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024,
            scope.devices,
        )
        gpu = gpu if len(gpus) == 1 and gpus[0].get("Manufacturer") == "NVIDIA" else None
        count = gpus[0].get("Count", 0)
    else:
        gpu, count = (
            (scope.shapes[name].gpu, scope.shapes[name].gpu_count)
            if name in scope.hosts()
            else (None, 0)
        )
    if gpu is None or count < 1:
        return None
    return Shape(
        gpu=gpu,
        gpu_count=int(count),
        vcpus=float(row["VCpuInfo"]["DefaultVCpus"]),
        memory_gib=row["MemoryInfo"]["SizeInMiB"] / 1024,
        **_network(row.get("NetworkInfo", {}), scope.shapes.get(name)),
    )


def _network(info: Mapping[str, Any], known: Shape | None) -> dict[str, Any]:
    """Read baseline bandwidth and fabric of a type; the shipped book's where EC2 says nothing, as
    of its local disks.
    """
    cards = [card.get("BaselineBandwidthInGbps") for card in info.get("NetworkCards", [])]
    gbps = sum(cards) if cards and all(cards) else None
    efa = info.get("EfaSupported")
    fabric = "" if efa is None else "efa" if efa else "ethernet"
    return {
        "network_gbps": gbps if known is None or gbps is not None else known.network_gbps,
        "fabric": fabric if known is None or fabric else known.fabric,
        "max_island_machines": None if known is None else known.max_island_machines,
        "local_disk_gb": None if known is None else known.local_disk_gb,
    }
