"""Runs a solver in a child process that is bounded in time and memory and ends with its parent.

The child reads the problem as a line of JSON. It writes one for each better placement and bound,
and one for its answer. Nothing is pickled. It runs in a session of its own, out of reach of Ctrl-C,
and ends when its input does: when its parent dies, however that happens.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

import msgspec

from placer.errors import PlacerError
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving import allowance
from placer.solving.allowance import Reason, bounded_address_space
from placer.solving.answer import Answer, SolveOptions, Status, stopped_by

GRACE_S = 0.4
"""How long after its time limit a child may still answer before it is killed."""
START_S = 15.0
"""How long a child may take to start beside its time limit."""
MEMORY_GIB = 4.0
"""Address space that a child may have, unless PLACER_SOLVER_MEMORY_GIB says otherwise."""
POLL_S = 0.1
RUN = "from placer.solvers._programs.child_process import main; main()"


def solve_in_child(name: str, problem: Problem, options: SolveOptions) -> Answer:
    """Solve a problem with the engine of a solver in a child process.

    ``name``: module of placer.solvers with a function ``engine``. Raises PlacerError if the child
    fails before it has any placement.
    """
    plain = replace(options.deaf, cancel=None)
    job = {"engine": name, "problem": problem.to_dict(), "options": msgspec.to_builtins(plain)}
    return run_child(f"the solver '{name}'", job, options)


def run_child(what: str, job: dict[str, Any], options: SolveOptions, run: str = RUN) -> Answer:
    """Run a job in a child and return its answer, or its last report if it was stopped or failed.

    A child that is stopped by its watchdog or by Ctrl-C gives ``time_limit`` with the last
    placement and bound that it reported. One that dies gives the same if it had reported a
    placement, else an error.
    """
    paths = os.pathsep.join(p or str(Path.cwd()) for p in sys.path)
    lines: queue.Queue[str | None] = queue.Queue()
    reported: dict[str, Any] = {}
    with tempfile.TemporaryFile("w+", errors="replace") as noise:
        child = subprocess.Popen(  # noqa: S603 - this interpreter, with a job that was built here
            [sys.executable, "-c", run],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=noise,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
            text=True,
            encoding="utf-8",
        )
        threading.Thread(target=_listen, args=(child.stdout, lines), daemon=True).start()
        assert child.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(json.dumps(job) + "\n")
                child.stdin.flush()
            ended = _collect(lines, reported, options)
        except KeyboardInterrupt:
            ended = True
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.05)
            child.kill()
            child.wait()
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()
        noise.seek(0)
        return _answer(what, reported, ended, child.returncode, noise.read())


def _listen(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    with stream:
        for line in stream:
            if line.startswith("{"):
                lines.put(line)
    lines.put(None)


def _collect(
    lines: queue.Queue[str | None], reported: dict[str, Any], options: SolveOptions
) -> bool:
    """Take lines until the answer, the end of the child (False) or the deadline, which starts anew
    when the work starts.
    """
    deadline = time.monotonic() + options.time_limit_s + GRACE_S + START_S
    while (left := deadline - time.monotonic()) > 0:
        try:
            line = lines.get(timeout=min(POLL_S, left))
        except queue.Empty:
            if allowance.current().spent is Reason.CANCELLED:
                return True
            continue
        if line is None:
            return False
        report = json.loads(line)
        reported.update(report)
        if "started" in report:
            deadline = time.monotonic() + options.time_limit_s + GRACE_S
        if "better" in report and options.on_better is not None:
            options.on_better(report["better"])
        if "status" in report or "error" in report:
            return True
    return True


def _answer(
    what: str, reported: dict[str, Any], ended: bool, code: int | None, noise: str
) -> Answer:
    if "error" in reported:
        raise PlacerError(*reported["error"])
    placement = msgspec.convert(reported.get("placement"), Placement | None)
    short = "MemoryError" in noise or "bad_alloc" in noise
    if not ended and placement is None:
        raise PlacerError(
            f"{what} failed: {_why(code, noise, short=short)}",
            "use --solver exact, or narrow the request",
            exit_code=1,
        )
    stopped = stopped_by(Reason.MEMORY if short else Reason.TIME)
    return Answer(
        status=Status(reported.get("status", stopped)),
        placement=placement,
        bound=reported.get("bound"),
        candidates=reported.get("candidates", 0),
        left_open=tuple(reported.get("left_open", ())),
    )


def _why(code: int | None, noise: str, *, short: bool) -> str:
    """Say how a child ended."""
    if short:
        limit = f"{memory_gib():g} GiB of memory (PLACER_SOLVER_MEMORY_GIB sets the limit)"
        return f"it needs more than {limit}"
    if code is not None and code < 0:
        return f"its process ended with {signal.Signals(-code).name}"
    return noise.strip().rpartition("\n")[2].strip()[:200] or f"its process ended with code {code}"


def memory_gib() -> float:
    """Return the address space of a child in GiB; raises PlacerError below 0.25."""
    given = os.environ.get("PLACER_SOLVER_MEMORY_GIB", str(MEMORY_GIB))
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 0.25 <= value < float("inf"):
        raise PlacerError(
            f"PLACER_SOLVER_MEMORY_GIB is '{given}'",
            "give the GiB that a solver may use, from 0.25",
        )
    return value


def begin() -> dict[str, Any]:
    """Bound the memory of this process, let it end with its parent, return its job."""
    import resource

    size = int(memory_gib() * 2**30)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return job


def _end_with_parent() -> None:
    """Wait for the end of the input, which the parent keeps open, and end this process."""
    os.read(0, 1)
    os._exit(1)


def say(**words: Any) -> None:
    """Tell the parent something."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Body of the child: read a job, search, say the answer."""
    from .split import search

    job = begin()

    try:
        problem = Problem.from_dict(job["problem"])
        options = msgspec.convert(job["options"], SolveOptions)
        engine = importlib.import_module(f"placer.solvers.{job['engine']}").engine
        say(started=True)
        limit = options.memory_limit_bytes
        with bounded_address_space(limit) if limit is not None else contextlib.nullcontext():
            answer = search(problem, options, engine, say)
    except PlacerError as error:
        say(error=[error.message, error.hint, error.exit_code])
        return
    say(
        status=str(answer.status),
        placement=msgspec.to_builtins(answer.placement),
        bound=answer.bound,
        candidates=answer.candidates,
        left_open=answer.left_open,
    )
