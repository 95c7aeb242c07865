"""Versions of the manifest: newer ones are refused, older ones are raised step by step. Where the
workers of a run meet: at the address of rank 0, or in buckets.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from placer.cost_model.timing.services import POLL_SECONDS
from placer.documents.manifest.types import ISLANDS_SCHEMA
from placer.errors import PlacerError
from placer.problem.exchange import traits
from placer.records import Json

FAMILY = "placer.manifest/v"
VERSION = 2
SCHEMA = f"{FAMILY}1"
"""What is written where each worker is one machine without an inner plan."""
ISLAND_KEYS = ("machines", "inner")
"""What version 2 adds to a group."""
PORT = 29400
"""torchrun's default port of its rendezvous."""
ADDRESS_VARIABLE = "PLACER_RENDEZVOUS_ADDRESS"
"""Environment variable for the address of rank 0, which nobody knows before its machine is there.
"""
JOIN_S = 1800.0
"""How long a worker waits for the others: machines of several clouds start minutes apart (assumed;
torch.distributed waits as long).
"""
STORES = {"aws": "s3", "azure": "blob", "gcp": "gcs"}
"""Object store of each provider that has functions, as the price books name it."""
STORE_TRANSPORTS = ("store", "regional-stores")
LONGEST = 63
"""Longest name of a bucket, a host and a Kubernetes label."""
RUN_KEYS = ("model", "aggregator", "inputs")
GROUP_KEYS = ("place", "count", "offer")
"""What names a run."""
DIGEST_DIGITS = 10
"""40 bits: of a million plans, two have one digest with a chance of 0.4."""


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

    Raise `PlacerError` if it is no manifest, is newer than this placer, or of a version that never
    was.
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
    """Raise a manifest to the present version.

    Raise `PlacerError` as `version_of` does.
    """
    raised = dict(document)
    for version in range(version_of(document, where), VERSION):
        raised = STEPS[version](raised)
    return raised


def completed(document: Json) -> dict[str, Any]:
    """Add what follows from the rest: rendezvous, buckets, polling and the data of each group."""
    made = dict(document)
    for key, value in meeting(document).items():
        made.setdefault(key, value)
    poll = POLL_SECONDS if made["rendezvous"]["method"] == "buckets" else None
    waits = document["exchange"]["timeouts"]
    waits = {**waits, "poll_s": waits.get("poll_s", poll)}
    made["exchange"] = {**document["exchange"], "timeouts": waits}
    store, shares = document["data"]["store"], document["data"].get("shares", {})
    reads = {place: {"store": store, "place_share": share} for place, share in shares.items()}
    alone = {"store": store, "place_share": None}
    made["groups"] = [
        {**g, "data": g.get("data", reads.get(g["place"], alone))} for g in document["groups"]
    ]
    return made


def meeting(document: Json) -> dict[str, Any]:
    """Build ``rendezvous`` and ``buckets`` from groups, exchange, aggregator and storage.
    ``machines`` counts a parameter server of its own, ``world_size`` does not. Workers of a
    serverless exchange never talk to each other: they meet in buckets, whose names are known
    beforehand.
    """
    stores = traits(document["exchange"]["strategy"]).transport in STORE_TRANSPORTS
    aggregator = document["aggregator"]
    server = aggregator is not None and aggregator.get("server") is not None
    machines = document["world_size"] + server
    method = "buckets" if stores else "address" if machines > 1 else "none"
    return {
        "rendezvous": {
            "method": method,
            "machines": machines,
            "group": document["groups"][0]["name"],
            "port": PORT,
            "address_variable": ADDRESS_VARIABLE,
            "join_s": JOIN_S,
        },
        "buckets": _buckets(document) if stores else [],
    }


def _buckets(document: Json) -> list[dict[str, Any]]:
    """List one bucket where the aggregator reads, and with regional stores one in every region."""
    storage = document["storage"]
    own = {"place": storage["place"], "store": storage["store"], "name": storage["bucket"]}
    built = [{"role": "exchange", **own}]
    if traits(document["exchange"]["strategy"]).transport == "regional-stores":
        for place in sorted({group["place"] for group in document["groups"]}):
            provider, _, region = place.partition("/")
            store = STORES.get(provider, storage["store"])
            name = bucket_name(document, region, "workers")
            built.append({"role": "workers", "place": place, "store": store, "name": name})
    return built


def bucket_name(document: Json, *words: str) -> str:
    """Return the name of a bucket of this run.

    Names of buckets are global: the end of a name is a digest of the plan, so that two plans never
    ask for one name. Of a long model's name the end is cut, and "google" is left out: Google Cloud
    refuses it (cloud.google.com/storage/docs/buckets#naming).

    >>> bucket_name({"model": {"name": "niser"}}, "ap-south-1")
    'placer-niser-ap-south-1-9cb03784ba'
    >>> len(bucket_name({"model": {"name": "m" * 80}}, "ap-south-1", "workers"))
    63
    """
    tail = plain_name("-".join((*words, run_digest(document))))
    model = plain_name(document["model"]["name"]).replace("google", "")
    head = plain_name(f"placer-{model}")[: LONGEST - 1 - len(tail)].strip("-")
    return plain_name(f"{head}-{tail}")


def run_digest(document: Json) -> str:
    """Return the start of the SHA-256 of what is run and what it was worked out from."""
    run = {key: document.get(key) for key in RUN_KEYS}
    run["groups"] = [
        {key: group.get(key) for key in GROUP_KEYS} for group in document.get("groups", ())
    ]
    text = json.dumps(run, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def plain_name(text: str) -> str:
    """Return at most 63 lower-case letters, digits and dashes: a valid bucket, job or host name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST].strip("-")
