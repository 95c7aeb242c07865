"""What the log of a run says about the plan that it ran: speeds of its machines, its exchange, and
workers that were lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from placer.documents.manifest.types import Group, Manifest, groups_by_worker
from placer.documents.schemas.worlds import LostWorker, Observed, ObservedSpeed
from placer.errors import PlacerError, printable
from placer.market.catalog import device_name
from placer.records import replace
from placer.validation.calibration.run_log import (
    LEAST_ROUNDS,
    by_rank,
    check_model,
    counted_rounds,
    read_run,
    round_seconds,
)

Record = Mapping[str, Any]
MOST_FACTOR = 1000.0
"""Machines so many times as fast or slow as planned are a slip."""


def observe(paths: Path | Sequence[Path], manifest: Manifest) -> Observed:
    """Read the log of a run of a plan, or the parts that its machines kept when it stopped. Raises
    `PlacerError` if one is of another plan or model, or they say nothing: too short, and nobody was
    lost.

    paths: The log, or several: what several say of a step of a rank counts once.
    """
    path, *others = [paths] if isinstance(paths, Path) else paths
    records = _together([_of_plan(one, manifest) for one in (path, *others)])
    head = records[0]
    lost = _lost(records, manifest)
    _check_ranks(path, records, manifest, {one.rank for one in lost})
    exchange, steps = manifest.exchange, [record for record in records if record["kind"] == "step"]
    rounds = counted_rounds(steps, manifest.workers, exchange.local_steps, overlap=exchange.overlap)
    seen = Observed(
        links=head["links"],
        rounds=len(rounds),
        speeds=[],
        samples_per_second=None,
        exchange_s=None,
        lost=lost,
    )
    if head["links"] == "real" and len(rounds) >= LEAST_ROUNDS:
        check_model(path, head, records)
        speeds = _checked(path, _speeds(rounds, manifest), manifest)
        seconds = round_seconds(rounds, manifest.workers)
        assert seconds is not None
        # Without an overlap throughout, some rounds have no exchange and some have two.
        unknown = exchange.overlap and seconds.hidden is None
        return replace(
            seen,
            speeds=speeds,
            samples_per_second=seconds.samples_per_second,
            exchange_s=None if unknown or manifest.workers == 1 else seconds.between,
        )
    if not lost and head["links"] == "real":
        least = LEAST_ROUNDS + (3 if exchange.overlap else 1)
        raise PlacerError(
            f"{path}: {len(rounds)} rounds after the first", f"run at least {least} rounds"
        )
    return seen


def _of_plan(path: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """Check that each header of a log is of the plan: a file may hold several logs."""
    records = read_run(path)
    for head in (record for record in records if record["kind"] == "run"):
        if head["manifest"]["digest"] != manifest.digest:
            ran = f"{head['manifest']['name']} ({str(head['manifest']['digest'])[:8]})"
            words = (
                f"{path}: a run of {ran}, the manifest is {manifest.name} ({manifest.digest[:8]})"
            )
            raise PlacerError(words, "give the manifest that was run, as it was")
    return records


def _together(logs: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Join the records of all logs; of several records of a step of a rank, the first counts."""
    kept: dict[Any, dict[str, Any]] = {}
    for record in chain.from_iterable(logs):
        is_step = record["kind"] == "step"
        kept.setdefault((record["rank"], record["step"]) if is_step else len(kept), record)
    return list(kept.values())


def _check_ranks(
    path: Path, records: Sequence[Record], manifest: Manifest, lost: Collection[int]
) -> None:
    """Refuse steps of ranks that the plan lacks, and a run with steps of some workers only."""
    ranks = {record["rank"] for record in records if record["kind"] == "step"}
    # Beside workers, a function for each bucket, or the server.
    beside = len(manifest.buckets) or int(manifest.aggregator is not None)
    last = manifest.workers + beside - 1
    if ranks and max(ranks) > last:
        raise PlacerError(
            f"{path}: steps of rank {max(ranks)}, the plan's last is {last}",
            "give run.jsonl as placer run wrote it",
        )
    missing = set(range(manifest.workers)) - ranks - set(lost)
    if ranks and missing:
        raise PlacerError(
            f"{path}: no steps of rank {min(missing)}",
            "give the log of rank 0; of a run that stopped, those of all machines",
        )


def _checked(path: Path, speeds: list[ObservedSpeed], manifest: Manifest) -> list[ObservedSpeed]:
    """Refuse speeds that no run of the plan's machines can have."""
    if not speeds and any(group.samples_per_second is not None for group in manifest.groups):
        raise PlacerError(
            f"{path}: no worker calculated anything", "give the log of a run that trained"
        )
    for speed in speeds:
        if not 1 / MOST_FACTOR <= speed.factor <= MOST_FACTOR:
            raise PlacerError(
                f"{path}: {speed.device} {speed.measured:.3g} samples/s a machine, planned "
                f"{speed.planned:.3g}",
                "no machine is so far from its plan: check the log, or plan with its own profile",
            )
    return speeds


def group_of(rank: int, groups: Sequence[Group]) -> Group | None:
    """Group of a worker; None for a server or functions, whose ranks are the last."""
    by_worker = groups_by_worker(groups)
    return by_worker[rank] if rank < len(by_worker) else None


def _lost(records: Sequence[Record], manifest: Manifest) -> list[LostWorker]:
    """Find the ranks that died or fell silent, without those that stopped because of them."""
    lost: dict[int, LostWorker] = {}
    stopped = {record["rank"] for record in records if record["kind"] == "fault"}
    for record in records:
        if record["kind"] == "back":
            lost.pop(record["rank"], None)
            continue
        if record["kind"] == "notice":
            rank, step, reason = record["gone"], 0, record["message"]
        elif record["kind"] == "fault":  # a silent one is only known by those that waited for it
            rank, step, reason = record["lost"], record["step"], record["reason"]
        elif record["kind"] == "lost" and not str(record["reason"]).startswith("lost "):
            rank, step, reason = record["rank"], record["step"], record["reason"]
        else:
            continue
        group = group_of(rank, manifest.groups)
        if rank not in lost or record["kind"] == "lost":
            place = None if group is None else group.place
            lost[rank] = LostWorker(rank=rank, place=place, step=step, reason=printable(reason))
    first = set(lost) - stopped or set(lost)
    return [lost[rank] for rank in sorted(first)]


def _speeds(rounds: Sequence[Sequence[Record]], manifest: Manifest) -> list[ObservedSpeed]:
    """Sum the medians over rounds of each machine, by kind."""
    each: dict[int, list[float]] = defaultdict(list)
    for records in rounds:
        samples = by_rank(records, "samples", manifest.workers)
        for rank, seconds in by_rank(records, "calculation_s", manifest.workers).items():
            if samples[rank] and seconds > 0:
                each[rank].append(samples[rank] / seconds)
    groups = groups_by_worker(manifest.groups)
    kinds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for rank, rates in sorted(each.items()):
        offer, planned_each = groups[rank].offer, groups[rank].samples_per_second
        if planned_each is not None:
            pair = planned_each, median(rates)
            kinds[device_name(offer.gpu, offer.gpu_count)].append(pair)
    speeds = []
    for device, pairs in kinds.items():
        planned, measured = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
        speeds.append(
            ObservedSpeed(
                device=device,
                workers=len(pairs),
                planned=planned,
                measured=measured,
                factor=measured / planned,
            )
        )
    return speeds
