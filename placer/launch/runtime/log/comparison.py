"""A run beside its plan: the seconds, bytes and requests of a round against those of the manifest
and the cost model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from placer.cost_model.dollars.components import store_requests
from placer.documents.manifest.types import Bucket
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.training.context import Settings
from placer.launch.runtime.wire.codec import Codec
from placer.problem.exchange import bytes_by_link
from placer.validation.calibration.run_log import (
    RoundSeconds,
    counted_rounds,
    is_other_model,
    round_seconds,
    whole_rounds,
)

Record = Mapping[str, Any]
LOOPBACK = "loopback"
HIDDEN = "beside the calculation"
"""The part of an exchange that a plan with ``--overlap`` does not wait for."""
ALL_FLUSHED = (
    "no round had one exchange beside its calculation: too few rounds, or checkpoints too often"
)


def summary(plan: RunPlan, settings: Settings, records: Sequence[Record]) -> dict[str, Any]:
    """Compare what was measured with what was predicted, for one round: from exchange to exchange.

    Parameters
    ----------
    plan, settings
        What was run.
    records
        Of the run log.

    Returns
    -------
    dict
        ``rounds`` that count (`placer.validation.calibration.run_log.counted_rounds`); ``seconds``,
        ``bytes`` and ``requests`` as rows of predicted and measured (None: nobody predicts it);
        ``seconds_compare``: whether the seconds are of the plan's model, batch and links;
        ``losses`` by step; ``remarks``: what must be known to read the rows.

    Notes
    -----
    Predicted seconds are the manifest's, of its machines, links and model. Predicted bytes are the
    transfers of `placer.problem.exchange` for the model that was trained.
    """
    steps = [r for r in records if r["kind"] == "step"]
    rounds = whole_rounds(steps, plan.workers, plan.steps_per_round)
    counted = (
        counted_rounds(steps, plan.workers, plan.steps_per_round, overlap=plan.exchange.overlap)
        or rounds
    )
    medians, overlap = round_seconds(counted, plan.workers), plan.exchange.overlap
    overlapped = medians is not None and medians.hidden is not None
    elements = next((r["elements"] for r in records if r["kind"] == "ready"), 0)
    alike = (
        same_size(plan, elements)
        and settings.target_batch_size == plan.target_batch_size
        and _links(records) != LOOPBACK
    )
    return {
        "kind": "summary",
        "rounds": len(counted),
        "seconds": _seconds(plan, medians),
        "seconds_compare": alike and overlapped == overlap,
        "bytes": _bytes(plan, elements, _with_exchanges(steps) if overlap else rounds),
        "requests": requests_of(plan, rounds),
        "losses": _losses(plan, steps),
        "remarks": [
            *_remarks(plan, settings, elements, records),
            *([ALL_FLUSHED] if overlap and not overlapped else []),
        ],
    }


def _seconds(plan: RunPlan, medians: RoundSeconds | None) -> list[dict[str, Any]]:
    """Return medians over rounds: the slowest worker's calculation and round, the exchange, the
    part of it that is hidden, and samples/s.
    """
    expected, late = plan.manifest.expected.step_seconds, plan.exchange.overlap
    between, found = expected.get("communication"), medians
    if not late and "calculation" in expected:
        # What the slowest calculation hides of others' transfers is no wait.
        between = expected["total"] - expected["calculation"]
    rate = plan.manifest.expected.samples_per_second.value
    rows = [
        ("calculation", "s", expected.get("calculation"), found and found.calculation),
        ("exchange and waiting", "s", between, found and found.between),
        (HIDDEN, "s", expected.get("hidden"), found and found.hidden),
        ("round", "s", expected["total"], found and found.whole),
        ("throughput", "samples/s", rate, found and found.samples_per_second),
    ]
    return [
        {"what": what, "unit": unit, "predicted": predicted, "measured": measured}
        for what, unit, predicted, measured in rows
        if late or what != HIDDEN
    ]


def _with_exchanges(steps: Sequence[Record]) -> list[list[Record]]:
    """Split the steps into as many parts as there are exchanges. An overlapped exchange is logged
    one round later, so the last part holds two.
    """
    ends = sorted({record["step"] for record in steps if record["exchanged"]})
    return [
        [r for r in steps if before < r["step"] <= end]
        for before, end in zip([-1, *ends], ends, strict=False)
    ]


def _bytes(
    plan: RunPlan, elements: int, rounds: Sequence[Sequence[Record]]
) -> list[dict[str, Any]]:
    """Return the mean bytes of a round on each directed pair of places."""
    predicted = bytes_by_link(plan.phases(Codec(plan.exchange.compression).payload(elements)))
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
    """Return the mean requests of a round to the object stores, by kind, and by store where there
    are several.
    """
    counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for record in chain.from_iterable(rounds):
        for bucket, kinds in record["requests_by_bucket"].items():
            counted[bucket].update(kinds)
    rows = []
    for hub in plan.hubs:
        if hub.bucket is None:
            continue
        predicted, asked = store_requests(len(hub.gathers)), counted[hub.bucket.name]
        where = f" in {store_name(hub.bucket)}" if len(plan.buckets) > 1 else ""
        rows += [
            {
                "what": f"{kind}{where}",
                "predicted": predicted.get(kind),
                "measured": asked[kind] / len(rounds) if rounds else None,
            }
            for kind in sorted({*predicted, *asked})
        ]
    return rows


def requests_text(what: str) -> str:
    """Write a row of requests in words.

    Examples
    --------
    >>> requests_text("write"), requests_text("write in the global store")
    ('write requests', 'write requests in the global store')
    """
    kind, *store = what.split(" ", 1)
    return " ".join((kind, "requests", *store))


def store_name(bucket: Bucket) -> str:
    """Name an object store where there are several: by its place, or as the global one."""
    return bucket.place if bucket.role == "workers" else "the global store"


def _losses(plan: RunPlan, steps: Iterable[Record]) -> list[dict[str, Any]]:
    """Return the mean loss over the target batch, by step, of the workers that take part."""
    total: dict[int, float] = defaultdict(float)
    for record in steps:
        if record["rank"] < plan.workers:
            total[record["step"]] += record["loss"]
    return [{"step": step, "loss": total[step]} for step in sorted(total)]


def same_size(plan: RunPlan, elements: int) -> bool:
    """Return whether a model of so many trained elements exchanges as many bytes as the plan's."""
    return not is_other_model(
        Codec(plan.exchange.compression).payload(elements), plan.manifest.model.gradient_bytes
    )


