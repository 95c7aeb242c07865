"""Manifests read: documents of each version become the latest, and a plan."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from placer.cost_model.timing.services import POLL_SECONDS
from placer.documents.manifest.types import ISLANDS_SCHEMA, Group, Manifest
from placer.errors import PlacerError
from placer.files.json_text import misfit
from placer.problem.exchange import goes_on_without, gradients_held, strategy, traits
from placer.records import Json
from placer.units import GIB, format_bytes
from placer.workload.island.hardware import DOMAIN_MACHINES

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
    return document_digest(run)[:DIGEST_DIGITS]


def plain_name(text: str) -> str:
    """Return at most 63 lower-case letters, digits and dashes: a valid bucket, job or host name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:LONGEST].strip("-")


AGAIN = "write it again with placer recommend --manifest FILE"


def document_digest(document: Json) -> str:
    """Return the SHA-256 of a document: keys sorted, no spaces."""
    return hashlib.sha256(
        json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    ).hexdigest()


def edited(document: Json) -> bool:
    """Return whether a manifest was changed by hand: its digest is not that of the rest."""
    return document.get("digest") != document_digest(
        {key: value for key, value in document.items() if key != "digest"}
    )


def read_manifest(document: Any, where: str, *, allow_edits: bool = False) -> Manifest:
    """Read and check the manifest in the JSON object of a file. ``allow_edits`` takes one that was
    edited by hand; the rest is checked all the same.

    Raise `PlacerError` if it is of a newer version, was edited, lacks something, or its parts do
    not fit each other.
    """
    if not isinstance(document, Mapping):
        raise PlacerError(f"{where}: not a JSON object", "give a file that placer wrote")
    version_of(document, where)
    _check_values(document, where)
    if edited(document) and not allow_edits:
        raise PlacerError(
            f"{where}: the digest differs: the manifest was edited by hand",
            "write it again with --manifest",
        )
    try:
        strategy(str(document["exchange"]["strategy"]))
        manifest = msgspec.convert(migrated(document, where), Manifest)
    except msgspec.ValidationError as error:
        raise PlacerError(f"{where}: {misfit(error, document)}", AGAIN) from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise PlacerError(
            f"{where}: not a complete manifest ({type(error).__name__}: {error})", AGAIN
        ) from None
    except PlacerError as error:
        raise PlacerError(f"{where}: {error.message}", error.hint) from None
    for text, hint in _faults(manifest):
        raise PlacerError(f"{where}: {text}", hint)
    return manifest


