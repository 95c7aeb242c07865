"""Measure an `Advisor` that answers many requests: CPU of the first answer and of later ones, and
whether its memory stays flat.

    python tests/benchmarks/advisor_requests.py
    python tests/benchmarks/advisor_requests.py --requests 200 --alternatives
    python tests/benchmarks/advisor_requests.py --catalog erben-2023

Models, budgets, quotas and workers change from request to request. Prints, for each tenth of the
requests, median and 95th percentile of CPU seconds and the resident memory after it. Memory is flat
where the last line is near the second one: the first holds what is kept of few questions.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

from placer.interface.advisor import Advisor
from placer.solving.allowance import resident_bytes

MODELS = ("roberta-xlm", "roberta-base", "resnet50", "convnext-large", "resnet18", "whisper-small")
BUDGETS = (1, 100)
"""USD/h between which budgets are drawn, evenly on a logarithmic scale."""


def asked(draw: random.Random) -> dict[str, Any]:
    """Draw the words of a request."""
    low, high = BUDGETS
    words: dict[str, Any] = {"budget": f"{low * (high / low) ** draw.random():.2f}/h"}
    if draw.random() < 0.3:
        words["quota"] = draw.choice((8, 16, 64))
    if draw.random() < 0.3:
        words["workers"] = f"1..{draw.choice((8, 16, 32))}"
    return {"model": draw.choice(MODELS), **words}


def main() -> None:
    """Ask and print."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--requests", type=int, default=5000)
    words.add_argument("--alternatives", action="store_true", help="ask for all that is compared")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--catalog", help="price book of all requests")
    words.add_argument("--time-limit", default="2s", help="of each request")
    given = words.parse_args()
    draw, advisor = random.Random(given.seed), Advisor(given.catalog)
    seconds: list[float] = []
    print(f"{'requests':>9}{'p50':>10}{'p95':>10}{'resident':>12}")
    for number in range(given.requests):
        before = time.process_time()
        advisor.recommend(
            **asked(draw), alternatives=given.alternatives, time_limit=given.time_limit
        )
        seconds.append(time.process_time() - before)
        if number == 0:
            print(f"{'first':>9}{1e3 * seconds[0]:>7.0f} ms")
        if (number + 1) % max(1, given.requests // 10) == 0:
            part = sorted(seconds[-max(1, given.requests // 10) :])
            print(
                f"{number + 1:>9}{1e3 * statistics.median(part):>7.0f} ms"
                f"{1e3 * part[int(0.95 * (len(part) - 1))]:>7.0f} ms"
                f"{resident_bytes() / 2**20:>8.0f} MiB",
                flush=True,
            )
    later = sorted(seconds[1:]) or seconds
    print(
        f"all: p50 {1e3 * statistics.median(later):.0f} ms, "
        f"p95 {1e3 * later[int(0.95 * (len(later) - 1))]:.0f} ms, most {later[-1]:.2f} s"
    )


if __name__ == "__main__":
    main()
