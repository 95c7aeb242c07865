"""The launcher: it starts the processes of a run on this machine, collects their records, and ends
them, whatever happens.
"""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.util
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any

from placer.errors import PlacerError
from placer.files.whole_files import temporary_folder, temporary_parent
from placer.launch.runtime.island.seats import Seat
from placer.launch.runtime.processes.peer_loss import RESCUE
from placer.launch.runtime.processes.rank_process import FAILED, GATHER_S, LOST, main
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.strategies import executed
from placer.launch.runtime.training.context import Settings
from placer.launch.runtime.training.memory import oom_kills
from placer.launch.shaped_network import exit_text
from placer.market.sources.reading.web_address import LOOPBACK_INTERFACE, is_loopback

EXIT_S = 60.0
"""Time for a rank to exit after its last record; then it is killed. A destructor of gloo or of the
user's code can hang: see `placer.launch.runtime.processes.rank_process`.
"""
GRACE_S = 10.0
"""Least time for the others to notice that one is lost; see `Launcher._notice_s`."""
RESCUE_S = 600.0
"""Time for the others to write a checkpoint once they have noticed; then they are ended."""
LONGEST_PARENT = 44
"""Characters: the name of a socket has at most 104, and that of the server adds 60."""
SHORT_PARENT = "/tmp"  # noqa: S108 - the folder that is made there has a random name
"""Where a longer name is given."""
AFTER_ITS_FOLDER = -200
"""Of what multiprocessing does at exit: it removes its own folder with priority -100."""
LOOK_S = 0.2
"""Between two looks at the processes beside the run."""
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The processes to start on this machine.

    Parameters
    ----------
    document
        The manifest.
    seats
        The processes of this machine.
    host, port
        Of the store at which all meet.
    serves
        Whether process 0 serves that store (else it is there already).
    links
        ``loopback``: all ranks are on this machine; ``shaped``: all are here, each in a network of
        its own; ``real``.
    extra
        Variables for the environment of the processes.
    network
        Process to an entry of `placer.launch.shaped_network.ShapedNetwork`, for processes that join
        such a network.
    """

    document: Mapping[str, Any]
    seats: tuple[Seat, ...]
    host: str
    port: int
    serves: bool
    links: str
    extra: Mapping[str, str]
    network: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


class Launcher:
    """The processes of one run.

    Parameters
    ----------
    plan, settings, job
        What is run.
    store
        The run's store where this process serves it, else None: tells the others who died.
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
        store: Any,
        handle: Callable[[Record], None],
        services: Mapping[str, subprocess.Popen[str]] = MappingProxyType({}),
    ) -> None:
        self.services = services
        self.plan, self.settings, self.job, self.store, self.handle = (
            plan,
            settings,
            job,
            store,
            handle,
        )
        self.seats = {seat.process: seat for seat in job.seats}
        self.felled: set[int] = set()
        self.processes: dict[int, BaseProcess] = {}
        self.alive: dict[int, Connection] = {}
        self.queue: SimpleQueue[tuple[int, Record | None]] = SimpleQueue()
        self.steps: dict[int, int] = {}
        self.faults: dict[int, Record] = {}
        self.ended: set[int] = set()
        self.gone: set[int] = set()
        self.lost: list[tuple[int, str]] = []
        self.rescuing: set[int] = set()
        self.exit_by: dict[int, float] = {}
        self.overdue: set[int] = set()
        self.oom_kills = oom_kills()

    @property
    def _gathers(self) -> bool:
        """Return whether rank 0 collects the records of other machines."""
        return len(self._led) < self.plan.ranks

    @property
    def _led(self) -> list[int]:
        """List the workers and hubs whose first process is on this machine."""
        return [seat.rank for seat in self.job.seats if seat.member == 0]

    @property
    def _notice_s(self) -> float:
        """Return the seconds for the others to notice a loss: as long as everywhere in a run a peer
        may be silent. They notice in their next exchange, which comes after a calculation, and on a
        busy machine late.
        """
        return max(GRACE_S, self.settings.timeout_s)

    def run(self) -> None:
        """Start all, wait for all.

        Raises
        ------
        PlacerError
            Names the rank and place that failed and what to do, if the run could not be ended.
        """
        try:
            for seat in self.job.seats:
                self._start(seat)
            self._collect()
        finally:
            self.end()

    def end(self) -> None:
        """End what still runs."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.join()
        for pipe in self.alive.values():
            pipe.close()

    def _start(self, seat: Seat) -> None:
        process_number = seat.process
        network = self.job.network.get(process_number)
        loop = (
            {"GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE}
            if network is None and is_loopback(self.job.host)
            else {}
        )
        card = {} if network is None else {"GLOO_SOCKET_IFNAME": str(network["interface"])}
        description = {
            "manifest": self.job.document,
            "settings": asdict(self.settings),
            "seat": asdict(seat),
            "store": [self.job.host, self.job.port, self.job.serves and process_number == 0],
            "gather": self._gathers,
            "here": self._led,
            "card": [self.job.seats.index(seat), len(self.job.seats)],
            "extra": {**loop, **card, **self.job.extra},
            "network": network,
        }
        template = _template()
        records, theirs = template.Pipe(duplex=False)
        alive, mine = template.Pipe(duplex=False)
        process = template.Process(
            target=main,
            args=(description, theirs, alive),
            name=f"placer rank {process_number}",
            daemon=True,
        )
        process.start()
        theirs.close()
        alive.close()
        self.processes[process_number], self.alive[process_number] = process, mine
        threading.Thread(
            target=self._listen, args=(process_number, process, records), daemon=True
        ).start()

    def _listen(self, number: int, process: BaseProcess, records: Connection) -> None:
        while True:
            try:
                self.queue.put((number, json.loads(records.recv_bytes())))
            except (
                EOFError,
                OSError,
                ValueError,
            ):  # the end, or cut off where the process was killed
                break
        process.join()
        self.queue.put((number, None))

    def _collect(self) -> None:
        """Take records until all processes have ended; after a loss that ends the run, only until
        the others have had time to notice it, and to write the checkpoint that they begin then.
        """
        running, until = set(self.seats), float("inf")
        while running:
            self._check_services()
            self._kill_overdue(running)
            end_by = until + (RESCUE_S if self.rescuing & running else 0.0)
            try:
                number, record = self.queue.get(
                    timeout=min(
                        LOOK_S if self.services else 1.0, max(0.01, end_by - time.monotonic())
                    )
                )
            except Empty:
                if time.monotonic() > end_by:
                    break
                continue
            if record is not None:
                self._take(number, record)
                continue
            running.discard(number)
            self._fell_island(number)
            lost = self._lost_with(number, running)
            if lost is not None and not self._goes_on(lost, running):
                until = min(until, time.monotonic() + self._notice_s)
            if running and {self.seats[other].rank for other in running} <= self._silent(until):
                break
        if until != float("inf"):
            self._check_services()  # what ended the ranks
            raise self._failure()

    def _fell_island(self, number: int) -> None:
        """End an island as a whole when one of its processes has failed on its own. One that only
        lost another island keeps a checkpoint with the rest first.
        """
        if not self._is_loss(number) or self._exit_code(number) == LOST or number in self.felled:
            return
        for other in self._island(number):
            if other != number and self.processes[other].exitcode is None:
                self.felled.add(other)
                self.processes[other].kill()

    def _lost_with(self, number: int, running: set[int]) -> int | None:
        """Return the process that stands for the loss of a worker, when the last of its processes
        has ended; None: nothing is lost, or not yet known. One that failed on its own comes first.
        """
        island = self._island(number)
        if running & set(island):
            return None
        lost = [one for one in island if self._is_loss(one) and one not in self.felled]
        return min(lost, key=lambda one: (self._exit_code(one) == LOST, one), default=None)

    def _island(self, number: int) -> list[int]:
        """List the processes of a worker that are on this machine."""
        rank = self.seats[number].rank
        return [other for other, seat in self.seats.items() if seat.rank == rank]

    def _kill_overdue(self, running: set[int]) -> None:
        """Kill processes that hang in exit; their last record stands for their exit code."""
        for number in running - self.overdue:
            if time.monotonic() > self.exit_by.get(number, float("inf")):
                self.overdue.add(number)
                self.processes[number].kill()

    def _check_services(self) -> None:
        """Raise at once if a process has ended that the run depends on."""
        for name, process in self.services.items():
            code = process.poll()
            if code is not None:
                raise PlacerError(
                    f"{name} has ended: {exit_text.how_ended(code)}", self._advice(), exit_code=1
                )

    def _silent(self, until: float) -> set[int]:
        """Return the ranks that the others have given up, so that nobody waits for them."""
        accused = (
            {fault["lost"] for fault in self.faults.values() if fault["kind"] == "fault"}
            if until != float("inf")
            else set()
        )
        return self.gone | accused

    def _take(self, number: int, record: Record) -> None:
        if record["kind"] == RESCUE:  # between the processes of a run: no line of its log
            self.rescuing.add(number)
            return
        if record["kind"] == "fault":
            self.rescuing.discard(number)
        own = record["kind"] in ("end", "error", "fault")
        if own and record["rank"] == self.seats[number].rank:
            gather_s = self.settings.join_s + GATHER_S if self._gathers else 0.0
            for one in self._island(number):
                self.exit_by.setdefault(one, time.monotonic() + EXIT_S + gather_s)
        if record["kind"] == "step":
            self.steps[record["rank"]] = record["step"]
        elif record["kind"] == "end":
            self.ended.add(record["rank"])
        elif record["kind"] == "notice":
            self.gone.add(record["gone"])
        elif record["kind"] == "back":
            self.gone.discard(record["rank"])
        elif record["kind"] in ("error", "fault"):
            self.faults[number] = record
        self.handle(record)

    def _is_loss(self, number: int) -> bool:
        seat = self.seats[number]
        silent = seat.member == 0 and seat.rank not in self.ended
        return self._exit_code(number) != 0 or silent

    def _exit_code(self, number: int) -> int:
        """Return how a process ended; for one that was killed in exit, how it was about to end."""
        code, fault = self.processes[number].exitcode or 0, self.faults.get(number)
        if number not in self.overdue or (fault is None and self._gathers):
            return code
        return 0 if fault is None else LOST if fault["kind"] == "fault" else FAILED

    def _goes_on(self, number: int, running: set[int]) -> bool:
        """Record a lost worker, tell the others, and return whether they can go on without it."""
        rank, words = self.seats[number].rank, self._how(number)
        self.lost.append((number, words))
        self.handle(
            {
                "kind": "lost",
                "rank": rank,
                "place": self.plan.place_of(rank),
                "step": self._step(rank),
                "reason": words,
            }
        )
        if self.store is not None:
            self.store.set(f"dead/{rank}", "1")
        there = (*(self.seats[other].rank for other in running), *self.ended)
        workers = {other for other in there if other < self.plan.workers}
        wrong = (
            self.faults.get(number, {}).get("kind") == "error"
            and self.faults[number].get("exit_code") == 2
        )
        if self.plan.quorum is not None:
            return len(workers) >= self.plan.quorum and not wrong
        return (
            self.settings.elastic
            and executed(self.plan).ELASTIC
            and rank < self.plan.workers
            and bool(workers)
            and not wrong
        )

    def _how(self, number: int) -> str:
        """Describe how a process ended, and of an island which one it was."""
        seat = self.seats[number]
        where = f"machine {seat.island_machine} of {seat.machines}" if seat.members > 1 else ""
        words = self._ending(number)
        return f"{where}: {words}" if where and self._exit_code(number) != LOST else words

    def _ending(self, number: int) -> str:
        code, fault = self._exit_code(number), self.faults.get(number)
        if fault is not None and fault["kind"] == "error":
            return str(fault["message"])
        if code == LOST and fault is not None:
            return f"lost {self.plan.rank_name(fault['lost'])}: {fault['reason']}"
        short = oom_kills() - self.oom_kills if code == -signal.SIGKILL else 0
        return exit_text.how_ended(code) + (
            " when the kernel ran out of memory" if short > 0 else ""
        )

    def _step(self, rank: int) -> int:
        """Return the step that a rank was in."""
        return self.steps.get(rank, -1) + 1

    def _failure(self) -> PlacerError:
        """Build the error of the one cause: a rank that failed on its own comes before those that
        only lost a peer.
        """
        own = [(number, words) for number, words in self.lost if self._exit_code(number) != LOST]
        if own:
            number, words = own[0]
            rank, error = self.seats[number].rank, self.faults.get(number, {})
            if error.get("kind") == "error" and (error["exit_code"] == 2 or not self.steps):
                return PlacerError(error["message"], error["hint"], exit_code=error["exit_code"])
            where = f"{self.plan.rank_name(rank)} stopped in step {self._step(rank)}: {words}"
            first = f"{error['hint']}; " if error.get("hint") else ""
            return PlacerError(where, f"{first}{self._advice()}", exit_code=1)
        fault = self.faults.get(self.lost[0][0], {})
        lost = fault.get("lost", self.seats[self.lost[0][0]].rank)
        where = (
            f"{self.plan.rank_name(lost)} was lost in step {fault.get('step', self._step(lost))}: "
            f"{fault.get('reason', self.lost[0][1])}"
        )
        return PlacerError(where, self._advice(), exit_code=1)

    def _advice(self) -> str:
        rescued = [
            fault["checkpoint"]
            for fault in self.faults.values()
            if fault.get("checkpoint") is not None
        ]
        elastic = (
            ""
            if self.settings.elastic or not executed(self.plan).ELASTIC
            else "; --elastic goes on without a worker"
        )
        if rescued and self._gathers:
            words = (
                f"from the newest checkpoint that all have; here is one before step {max(rescued)}"
            )
            return f"run all ranks again with --resume: they go on {words}{elastic}"
        if rescued:
            return f"run it again with --resume: it goes on before step {max(rescued)}{elastic}"
        if self.settings.checkpoints:
            return (
                f"run it again with --resume: it goes on from the last checkpoint, if there is "
                f"one{elastic}"
            )
        return f"run it again{elastic}"


@cache
def _template() -> Any:
    """Return the context that forks ranks from a server with PyTorch loaded, so that each starts at
    once. The server ends with this process.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    _own_temporary_folder()
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["placer.launch.runtime.processes.preload"])
    return made


def _own_temporary_folder() -> None:
    """Let multiprocessing make its folder (``pymp-*``, with the socket of the server) in one that
    the next run removes if this process is killed.
    """
    given = temporary_parent()
    before, stack = tempfile.tempdir, ExitStack()
    try:
        tempfile.tempdir = given if len(given) <= LONGEST_PARENT else SHORT_PARENT
        tempfile.tempdir = str(stack.enter_context(temporary_folder("run")))
        multiprocessing.util.get_temp_dir()
    except OSError:  # multiprocessing itself says what is wrong with the folder
        return
    finally:
        tempfile.tempdir = before
    multiprocessing.util.Finalize(None, stack.close, exitpriority=AFTER_ITS_FOLDER)
