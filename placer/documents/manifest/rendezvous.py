"""Where the workers of a run meet: the address of rank 0, or buckets; worked out from the other
parts of a manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from placer.problem.exchange import traits
from placer.records import Json

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
"""What names a run: parts that the earliest files have too, so that they get the same buckets."""
DIGEST_DIGITS = 10
"""40 bits: of a million plans, two have one digest with a chance of 0.4."""


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

    Notes
    -----
    Names of buckets are global: the end of a name is a digest of the plan, so that two plans never
    ask for one name. Of a long model's name the end is cut, and "google" is left out: Google Cloud
    refuses it (cloud.google.com/storage/docs/buckets#naming).

    Examples
    --------
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