def _links(records: Sequence[Record]) -> str:
    return str(next((r["links"] for r in records if r["kind"] == "run"), ""))


def _remarks(
    plan: RunPlan, settings: Settings, elements: int, records: Sequence[Record]
) -> list[str]:
    model, remarks = plan.manifest.model, []
    unlike = {str(g.inner.precision) for g in plan.manifest.groups if g.inner} - {"fp32"}
    if unlike and settings.device == "cpu":
        remarks.append(
            f"a CPU calculates in the model's own numbers, the plan's GPUs in {min(unlike)}"
        )
    if not same_size(plan, elements):
        size = Codec(plan.exchange.compression).payload(elements)
        remarks.append(
            f"the plan's {model.name} exchanges {model.gradient_bytes:,.0f} bytes, this model "
            f"{size:,.0f}: seconds do not compare"
        )
    if settings.target_batch_size != plan.target_batch_size:
        remarks.append(
            f"target batch size {settings.target_batch_size:,}, the plan's is "
            f"{plan.target_batch_size:,}"
        )
    if _links(records) == LOOPBACK:
        remarks.append(
            "all processes shared this machine: links and machines were not those of the plan"
        )
    lost = [r for r in records if r["kind"] == "lost"]
    names = [f"lost {plan.rank_name(r['rank'])} in step {r['step']}: {r['reason']}" for r in lost]
    return [*remarks, *names]
