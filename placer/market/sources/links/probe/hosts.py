"""The hosts of a probe: a TOML file with the place of this machine and of each host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placer.errors import PlacerError, unknown
from placer.market.catalog import Region
from placer.market.sources.reading.toml_text import read_toml

EXAMPLE = (
    'write here = "gcp/us-west1" and, for each host, [[host]] with name, place and '
    'address = "192.0.2.7:7447"'
)
MOST_HOSTS = 200
ADDRESS = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.%a-z]{2,60}\]):(?P<port>[0-9]{1,5})"
)
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeHost:
    """A machine where a server of probes runs; ``place`` is where it stands."""

    name: str
    place: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeHosts:
    """The place of this machine and the hosts to measure, in the order of the file."""

    here: str
    hosts: tuple[ProbeHost, ...]


def read_hosts(path: str, regions: Mapping[str, Region]) -> ProbeHosts:
    """Read and check a file of hosts.

    Parameters
    ----------
    path
        TOML file.
    regions
        Places that a book knows.

    Raises
    ------
    PlacerError
        Names the host and the value that is wrong.
    """
    document = read_toml(path, EXAMPLE)
    _check_keys(document, {"here", "host"}, path)
    entries = document["host"]
    if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_HOSTS:
        raise PlacerError(f"{path}: host is not a list of 1 to {MOST_HOSTS} tables", EXAMPLE)
    hosts = tuple(
        _host(entry, f"{path}: host {i}", regions) for i, entry in enumerate(entries, start=1)
    )
    for kind, values in (
        ("name", [h.name for h in hosts]),
        ("address", [f"{h.host}:{h.port}" for h in hosts]),
    ):
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise PlacerError(
                f"{path}: {kind} '{twice}' appears twice", f"give each host a {kind} of its own"
            )
    return ProbeHosts(here=_place(document["here"], path, regions), hosts=hosts)


def _host(entry: Any, where: str, regions: Mapping[str, Region]) -> ProbeHost:
    if not isinstance(entry, dict):
        raise PlacerError(f"{where} is not a table", EXAMPLE)
    _check_keys(entry, {"name", "place", "address"}, where)
    name, address = entry["name"], entry["address"]
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise PlacerError(
            f"{where}: name {name!r} is not a name", "use letters, digits, '.', '-' and '_'"
        )
    match = ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise PlacerError(
            f"{where}: address {address!r} is not a host and port",
            "write it as 192.0.2.7:7447, [2001:db8::7]:7447 or name:7447",
        )
    return ProbeHost(
        name=name,
        place=_place(entry["place"], where, regions),
        host=match["host"].strip("[]"),
        port=int(match["port"]),
    )


def _place(value: Any, where: str, regions: Mapping[str, Region]) -> str:
    if not isinstance(value, str):
        raise PlacerError(f"{where}: place {value!r} is not text", "write it as aws/us-east-1")
    if value not in regions:
        raise unknown("place", value, regions)
    return value


def _check_keys(found: Mapping[str, Any], wanted: set[str], where: str) -> None:
    missing, extra = sorted(wanted - set(found)), sorted(set(found) - wanted)
    if missing:
        raise PlacerError(f"{where}: '{missing[0]}' is missing", EXAMPLE)
    if extra:
        raise PlacerError(f"{where}: unknown key '{extra[0]}'", EXAMPLE)
