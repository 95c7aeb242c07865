"""A run beside its plan: what a round took, moved and asked for, against what the manifest and the model of placer say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from placer.cost import store_requests
from placer.exchange.phase import bytes_by_link
from placer.runtime.codec import Codec
from placer.runtime.context import Settings
from placer.runtime.plan import Plan

Record = Mapping[str, Any]
OTHER_MODEL = 0.05
"""Gradients that differ by more than this share belong to another model than the plan's."""


def summary(plan: Plan, settings: Settings, records: Sequence[Record]) -> dict[str, Any]:
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
        ``rounds`` that count (the first is warm-up where there are more, cut-off ones do not count), ``seconds`` and ``bytes`` and ``requests`` as rows of predicted
        and measured (None: nobody predicts it), ``losses`` by step, ``remarks``: what must be known to read the rows.

    Notes
    -----
    Predicted seconds are the manifest's, of its machines, links and model. Predicted bytes are the transfers of `placer.exchange` for
    the model that was trained.
    """
    steps = [r for r in records if r["kind"] == "step"]
    rounds = _rounds(plan, steps)
    counted = rounds[1:] if len(rounds) > 1 else rounds
    elements = next((r["elements"] for r in records if r["kind"] == "ready"), 0)
    return {
        "kind": "summary",
        "rounds": len(counted),
        "seconds": _seconds(plan, counted),
        "bytes": _bytes(plan, elements, rounds),
        "requests": _requests(plan, rounds),
        "losses": _losses(plan, steps),
        "remarks": _remarks(plan, settings, elements, records),
    }


def _rounds(plan: Plan, steps: Iterable[Record]) -> list[list[Record]]:
    """Records of each round that is whole: as many steps as the plan says, of every rank that took part to its end."""
    h = plan.steps_per_round
    grouped: dict[int, list[Record]] = defaultdict(list)
    for record in steps:
        grouped[record["step"] // h].append(record)
    whole = []
    for number in sorted(grouped):
        per_rank = Counter(r["rank"] for r in grouped[number])
        if all(count == h for count in per_rank.values()) and any(rank < plan.workers for rank in per_rank):
            whole.append(grouped[number])
    return whole


def _by_rank(plan: Plan, found: Iterable[Record], key: str) -> dict[int, float]:
    totals: dict[int, float] = defaultdict(float)
    for record in found:
        if record["rank"] < plan.workers:
            totals[record["rank"]] += record[key]
    return totals


def _seconds(plan: Plan, rounds: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    """Medians over rounds: the slowest worker's calculation and round, what is between them, and samples/s."""
    expected = plan.expected["step_seconds"]
    rows: list[dict[str, Any]] = [
        {"what": "calculation", "unit": "s", "predicted": expected["calculation"]},
        {"what": "exchange and waiting", "unit": "s", "predicted": expected["communication"]},
        {"what": "round", "unit": "s", "predicted": expected["total"]},
        {"what": "throughput", "unit": "samples/s", "predicted": plan.expected["samples_per_second"]["value"]},
    ]
    calculation = [max(_by_rank(plan, found, "calculation_s").values()) for found in rounds]
    whole = [max(_by_rank(plan, found, "step_s").values()) for found in rounds]
    samples = [sum(_by_rank(plan, found, "samples").values()) for found in rounds]
    measured = [None] * 4 if not rounds else [
        median(calculation),
        median(w - c for w, c in zip(whole, calculation, strict=True)),
        median(whole),
        median(s / w for s, w in zip(samples, whole, strict=True)),
    ]  # fmt: skip
    return [{**row, "measured": value} for row, value in zip(rows, measured, strict=True)]


def _bytes(plan: Plan, elements: int, rounds: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    """Mean bytes of a round on each directed pair of places."""
    predicted = bytes_by_link(plan.phases(Codec(plan.exchange.compression).payload(elements)))
    sent: Counter[tuple[str, str]] = Counter()
    for record in (record for found in rounds for record in found):
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


def _requests(plan: Plan, rounds: Sequence[Sequence[Record]]) -> list[dict[str, Any]]:
    """Mean requests of a round to the object store, by kind."""
    if plan.exchange.storage is None:
        return []
    predicted = store_requests(plan.workers) if plan.exchange.strategy == "central" else {}
    counted: Counter[str] = Counter()
    for record in (record for found in rounds for record in found):
        counted.update(record["requests"])
    return [
        {"what": kind, "predicted": predicted.get(kind), "measured": counted[kind] / len(rounds) if rounds else None}
        for kind in sorted({*predicted, *counted})
    ]


def _losses(plan: Plan, steps: Iterable[Record]) -> list[dict[str, Any]]:
    """Mean loss over the target batch, by step; of workers that take part."""
    total: dict[int, float] = defaultdict(float)
    for record in steps:
        if record["rank"] < plan.workers:
            total[record["step"]] += record["loss"]
    return [{"step": step, "loss": total[step]} for step in sorted(total)]


def _remarks(plan: Plan, settings: Settings, elements: int, records: Sequence[Record]) -> list[str]:
    said = []
    size = Codec(plan.exchange.compression).payload(elements)
    if abs(size - plan.gradient_bytes) > OTHER_MODEL * plan.gradient_bytes:
        said.append(f"the plan's {plan.model} exchanges {plan.gradient_bytes:,.0f} bytes, this model {size:,.0f}: seconds do not compare")
    if settings.target_batch_size != plan.target_batch_size:
        said.append(f"target batch size {settings.target_batch_size:,}, the plan's is {plan.target_batch_size:,}")
    if next((r for r in records if r["kind"] == "run"), {}).get("links") == "loopback":
        said.append("all processes shared this machine: links and machines were not those of the plan")
    lost = [f"{plan.said(r['rank'])} in step {r['step']}: {r['reason']}" for r in records if r["kind"] == "lost"]
    ends = {r["parameters_sha256"] for r in records if r["kind"] == "end" and r["rank"] < plan.workers}
    if len(ends) > 1 and plan.exchange.strategy != "asgd-ga":
        said.append("the workers' models differ at the end: this should not be, report it")
    return [*said, *(f"lost {words}" for words in lost)]
