"""Quotas as clouds state them, as rows of a quota file: vCPUs of families, GPUs of metrics, sums
over regions.

Formats: Service Quotas ListServiceQuotas of ``ec2``; ``gcloud compute regions describe`` and
``gcloud compute project-info describe``; ``az vm list-usage``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from placer.errors import PlacerError, SourceError
from placer.market.catalog import Catalog, VmOffer
from placer.market.sources.capacity.answers import figure, rows_under
from placer.market.words.selection import is_named
from placer.records import Count

MOST = 999_999_999
"""Most that a quota file can say: clouds write larger numbers where there is no limit."""
AWS_NAMES = {
    "on_demand": re.compile(r"Running On-Demand (?P<families>.+) instances"),
    "spot": re.compile(r"All (?P<families>.+) Spot Instance Requests"),
}
GCP_METRIC = re.compile(r"(?P<spot>PREEMPTIBLE_)?NVIDIA_(?P<gpu>.+)_GPUS")
GCP_GPUS = {
    "A100": ("A100-40", "*"),
    "A100_80GB": ("A100-80", "*"),
    "H100": ("H100", "a3-highgpu-*|a3-edgegpu-*"),
    "H100_MEGA": ("H100", "a3-megagpu-*"),
}
"""Device and machine types of the metrics that are not named as the device of a book is."""
AZURE_SIZE = re.compile(
    r"Standard_(?P<series>[A-Z]+)\d+(?P<traits>[a-z]*)"
    r"(?:_(?P<gpu>[A-Z][A-Z0-9]*))?(?:_(?P<version>v\d+))?"
)
AZURE_TOTALS = {"cores": "on_demand", "lowprioritycores": "spot"}
"""Limits on the vCPUs of all machines of a region, and their market: spot ones have no other."""


class QuotaRow(Struct, frozen=True):
    """A row of a quota file: at most so many GPUs or vCPUs of what matches.

    scope: Whether each place, GPU and market has the quota, or all together.
    machine: Machine types that count: patterns with | between.
    vcpus: Most vCPUs of all machines that match together, in place of gpus.
    """

    place: str
    gpu: str = "*"
    market: str = "*"
    gpus: Count | None = None
    scope: Literal["each", "together"] = "together"
    machine: str = "*"
    vcpus: Count | None = None

    @property
    def words(self) -> str:
        """Return it in words: ``aws/us-east-2: at most 8 vCPUs of g[0-9]* spot``."""
        amount = f"{self.gpus:,} " if self.vcpus is None else f"{self.vcpus:,} vCPUs of "
        names = [name for name in (self.gpu, self.machine) if name != "*"]
        name = " on ".join(names) or ("GPUs of any kind" if self.vcpus is None else "all machines")
        market = "" if self.market == "*" else f" {self.market.replace('_', '-')}"
        return f"{self.place}: at most {amount}{name}{market}"


Found = tuple[list[QuotaRow], Counter[str]]  # Rows, and what was left out by reason


def aws_quotas(document: Any, region: str, book: Catalog, where: str) -> Found:
    """Read quotas of EC2: vCPUs of families such as ``P4, P3 and P2``, which share them."""
    place, machines = _place("aws", region, book), _machines("aws", book)
    rows, left_out = [], Counter[str]()
    for quota in rows_under(document if isinstance(document, dict) else {}, "Quotas", where):
        name = str(quota.get("QuotaName", ""))
        found = [(m, match[1]) for m, words in AWS_NAMES.items() if (match := words.search(name))]
        patterns = _family_patterns(found[0][1]) if found else []
        if not any(is_named(one, patterns) for one in machines):
            left_out[f"quota of no machine that the book has: {name[:80]}"] += 1
            continue
        vcpus = _left(quota, "Value", "Usage", where)
        rows.append(QuotaRow(place, "*", found[0][0], machine="|".join(patterns), vcpus=vcpus))
    return _some(rows, where, "list the quotas of the service ec2"), left_out


def _family_patterns(families: str) -> list[str]:
    """Return the machine types of families: ``P`` has p3 and p4d, ``P4`` has p4d alone.

    >>> _family_patterns("G and VT"), _family_patterns("P4 and P3")
    (['g[0-9]*', 'gr[0-9]*', 'vt[0-9]*'], ['p4[!0-9]*', 'p3[!0-9]*'])
    """
    names = [name.lower() for name in re.findall(r"\b[A-Z][A-Za-z0-9]*", families)]
    if "g" in names:  # AWS counts gr6 among G
        names.insert(names.index("g") + 1, "gr")
    kinds = [name for name in names if name != "standard"]
    return [f"{name}[!0-9]*" if name[-1].isdigit() else f"{name}[0-9]*" for name in kinds]


def gcp_quotas(document: Any, book: Catalog, where: str) -> Found:
    """Read quotas of Compute Engine: GPUs of each metric of a region, and of a project in all
    regions together; several answers may stand in one list. Spot machines of a device without a
    preemptible quota take the standard one.
    """
    rows, left_out = [], Counter[str]()
    sold = {offer.gpu for offer in book.offers if offer.provider == "gcp"}
    for answer in document if isinstance(document, list) else [document]:
        region = f"gcp/{answer.get('name', '')}" if isinstance(answer, Mapping) else ""
        quotas = rows_under(answer if region else {}, "quotas", where)
        named = {str(quota.get("metric", "")) for quota in quotas}
        for quota in quotas:
            metric = str(quota.get("metric", ""))
            match = GCP_METRIC.fullmatch(metric)
            gpu, machine = GCP_GPUS.get(match["gpu"], (match["gpu"], "*")) if match else ("", "*")
            if metric == "GPUS_ALL_REGIONS":
                place, gpu, market = "gcp/*", "*", "*"
            elif not match or gpu not in sold:
                left_out[f"metric of no GPU that the book has: {metric[:80]}"] += 1
                continue
            elif region not in book.regions:
                left_out[f"region that no book knows: {region[:60]}"] += 1
                continue
            else:
                alone = match["spot"] or f"PREEMPTIBLE_{metric}" in named
                place, market = region, "spot" if match["spot"] else "on_demand" if alone else "*"
            several = "*" in (place[-1], market) or machine != "*"
            gpus = _left(quota, "limit", "usage", where)
            scope: Literal["each", "together"] = "together" if several else "each"
            rows.append(QuotaRow(place, gpu, market, gpus, scope, machine))
    return _some(rows, where, "give what 'gcloud compute regions describe' prints"), left_out


def azure_quotas(document: Any, region: str, book: Catalog, where: str) -> Found:
    """Read quotas of Azure: vCPUs of families, of all machines of a region, of spot ones."""
    place, machines = _place("azure", region, book), _machines("azure", book)
    rows, left_out = [], Counter[str]()
    for usage in rows_under({"usages": document}, "usages", where):
        names = usage.get("name")
        name = str(names.get("value", "") if isinstance(names, Mapping) else names)
        market = AZURE_TOTALS.get(name.lower(), "")
        family = re.sub(r"[^a-z0-9]", "", name.lower())
        sizes = [one for one, offer in machines.items() if family in _azure_families(offer)]
        patterns = sorted({re.sub(r"\d+", "[0-9]*", size, count=1) for size in sizes})
        if not market and not patterns:
            left_out[f"family of no machine that the book has: {name[:80]}"] += 1
            continue
        vcpus = _left(usage, "limit", "currentValue", where)
        machine = "*" if market else "|".join(patterns)
        rows.append(QuotaRow(place, "*", market or "on_demand", machine=machine, vcpus=vcpus))
    return _some(rows, where, "give what 'az vm list-usage --output json' prints"), left_out


def _azure_families(offer: VmOffer) -> set[str]:
    """Return the names that the family of a machine may have, in small letters and digits.

    Some families leave out that machines are isolated (i) or have RDMA (r), name a device that the
    size does not, or write it behind the version: ``Standard_ND96asr_v4`` is of
    ``standardNDASv4_A100Family``.
    """
    match = AZURE_SIZE.fullmatch(offer.instance_type)
    if match is None:
        return set()
    series, traits, gpu, version = (part or "" for part in match.groups())
    return {
        f"standard{series}{few}{end}family".lower()
        for few in (traits, re.sub("[ir]", "", traits))
        for device in (gpu, offer.gpu.split("-")[0])
        for end in (f"{device}{version}", f"{version}{device}")
    }


def _place(provider: str, region: str, book: Catalog) -> str:
    place = f"{provider}/{region}"
    if place not in book.regions:
        words = f"region '{place}' is not in the book"
        raise PlacerError(words, "name one of its regions with --in")
    return place


def _machines(provider: str, book: Catalog) -> dict[str, VmOffer]:
    return {offer.instance_type: offer for offer in book.offers if offer.provider == provider}


def _left(quota: Mapping[str, Any], limit: str, usage: str, where: str) -> int:
    """Return what a quota still allows: its limit less what runs already, where that is stated."""
    most = figure(quota, limit, -1, 1e19, where)
    if most < 0:  # no limit
        return MOST
    used = figure({usage: 0, **quota}, usage, 0, 1e19, where)
    return min(MOST, max(0, math.floor(most - used)))


def _some(rows: list[QuotaRow], where: str, hint: str) -> list[QuotaRow]:
    if not rows:
        raise SourceError(f"{where}: no quota of machines that the book has", hint)
    return rows
