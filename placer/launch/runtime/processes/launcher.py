"""The launcher: it starts the machines of a run, collects their records, and ends them, whatever
happens.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.processes.worker import LOST, unlike_models
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.seats import Seat
from placer.launch.runtime.training.context import Settings
from placer.launch.runtime.training.memory import oom_kills
from placer.launch.shaped_network import exit_text

EXIT_S = 60.0
"""Time for a machine to exit after the last record of its workers; then it is killed. A destructor
of gloo or of the user's code can hang.
"""
NOTICE_S = 5.0
"""Time for the process that died to be seen, after another one has lost it."""
LOOK_S = 0.2
"""Between two looks at the processes beside the run."""
MACHINE = ("-m", "placer.launch.runtime.processes.machine")
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Processes of one world that start together.

    Parameters
    ----------
    seats
        Of its processes.
    node, nodes
        Number among the machines of its world, and how many these are.
    address
        At which other machines reach it.
    serves
        Whether the store at which all meet is here.
    prefix
        Words before its command, which start it in a network of its own.
    """

    seats: tuple[Seat, ...]
    node: int = 0
    nodes: int = 1
    address: str
    serves: bool = False
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to start on this machine.

    Parameters
    ----------
    document
        The manifest.
    machines
        That are started here.
    host, port
        Of the store at which all meet.
    listening
        Descriptor of a socket that listens there already; None: none.
    links
        ``loopback``: all ranks are on this machine; ``shaped``: all are here, each machine in a
        network of its own; ``real``.
    extra
        Variables for the environment of the processes.
    """

    document: Mapping[str, Any]
    machines: tuple[Machine, ...]
    host: str
    port: int
    listening: int | None = None
    links: str
    extra: Mapping[str, str]


@dataclass(kw_only=True)
class _Site:
    """A machine that runs: its agent, the pipe of each process and that of the agent."""

    machine: Machine
    process: subprocess.Popen[bytes]
    pipes: list[int]
    rest: dict[int, bytes] = field(default_factory=dict)
    ended: Record | None = None
    exit_by: float = float("inf")

    @property
    def world(self) -> int:
        """Return the number of its world."""
        return self.machine.seats[0].world


class Launcher:
    """The machines of one run.

    Parameters
    ----------
    plan, settings, job
        What is run.
    handle
        Called with each record in the order of arrival.
    services
        Processes that the run needs, by name: local object stores, the relay of a rehearsal.
    """

    def __init__(
        self,
        plan: RunPlan,
        settings: Settings,
        job: Job,
        handle: Callable[[Record], None],
        services: Mapping[str, subprocess.Popen[str]] = MappingProxyType({}),
    ) -> None:
        self.plan, self.settings, self.job = plan, settings, job
        self.handle, self.services = handle, services
        self.sites: list[_Site] = []
        self.running: list[_Site] = []
        self.selector = selectors.DefaultSelector()
        self.steps: dict[int, int] = {}
        self.errors: dict[int, Record] = {}
        self.faults: dict[int, Record] = {}
        self.ends: dict[int, Record] = {}
        self.gone: set[int] = set()
        self.oom_kills = oom_kills()

    def run(self, last: Callable[[], None] = lambda: None) -> None:
        """Start all, wait for all.

        Parameters
        ----------
        last
            Is called when all have ended well, while the store is still served.

        Raises
        ------
        PlacerError
            Names the rank and place that failed and what to do, if the run could not be ended.
        """
        try:
            for machine in self.job.machines:
                self.sites.append(self._started(machine))
                self.running.append(self.sites[-1])
            while self.running:
                self._check_services()
                self._look()
            last()
            self._compare_models()
        finally:
            self.close()

    def close(self) -> None:
        """End what still runs: a machine that serves the store waits for this."""
        for site in self.sites:
            with suppress(ProcessLookupError):
                os.killpg(site.process.pid, signal.SIGKILL)
        for site in self.sites:
            site.process.wait()
            assert site.process.stdin is not None
            with suppress(BrokenPipeError):
                site.process.stdin.close()
            for pipe in site.pipes:
                self._forget(pipe)
                os.close(pipe)
        self.sites, self.running = [], []
        self.selector.close()

    def _started(self, machine: Machine) -> _Site:
        pipes = [os.pipe() for _ in range(len(machine.seats) + 1)]
        given = [write for _, write in pipes]
        job = self.job
        listening = job.listening if machine.serves else None
        process = subprocess.Popen(  # noqa: S603 - this interpreter, a document of our own
            [*machine.prefix, sys.executable, *MACHINE],
            stdin=subprocess.PIPE,
            pass_fds=(*given, *([] if listening is None else [listening])),
            start_new_session=True,  # Ctrl-C reaches the launcher, which ends all
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for write in given:
            os.close(write)
        description = {
            "manifest": job.document,
            "settings": asdict(self.settings),
            "seats": [asdict(seat) for seat in machine.seats],
            "node": machine.node,
            "nodes": machine.nodes,
            "host": job.host,
            "port": job.port,
            "address": machine.address,
            "serves": machine.serves,
            "listening": listening,
            "pipes": given,
            "environment": dict(job.extra),
        }
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: its exit says why
            process.stdin.write(json.dumps(description).encode() + b"\n")
            process.stdin.flush()
        site = _Site(machine=machine, process=process, pipes=[read for read, _ in pipes])
        for number, read in enumerate(site.pipes):
            os.set_blocking(read, False)
            self.selector.register(read, selectors.EVENT_READ, (site, number))
        return site

    def _look(self) -> None:
        """Take the records that have come; see who has ended, or must by now."""
        wait_s = LOOK_S if self.services or self.faults else 1.0
        for key, _ in self.selector.select(wait_s):
            site, number = key.data
            if site in self.running:
                self._read(site, number)
            else:
                self._forget(site.pipes[number])
        now = time.monotonic()
        for site in [site for site in self.running if now > site.exit_by]:
            self._over(site, 0)
        if any(now > fault["until"] for fault in self.faults.values()):
            raise self._lost_peer()

    def _read(self, site: _Site, number: int) -> None:
        """Take what is in a pipe; of the agent's own, what its workers wrote comes first."""
        agent = number == len(site.pipes) - 1
        for other in range(number) if agent else ():
            self._read(site, other)
        pipe, ended = site.pipes[number], False
        while True:
            try:
                data = os.read(pipe, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                ended = True
                self._forget(pipe)
                break
            *lines, rest = (site.rest.get(number, b"") + data).split(b"\n")
            site.rest[number] = rest
            for line in lines:
                self._take(site, json.loads(line))
        if agent and ended and site in self.running:
            self._over(site, site.process.wait())

    def _forget(self, pipe: int) -> None:
        """Look at a pipe no more. It may be forgotten already: the agent's end empties the pipes of
        its workers, whose own events are still in the same round of events.
        """
        with suppress(KeyError):
            self.selector.unregister(pipe)

    def _take(self, site: _Site, record: Record) -> None:
        kind, rank = record["kind"], record.get("rank", -1)
        if kind == "ended":
            site.ended = record
            return
        if kind == "exit":
            self._over(site, record["code"])
            return
        if kind == "step":
            self.steps[rank] = record["step"]
        elif kind == "end":
            self.ends[rank] = record
            if all(seat.rank in self.ends for seat in site.machine.seats):
                site.exit_by = time.monotonic() + EXIT_S
        elif kind == "error":
            self.errors.setdefault(rank, record)
        elif kind == "fault":
            self.handle({**record})
            self.faults[rank] = {**record, "until": time.monotonic() + NOTICE_S}
            return
        self.handle(record)

    def _over(self, site: _Site, code: int) -> None:
        """Note that a machine has ended; end the run if that is a failure without which it cannot
        go on.
        """
        self.running.remove(site)
        ranks = dict.fromkeys(seat.rank for seat in site.machine.seats)
        missing = [rank for rank in ranks if rank not in self.ends and self._first_is_here(rank)]
        if not code and not missing:
            return
        seat = site.machine.seats[site.ended["local"] if site.ended else 0]
        failed = next((rank for rank in ranks if rank in self.errors), seat.rank)
        if site.ended is not None and site.ended["code"] == LOST and failed not in self.errors:
            raise self._lost_peer()
        words = self._how(site, failed, code)
        step = self.steps.get(failed, -1) + 1
        place = self.plan.place_of(failed)
        self.handle({"kind": "lost", "rank": failed, "place": place, "step": step, "reason": words})
        if not self._goes_on(site, failed):
            raise self._failure(failed, step, words)

    def _first_is_here(self, rank: int) -> bool:
        """Return whether the process that reports for a rank was started here."""
        return any(
            seat.rank == rank and seat.member == 0
            for machine in self.job.machines
            for seat in machine.seats
        )

    def _goes_on(self, site: _Site, failed: int) -> bool:
        """End the rest of a lost world; return whether the other worlds go on without it."""
        plan = self.plan
        wrong = self.errors.get(failed, {}).get("exit_code") == 2
        if plan.quorum is None or plan.engine != "torchft" or wrong:
            return False
        for other in [other for other in self.running if other.world == site.world]:
            with suppress(ProcessLookupError):
                os.killpg(other.process.pid, signal.SIGKILL)
            self.running.remove(other)
        self.gone.add(site.world)
        left = len(plan.worlds) - len(self.gone)
        if left < plan.quorum:
            return False
        words = f"{plan.rank_name(failed)} is gone: {left} workers go on"
        first = next(w for w in range(len(plan.worlds)) if w not in self.gone)
        self.handle(
            {"kind": "notice", "rank": plan.worlds[first][0], "gone": failed, "message": words}
        )
        return True

    def _how(self, site: _Site, failed: int, code: int) -> str:
        """Describe how a process ended, and of a worker of several which one it was."""
        if failed in self.errors:
            return str(self.errors[failed]["message"])
        seat = site.machine.seats[site.ended["local"] if site.ended else 0]
        code = site.ended["code"] if site.ended else code
        short = oom_kills() - self.oom_kills if code == -signal.SIGKILL else 0
        words = exit_text.how_ended(code) if code else "ended without a word"
        words += " when the kernel ran out of memory" if short > 0 else ""
        count = seat.members // seat.each
        return f"machine {seat.member // seat.each} of {count}: {words}" if count > 1 else words

    def _lost_peer(self) -> PlacerError:
        """Build the error of a run in which nobody died and somebody does not answer."""
        ranks = [r for r in self.faults if self.faults[r]["lost"] not in self.faults]
        fault = self.faults[ranks[0] if ranks else next(iter(self.faults))]
        where = f"{self.plan.rank_name(fault['lost'])} was lost in step {fault['step']}"
        return PlacerError(f"{where}: {fault['reason']}", self._advice(), exit_code=1)

    def _failure(self, failed: int, step: int, words: str) -> PlacerError:
        error = self.errors.get(failed)
        if error is not None and (error["exit_code"] == 2 or not self.steps):
            return PlacerError(error["message"], error["hint"], exit_code=error["exit_code"])
        where = f"{self.plan.rank_name(failed)} stopped in step {step}: {words}"
        first = f"{error['hint']}; " if error is not None and error["hint"] else ""
        return PlacerError(where, f"{first}{self._advice()}", exit_code=1)

    def _advice(self) -> str:
        if self.settings.checkpoints:
            return (
                "run it again with --resume: it goes on from the last checkpoint, if there is one"
            )
        return "run it again"

    def _check_services(self) -> None:
        """Raise at once if a process has ended that the run depends on."""
        for name, process in self.services.items():
            code = process.poll()
            if code is not None:
                words = f"{name} has ended: {exit_text.how_ended(code)}"
                raise PlacerError(words, self._advice(), exit_code=1)

    def _compare_models(self) -> None:
        """Refuse a run whose workers end with different models: gossip alone may."""
        if self.plan.exchange.strategy != "asgd-ga":
            check_models(self.plan, list(self.ends.values()))


def check_models(plan: RunPlan, ends: Sequence[Mapping[str, Any]]) -> None:
    """Refuse records of ends that have different models.

    Raises
    ------
    PlacerError
        Names two ranks that differ; exit code 1.
    """
    workers = sorted((end for end in ends if end["rank"] < plan.workers), key=lambda e: e["rank"])
    for end in workers:
        if end["parameters_sha256"] != workers[0]["parameters_sha256"]:
            raise unlike_models(plan, end["rank"], workers[0]["rank"])
