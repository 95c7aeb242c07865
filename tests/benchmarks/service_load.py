"""Load a service with mixed questions: ``service_load.py --requests 400 --silent 1000``.

A service is started on loopback with its usual settings. Each client asks one question after
another: recommendations without alternatives on two books, estimates, comparisons, lists. The same
questions are asked once more while as many connections stand as ``--silent`` says that send
nothing, and as many that send half a head, from several addresses; those that the service closes
are opened again. Printed are the times of answers and the CPU of the service for each request (the
machine may be busy).
"""

import argparse
import contextlib
import os
import random
import resource
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from served import BOOK, Served, serving

PLACED = "gcp/us-central1={}xT4:spot,gcp/europe-west1={}xT4:spot"
HALVES = (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-a: ")
EACH_ADDRESS = 250
"""Silent connections from one address: as many as the service lets stand, all but six."""
GOAL_S = 1.0
"""Nineteen of twenty answers come within it, on a quiet machine."""
TICK = os.sysconf("SC_CLK_TCK")


def question(chance: random.Random) -> tuple[str, dict[str, Any] | None]:
    """Draw a question: address and body."""
    drawn = chance.random()
    body = {"model": "roberta-xlm", "budget": f"{chance.choice((2, 3, 5, 8, 12, 20))}/h"}
    if drawn < 0.3:
        return "/v1/recommend", {**body, "catalog": BOOK, "alternatives": False}
    if drawn < 0.5:
        return "/v1/recommend", {**body, "alternatives": False}
    if drawn < 0.8:
        workers = PLACED.format(chance.randint(1, 8), chance.randint(1, 8))
        return "/v1/estimate", {"model": "roberta-xlm", "workers": workers, "catalog": BOOK}
    if drawn < 0.9:
        placements = [PLACED.format(n, n) for n in (1, 2, 4)]
        return "/v1/compare", {"model": "roberta-xlm", "placements": placements, "catalog": BOOK}
    return f"/v1/offers?gpu=T4&limit={chance.randint(1, 30)}", None


def answer_times_s(served: Served, requests: int, clients: int) -> list[float]:
    """Ask from several clients at a time, and return the seconds of each answer."""

    def ask(seed: int) -> list[float]:
        chance, times = random.Random(seed), []
        with served.client() as client:
            for _ in range(requests // clients):
                path, body = question(chance)
                started = time.monotonic()
                answer = client.get(path) if body is None else client.post(path, json=body)
                times.append(time.monotonic() - started)
                answer.raise_for_status()
        return times

    with ThreadPoolExecutor(clients) as threads:
        return sorted(seconds for times in threads.map(ask, range(clients)) for seconds in times)


def cpu_seconds(served: Served) -> float:
    """Return the CPU time of all processes of a service."""
    total = 0
    for pid in (served.process.pid, *served.workers()):
        cells = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        total += int(cells[11]) + int(cells[12])
    return total / TICK


@contextlib.contextmanager
def silent(served: Served, each: int) -> Iterator[None]:
    """Hold connections that never send a whole request, and open again those that end."""
    links: list[socket.socket | None] = [None] * (each * len(HALVES))
    ending = threading.Event()

    def hold() -> None:
        while not ending.is_set():
            for number in range(len(links)):
                if not ending.is_set() and not _stands(links[number]):
                    links[number] = _opened(served, number)
            ending.wait(0.5)

    holder = threading.Thread(target=hold)
    holder.start()
    while None in links:
        time.sleep(0.05)
    try:
        yield
    finally:
        ending.set()
        holder.join()
        for link in filter(None, links):
            link.close()


def _stands(link: socket.socket | None) -> bool:
    if link is None:
        return False
    try:
        if link.recv(1, socket.MSG_DONTWAIT):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    link.close()
    return False


def _opened(served: Served, number: int) -> socket.socket:
    port = urlsplit(served.address).port or 0
    source = f"127.0.0.{2 + number // EACH_ADDRESS}"
    link = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))
    with contextlib.suppress(ConnectionError):
        link.sendall(HALVES[number % len(HALVES)])
    return link


def main() -> int:
    """Print the figures; exit code 1 if too many answers came late beside silent connections."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--silent", type=int, default=1_000, help="Connections of each kind.")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    late = 0.0
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as served:
        answer_times_s(served, 5 * given.clients, given.clients)  # books are read
        for each in (0, given.silent):
            with silent(served, each):
                before = cpu_seconds(served)
                times = answer_times_s(served, given.requests, given.clients)
                cpu_s = cpu_seconds(served) - before
            twentieths = statistics.quantiles(times, n=20)
            late = twentieths[-1]
            print(
                f"{each:>5} idle and {each:>5} half-sent: {len(times)} answers, half within "
                f"{statistics.median(times):.3f} s, 95 % within {late:.3f} s, all within "
                f"{times[-1]:.3f} s; CPU {1000 * cpu_s / len(times):.0f} ms each",
                flush=True,
            )
    return int(late > GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
