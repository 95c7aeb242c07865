"""The queue of questions, and the workers that answer them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from placer.market.books.folders import own_books
from placer.market.books.layers import pin_file
from placer.service.problems import FullError
from placer.service.settings import Settings
from placer.service.telemetry import Metrics, span, tracer
from placer.service.working.messages import Better, Book, Outcome, Question, Reply
from placer.service.working.worker import CANCEL, GoneError, Worker

LOG = logging.getLogger("placer.service")
AFTER_FAILURE_S = (0.2, 1.0, 5.0, 30.0)
"""Pauses before a worker is started again that does not come up, or ends at once."""
LOOK_EVERY_S = 10.0
"""How often the folder of books is looked at."""
MOST_RETRY_S = 60
TURN = 4
"""Of so many free workers one goes to a waiting job, where questions wait too."""


@dataclass(eq=False, kw_only=True)
class Ticket:
    """A question that waits or is worked on."""

    question: Question
    is_job: bool
    tell: Callable[[Better], None]
    begun: Callable[[], None]
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    reply: asyncio.Future[Reply]
    is_retried: bool = False


class Pool:
    """Workers and the two queues in front of them: questions whose asker waits, and jobs. Of
    several workers one is always left for questions whose asker waits.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        tracer()  # says at once what is missing
        self.settings = settings
        self.metrics = metrics
        self.books: tuple[Book, ...] = ()
        self.problem = "no worker has started yet"
        self.ready = 0
        self._waiting: deque[Ticket] = deque()
        self._jobs: deque[Ticket] = deque()
        self._jobs_running = 0
        self._turn = 0
        self._mean_s = 1.0
        self._generation = 0
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers; `ready` counts those that have read their books."""
        self._tasks = [asyncio.create_task(self._keep()) for _ in range(self.settings.workers)]
        self._tasks.append(asyncio.create_task(self._watch_books()))

    async def stop(self) -> None:
        """End all workers, whatever they do."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for ticket in (*self._waiting, *self._jobs):
            ticket.reply.cancel()

    async def ask(
        self,
        question: Question,
        cancelled: asyncio.Event,
        *,
        is_job: bool = False,
        tell: Callable[[Better], None] = lambda better: None,
        begun: Callable[[], None] = lambda: None,
    ) -> Reply:
        """Have a question answered; `FullError` if too many wait.

        cancelled: Ends the search with the best so far when it is set.
        is_job: Jobs wait in a queue of their own, which is as long as its owner allows.
        tell, begun: Called for each better placement, and when a worker takes the question.
        """
        if not is_job and len(self._waiting) >= self.settings.waiting:
            raise FullError(self.retry_after_s())
        ticket = Ticket(
            question=question,
            is_job=is_job,
            tell=tell,
            begun=begun,
            cancelled=cancelled,
            reply=asyncio.get_running_loop().create_future(),
        )
        (self._jobs if is_job else self._waiting).append(ticket)
        self._count()
        await self._notify()
        leaver = asyncio.create_task(self._leave(ticket))
        with span(question.name) as note:
            try:
                reply = await ticket.reply
            finally:
                leaver.cancel()
            note({"outcome": str(reply.outcome), "worker_s": reply.seconds})
            if reply.gap is not None:
                note({"gap": reply.gap})
        return reply

    async def _leave(self, ticket: Ticket) -> None:
        """Take a question out of its queue when it is cancelled before anybody works on it."""
        await ticket.cancelled.wait()
        queue = self._jobs if ticket.is_job else self._waiting
        if ticket in queue:
            queue.remove(ticket)
            self._count()
            ticket.reply.set_result(Reply(outcome=Outcome.CANCELLED))

    def retry_after_s(self) -> int:
        """Guess the seconds until half of the queue is worked off."""
        wait_s = self._mean_s * max(1, len(self._waiting)) / 2 / self.settings.workers
        return min(MOST_RETRY_S, max(1, math.ceil(wait_s)))

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _count(self) -> None:
        self.metrics.waiting(len(self._waiting), len(self._jobs))

    async def _keep(self) -> None:
        """Keep one worker running: start it, hand it questions, replace it when it is gone."""
        failures = 0
        while True:
            generation, worker = self._generation, Worker(self.settings)
            try:
                ready = await worker.ready()
                if ready.problem:
                    self.problem = ready.problem
                    raise GoneError
                self.books, failures = ready.books, 0
                await self._serve(worker, generation)
            except GoneError:
                failures += 1
                self.metrics.lost()
            finally:
                await worker.end()
            if failures:
                await asyncio.sleep(AFTER_FAILURE_S[min(failures, len(AFTER_FAILURE_S)) - 1])

    async def _serve(self, worker: Worker, generation: int) -> None:
        """Hand questions to a worker until it is worn, ended or replaced."""
        self.ready += 1
        try:
            while True:
                ticket = await self._next(generation)
                if ticket is None:
                    return
                try:
                    reply = await self._answered(worker, ticket)
                except GoneError:
                    self._lose(worker, ticket)
                    raise
                finally:
                    if ticket.is_job:
                        self._jobs_running -= 1
                        await self._notify()
                self._settle(ticket, reply)
                if reply.worn or reply.outcome is Outcome.STOPPED:
                    return
        finally:
            self.ready -= 1

    def _lose(self, worker: Worker, ticket: Ticket) -> None:
        """Ask once more what a worker did not live to answer: twice, it may be the cause."""
        worker.process.join(1)
        words = "worker %s ended with code %s while it worked on %s"
        LOG.warning(words, worker.process.pid, worker.process.exitcode, ticket.question.name)
        if ticket.is_retried or ticket.cancelled.is_set():
            self._settle(ticket, Reply(outcome=Outcome.FAILED))
            return
        ticket.is_retried = True
        (self._jobs if ticket.is_job else self._waiting).appendleft(ticket)
        self._count()

    def _settle(self, ticket: Ticket, reply: Reply) -> None:
        if reply.seconds:
            self._mean_s += 0.1 * (reply.seconds - self._mean_s)
        self.metrics.answered(ticket.question.name, reply)
        if not ticket.reply.done():
            ticket.reply.set_result(reply)

    async def _next(self, generation: int) -> Ticket | None:
        async with self._changed:
            while True:
                if generation != self._generation:
                    return None
                ticket = self._take()
                if ticket is not None:
                    self._count()
                    return ticket
                await self._changed.wait()

    def _take(self) -> Ticket | None:
        may_run = self._jobs_running < max(1, self.settings.workers - 1)
        self._turn += 1
        if self._jobs and may_run and (not self._waiting or self._turn % TURN == 0):
            self._jobs_running += 1
            return self._jobs.popleft()
        return self._waiting.popleft() if self._waiting else None

    async def _answered(self, worker: Worker, ticket: Ticket) -> Reply:
        """Have a worker answer, and pass on what it tells; it is stopped when it overruns."""
        loop = asyncio.get_running_loop()
        if not ticket.is_retried:
            ticket.begun()
        await worker.send(ticket.question)
        started = loop.time()
        deadline = started + ticket.question.longest_s + self.settings.grace_s
        cancelling: asyncio.Task[bool] | None = asyncio.create_task(ticket.cancelled.wait())
        hearing = asyncio.create_task(worker.heard())
        try:
            while True:
                waited = {*filter(None, (hearing, cancelling))}
                done, _ = await asyncio.wait(
                    waited, timeout=deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED
                )
                if hearing in done:
                    message = hearing.result()
                    if isinstance(message, Reply):
                        return message
                    ticket.tell(message)
                    hearing = asyncio.create_task(worker.heard())
                elif cancelling in done:
                    cancelling = None
                    await worker.send(CANCEL)
                    deadline = min(deadline, loop.time() + self.settings.grace_s)
                elif loop.time() >= deadline:
                    outcome = Outcome.CANCELLED if cancelling is None else Outcome.STOPPED
                    # The process still works on it: it is ended in either case.
                    return Reply(outcome=outcome, seconds=loop.time() - started, worn=True)
        finally:
            for task in filter(None, (hearing, cancelling)):
                task.cancel()

    async def _watch_books(self) -> None:
        """Replace every worker when it is idle and a book has changed: new ones read it anew."""
        seen = await asyncio.to_thread(books_mark)
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = await asyncio.to_thread(books_mark)
            if now != seen:
                seen = now
                self._generation += 1
                await self._notify()


def books_mark() -> tuple[tuple[str, int, int], ...]:
    """Return what tells whether a file of the user's own books has changed: names, times, sizes."""
    rows = []
    for path in sorted([*own_books().rglob("*.csv"), pin_file()]):
        with contextlib.suppress(OSError):
            status = path.stat()
            rows.append((str(path), status.st_mtime_ns, status.st_size))
    return tuple(rows)
