"""The launcher: starts the machines of a run, collects their records, and always ends them."""

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
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.processes.reports import LOST, unlike_models
from placer.launch.runtime.run_plan import RunPlan, Seat, Settings
from placer.launch.shaped_network.kernel import how_ended

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
    """Processes that start together: of one world, on machine ``node`` of its ``nodes``, or of all.
    That of the run's first process serves the store at which all meet. ``prefix`` are words
    before the command, which start it in a network of its own.
    """

    seats: tuple[Seat, ...]
    node: int = 0
    nodes: int = 1
    address: str
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to start on this machine, and the store at which all meet: ``listening`` is a socket
    that listens there already.

    ``links`` are ``loopback`` (all ranks are here), ``shaped`` (here, each machine in a network of
    its own) or ``real``. ``extra`` are variables of the processes. The run ends with any of its
    ``services``, such as local object stores.
    """

    plan: RunPlan
    document: Mapping[str, Any]
    settings: Settings
    machines: tuple[Machine, ...]
    host: str
    port: int
    listening: int | None = None
    links: str
    extra: Mapping[str, str]
    services: Mapping[str, subprocess.Popen[str]] = field(default_factory=dict)


@dataclass(kw_only=True)
class _Site:
    """A machine that runs: its agent, the pipe of each process and that of the agent."""

    machine: Machine
    process: subprocess.Popen[bytes]
    pipes: list[int]
    rest: dict[int, bytes] = field(default_factory=dict)
    exit_by: float = float("inf")

    def kill(self) -> None:
        """End its processes, which are a session of their own."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Launcher:
    """The machines of one run: ``handle`` gets each record in the order of arrival."""

    def __init__(self, job: Job, handle: Callable[[Record], None]) -> None:
        self.job, self.plan, self.handle = job, job.plan, handle
        self.sites: list[_Site] = []
        self.running: list[_Site] = []
        self.selector = selectors.DefaultSelector()
        self.last: dict[tuple[str, int], Record] = {}  # record by kind and rank; the first error
        self.lost_by = float("inf")
        self.gone: set[int] = set()
        self.handed: dict[int, list[Record]] = {}  # of machines elsewhere
        self.answer: Record | None = None

    def run(self, last: Callable[[], None] = lambda: None) -> None:
        """Start all, wait for all, and call ``last`` while the store is still served.

        `PlacerError` names the rank and place that failed, and what to do.
        """
        try:
            for machine in self.job.machines:
                self.sites.append(self._started(machine))
                self.running.append(self.sites[-1])
            while self.running:
                self._look()
            last()
            if self.plan.exchange.strategy != "asgd-ga":  # gossip alone ends with unlike models
                check_models(self.plan, self._of_kind("end"))
        finally:
            self.close()

    def hand_over(self, asked: Mapping[str, Any]) -> Mapping[int, Sequence[Record]]:
        """Let the first machine here give the store ``own`` records by machine, and take from it
        those of ``others``, which it waits for; return them. It has PyTorch, which speaks to the
        store, and this process has not. `PlacerError` says why it could not.
        """
        site = self.sites[0]
        assert site.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and so its pipe
            site.process.stdin.write(json.dumps(asked).encode() + b"\n")
            site.process.stdin.flush()
        while self.answer is None and site.pipes[-1] in self.selector.get_map():
            for key, _ in self.selector.select(1.0):
                self._read(*key.data)
        if self.answer is None or self.answer["message"]:
            words = self.answer["message"] if self.answer else "its process has ended"
            raise PlacerError(
                f"machine {site.machine.seats[0].machine} handed over no records: {words}",
                "each machine has its own in the folder of --out",
                exit_code=1,
            )
        return self.handed

    def close(self) -> None:
        """End what still runs: the first machine here waits for this."""
        for site in self.sites:
            site.kill()
        for site in self.sites:
            site.process.wait()
            assert site.process.stdin is not None
            with suppress(BrokenPipeError):
                site.process.stdin.close()
            for pipe in site.pipes:
                os.close(pipe)
        self.selector.close()

    def _started(self, machine: Machine) -> _Site:
        pipes = [os.pipe() for _ in range(len(machine.seats) + 1)]
        given, job = [write for _, write in pipes], self.job
        serves, first = machine.seats[0].process == 0, machine is job.machines[0]
        listening = job.listening if serves else None
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
            "settings": asdict(job.settings),
            **asdict(machine),
            "host": job.host,
            "port": job.port,
            "serves": serves,
            "first": first,
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
        for name, process in self.job.services.items():
            if (code := process.poll()) is not None:
                words = f"{name} has ended: {how_ended(code)}"
                raise PlacerError(words, self._advice(), exit_code=1)
        wait_s = LOOK_S if self.job.services or self.lost_by < float("inf") else 1.0
        for key, _ in self.selector.select(wait_s):
            self._read(*key.data)
        now = time.monotonic()
        for site in [site for site in self.running if now > site.exit_by]:
            self.running.remove(site)
        if now > self.lost_by:
            raise self._lost_peer()

    def _read(self, site: _Site, number: int) -> None:
        """Take what is in a pipe; of the agent's own, what its workers wrote comes first."""
        pipe, agent = site.pipes[number], number == len(site.pipes) - 1
        for other in range(number) if agent else ():
            self._read(site, other)
        with suppress(BlockingIOError):
            while data := os.read(pipe, 1 << 16):
                *lines, site.rest[number] = (site.rest.get(number, b"") + data).split(b"\n")
                for line in lines:
                    self._take(site, json.loads(line))
            with suppress(KeyError):  # the agent's end has emptied the pipes of its workers
                self.selector.unregister(pipe)
            if agent and site in self.running:
                self._over(site, {"code": site.process.wait()})

    def _take(self, site: _Site, record: Record) -> None:
        kind, rank = record["kind"], record.get("rank", -1)
        if kind == "exit":
            self._over(site, record)
            return
        if kind == "handed":
            self.handed[record["machine"]] = record["records"]
            return
        if kind == "answer":
            self.answer = record
            return
        if kind != "error" or (kind, rank) not in self.last:
            self.last[kind, rank] = record
        if kind == "fault":
            self.lost_by = min(self.lost_by, time.monotonic() + NOTICE_S)
        elif kind == "end" and all(("end", s.rank) in self.last for s in site.machine.seats):
            site.exit_by = time.monotonic() + EXIT_S
        self.handle(record)

    def _of_kind(self, kind: str) -> list[Record]:
        return [record for (own, _), record in self.last.items() if own == kind]

    def _over(self, site: _Site, how: Record) -> None:
        """Note that a machine has ended; end the run if it cannot go on without."""
        if site not in self.running:
            return
        self.running.remove(site)
        seats = site.machine.seats
        missing = [s.rank for s in seats if not s.member and ("end", s.rank) not in self.last]
        if not how["code"] and not missing:
            return
        seat = seats[how.get("local", 0)]
        failed = next((s.rank for s in seats if ("error", s.rank) in self.last), seat.rank)
        error = self.last.get(("error", failed))
        if how["code"] == LOST and error is None:
            raise self._lost_peer()
        words = str(error["message"]) if error else self._how(seat, how["code"])
        step = self.last.get(("step", failed), {"step": -1})["step"] + 1
        place = self.plan.place_of(failed)
        self.handle({"kind": "lost", "rank": failed, "place": place, "step": step, "reason": words})
        if error is not None and (error["exit_code"] == 2 or not self._of_kind("step")):
            raise PlacerError(error["message"], error["hint"], exit_code=error["exit_code"])
        if not self._goes_on(seat.world, failed):
            hint = f"{error['hint']}; " if error is not None and error["hint"] else ""
            more = "; dmesg says whether memory ran out" if how["code"] == -signal.SIGKILL else ""
            where = f"{self.plan.rank_name(failed)} stopped in step {step}: {words}"
            raise PlacerError(where, f"{hint}{self._advice()}{more}", exit_code=1)

    def _goes_on(self, world: int, failed: int) -> bool:
        """End the rest of a lost world; return whether the other worlds go on without it."""
        plan = self.plan
        if plan.quorum is None or plan.engine != "torchft":
            return False
        for other in [other for other in self.running if other.machine.seats[0].world == world]:
            other.kill()
            self.running.remove(other)
        self.gone.add(world)
        left = [number for number in range(len(plan.worlds)) if number not in self.gone]
        if len(left) < plan.quorum:
            return False
        words = f"{plan.rank_name(failed)} is gone: {len(left)} workers go on"
        first = plan.worlds[left[0]][0]
        self.handle({"kind": "notice", "rank": first, "gone": failed, "message": words})
        return True

    def _how(self, seat: Seat, code: int) -> str:
        """Describe how a process ended, and of a worker of several machines on which one."""
        words = how_ended(code) if code else "ended without a word"
        count = seat.members // seat.each
        return f"machine {seat.member // seat.each} of {count}: {words}" if count > 1 else words

    def _lost_peer(self) -> PlacerError:
        """Build the error of a run in which nobody died and somebody does not answer."""
        faults = self._of_kind("fault")
        missing = {fault["rank"] for fault in faults}
        fault = next((fault for fault in faults if fault["lost"] not in missing), faults[0])
        where = f"{self.plan.rank_name(fault['lost'])} was lost in step {fault['step']}"
        return PlacerError(f"{where}: {fault['reason']}", self._advice(), exit_code=1)

    def _advice(self) -> str:
        resume = "run it again with --resume: it goes on from the last checkpoint, if there is one"
        return resume if self.job.settings.checkpoints else "run it again"


def check_models(plan: RunPlan, ends: Sequence[Mapping[str, Any]]) -> None:
    """Refuse records of ends that have different models."""
    workers = sorted((end for end in ends if end["rank"] < plan.workers), key=lambda e: e["rank"])
    for end in workers:
        if end["parameters_sha256"] != workers[0]["parameters_sha256"]:
            raise unlike_models(plan, end["rank"], workers[0]["rank"])
