"""Measure how far requests run over their limits of time and memory, and over Ctrl-C.

    python tests/benchmarks/overruns.py 500
    python tests/benchmarks/overruns.py 20 --first 4711 --long 0 --where
    python tests/benchmarks/overruns.py 100 --long 0 --busy --stretches

Each request is drawn from its number alone: a model, a budget, workers, regions, local steps,
quotas, an objective on the default book; a time limit of 0.1, 1 or 5 s, for every third one Ctrl-C
at a random moment instead, and for every second one a memory limit of 256 MB to 1 GB above what the
process holds at its start. It runs in a process of its own, forked from this one with placer and
the book loaded.

Counted from the limit (or from Ctrl-C) to the answer with its report: seconds of wall time, and of
CPU time of the process, which a busy machine does not stretch by waiting. ``--where`` names the
functions in which the main thread stood after the limit. With ``--long S`` every question is asked
again with S seconds: no bound may be beaten by the value of any other run.

With ``--busy`` the clock of placer is the CPU time of its main thread, so that a machine with other
work on it shows what a quiet one does. ``--stretches`` names where the main thread went longest
without asking the clock, wherever the limit fell: each is an overrun that another request may have.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.solving.allowance import Allowance
from placer.solving.solve import prepare

MODELS = (
    "resnet18", "resnet50", "roberta-xlm", "convnext-large", "whisper-small", "gpt2", "gpt-1.3b",
    "vit-l-16", "llama-3.2-1b", "imdb-lstm",
)  # fmt: skip
LIMITS_S = (0.1, 1.0, 5.0)
GOAL_S, GOAL_INTERRUPTED_S = 0.5, 1.0
"""What an overrun may be at most on a quiet machine, after a time limit and after Ctrl-C."""
SAMPLE_S = 0.002
"""How often ``--where`` looks at the stack."""
STRETCH_S = 0.04
"""Seconds without a look at the clock that are noted."""
SAME = 1e-6
"""Relative rounding of a bound."""
Request = dict[str, Any]
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class How:
    """What is measured of a request, and by which clock."""

    where: bool = False
    busy: bool = False
    stretches: bool = False


def main() -> int:
    """Run the requests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("requests", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first request")
    parser.add_argument(
        "--long", type=float, default=10.0, help="seconds of the long runs; 0: none"
    )
    parser.add_argument(
        "--where", action="store_true", help="say where the time after a limit went"
    )
    parser.add_argument("--plain", action="store_true", help="no alternatives")
    parser.add_argument("--busy", action="store_true", help="count CPU seconds instead of seconds")
    parser.add_argument(
        "--stretches", action="store_true", help="say where the clock was not asked for long"
    )
    options = parser.parse_args()
    how = How(where=options.where, busy=options.busy, stretches=options.stretches)
    advisor = Advisor()
    for name in MODELS:
        prepare(advisor.problem(name, budget="5/h"))
    print(json.dumps({"load": os.getloadavg(), "cpus": os.cpu_count()}), flush=True)
    records, beaten = [], 0
    for number in range(options.first, options.first + options.requests):
        request = drawn(number)
        record = run(advisor, request, how, alternatives=not options.plain)
        if options.long:
            longer = {**request, "limit_s": options.long, "interrupt_s": None, "memory": None}
            best = run(advisor, longer, How(busy=options.busy), alternatives=False)
            record["beaten"] = beaten_bound(record, best) or beaten_bound(best, record)
            beaten += record["beaten"]
        records.append(record)
        print(json.dumps({"number": number, **request, **record}), flush=True)
    print("\n".join(table(records)))
    return 1 if beaten or any("error" in record for record in records) else 0


def drawn(number: int) -> Request:
    """Draw a request from its number."""
    draw = random.Random(number)
    words: dict[str, Any] = {
        "budget": draw.choice(("1/h", "5/h", "20/h", "50/h", "100/h", "500/h"))
    }
    if draw.random() < 0.6:
        words["workers"] = draw.choice(("1..16", "4..", "1..100", "2..64", "1..300"))
    if draw.random() < 0.6:
        words["regions"] = draw.choice(("1", "2..", "3..", "1..3", "..8", "2..4"))
    if draw.random() < 0.6:
        words["local_steps"] = draw.choice(("1..16", "1..64", "16", "1..500", "8..32"))
    if draw.random() < 0.3:
        words["quota"] = draw.choice(("4", "16", "64", "200"))
    if draw.random() < 0.2:
        words["gpu"] = draw.choice((["T4", "A10"], ["A100", "H100"], ["L4"]))
    if draw.random() < 0.15:
        words["objective"] = draw.choice(("cost-per-sample", "cost"))
        if words["objective"] == "cost":
            words["min_throughput"] = draw.choice(("100/s", "1000/s"))
    interrupted = number % 3 == 0
    return {
        "model": draw.choice(MODELS),
        "words": words,
        "limit_s": 60.0 if interrupted else draw.choice(LIMITS_S),
        "interrupt_s": draw.choice((0.1, 1.0, 5.0)) * draw.random() if interrupted else None,
        "memory": draw.uniform(256e6, 1024e6) if number % 2 else None,
    }


def run(advisor: Advisor, request: Request, how: How, *, alternatives: bool) -> Record:
    """Ask a request in a child and read what it measured."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            record = measured(advisor, request, how, alternatives=alternatives)
        except BaseException:
            record = {"error": traceback.format_exc()[-600:]}
        with os.fdopen(write, "w") as out:
            json.dump(record, out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        text = told.read()
    _, status, _ = os.wait4(pid, 0)
    told_record: Record = json.loads(text) if text else {"error": f"ended with {status}"}
    return told_record


def measured(advisor: Advisor, request: Request, how: How, *, alternatives: bool) -> Record:
    """Ask a request here; the watcher notes the CPU time at the limit and sends the Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start_bytes = status_bytes("VmRSS")
    main = threading.main_thread().ident or 0
    if how.busy:
        time.monotonic = cpu_clock(main)
    stretches = Stretches(main) if how.stretches else None
    limits: dict[str, Any] = {"time_limit": request["limit_s"]}
    if request["memory"] is not None:
        limits["memory_limit"] = int(start_bytes + request["memory"])
    started = time.monotonic()
    watcher = Watcher(request, how, main)
    try:
        watcher.start()
        result = advisor.recommend(
            request["model"], alternatives=alternatives, **limits, **request["words"]
        )
        status = str(result.to_dict()["status"])
    except KeyboardInterrupt:  # before the search began: there is nothing to answer with
        result, status = None, "interrupted"
    except PlacerError as error:
        result, status = None, f"refused: {error.message[:40]}"
    ended, cpu = time.monotonic(), time.process_time()
    watcher.end()
    at_limit = watcher.at_limit
    record: Record = {
        "status": status,
        "interrupted": request["interrupt_s"] is not None,
        "value": None if result is None else result.value,
        "bound": None if result is None else result.bound,
        "sign": 1.0 if result is None else result.objective.sign,
        "wall_s": round(ended - started, 3),
        "over_s": round(max(0.0, ended - at_limit[0]), 3) if at_limit else 0.0,
        "over_cpu_s": round(max(0.0, cpu - at_limit[1]), 3) if at_limit else 0.0,
        "peak_mb": round(status_bytes("VmHWM") / 1e6),
        "grown_mb": round((status_bytes("VmHWM") - start_bytes) / 1e6),
        "allowed_mb": None if request["memory"] is None else round(request["memory"] / 1e6),
    }
    if how.where and record["over_s"] > 0.05:
        record["where"] = watcher.places.most_common(4)
    if stretches is not None:
        record["stretches"] = stretches.longest(6)
    return record


def cpu_clock(thread: int) -> Callable[[], float]:
    """Return a clock of the CPU seconds of a thread."""
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


class Watcher:
    """Notes the time at the limit of a request, sends its Ctrl-C, and says where the main thread
    stands from then on.
    """

    def __init__(self, request: Request, how: How, main: int) -> None:
        self.at_limit: list[float] = []
        self.places: Counter[str] = Counter()
        self._request, self._how, self._main = request, how, main
        interrupt_s = request["interrupt_s"]
        self._stop_at = time.monotonic() + (
            request["limit_s"] if interrupt_s is None else interrupt_s
        )
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.start, self._wait = self._thread.start, self._done.wait

    def end(self) -> None:
        """Watch no longer."""
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while (left := self._stop_at - time.monotonic()) > 0:
            if self._wait(SAMPLE_S if self._how.busy else left):
                return
        self.at_limit = [time.monotonic(), time.process_time()]
        if self._request["interrupt_s"] is not None:
            os.kill(os.getpid(), signal.SIGINT)
        while self._how.where and not self._wait(SAMPLE_S):
            frame = sys._current_frames().get(self._main)
            self.places[" < ".join(_frames(frame))] += 1


class Stretches:
    """Seconds of the main thread between two looks at the clock, and where it stood in them."""

    def __init__(self, main: int) -> None:
        self._now = cpu_clock(main)
        self._main, self._last = main, self._now()
        self._stood: list[str] = []
        self._found: list[tuple[float, list[tuple[str, int]]]] = []
        asked, note = Allowance.check, self.note

        def check(self: Allowance) -> None:
            note()
            asked(self)

        Allowance.check = check  # type: ignore[method-assign]
        threading.Thread(target=self._watch, daemon=True).start()

    def note(self) -> None:
        """Note the stretch that ends here."""
        now = self._now()
        if now - self._last > STRETCH_S:
            stood = Counter(self._stood).most_common(3)
            self._found.append((round(now - self._last, 3), stood))
        self._last, self._stood = now, []

    def longest(self, count: int) -> list[tuple[float, list[tuple[str, int]]]]:
        """Return the longest stretches, with where the main thread stood most."""
        self.note()
        return sorted(self._found, key=lambda each: -each[0])[:count]

    def _watch(self) -> None:
        while True:
            time.sleep(SAMPLE_S)
            frame = sys._current_frames().get(self._main)
            self._stood.append(" < ".join(_frames(frame)))


def _frames(frame: Any) -> list[str]:
    names: list[str] = []
    while frame is not None and len(names) < 6:
        code = frame.f_code
        if "/placer/" in code.co_filename or "/solvers/" in code.co_filename:
            names.append(f"{Path(code.co_filename).stem}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return names


def status_bytes(name: str) -> int:
    """Return resident memory now (VmRSS) or at most so far (VmHWM); Linux."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def beaten_bound(one: Record, other: Record) -> bool:
    """Return whether the value of one run beats the bound of another."""
    value, bound = one.get("value"), other.get("bound")
    if value is None or bound is None:
        return False
    return bool((value - bound) * one["sign"] > SAME * abs(bound))


def table(records: Sequence[Record]) -> list[str]:
    """Build the lines of the summary."""
    sound = [record for record in records if "error" not in record]
    lines = [f"load at the end {os.getloadavg()[0]:.2f}, {os.cpu_count()} CPUs"]
    for name, chosen, goal in (
        ("time limit", [r for r in sound if not r.get("interrupted")], GOAL_S),
        ("Ctrl-C", [r for r in sound if r.get("interrupted")], GOAL_INTERRUPTED_S),
    ):
        for key in ("over_s", "over_cpu_s"):
            over = sorted(record[key] for record in chosen)
            if over:
                at = [over[min(len(over) - 1, int(share * len(over)))] for share in (0.5, 0.95, 1)]
                lines.append(
                    f"{name} ({len(over)}), {'wall' if key == 'over_s' else 'CPU'} seconds after: "
                    f"p50 {at[0]:.2f}, p95 {at[1]:.2f}, p100 {at[2]:.2f} (goal {goal})"
                )
    above = [r for r in sound if r["allowed_mb"] is not None and r["grown_mb"] > r["allowed_mb"]]
    lines += [
        f"memory: {len(above)} above their limit, most {max(r['peak_mb'] for r in sound)} MB",
        f"bounds beaten: {sum(bool(r.get('beaten')) for r in sound)}; "
        f"failures: {len(records) - len(sound)}",
        f"statuses: {dict(Counter(record['status'] for record in sound))}",
    ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
