"""Load a service with mixed questions: ``service_load.py --requests 1000 --clients 8``.

A service is started on loopback with its usual settings. Each client asks one question after
another: recommendations without alternatives on two books, estimates, comparisons, lists. Printed
are the times of answers, the CPU of the service for each request (the machine may be busy), and the
memory of all its processes after each tenth of the requests.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from served import Served, serving

PLACED = "gcp/us-central1={}xT4:spot,gcp/europe-west1={}xT4:spot"
TICK = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
Asked = tuple[str, str, dict[str, Any] | None]


def question(chance: random.Random) -> Asked:
    """Draw a question: name, address and body."""
    drawn = chance.random()
    budget = f"{chance.choice((2, 3, 5, 8, 12, 20))}/h"
    if drawn < 0.3:
        model = chance.choice(("roberta-xlm", "resnet50", "roberta-base"))
        body = {"model": model, "budget": budget, "catalog": "erben-2023", "alternatives": False}
        return "recommend, 18 offers", "/v1/recommend", body
    if drawn < 0.5:
        model = chance.choice(("roberta-xlm", "resnet50", "llama-3.1-8b"))
        body = {"model": model, "budget": f"{chance.choice((50, 100))}/h", "alternatives": False}
        if model != "llama-3.1-8b":
            body["budget"] = budget
        return "recommend, 5,439 offers", "/v1/recommend", body
    if drawn < 0.8:
        workers = PLACED.format(chance.randint(1, 8), chance.randint(1, 8))
        body = {"model": "roberta-xlm", "workers": workers, "catalog": "erben-2023"}
        return "estimate", "/v1/estimate", body
    if drawn < 0.9:
        placements = [PLACED.format(n, n) for n in (1, 2, 4)]
        body = {"model": "roberta-xlm", "placements": placements, "catalog": "erben-2023"}
        return "compare", "/v1/compare", body
    return "offers", f"/v1/offers?gpu=T4&limit={chance.randint(1, 30)}", None


def processes(served: Served) -> list[int]:
    """List the processes of a service."""
    return [served.process.pid, *served.workers()]


def resident_bytes(served: Served) -> int:
    """Return the resident memory of all processes of a service."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in processes(served)]
    return sum(pages) * PAGE_BYTES


def cpu_seconds(served: Served) -> float:
    """Return the CPU time of all processes of a service."""
    total = 0
    for pid in processes(served):
        cells = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        total += int(cells[11]) + int(cells[12])
    return total / TICK


def percentile(values: list[float], share: float) -> float:
    """Return a percentile of some values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def run(served: Served, requests: int, clients: int, warm: int) -> dict[str, Any]:
    """Ask all questions, and return times by kind, statuses, memory and CPU."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    statuses: Counter[int] = Counter()
    memory: list[int] = []
    lock = threading.Lock()
    left = [requests + warm]
    at: dict[str, float] = {}

    def ask(seed: int) -> None:
        chance = random.Random(seed)
        with served.client() as client:
            while True:
                with lock:
                    if not left[0]:
                        return
                    left[0] -= 1
                    number = requests + warm - left[0]
                    if number == warm + 1:
                        at.update(cpu=cpu_seconds(served), wall=time.monotonic())
                    if number > warm and (number - warm) % max(1, requests // 10) == 0:
                        memory.append(resident_bytes(served))
                name, path, body = question(chance)
                started = time.monotonic()
                answer = client.get(path) if body is None else client.post(path, json=body)
                seconds = time.monotonic() - started
                with lock:
                    statuses[answer.status_code] += 1
                    if number > warm:
                        times[name].append(seconds)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "times": dict(times),
        "statuses": statuses,
        "memory": memory,
        "cpu": cpu_seconds(served) - at["cpu"],
        "wall": time.monotonic() - at["wall"],
    }


def main() -> int:
    """Print the figures; exit code 1 if an answer failed or memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--warm", type=int, default=100, help="Requests before the count begins.")
    given = parser.parse_args()
    options = ("--workers", str(given.workers))
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *options) as served:
        found = run(served, given.requests, given.clients, given.warm)
    every = [seconds for rows in found["times"].values() for seconds in rows]
    for name, rows in sorted({**found["times"], "all": every}.items()):
        p50, p95 = percentile(rows, 0.5), percentile(rows, 0.95)
        print(
            f"{name:<26} {len(rows):>5} p50 {p50:6.3f} s  p95 {p95:6.3f} s  most {max(rows):.3f} s"
        )
    print(f"CPU of the service {1000 * found['cpu'] / given.requests:.0f} ms for each request")
    print(f"{given.requests / found['wall']:.1f} requests a second, {given.clients} clients")
    memory = [round(count / 1e6) for count in found["memory"]]
    print("memory of all processes, MB, after each tenth:", *memory)
    print("statuses", dict(found["statuses"]))
    return int(any(code != 200 for code in found["statuses"]) or memory[-1] > 1.1 * memory[4])


if __name__ == "__main__":
    sys.exit(main())
