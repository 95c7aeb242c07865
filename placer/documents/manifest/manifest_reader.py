"""Reading a manifest: version, digest, types, and whether its parts fit each other."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from placer.documents.manifest.rendezvous import STORE_TRANSPORTS
from placer.documents.manifest.types import Group, Manifest
from placer.documents.manifest.versions import migrated, version_of
from placer.errors import PlacerError
from placer.files.json_text import misfit
from placer.problem.exchange import goes_on_without, gradients_held, strategy, traits
from placer.units import GIB, format_bytes
from placer.workload.island.hardware import DOMAIN_MACHINES

AGAIN = "write it again with placer recommend --manifest FILE"


def document_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document: keys sorted, no spaces."""
    return hashlib.sha256(
        json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    ).hexdigest()


def edited(document: Mapping[str, Any]) -> bool:
    """Return whether a manifest was changed by hand: its digest is not that of the rest."""
    return document.get("digest") != document_digest(
        {key: value for key, value in document.items() if key != "digest"}
    )


def read_manifest(document: Any, where: str, *, allow_edits: bool = False) -> Manifest:
    """Read and check a manifest.

    Parameters
    ----------
    document
        The JSON object of a file.
    where
        Name of the file, for errors.
    allow_edits
        Take a manifest that was edited by hand; the rest is checked all the same.

    Raises
    ------
    PlacerError
        If it is of a newer version, was edited, lacks something, or its parts do not fit each
        other.
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
    _check_parts(manifest, where)
    return manifest


def _check_values(value: Any, where: str, at: str = "") -> None:
    """Refuse what no file, variable or argument can hold: NUL, halves of surrogate pairs, infinite
    numbers.
    """
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


def _check_parts(manifest: Manifest, where: str) -> None:
    """Refuse counts, ranks, names and roles that do not fit each other."""
    offset, machine = 0, "machines" if manifest.has_islands else "workers"
    for group in manifest.groups:
        _check_island(group, where)
        if group.rank_offset != offset:
            raise PlacerError(
                f"{where}: group {group.name} starts at rank {group.rank_offset}, but {offset} "
                f"{machine} stand before it",
                AGAIN,
            )
        offset += group.machine_count
    if offset != manifest.world_size:
        raise PlacerError(
            f"{where}: {offset} {machine} in groups, world_size {manifest.world_size}", AGAIN
        )
    names = [group.name for group in manifest.groups]
    if len(set(names)) != len(names):
        raise PlacerError(f"{where}: two groups have one name", AGAIN)
    _check_roles(manifest, where)


def _check_island(group: Group, where: str) -> None:
    """Refuse an island that no machine room can hold.

    Parameters
    ----------
    where
        Name of the manifest, for errors.

    Raises
    ------
    PlacerError
        If it is in more than one zone, or its tensor parallel groups do not divide the GPUs of one
        machine.
    """
    if group.place != f"{group.provider}/{group.region}" and group.is_island:
        raise PlacerError(
            f"{where}: the islands of group {group.name} are in {group.place} and "
            f"{group.provider}/{group.region}",
            "an island is in one zone of one region: write one group for each",
        )
    degree = 1 if group.inner is None else group.inner.tensor_parallel
    gpus = group.offer.gpu_count
    if gpus % degree and not (degree % gpus == 0 and group.offer.gpu in DOMAIN_MACHINES):
        raise PlacerError(
            f"{where}: {degree} GPUs of group {group.name} share each matrix, but a machine has "
            f"{group.offer.gpu_count}",
            "give a tensor parallel degree that divides the GPUs of one machine",
        )


def _check_roles(manifest: Manifest, where: str) -> None:
    exchange, aggregator = manifest.exchange, manifest.aggregator
    hub = traits(exchange.strategy).hub
    needed = hub == "function" or (hub and manifest.workers > 1)
    if (needed and aggregator is None) or (aggregator is not None and aggregator.kind != hub):
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} and its aggregator do not fit", AGAIN
        )
    _check_memory(manifest, where)
    _check_meeting(manifest, where)
    _check_quorum(manifest, where)


def _check_quorum(manifest: Manifest, where: str) -> None:
    """Refuse a quorum of more workers than there are, or of an exchange that waits for all."""
    quorum, grace_s = manifest.exchange.quorum, manifest.exchange.grace_s
    if quorum is None and grace_s is None:
        return
    if quorum is None or quorum > manifest.workers:
        raise PlacerError(
            f"{where}: exchange.quorum is {quorum} of {manifest.workers} workers",
            "give a whole number from 1 to the number of workers",
        )
    if grace_s is None:
        raise PlacerError(f"{where}: a quorum without exchange.grace_s", "give seconds above 0")
    if not goes_on_without(manifest.exchange.strategy, overlap=manifest.exchange.overlap):
        raise PlacerError(
            f"{where}: the exchange {manifest.exchange.strategy} waits for all workers",
            "plan it without --quorum",
        )


def _check_meeting(manifest: Manifest, where: str) -> None:
    """Refuse a rendezvous or buckets that are not those of the exchange."""
    meet, strategy_name = manifest.rendezvous, manifest.exchange.strategy
    stores = traits(strategy_name).transport in STORE_TRANSPORTS
    if (manifest.storage is not None) != stores or (meet.method == "buckets") != stores:
        raise PlacerError(
            f"{where}: the exchange {strategy_name} and its storage do not fit", AGAIN
        )
    machines = manifest.world_size + (manifest.server is not None)
    if meet.machines != machines:
        raise PlacerError(
            f"{where}: the rendezvous is for {meet.machines} machines, the plan has {machines}",
            AGAIN,
        )
    if meet.group != manifest.groups[0].name:
        words = (
            f"the rendezvous is with group {meet.group}, rank 0 is in group "
            f"{manifest.groups[0].name}"
        )
        raise PlacerError(f"{where}: {words}", AGAIN)
    if not stores and meet.method != ("address" if machines > 1 else "none"):
        raise PlacerError(
            f"{where}: {machines} machines cannot meet by the method '{meet.method}'", AGAIN
        )
    _check_buckets(manifest, where)


def _check_buckets(manifest: Manifest, where: str) -> None:
    """Refuse buckets that are too few, too many or have one name."""
    wanted = []
    if manifest.storage is not None:
        wanted.append(("exchange", manifest.storage.place))
    if traits(manifest.exchange.strategy).transport == "regional-stores":
        wanted += [
            ("workers", place) for place in sorted({group.place for group in manifest.groups})
        ]
    named = [(bucket.role, bucket.place) for bucket in manifest.buckets]
    for role, place in wanted:
        if (role, place) not in named:
            raise PlacerError(f"{where}: no bucket of the {role} in {place}", AGAIN)
    for role, place in named:
        if (role, place) not in wanted:
            raise PlacerError(
                f"{where}: the exchange {manifest.exchange.strategy} has no bucket of the {role} "
                f"in {place}",
                AGAIN,
            )
    names = [bucket.name for bucket in manifest.buckets]
    if len(set(names)) != len(names):
        raise PlacerError(f"{where}: two buckets have one name", "give each a name of its own")


def _check_memory(manifest: Manifest, where: str) -> None:
    """Refuse a function that cannot hold the gradients that it sums."""
    function = manifest.aggregator
    if function is None or function.kind != "function":
        return
    if function.memory_gib is None or None in (function.function, function.max_seconds):
        raise PlacerError(f"{where}: a function without its name, memory and longest run", AGAIN)
    counts: Counter[str] = Counter()
    for group in manifest.groups:
        counts[group.place] += group.count
    held = gradients_held(
        counts.values(), regional=traits(manifest.exchange.strategy).transport == "regional-stores"
    )
    need = held * manifest.model.gradient_bytes
    if need > function.memory_gib * GIB:
        words = (
            f"the function in {function.place} has {function.memory_gib:g} GiB, its {held} "
            f"gradients are {format_bytes(need)}"
        )
        raise PlacerError(f"{where}: {words}", AGAIN)
