"""What the runtime reads of a manifest: ranks with their places, shares of the batch, the exchange and what is expected of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.exchange import STRATEGIES, strategy, traits
from placer.exchange.phase import Phase
from placer.manifest import SCHEMA
from placer.placement import Exchange
from placer.saved import check_document

BYTES_PER_ELEMENT = {"none": 4, "fp16": 2, "int8": 1}
"""Bytes that travel for one parameter."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A manifest in the words of an executor.

    Parameters
    ----------
    name, digest, model
        As in the manifest.
    gradient_bytes
        S of the manifest's model, as it travels; bytes.
    places
        Place of each worker, by rank.
    groups
        Groups of the manifest.
    exchange
        Strategy, compression, local steps, streams, aggregator, storage.
    memory_gib
        Of the function that aggregates, if there is one; GiB.
    bucket
        Of the object store, if there is one.
    target_batch_size, microbatch
        Samples of an optimizer step over all workers; samples that one worker takes at once.
    round_timeout_s
        After so long without an answer a peer counts as lost.
    expected
        The manifest's predicted figures.
    """

    name: str
    digest: str
    model: str
    gradient_bytes: float
    places: tuple[str, ...]
    groups: tuple[Mapping[str, Any], ...]
    exchange: Exchange
    memory_gib: float | None
    bucket: str | None
    target_batch_size: int
    microbatch: int
    round_timeout_s: float
    expected: Mapping[str, Any]

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.places)

    @property
    def hub(self) -> str:
        """``server`` or ``function`` if the strategy needs a process beside the workers, else empty."""
        kind = traits(self.exchange.strategy).hub
        return kind if kind in ("server", "function") else ""

    @property
    def ranks(self) -> int:
        """Processes of the run; the last is the hub, if there is one."""
        return self.workers + bool(self.hub)

    @property
    def steps_per_round(self) -> int:
        """Optimizer steps from exchange to exchange."""
        return self.exchange.local_steps

    @property
    def regions(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Places with the ranks of their workers; the first rank of each is its leader."""
        found: dict[str, list[int]] = {}
        for rank, place in enumerate(self.places):
            found.setdefault(place, []).append(rank)
        return tuple((place, tuple(ranks)) for place, ranks in found.items())

    def place_of(self, rank: int) -> str:
        """Place of a worker or of the hub."""
        return self.places[rank] if rank < self.workers else str(self.exchange.aggregator)

    def said(self, rank: int) -> str:
        """A rank as messages name it."""
        kind = f"{self.hub} " if rank >= self.workers else ""
        return f"{kind}rank {rank} ({self.place_of(rank)})"

    def phases(self, payload_bytes: float) -> tuple[Phase, ...]:
        """Transfers of one round for a payload of some bytes, as the model of placer knows them."""
        counted = [(place, len(ranks)) for place, ranks in self.regions]
        return () if self.workers == 1 else strategy(self.exchange.strategy).phases(counted, payload_bytes, self.exchange)

    def shares(self, batch: int, members: Sequence[int]) -> dict[int, int]:
        """Samples of each member in one step: equal, the first get one more where it does not divide.

        Examples
        --------
        >>> from dataclasses import fields
        >>> Plan.shares(None, 10, [0, 1, 3])
        {0: 4, 1: 3, 3: 3}
        """
        each, more = divmod(batch, len(members))
        return {rank: each + (i < more) for i, rank in enumerate(members)}


def read_plan(path: str) -> Plan:
    """Read and check a manifest file.

    Raises
    ------
    PlacerError
        If it is no manifest, was edited by hand, or asks for what the runtime does not do.
    """
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise PlacerError(f"cannot read '{path}': {error.strerror}", "give a file of placer recommend --manifest") from None
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid JSON: {error}", "write it again with --manifest") from None
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, Mapping) else None
        raise PlacerError(f"{path}: schema {found!r} is no {SCHEMA}", "give a file of placer recommend --manifest")
    check_document(document, path)
    return plan_from(document, path)


def plan_from(document: Mapping[str, Any], where: str) -> Plan:
    """Build the plan of a checked manifest."""
    said, hub, storage = document["exchange"], document["aggregator"] or {}, document["storage"] or {}
    name = said["strategy"]
    if name not in STRATEGIES:
        raise PlacerError(f"{where}: unknown strategy '{name}'", f"known: {', '.join(STRATEGIES)}")
    if said["compression"] not in BYTES_PER_ELEMENT:
        raise PlacerError(f"{where}: compression '{said['compression']}' is unknown", "none, fp16 or int8")
    if said["overlap"]:
        raise PlacerError(f"{where}: the plan runs the exchange beside the next step", "placer run does not: plan without --overlap")
    exchange = Exchange(
        strategy=name,
        compression=said["compression"],
        local_steps=said["local_steps"],
        streams=said["streams"],
        aggregator=hub.get("place"),
        aggregator_memory_gib=hub.get("memory_gib"),
        storage=storage.get("place"),
    )
    return Plan(
        name=document["name"],
        digest=document["digest"],
        model=document["model"]["name"],
        gradient_bytes=document["model"]["gradient_bytes"],
        places=_places(document["groups"], where),
        groups=tuple(document["groups"]),
        exchange=exchange,
        memory_gib=hub.get("memory_gib"),
        bucket=storage.get("bucket"),
        target_batch_size=said["target_batch_size"],
        microbatch=said["microbatch"],
        round_timeout_s=said["timeouts"]["round_s"],
        expected=document["expected"],
    )


def _places(groups: Sequence[Mapping[str, Any]], where: str) -> tuple[str, ...]:
    places: list[str] = []
    for group in groups:
        if group["rank_offset"] != len(places):
            raise PlacerError(
                f"{where}: group {group['name']} begins at rank {group['rank_offset']}, not {len(places)}", "write it again with --manifest"
            )
        places += [group["place"]] * group["count"]
    return tuple(places)
