"""A scheduler's loop: one Advisor answers many requests; catalogs and profiles are read once."""

import time
from typing import Any

from placer import Advisor, PlacerError

QUEUE: list[dict[str, Any]] = [
    {"model": "roberta-xlm", "budget": "5/h"},
    {"model": "resnet50", "min_throughput": "2000/s", "market": "spot"},
    {"model": "convnext-large", "budget": "2/h", "gpu": "T4,L4"},
    {"model": "roberta-base", "budget": "0.01/h"},
    {"model": "roberta-xml", "budget": "5/h"},
]

advisor = Advisor()
started = time.perf_counter()
for job in QUEUE:
    try:
        result = advisor.recommend(**job)
    except PlacerError as error:
        print(f"{job['model']}: refused: {error.message} ({error.hint})")
        continue
    if result.placement is None or result.estimate is None:
        changes = ", ".join(option.note for option in result.nearest)
        print(f"{job['model']}: {result.status}; a change that works: {changes}")
        continue
    groups = " + ".join(group.spec for group in result.placement.groups)
    speed, usd = result.estimate.samples_per_second.value, result.estimate.usd_per_hour.total
    print(f"{job['model']}: {groups}, {speed:,.0f} samples/s, {usd:.2f} USD/h")
print(f"{len(QUEUE)} requests in {time.perf_counter() - started:.2f} s")
