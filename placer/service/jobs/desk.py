"""The desk where jobs are handed in, followed, cancelled and taken out."""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from placer.errors import PlacerError
from placer.records import Json
from placer.service.jobs.store import Job, State, Store
from placer.service.problems import DISK_HINT, FullError, GateError, problem_of, refused
from placer.service.questions.body import check_verb, question_of
from placer.service.settings import Settings
from placer.service.working.messages import Better, Outcome, Reply
from placer.service.working.pool import Pool

MOST_ATTEMPTS = 2
"""A job that was running when the service ended is tried so often: it may be what ended it."""
PRUNE_EVERY_S = 600.0
LOG = logging.getLogger("placer.service")
T = TypeVar("T")
Event = tuple[str, dict[str, Any]]


@dataclass(eq=False, kw_only=True)
class _Running:
    """What is known of an unfinished job beside its row."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    best: dict[str, Any] | None = None
    listeners: set[asyncio.Queue[Event]] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    def say(self, kind: str, data: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.put_nowait((kind, data))


class Desk:
    """The jobs of a service: kept in a file, handed to the pool, told to whoever listens."""

    def __init__(self, settings: Settings, pool: Pool, store: Store) -> None:
        self.settings = settings
        self._pool = pool
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jobs")
        self._running: dict[str, _Running] = {}
        self._listeners = 0
        self._pruner: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Hand in again what the service had accepted when it ended."""
        self._loop = asyncio.get_running_loop()
        for job in await self._kept(self._store.unfinished):
            if job.state is State.RUNNING and job.attempts >= MOST_ATTEMPTS:
                problem = problem_of(
                    "interrupted",
                    f"the service ended {job.attempts} times while it worked on this job",
                    "ask for less: a smaller time_limit, fewer places",
                )
                await self._finish(job.id, State.INTERRUPTED, problem, {})
            else:
                self._hand_in(job.id, job.verb, job.words)
        self._pruner = asyncio.create_task(self._prune())

    async def stop(self) -> None:
        """Leave running jobs as they are: the next service runs them again."""
        self._stopping.set()
        tasks = [one.task for one in self._running.values() if one.task is not None]
        for task in filter(None, (*tasks, self._pruner)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._thread.shutdown(wait=True)
        self._store.close()

    def end_listening(self) -> None:
        """End all streams of events, so that a shutdown need not wait for them; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_listening)

    def _end_listening(self) -> None:
        self._stopping.set()
        for one in self._running.values():
            one.say("end", {})

    async def _kept(self, act: Callable[[], T]) -> T:
        """Do something with the file in the one thread that may."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    async def submit(self, verb: str, words: Json) -> Job:
        """Accept a job: it is in the file when this returns.

        Raise `PlacerError` if the question is wrong; nothing is kept of it. Raise `GateError` if
        too many jobs are unfinished, or the disk is full.
        """
        question_of(check_verb(verb), words, self.settings.job_seconds)
        if len(self._running) >= self.settings.most_jobs:
            raise FullError(self._pool.retry_after_s())
        id_ = secrets.token_urlsafe(16)
        self._running[id_] = _Running()  # counted before the file is written
        try:
            await self._kept(lambda: self._store.add(id_, verb, words))
        except BaseException as error:
            del self._running[id_]
            if not isinstance(error, sqlite3.Error):
                raise
            LOG.error("a job cannot be kept: %s", error)
            raise GateError("disk", f"the job cannot be kept: {error}", DISK_HINT) from None
        self._hand_in(id_, verb, words)
        job = await self.get(id_)
        assert job is not None
        return job

    def _hand_in(self, id_: str, verb: str, words: Json) -> None:
        running = self._running.setdefault(id_, _Running())
        running.task = asyncio.create_task(self._run(id_, verb, words, running))

    def _begin(self, id_: str) -> None:
        try:
            self._store.begin(id_)
        except sqlite3.Error as error:
            LOG.error("job %s begins, which cannot be kept: %s", id_, error)

    async def _run(self, id_: str, verb: str, words: Json, running: _Running) -> None:

        def begun() -> None:
            self._thread.submit(self._begin, id_)
            running.say("state", {"state": str(State.RUNNING)})

        def tell(better: Better) -> None:
            running.best = better.to_dict()
            running.say("better", running.best)

        try:
            question = question_of(check_verb(verb), words, self.settings.job_seconds)
            reply = await self._pool.ask(
                question, running.cancelled, is_job=True, tell=tell, begun=begun
            )
        except PlacerError as error:  # the book that it names may be gone since
            reply = Reply(outcome=Outcome.REFUSED, message=error.message, hint=error.hint)
        state = State.DONE if reply.outcome is Outcome.ANSWERED else State.FAILED
        ended = reply.outcome is Outcome.ANSWERED and running.cancelled.is_set()
        if ended or reply.outcome is Outcome.CANCELLED:
            state = State.CANCELLED
        silent = reply.document or reply.outcome is Outcome.CANCELLED
        parts = {"document": reply.document, "manifest": reply.manifest}
        problem = None if silent else refused(reply)
        state = await self._finish(id_, state, problem, parts)
        del self._running[id_]
        running.say("done", {"state": str(state)})

    async def _finish(
        self, id_: str, state: State, problem: Json | None, parts: dict[str, bytes]
    ) -> State:
        """Keep how a job ended. Where the disk is full, the job has failed: its slot is freed, and
        no service runs it again.
        """
        if problem is not None and problem["status"] >= 500:
            LOG.warning("job %s has no answer: %s", id_, problem["detail"])
        try:
            await self._kept(partial(self._store.finish, id_, state, **parts, problem=problem))
            return state
        except sqlite3.Error as error:
            LOG.error("job %s ended, and its answer cannot be kept: %s", id_, error)
        try:
            await self._kept(partial(self._store.fail, id_))
        except sqlite3.Error as error:
            LOG.error("job %s failed, which cannot be kept: %s", id_, error)
        return State.FAILED

    async def get(self, id_: str) -> Job | None:
        """Return a job; None if there is none of that name."""
        return await self._kept(lambda: self._store.get(id_))

    async def part(self, id_: str, name: str) -> bytes | None:
        """Return the ``document`` or the ``manifest`` of a job; None without."""
        return await self._kept(lambda: self._store.part(id_, name))

    def best(self, id_: str) -> dict[str, Any] | None:
        """Return the best so far of an unfinished job."""
        running = self._running.get(id_)
        return None if running is None else running.best

    def is_running(self, id_: str) -> bool:
        """Tell whether a job is unfinished."""
        return id_ in self._running

    async def cancel(self, id_: str) -> None:
        """End an unfinished job with the best so far, or forget a finished one."""
        running = self._running.get(id_)
        if running is not None:
            running.cancelled.set()
        else:
            await self._kept(lambda: self._store.remove(id_))

    @asynccontextmanager
    async def listening(self, id_: str) -> AsyncIterator[asyncio.Queue[Event] | None]:
        """Hear what becomes of a job; None if it is finished. `FullError` if too many listen."""
        running = self._running.get(id_)
        if running is None:
            yield None
            return
        if self._listeners >= self.settings.most_listeners:
            raise FullError(self._pool.retry_after_s())
        queue: asyncio.Queue[Event] = asyncio.Queue()
        self._listeners += 1
        running.listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners -= 1
            running.listeners.discard(queue)

    @property
    def stopping(self) -> bool:
        """Whether the service is ending."""
        return self._stopping.is_set()

    async def _prune(self) -> None:
        while True:
            limits = self.settings.keep_s, self.settings.most_kept
            try:
                await self._kept(partial(self._store.prune, *limits))
            except sqlite3.Error as error:
                LOG.error("old jobs cannot be removed: %s", error)
            await asyncio.sleep(PRUNE_EVERY_S)
