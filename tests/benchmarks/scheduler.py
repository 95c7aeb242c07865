"""Measure what a cluster scheduler would see: `Advisor` answers many mixed requests.

    python tests/benchmarks/scheduler.py --requests 60 --time-limit 3

Requests are drawn from all shipped profiles, budgets of 1 to 100 USD/h, some floors and some
subsets of GPUs, on the default book, and shared among the processes; each has an `Advisor` of its
own. A request without an answer within its limits counts, a refused one is named. Memory is what a
process holds after its first tenth, its first half and all of its requests: it must not grow with
their number.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger import FOLDER, Ledger, Record, markdown, percentile, read, resident_mib

GPUS = (None, None, None, "T4,L4", "A10G,A100-40", "T4,V100", "H100,H200,A100-80")
MARKS = (0.1, 0.5, 1.0)
"""Shares of the requests after which memory is read."""


def request(number: int, models: Mapping[str, bool]) -> dict[str, Any]:
    """Draw the words of one request; ``models`` says of each profile whether it knows a GPU, else
    no GPUs are named.
    """
    draw = random.Random(f"request {number}")
    budget = round(10 ** draw.uniform(0, 2), 2)
    words: dict[str, Any] = {"model": draw.choice(list(models)), "budget": f"{budget}/h"}
    if draw.random() < 0.2:
        words["min_throughput"] = f"{budget * 10 ** draw.uniform(-1, 1):.3g}/s"
    gpus = draw.choice(GPUS)
    return words if gpus is None or not models[words["model"]] else {**words, "gpu": gpus}


def child(first: int, step: int, requests: int, seconds: float) -> None:
    """Answer every ``step``-th request and say what each took."""
    from placer import Advisor
    from placer.errors import PlacerError
    from placer.workload.profile import load_profile, profile_names

    advisor = Advisor("default")
    models = {
        name: not all(rate.gpu.startswith("CPU") for rate in load_profile(name).rates)
        for name in profile_names()
    }
    own = list(range(first, requests, step))
    marks = {max(1, round(share * len(own))): share for share in MARKS}
    for done, number in enumerate(own, start=1):
        words = request(number, models)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            status = str(advisor.recommend(words.pop("model"), time_limit=seconds, **words).status)
        except PlacerError as error:
            status = f"refused: {error.message}"
        record = {"kind": "request", "number": number, "status": status}
        print(
            json.dumps(
                {**record, "cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
            ),
            flush=True,
        )
        if done in marks:
            print(
                json.dumps(
                    {
                        "kind": "memory",
                        "process": first,
                        "share": marks[done],
                        "resident_mib": resident_mib(),
                    }
                ),
                flush=True,
            )


def table(records: Sequence[Record]) -> list[str]:
    """Summarise times, rate and memory."""
    asked = [r for r in records if r["kind"] == "request"]
    total = next((r for r in records if r["kind"] == "total"), None)
    said = Counter(r["status"].split(":")[0] for r in asked)
    rate = None if total is None else len(asked) / total["wall_s"]
    per_cpu = len(asked) / sum(r["cpu_s"] for r in asked) if asked else None
    times = [
        1e3 * percentile([r[clock] for r in asked], share)
        for clock in ("wall_s", "cpu_s")
        for share in (0.5, 0.95, 1.0)
    ]
    heads = (
        "requests|processes|wall ms p50|p95|max|CPU ms p50|p95|max|requests/s, all "
        "processes|requests per CPU second"
    )
    processes = len({r["process"] for r in records if r["kind"] == "memory"})
    lines = markdown(heads.split("|"), [[len(asked), processes, *times, rate, per_cpu]])
    held = {
        share: [r["resident_mib"] for r in records if r["kind"] == "memory" and r["share"] == share]
        for share in MARKS
    }
    memory = ", ".join(
        f"{round(share * len(asked)):,} requests: {max(of):.0f} MiB"
        for share, of in held.items()
        if of
    )
    return [
        *lines,
        "",
        (
            f"Memory of the larger process after {memory}. Answers: "
            f"{', '.join(f'{n} {s}' for s, n in said.most_common())}."
        ),
    ]


def main() -> None:
    """Start the processes, gather what they say."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--requests", type=int, default=1000, help="of all processes together")
    words.add_argument("--processes", type=int, default=2)
    words.add_argument("--time-limit", type=float, default=30.0, help="seconds for each request")
    words.add_argument("-o", "--output", type=Path, default=FOLDER / "scheduler.jsonl")
    words.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.child is not None:
        child(given.child, given.processes, given.requests, given.time_limit)
        return
    ledger = Ledger(
        given.output,
        requests=given.requests,
        processes=given.processes,
        time_limit_s=given.time_limit,
    )
    call = [
        sys.executable,
        __file__,
        "--requests",
        str(given.requests),
        "--processes",
        str(given.processes),
    ]
    call += ["--time-limit", str(given.time_limit)]
    started = time.perf_counter()
    parts = [given.output.with_suffix(f".{n}.part") for n in range(given.processes)]
    handles = [part.open("w", encoding="utf-8") for part in parts]
    children = [
        subprocess.Popen([*call, "--child", str(n)], stdout=handle)
        for n, handle in enumerate(handles)
    ]
    codes = [one.wait() for one in children]
    wall_s = time.perf_counter() - started
    for part, handle in zip(parts, handles, strict=True):
        handle.close()
        for line in part.read_text(encoding="utf-8").splitlines():
            ledger.write(json.loads(line))
        part.unlink()
    if any(codes):
        raise SystemExit(f"error: a process of the scheduler ended with code {max(codes, key=abs)}")
    ledger.write({"kind": "total", "wall_s": wall_s})
    ledger.close()
    print("\n".join(table(read(given.output)[1])))


if __name__ == "__main__":
    main()