def _check_values(value: Any, where: str, at: str = "") -> None:
    """Refuse what no file or argument can hold: NUL, halves of characters, infinite numbers."""
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise PlacerError(
                f"{where}: {at.lstrip('.')} holds a NUL or half a character",
                "correct the name where it comes from",
            )
    elif isinstance(value, float) and not math.isfinite(value):
        raise PlacerError(f"{where}: {at.lstrip('.')} is not a finite number", "correct the figure")
    elif isinstance(value, Mapping):
        for key, part in value.items():
            _check_values(key, where, f"{at} (a key)")
            _check_values(part, where, f"{at}.{key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _check_values(part, where, f"{at}[{number}]")


def _faults(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield counts, ranks, names and roles that do not fit each other, and what to do about it."""
    offset, machine = 0, "machines" if manifest.has_islands else "workers"
    for group in manifest.groups:
        yield from _wrong_island(group)
        if group.rank_offset != offset:
            start = f"group {group.name} starts at rank {group.rank_offset}"
            yield f"{start}, but {offset} {machine} stand before it", AGAIN
        offset += group.machine_count
    if offset != manifest.world_size:
        yield f"{offset} {machine} in groups, world_size {manifest.world_size}", AGAIN
    names = [group.name for group in manifest.groups]
    if len(set(names)) != len(names):
        yield "two groups have one name", AGAIN
    exchange, aggregator = manifest.exchange, manifest.aggregator
    hub = traits(exchange.strategy).hub
    needed = hub == "function" or (hub and manifest.workers > 1)
    if (needed and aggregator is None) or (aggregator is not None and aggregator.kind != hub):
        yield f"the exchange {exchange.strategy} and its aggregator do not fit", AGAIN
    yield from _wrong_memory(manifest)
    yield from _wrong_meeting(manifest)
    yield from _wrong_buckets(manifest)
    yield from _wrong_quorum(manifest)


def _wrong_island(group: Group) -> Iterator[tuple[str, str]]:
    """Yield why no machine room can hold an island: its zones, or the GPUs of one machine."""
    own = f"{group.provider}/{group.region}"
    if group.place != own and group.is_island:
        yield (
            f"the islands of group {group.name} are in {group.place} and {own}",
            "an island is in one zone of one region: write one group for each",
        )
    degree = 1 if group.inner is None else group.inner.tensor_parallel
    gpus = group.offer.gpu_count
    if gpus % degree and not (degree % gpus == 0 and group.offer.gpu in DOMAIN_MACHINES):
        yield (
            f"{degree} GPUs of group {group.name} share each matrix, but a machine has {gpus}",
            "give a tensor parallel degree that divides the GPUs of one machine",
        )


def _wrong_quorum(manifest: Manifest) -> Iterator[tuple[str, str]]:
    exchange = manifest.exchange
    quorum, grace_s = exchange.quorum, exchange.grace_s
    if quorum is None and grace_s is None:
        return
    if quorum is None or quorum > manifest.workers:
        yield (
            f"exchange.quorum is {quorum} of {manifest.workers} workers",
            "give a whole number from 1 to the number of workers",
        )
    if grace_s is None:
        yield "a quorum without exchange.grace_s", "give seconds above 0"
    if not goes_on_without(exchange.strategy, overlap=exchange.overlap):
        said = f"the exchange {exchange.strategy} waits for all workers"
        yield said, "plan it without --quorum"


def _wrong_meeting(manifest: Manifest) -> Iterator[tuple[str, str]]:
    meet, first = manifest.rendezvous, manifest.groups[0].name
    name = manifest.exchange.strategy
    stores = traits(name).transport in STORE_TRANSPORTS
    if (manifest.storage is not None) != stores or (meet.method == "buckets") != stores:
        yield f"the exchange {name} and its storage do not fit", AGAIN
    machines = manifest.world_size + (manifest.server is not None)
    if meet.machines != machines:
        there = f"the rendezvous is for {meet.machines} machines"
        yield f"{there}, the plan has {machines}", AGAIN
    if meet.group != first:
        yield f"the rendezvous is with group {meet.group}, rank 0 is in group {first}", AGAIN
    if not stores and meet.method != ("address" if machines > 1 else "none"):
        yield f"{machines} machines cannot meet by the method '{meet.method}'", AGAIN


def _wrong_buckets(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield buckets that are too few, too many or have one name."""
    wanted = []
    if manifest.storage is not None:
        wanted.append(("exchange", manifest.storage.place))
    if traits(manifest.exchange.strategy).transport == "regional-stores":
        wanted += [("workers", place) for place in sorted({g.place for g in manifest.groups})]
    named = [(bucket.role, bucket.place) for bucket in manifest.buckets]
    for role, place in wanted:
        if (role, place) not in named:
            yield f"no bucket of the {role} in {place}", AGAIN
    for role, place in named:
        if (role, place) not in wanted:
            name = manifest.exchange.strategy
            yield f"the exchange {name} has no bucket of the {role} in {place}", AGAIN
    names = [bucket.name for bucket in manifest.buckets]
    if len(set(names)) != len(names):
        yield "two buckets have one name", "give each a name of its own"


def _wrong_memory(manifest: Manifest) -> Iterator[tuple[str, str]]:
    function = manifest.aggregator
    if function is None or function.kind != "function":
        return
    if function.memory_gib is None or None in (function.function, function.max_seconds):
        yield "a function without its name, memory and longest run", AGAIN
        return
    counts: Counter[str] = Counter()
    for group in manifest.groups:
        counts[group.place] += group.count
    regional = traits(manifest.exchange.strategy).transport == "regional-stores"
    held = gradients_held(counts.values(), regional=regional)
    need = held * manifest.model.gradient_bytes
    if need > function.memory_gib * GIB:
        has = f"the function in {function.place} has {function.memory_gib:g} GiB"
        yield f"{has}, its {held} gradients are {format_bytes(need)}", AGAIN
