"""Plans and logs of runs with known speeds, for tests."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import placer
from placer.launch.runtime.run_log import RunLog
from placer.launch.runtime.run_plan import Settings, plan_from
from placer.workload.profile import COMPRESSION_BYTES


def planned(folder: Path, **words: Any) -> str:
    """Manifest of a question on the April 2023 book; returns its path."""
    got = placer.recommend(
        "roberta-xlm",
        **{"catalog": "erben-2023", "budget": "5/h", "gpu": "T4", "places": "gcp/*", **words},
        alternatives=False,
    )
    path = folder / "plan.json"
    path.write_text(json.dumps(got.to_manifest()))
    return str(path)


def logged(
    manifest: str,
    *,
    speed: float = 1.0,
    exchange: float = 1.0,
    links: str = "real",
    lost: Collection[int] = (),
    rounds: int = 6,
    name: str = "run",
) -> str:
    """Log of a run whose machines are ``speed`` and whose exchange ``exchange`` times as planned;
    returns its path.

    Each worker gets samples by its planned speed, so that all calculate for as long.
    """
    plan = plan_from(json.loads(Path(manifest).read_text()), manifest)
    settings = Settings(
        train="a:b", steps=rounds, target_batch_size=plan.target_batch_size, microbatch=4
    )
    told = plan.manifest
    elements = round(told.model.gradient_bytes / COMPRESSION_BYTES[plan.exchange.compression])
    rates = [group.samples_per_second or 0.0 for group in told.groups for _ in range(group.count)]
    path = Path(manifest).with_name(f"{name}.jsonl")
    with RunLog(path, plan, settings, links=links) as log:
        for rank in range(plan.workers):
            log.write({"kind": "ready", "rank": rank, "pid": 1, "start": 0, "elements": elements})
        for step in range(rounds):
            for rank, rate in enumerate(rates):
                samples = plan.target_batch_size * rate / sum(rates)
                seconds = {"calculation_s": samples / rate / speed}
                between = exchange * plan.manifest.expected.step_seconds["communication"]
                seconds["step_s"] = seconds["calculation_s"] + between
                record = {
                    "kind": "step",
                    "step": step,
                    "rank": rank,
                    "place": plan.place_of(rank),
                    "samples": samples,
                    **seconds,
                }
                log.write(_beside(record, between) if plan.exchange.overlap else record)
        for rank in lost:
            place = plan.place_of(rank)
            log.write(
                {
                    "kind": "lost",
                    "rank": rank,
                    "place": place,
                    "step": rounds,
                    "reason": "killed by SIGKILL",
                }
            )
        log.write(
            {
                "kind": "lost",
                "rank": 0,
                "place": plan.place_of(0),
                "step": rounds,
                "reason": "lost rank 1 (gcp/x): gone",
            }
        )
    return str(path)


def _beside(record: dict[str, Any], exchange_s: float) -> dict[str, Any]:
    """The same step where the exchange of the one before ran beside its calculation; the first has
    none.
    """
    if record["step"] == 0:
        return {**record, "step_s": record["calculation_s"]}
    waited_s = max(0.0, exchange_s - record["calculation_s"])
    told = {"exchange_s": exchange_s, "waited_s": waited_s, "flushed_s": 0.0}
    return {**record, "step_s": record["calculation_s"] + waited_s, "beside": told}
