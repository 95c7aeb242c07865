"""The run log ``placer.run/v1``: JSON lines, a header, then records, each written whole; and a run
beside its plan, the seconds, bytes and requests of a round.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from placer.cost_model.dollars import store_requests
from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.folder_lock import lock_log
from placer.launch.runtime.run_plan import RunPlan, Settings
from placer.problem.exchange import bytes_by_link
from placer.validation.calibration.run_log import (
    SCHEMA,
    RoundSeconds,
    counted_rounds,
    is_other_model,
    round_seconds,
    whole_rounds,
)
from placer.workload.profile import COMPRESSION_BYTES

OFFER = ("gpu", "gpu_count", "market")
EXCHANGE = (
    *("strategy", "compression", "local_steps", "streams", "overlap", "aggregator", "storage"),
)
SETTINGS = ("train", "steps", "seed", "target_batch_size", "device", "threads")
"""What a log keeps of a group's offer, of the exchange and of the settings."""


class RunLog:
    """A log file, and its records in memory; ``links`` are ``loopback``, ``shaped`` or ``real``."""

    def __init__(self, path: Path, plan: RunPlan, settings: Settings, *, links: str) -> None:
        self.path = path
        self.records: list[dict[str, Any]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.file = path.open("wb", buffering=0)
        except OSError as error:
            raise PlacerError(
                f"cannot write '{path}': {error.strerror}", "choose another --out"
            ) from None
        try:
            lock_log(self.file.fileno(), path)
            self.write(header(plan, settings, links=links))
        except PlacerError:
            self.file.close()
            raise

    def write(self, record: dict[str, Any]) -> None:
        """Add a record: its whole line, or nothing of it. Nothing is left in Python's buffer, so
        that what does not fit can be taken back.
        """
        self.records.append(record)
        end = self.file.seek(0, os.SEEK_END)
        left = memoryview(json.dumps(record, allow_nan=True).encode() + b"\n")
        try:
            while left:
                left = left[self.file.write(left) :]
        except OSError as error:
            with suppress(OSError):
                self.file.truncate(end)
            raise PlacerError(
                f"cannot write '{self.path}': {error.strerror}",
                "free some space or choose another --out",
                exit_code=1,
            ) from None

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def header(plan: RunPlan, settings: Settings, *, links: str) -> dict[str, Any]:
    """Build the first line of a log: which plan is run, and how."""
    return {
        "kind": "run",
        "schema": SCHEMA,
        "manifest": {"name": plan.name, "digest": plan.manifest.digest},
        "model": plan.manifest.model.name,
        "gradient_bytes": plan.manifest.model.gradient_bytes,
        "groups": [_group(group) for group in plan.manifest.groups],
        **{name: getattr(plan.exchange, name) for name in EXCHANGE},
        **{name: getattr(settings, name) for name in SETTINGS},
        "microbatch": settings.microbatch or plan.microbatch,
        "elastic": plan.quorum is not None,
        "links": links,
        "question": plan.manifest.question,
    }


def _group(group: Group) -> dict[str, Any]:
    told = {"place": group.place, "count": group.count}
    told |= {name: getattr(group.offer, name) for name in OFFER}
    if group.is_island:
        inner = None if group.inner is None else structs.asdict(group.inner)
        told |= {"machines": group.machines, "inner": inner}
    return told


Record = Mapping[str, Any]
HIDDEN = "beside the calculation"
"""The part of an exchange that a plan with ``--overlap`` does not wait for."""
ALL_FLUSHED = (
    "no round had one exchange beside its calculation: too few rounds, or checkpoints too often"
)


def all_rounds(records: Iterable[Record], plan: RunPlan) -> list[list[Record]]:
    """Return the whole rounds."""
    steps = (record for record in records if record["kind"] == "step")
    return whole_rounds(steps, plan.workers, plan.exchange.local_steps)


def rounds_of(records: Iterable[Record], plan: RunPlan) -> list[list[Record]]:
    """Return the rounds that count: whole ones after the first, in which an exchange ran."""
    steps, exchange = [r for r in records if r["kind"] == "step"], plan.exchange
    counted = counted_rounds(steps, plan.workers, exchange.local_steps, overlap=exchange.overlap)
    return counted or all_rounds(steps, plan)


def summary(plan: RunPlan, settings: Settings, records: Sequence[Record]) -> dict[str, Any]:
    """Compare what was measured with what was predicted, for one round: from exchange to exchange.

    Predicted seconds are the manifest's, of its machines, links and model; ``seconds_compare`` says
    whether the run had these. Predicted bytes are the transfers of `placer.problem.exchange` for
    the model that was trained. What nobody predicts is None.
    """
    steps = [r for r in records if r["kind"] == "step"]
    rounds, counted = all_rounds(steps, plan), rounds_of(steps, plan)
    overlap = plan.exchange.overlap
    medians = round_seconds(counted, plan.workers)
    overlapped = medians is not None and medians.hidden is not None
    elements = next((r["elements"] for r in records if r["kind"] == "ready"), 0)
    payload = int(elements * COMPRESSION_BYTES[plan.exchange.compression])
    unlike = _unlike(plan, settings, payload, records)
    return {
        "kind": "summary",
        "rounds": len(counted),
        "seconds": _seconds(plan, medians),
        "seconds_compare": not unlike and overlapped == overlap,
        "bytes": _bytes(plan, payload, _with_exchanges(steps) if overlap else rounds),
        "requests": requests_of(plan, rounds),
        "losses": _losses(plan, steps),
        "remarks": [
            *_precision(plan, settings),
            *unlike,
            *(
                f"lost {plan.rank_name(r['rank'])} in step {r['step']}: {r['reason']}"
                for r in records
                if r["kind"] == "lost"
            ),
            *([ALL_FLUSHED] if overlap and not overlapped else []),
        ],
    }


def _seconds(plan: RunPlan, found: RoundSeconds | None) -> list[dict[str, Any]]:
    """Return medians over rounds, of the slowest worker, and samples/s."""
    expected, late = plan.manifest.expected.step_seconds, plan.exchange.overlap
    between, rate = expected.get("communication"), plan.manifest.expected.samples_per_second.value
    if not late and "calculation" in expected:
        # What the slowest calculation hides of others' transfers is no wait.
        between = expected["total"] - expected["calculation"]
    rows = [
        ("calculation", "s", expected.get("calculation"), found and found.calculation),
        ("exchange and waiting", "s", between, found and found.between),
        (HIDDEN, "s", expected.get("hidden"), found and found.hidden),
        ("round", "s", expected["total"], found and found.whole),
        ("throughput", "samples/s", rate, found and found.samples_per_second),
    ]
    names = ("what", "unit", "predicted", "measured")
    return [dict(zip(names, row, strict=True)) for row in rows if late or row[0] != HIDDEN]


def _with_exchanges(steps: Sequence[Record]) -> list[list[Record]]:
    """Split the steps by exchanges; an overlapped one is logged later, so the last part has two."""
    ends = sorted({record["step"] for record in steps if record["exchanged"]})
    pairs = zip([-1, *ends], ends, strict=False)
    return [[r for r in steps if before < r["step"] <= end] for before, end in pairs]


def _bytes(plan: RunPlan, payload: int, rounds: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    """Return the mean bytes of a round on each directed pair of places."""
    predicted = bytes_by_link(plan.phases(payload))
    sent: Counter[tuple[str, str]] = Counter()
    for record in chain.from_iterable(rounds):
        for part in record["sent"]:
            sent[part["src"], part["dst"]] += part["bytes"]
    return [
        {
            "src": src,
            "dst": dst,
            "predicted": predicted.get((src, dst), 0.0),
            "measured": sent[src, dst] / len(rounds) if rounds else None,
        }
        for src, dst in sorted({*predicted, *sent})
    ]


def requests_of(plan: RunPlan, rounds: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    """Return the mean requests of a round by kind, and by object store where there are several."""
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in chain.from_iterable(rounds):
        for bucket, kinds in record["requests_by_bucket"].items():
            counted[bucket].update(kinds)
    rows = []
    for hub in plan.hubs:
        if hub.bucket is None:
            continue
        predicted, asked = store_requests(len(hub.gathers)), counted[hub.bucket.name]
        place = hub.bucket.place if hub.bucket.role == "workers" else "the global store"
        where = f" in {place}" if len(plan.buckets) > 1 else ""
        rows += [
            {
                "what": f"{kind}{where}",
                "predicted": predicted.get(kind),
                "measured": asked[kind] / len(rounds) if rounds else None,
            }
            for kind in sorted({*predicted, *asked})
        ]
    return rows


def _losses(plan: RunPlan, steps: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the mean loss over the target batch, by step, of the workers that take part."""
    total: Counter[int] = Counter()
    for record in steps:
        if record["rank"] < plan.workers:
            total[record["step"]] += record["loss"]
    return [{"step": step, "loss": total[step]} for step in sorted(total)]


def _precision(plan: RunPlan, settings: Settings) -> list[str]:
    unlike = {str(g.inner.precision) for g in plan.manifest.groups if g.inner} - {"fp32"}
    if not unlike or settings.device != "cpu":
        return []
    return [f"a CPU calculates in the model's own numbers, the plan's GPUs in {min(unlike)}"]


def _unlike(
    plan: RunPlan, settings: Settings, payload: int, records: Sequence[Record]
) -> list[str]:
    """Say why the seconds are not those of the plan's model, batch and links."""
    model, remarks = plan.manifest.model, []
    if is_other_model(payload, model.gradient_bytes):
        remarks.append(
            f"the plan's {model.name} exchanges {model.gradient_bytes:,.0f} bytes, this model "
            f"{payload:,.0f}: seconds do not compare"
        )
    if settings.target_batch_size != plan.target_batch_size:
        remarks.append(
            f"target batch size {settings.target_batch_size:,}, the plan's is "
            f"{plan.target_batch_size:,}"
        )
    if "loopback" in (r["links"] for r in records if r["kind"] == "run"):
        remarks.append(
            "all processes shared this machine: links and machines were not those of the plan"
        )
    return remarks
