"""Versions of the manifest: newer ones are refused, older ones are raised step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placer.cost_model.timing.services import POLL_SECONDS
from placer.documents.manifest.rendezvous import meeting
from placer.documents.manifest.types import ISLANDS_SCHEMA
from placer.errors import PlacerError
from placer.records import Json

FAMILY = "placer.manifest/v"
VERSION = 2
SCHEMA = f"{FAMILY}1"
"""What is written where each worker is one machine without an inner plan."""
ISLAND_KEYS = ("machines", "inner")
"""What version 2 adds to a group."""


def _with_islands(document: dict[str, Any]) -> dict[str, Any]:
    """Raise version 1: each worker is one machine, so its ranks count machines already."""
    for group in document["groups"]:
        for key in ISLAND_KEYS:
            if key in group:
                raise PlacerError(
                    f"group {group['name']} has '{key}', which version 1 does not know",
                    f'its "schema" must be "{ISLANDS_SCHEMA}"',
                )
    groups = [{**group, "machines": 1, "inner": None} for group in document["groups"]]
    return {**document, "schema": ISLANDS_SCHEMA, "groups": groups}


STEPS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_islands}
"""What raises a manifest of one version to the next; version 1 is the first."""


def version_of(document: Json, where: str) -> int:
    """Return the version of a manifest.

    Raises
    ------
    PlacerError
        If it is no manifest, is newer than this placer, or of a version that never was.
    """
    schema = str(document.get("schema"))
    digits = schema.removeprefix(FAMILY)
    if not schema.startswith(FAMILY) or not (
        digits.isascii() and digits.isdigit() and len(digits) < 10
    ):
        raise PlacerError(
            f"{where}: schema '{schema[:60]}' is not a manifest",
            "write one with placer recommend --manifest FILE",
        )
    version = int(digits)
    if version > VERSION:
        raise PlacerError(
            f"{where}: manifest version {version} is newer than this placer, which reads {VERSION}",
            "update placer",
        )
    if version < VERSION and version not in STEPS:
        raise PlacerError(
            f"{where}: there is no manifest version {version}",
            f'its "schema" must be "{SCHEMA}" or "{ISLANDS_SCHEMA}"',
        )
    return version


def migrated(document: Json, where: str) -> dict[str, Any]:
    """Raise a manifest to the present version, and add what early files of that version lack.

    Raises
    ------
    PlacerError
        As `version_of`.
    """
    raised = dict(document)
    for version in range(version_of(document, where), VERSION):
        raised = STEPS[version](raised)
    return completed(raised)


def completed(document: Json) -> dict[str, Any]:
    """Add what early files of this version lack.

    Notes
    -----
    Rendezvous, buckets, polling, data of each group and the alarm of the round follow from the
    rest. Speeds of machines and the question do not: they are null.
    """
    made = dict(document)
    if not {"rendezvous", "buckets"} <= made.keys():
        made |= {key: value for key, value in meeting(document).items() if key not in made}
    waits = document["exchange"]["timeouts"]
    poll = POLL_SECONDS if made["rendezvous"]["method"] == "buckets" else None
    made["exchange"] = {**document["exchange"], "timeouts": _with(waits, "poll_s", poll)}
    place_shares, store = document["data"].get("shares", {}), document["data"]["store"]
    made["groups"] = [
        _with(g, "data", {"store": store, "place_share": place_shares.get(g["place"])})
        for g in document["groups"]
    ]
    made["groups"] = [_with(g, "samples_per_second", None) for g in made["groups"]]
    made["drift"] = _with(document["drift"], "max_round_seconds", waits["round_s"])
    return _with(made, "question", None)


def _with(part: Json, key: str, value: Any) -> dict[str, Any]:
    return {**part, **({} if key in part else {key: value})}
