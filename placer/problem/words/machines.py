"""Words about machines: those that must be used, and quotas from a file or a mapping."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import bounded
from placer.market.catalog import MARKET_WORDS, MARKETS, Catalog
from placer.market.words.areas import CONTINENTS, plain_name
from placer.market.words.selection import places_of
from placer.problem.requirements import Quota, Used, matches

_RULE = re.compile(
    r"(?P<place>[^=\s]+)(?:=(?P<count>[0-9]{1,9})x(?P<device>[A-Za-z0-9*?-]+(?::[0-9]{1,6})?)(?::(?P<market>spot|on-demand|community))?)?"
)


def parse_used(given: list[str], catalog: Catalog) -> tuple[Used, ...]:
    """Read ``PLACE`` or ``PLACE=NxDEVICE[:market]``: at least one worker in a place, or at least N
    machines of a kind. Place and device may have wildcards; a provider stands for all its places.
    ``T4`` is a machine with one, ``V100:8`` one with eight, ``T4*`` any.
    """
    rules: dict[tuple[str, str, str], Used] = {}
    for word in given:
        match = _RULE.fullmatch(word)
        if match is None:
            raise PlacerError(
                f"use '{word}' names no machines",
                "write PLACE or PLACE=NxDEVICE[:MARKET], such as onprem/site=1xRTX8000",
            )
        if match["count"] is not None and int(match["count"]) < 1:
            raise PlacerError(
                f"use '{word}': at least 1 is needed",
                "leave it out, or give how many machines must be used",
            )
        rule = Used(
            place=_place(match["place"], catalog),
            device=_device(match["device"] or "*", catalog),
            market=(match["market"] or "*").replace("-", "_"),
            count=int(match["count"] or 1),
        )
        if (rule.place, rule.device, rule.market) in rules:
            raise PlacerError(
                f"use '{word}' is given twice",
                "write it once, with the number of machines that must be used",
            )
        rules[rule.place, rule.device, rule.market] = rule
    return tuple(rules.values())


def _place(word: str, catalog: Catalog) -> str:
    """Read one pattern of places; areas of several are refused, as counts are of all together."""
    places = places_of(word, catalog)
    if len(places) > 1:
        what = "a continent" if plain_name(word) in CONTINENTS else "an area"
        raise PlacerError(
            f"use '{word}': {what} is not a pattern of places",
            "name a place, a provider or one such as 'gcp/europe-*'",
        )
    return places[0]


def _device(word: str, catalog: Catalog) -> str:
    name, _, number = word.partition(":")
    exact = next((gpu for gpu in catalog.gpus if gpu.upper() == name.upper()), None)
    rented = {offer.device for offer in catalog.offers}
    named = word if exact is None else exact if number in ("", "1") else f"{exact}:{int(number)}"
    for device in (named, named.upper()):
        if any(fnmatchcase(known, device) for known in rented):
            return device
    if exact is None:
        raise unknown("device", word, rented)
    sizes = sorted(known for known in rented if known.partition(":")[0] == exact)
    hint = f"it has {', '.join(sizes or catalog.rented_gpus)}"
    raise PlacerError(f"catalog '{catalog.name}' rents no machine with {named}", hint)


COLUMNS = ("place", "gpu", "market", "gpus", "scope", "machine", "vcpus")
GIVE = "give a CSV file with place,gpu,market,gpus[,scope,machine,vcpus]"
IMPORTERS = {
    "QuotaName": "aws-quotas --in REGION",
    "metric": "gcp-quotas",
    "currentValue": "azure-quotas --in REGION",
}
"""What reads the JSON of a cloud, by a key that only it has."""
SCOPES = ("each", "together")
"""A row holds for each place, device and market that it matches, or for all of them in sum."""


def read_quotas(path: Path, catalog: Catalog | None = None) -> tuple[Quota, ...]:
    """Read a quota file: CSV with place, gpu, market and gpus or vcpus, perhaps scope and machine;
    ``*`` matches all, ``|`` stands between several patterns, the last matching row wins. Rows whose
    scope is ``together`` cap the sum of all that they match, beside the others; those of vCPUs or
    machine types always do. Names must match a ``catalog``, if one is given.
    """
    try:
        text = bounded(path, GIVE).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise PlacerError(
            f"quota file '{path}' cannot be read ({type(error).__name__})", GIVE
        ) from None
    if text.lstrip()[:1] in ("{", "["):
        names = [name for key, name in IMPORTERS.items() if f'"{key}"' in text]
        kind = names[0] if names else "aws-quotas|gcp-quotas|azure-quotas"
        raise PlacerError(
            f"quota file '{path}' is JSON, not CSV",
            f"convert it with 'placer capacity import {kind} --from {path} -o quota.csv'",
        )
    rows = csv.reader(text.splitlines())
    try:
        header = [c.strip() for c in next(rows, [])]
        if not _readable(header):
            raise PlacerError(f"{path}:1: columns {','.join(header)[:80] or '(none)'}", GIVE)
        return tuple(
            _quota(_cells(row, header, where), where, catalog)
            for row in rows
            if any(row)
            for where in (f"{path}:{rows.line_num}",)
        )
    except csv.Error as error:
        raise PlacerError(
            f"{path}:{rows.line_num}: not valid CSV: {error}", "check this line"
        ) from None


def _readable(header: list[str]) -> bool:
    known = len(set(header)) == len(header) and set(header) <= set(COLUMNS)
    return known and {*COLUMNS[:3]} <= set(header) and not {"gpus", "vcpus"}.isdisjoint(header)


def _cells(row: list[str], header: list[str], where: str) -> dict[str, str]:
    if len(row) != len(header):
        raise PlacerError(
            f"{where}: {len(row)} cells instead of {len(header)}",
            f"the columns are {','.join(header)}",
        )
    return {column: cell.strip() for column, cell in zip(header, row, strict=True) if cell.strip()}


def quotas_of(
    given: Mapping[str, int] | Mapping[tuple[str, str, str], int], catalog: Catalog
) -> tuple[Quota, ...]:
    """Read quotas by GPU, or by place, GPU and market; ``*`` matches all, the last match wins."""
    rows = []
    for key, gpus in given.items():
        place, gpu, market = ("*", key, "*") if isinstance(key, str) else key
        cells = {"place": place, "gpu": gpu, "market": market, "gpus": str(gpus)}
        rows.append(_quota(cells, f"quota {key!r}", catalog))
    return tuple(rows)


def quota_gpus(text: str, where: str) -> int:
    """Read a number of GPUs of up to nine digits.

    >>> quota_gpus("8", "quota")
    8
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise PlacerError(f"{where} '{text}' is not a whole number", "write 0 to allow none")
    return int(text)


