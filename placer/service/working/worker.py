"""A worker: its process, which hears questions and answers one at a time, and what the service sees
of it, the messages that come from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

from placer.advice.runner.blas_threads import starting_one_thread
from placer.errors import PlacerError
from placer.service.settings import Settings
from placer.service.working.messages import Outcome, Question, Ready, Reply
from placer.service.working.session import Session
from placer.solving.allowance import bounded_address_space

CONTEXT = multiprocessing.get_context("spawn")
STARTING_S = 120.0
"""A worker that has not read its books by then is ended."""
ENDING_S = 1.0
"""An idle worker that does not end by itself in so long is killed."""

COLLECTED = 50_000
"""New objects after which garbage is looked for, as on the command line."""
CANCEL = "cancel"
"""What the service sends to end the running search with the best so far."""
END = "end"
"""What it sends to end the process, whatever that does."""


class GoneError(Exception):
    """The process of a worker has ended."""


class Worker:
    """One process that answers one question at a time."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self._folder = ""
        self._connection, other = CONTEXT.Pipe()
        self.process = CONTEXT.Process(
            target=main,
            args=(other, settings.catalog, settings.memory_bytes),
            daemon=True,
            name="placer worker",
        )
        with starting_one_thread():
            self.process.start()
        other.close()
        threading.Thread(target=self._hear, daemon=True, name="hear worker").start()

    def _hear(self) -> None:
        """Hand messages to the loop; None says that there will be no more."""
        message: Any = ""
        while message is not None:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                message = None
            try:
                self._loop.call_soon_threadsafe(self._messages.put_nowait, message)
            except RuntimeError:  # the loop is closed: nobody waits
                return

    async def ready(self) -> Ready:
        """Wait until the books are read; `GoneError` if the process ended, or takes too long."""
        try:
            async with asyncio.timeout(STARTING_S):
                message = await self.heard()
        except TimeoutError:
            raise GoneError from None
        assert isinstance(message, Ready)
        self._folder = message.folder
        return message

    async def send(self, message: Question | str) -> None:
        """Send a question, `CANCEL` or `END`; `GoneError` if the process has ended."""
        try:
            await asyncio.to_thread(self._connection.send, message)
        except (OSError, ValueError):
            raise GoneError from None

    async def heard(self) -> Any:
        """Return the next message; `GoneError` if the process has ended."""
        message = await self._messages.get()
        if message is None:
            raise GoneError
        return message

    async def end(self) -> None:
        """End the process now, whatever it does, and remove its folder."""
        try:
            with contextlib.suppress(GoneError, TimeoutError):
                async with asyncio.timeout(ENDING_S):
                    await self.send(END)
                    await asyncio.to_thread(self.process.join, ENDING_S)
        finally:  # also where nobody has the time to wait
            self.process.kill()
            self.process.join(ENDING_S)
            self._connection.close()
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)


def main(connection: Connection, catalog: tuple[str, ...], memory_bytes: int) -> None:
    """Answer questions until the other end of the connection is gone, in an empty folder of the
    process's own, so that no name in a question can be that of a file.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service
    gc.set_threshold(COLLECTED)
    with tempfile.TemporaryDirectory(prefix="placer-worker-", ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        session = Session(catalog, memory_bytes)
        with bounded_address_space(memory_bytes):
            try:
                connection.send(Ready(books=session.books(), folder=folder))
            except PlacerError as error:
                connection.send(Ready(problem=str(error)))
                return
            _serve(connection, session, folder)
        os.chdir("/")


def _serve(connection: Connection, session: Session, folder: str) -> None:
    questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
    cancelled = threading.Event()

    def hear() -> None:
        """Pass questions on; without a service there is nobody to answer."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = connection.recv()
                if message == END:
                    break
                if message == CANCEL:
                    cancelled.set()
                else:
                    cancelled.clear()
                    questions.put(message)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=hear, daemon=True, name="hear").start()
    while True:
        question = questions.get()
        try:
            reply = session.reply(question, connection.send, cancelled)
        except Exception:
            # The service says that it failed; what failed is for its log.
            traceback.print_exc(file=sys.stderr)
            reply = Reply(outcome=Outcome.FAILED, worn=True)
        connection.send(reply)
