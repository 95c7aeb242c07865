"""Reading a manifest: version, digest, types, and whether its parts fit each other."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from placer.documents.manifest.types import Group, Manifest
from placer.documents.manifest.versions import STORE_TRANSPORTS, migrated, version_of
from placer.errors import PlacerError
from placer.files.json_text import misfit
from placer.problem.exchange import goes_on_without, gradients_held, strategy, traits
from placer.records import Json
from placer.units import GIB, format_bytes
from placer.workload.island.hardware import DOMAIN_MACHINES

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
    import msgspec

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