def _quota(cells: Mapping[str, str], where: str, catalog: Catalog | None) -> Quota:
    for column in COLUMNS[:3]:
        if column not in cells:
            raise PlacerError(f"{where}: no {column}", "write * for all")
    machine = cells.get("machine", "*")
    together = "vcpus" in cells or machine != "*"
    scope = cells.get("scope", SCOPES[together])
    if scope not in SCOPES:
        raise unknown("scope", f"{scope}' in '{where}", SCOPES)
    market = cells["market"].replace("-", "_")
    if market not in ("*", *MARKETS):
        raise PlacerError(
            f"{where}: market '{cells['market']}'", f"write {', '.join(MARKET_WORDS)} or *"
        )
    places = [p if "/" in p or p == "*" else f"{p}/*" for p in cells["place"].split("|")]
    gpu = cells["gpu"]
    if catalog is not None:
        names = {known.upper(): known for known in catalog.gpus}
        gpu = "|".join(names.get(one.upper(), one) for one in gpu.split("|"))
    amounts = {
        name: quota_gpus(cells[name], f"{where}: {name}")
        for name in ("gpus", "vcpus")
        if name in cells
    }
    try:
        row = Quota(
            place="|".join(places), gpu=gpu, market=market, scope=scope, machine=machine, **amounts
        )
    except PlacerError as error:
        raise PlacerError(f"{where}: {error.message}", error.hint) from None
    if catalog is not None:
        _check_names(row, cells["place"], where, catalog)
    return row


def _check_names(row: Quota, place: str, where: str, catalog: Catalog) -> None:
    """Refuse places and devices that match nothing, and single machine types that nobody rents."""
    if not any(matches(known, row.place) for known in catalog.regions):
        raise unknown("place", f"{place}' in '{where}", catalog.regions)
    if not any(matches(known, row.gpu) for known in catalog.gpus):
        raise unknown("GPU", f"{row.gpu}' in '{where}", catalog.rented_gpus)
    # A cloud's families may be of machines that the book does not have.
    machines = {offer.instance_type for offer in catalog.offers}
    if row.machine not in machines and not any(sign in row.machine for sign in "*?[|"):
        raise unknown("machine", f"{row.machine}' in '{where}", machines)
